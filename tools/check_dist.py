"""Build both packages, install them into an empty environment, and run them: the demo, a server, a run of the paper.

    python tools/check_dist.py [--out DIRECTORY]

With `--out`, wheels and source distributions that passed are left there, in a directory for each package.

Two wheels are built of each package, one from the tree and one from the source distribution; they must hold the files
of the package and no others, and PyPI must be able to show what they say of themselves (`twine check --strict`). The
wheel of natpn is installed into a new environment and must work without natpn-paper, which is then installed beside it.
What they depend on is not downloaded again: the new environment has links to the packages of this one that the wheels
ask for, directly or not, and to no others, so that a requirement that was forgotten is missed there too.
"""

import argparse
import email
import importlib.metadata
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
import venv
import zipfile
from pathlib import Path

from packaging.markers import Marker
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[1]
PROJECTS = {"natpn": ROOT, "natpn_paper": ROOT / "paper"}
BIN = "Scripts" if os.name == "nt" else "bin"
# Nothing of the tree may be importable: neither by the path nor from the working directory.
ENVIRONMENT = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}


def main() -> None:
    """Build, compare, install, run."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, help="a new directory for wheels and source distributions")
    out = parser.parse_args().out
    if out is not None and out.exists():
        sys.exit(f"check_dist: --out: expected a directory that is not there yet, got {out}: choose another")
    with tempfile.TemporaryDirectory(prefix="natpn-dist-") as folder:
        place = Path(folder)
        venv.create(place / "venv", with_pip=True)
        python = place / "venv" / BIN / "python"
        pip = (python, "-m", "pip", "install", "--quiet", "--no-compile", "--disable-pip-version-check")
        run(place, *pip, "build", "hatchling")
        library, paper = (build(place, python, package) for package in PROJECTS)
        link(python, {library: {"report", "serve"}, paper: set()})
        run(place, *pip, "--no-index", f"{library}[report,serve]")
        natpn = place / "venv" / BIN / "natpn"
        run(place, natpn, "demo", "--out", "demo", "--max-epochs", "2")
        if not (place / "demo" / "report.html").exists():
            sys.exit("check_dist: the demo wrote no report")
        ask_server(natpn, place)
        refusal = run(place, natpn, "reproduce", "--list", code=2)
        if "pip install ./paper" not in refusal:
            sys.exit(f"check_dist: without natpn-paper, natpn reproduce says {refusal!r}")
        run(place, *pip, "--no-index", paper)
        run(place, natpn, "reproduce", "toy-uncertainty", "--models", "NatPN", "--seeds", "1", "--quick")
        if not (place / "reproduce" / "quick" / "results.html").exists():
            sys.exit("check_dist: natpn reproduce wrote no page")
        if out is not None:
            for package in PROJECTS:
                shutil.copytree(place / package / "source", out / package)
    print("check_dist: the packages build, install and run; natpn does so alone")


def build(place: Path, python: Path, package: str) -> Path:
    """Return the wheel of a package, after checking its content."""
    tree, source = place / package / "tree", place / package / "source"
    build = (python, "-m", "build", "--no-isolation", "--outdir")
    run(place, *build, tree, "--wheel", PROJECTS[package])
    run(place, *build, source, PROJECTS[package])  # the wheel is made from the sdist
    wheel, other = next(tree.glob("*.whl")), next(source.glob("*.whl"))
    compare(package, contents(wheel), contents(other))
    run(place, sys.executable, "-m", "twine", "check", "--strict", *sorted(source.iterdir()))
    return wheel


def contents(wheel: Path) -> dict[str, bytes]:
    """Return the files of a wheel."""
    with zipfile.ZipFile(wheel) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def compare(package: str, tree: dict[str, bytes], source: dict[str, bytes]) -> None:
    """Exit if two wheels of a package differ, lack files of the package, or hold others."""
    differ = sorted(name for name in tree.keys() | source.keys() if tree.get(name) != source.get(name))
    if differ:
        sys.exit(f"check_dist: the wheels of {package} from the tree and from the sdist differ in {', '.join(differ)}")
    root = PROJECTS[package] / "src"
    files = {path.relative_to(root).as_posix() for path in (root / package).rglob("*") if path.is_file()}
    missing = sorted(name for name in files - tree.keys() if "__pycache__" not in name)
    if missing:
        sys.exit(f"check_dist: the wheel of {package} lacks {', '.join(missing)}")
    others = sorted(name for name in tree.keys() - files if ".dist-info/" not in name)
    if others:
        sys.exit(f"check_dist: the wheel of {package} holds {', '.join(others)}")


def link(python: Path, wheels: dict[Path, set[str]]) -> None:
    """Link the installed packages that wheels need, each with the extras that are named, into an environment."""
    asked = [(line, extras) for wheel, extras in wheels.items() for line in requirements(wheel)]
    seen: set[tuple[str, str]] = set()
    site = next((python.parents[1]).glob("**/site-packages"))
    while asked:
        line, extras = asked.pop()
        requirement = Requirement(line)
        name = canonicalize_name(requirement.name)
        wanted = any((requirement.marker or Marker("extra == ''")).evaluate({"extra": e}) for e in extras | {""})
        if name.startswith("natpn") or not wanted:
            continue
        for extra in requirement.extras | {""}:
            if (name, extra) in seen:
                continue
            seen.add((name, extra))
            found = importlib.metadata.distribution(name)
            asked += [(other, {extra}) for other in found.requires or []]
            for entry in {file.parts[0] for file in found.files or []} - {"..", "__pycache__"}:
                if not (site / entry).exists():
                    (site / entry).symlink_to(found.locate_file(entry))


def requirements(wheel: Path) -> list[str]:
    """Return what a wheel says that it needs."""
    about = next(text for name, text in contents(wheel).items() if name.endswith(".dist-info/METADATA"))
    return email.message_from_bytes(about).get_all("Requires-Dist", [])


def ask_server(natpn: Path, place: Path) -> None:
    """Start a server for the demo's model and ask for its health and its page."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    server = subprocess.Popen([natpn, "serve", "demo/model", "--port", str(port)], cwd=place, env=ENVIRONMENT)
    try:
        for path, expected in (("/health", '"ok"'), ("/", "<html")):
            answer = ask(server, f"http://127.0.0.1:{port}{path}")
            if expected not in answer:
                sys.exit(f"check_dist: {path} was answered with {answer[:200]!r}, without {expected!r}")
    finally:
        server.terminate()
        server.wait()


def ask(server: "subprocess.Popen[bytes]", address: str) -> str:
    """Return the answer to a request; wait three minutes for the server to start."""
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    for _ in range(1800):
        if server.poll() is not None:
            sys.exit(f"check_dist: the server ended with {server.returncode}")
        try:
            return opener.open(address, timeout=10).read().decode()
        except urllib.error.HTTPError as error:
            sys.exit(f"check_dist: {address} was answered with {error}")
        except OSError:
            time.sleep(0.1)
    sys.exit(f"check_dist: no answer from {address} in three minutes")


def run(place: Path, *command: object, code: int = 0) -> str:
    """Run a command in the new place and return its output; exit if its exit code is another."""
    done = subprocess.run([str(word) for word in command], cwd=place, env=ENVIRONMENT, capture_output=True, text=True)
    if done.returncode != code:
        sys.exit(f"check_dist: {' '.join(map(str, command))}\n{done.stdout}{done.stderr}")
    return done.stdout + done.stderr


if __name__ == "__main__":
    main()
