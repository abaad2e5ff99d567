"""Run the tests with the lowest version of every package that both pyproject.toml allow.

    python tools/check_lowest.py                        # the fast tests; they take as long as `make test`
    python tools/check_lowest.py tests/cli tests/serve  # some tests; the arguments go to pytest

The environment is build/lowest. Torch is an exception: it has the version of constraints.txt, not the lowest, because
other versions bring gigabytes of CUDA on Linux. So the declared bound of torch is not checked.
"""

import os
import re
import subprocess
import sys
import tomllib
import venv
from pathlib import Path

ROOT = Path(__file__).parents[1]
PLACE = ROOT / "build" / "lowest"
EXTRAS = ("dev", "serve", "report")


def main() -> int:
    """Resolve, install, test; return pytest's exit code."""
    venv.create(PLACE, clear=True, with_pip=True)
    python = PLACE / ("Scripts" if os.name == "nt" else "bin") / "python"
    run(python, "-m", "pip", "install", "--quiet", "uv")
    lowest = PLACE / "lowest.txt"
    resolve(python, lowest)
    print(lowest.read_text(), flush=True)
    run(python, "-m", "pip", "install", "--quiet", "-c", lowest, "-e", f".[{','.join(EXTRAS)}]", "-e", "./paper")
    tests = sys.argv[1:] or ["tests"]
    # Old packages call functions that newer versions of their dependencies deprecate; we cannot fix that.
    options = ["-q", "-n", "auto", "-m", "not slow", "-W", "ignore::DeprecationWarning"]
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    return subprocess.call([python, "-m", "pytest", *options, *tests], cwd=ROOT, env=environment)


def resolve(python: Path, lowest: Path) -> None:
    """Write the lowest versions of declared dependencies, and the newest that fit of what these need."""
    project = tomllib.loads((ROOT / "paper" / "pyproject.toml").read_text())["project"]
    paper = PLACE / "paper.in"
    paper.write_text("\n".join(wanted for wanted in project["dependencies"] if not wanted.startswith("natpn")))
    left_out = PLACE / "overrides.txt"
    left_out.write_text("torch; python_version < '3'\n")
    extras = [word for extra in EXTRAS for word in ("--extra", extra)]
    run(
        python, "-m", "uv", "pip", "compile", "--quiet", "--no-annotate", "--no-header",
        "--resolution", "lowest-direct", "--overrides", left_out, *extras, "--output-file", lowest,
        "pyproject.toml", paper,
    )  # fmt: skip
    torch = re.search(r"^torch==.*$", (ROOT / "constraints.txt").read_text(), re.MULTILINE)
    with lowest.open("a") as file:
        print(torch.group(), file=file)  # type: ignore[union-attr]


def run(*command: object) -> None:
    """Run a command in the repository; exit if it fails."""
    done = subprocess.run([str(word) for word in command], cwd=ROOT)
    if done.returncode:
        sys.exit(done.returncode)


if __name__ == "__main__":
    sys.exit(main())
