"""The first hour on a fresh machine: what the README says to type works, and nothing it does not mention is needed."""

import os
import re
import runpy
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from natpn.cli import cli
from serve.browser import MISSING, chromium

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text()
ENVIRONMENT = os.environ | {"PYTHONPATH": str(ROOT / "src"), "OMP_NUM_THREADS": "1"}

FRAMES = ("pandas", "polars")
WITHOUT_FRAMES = f"""
import sys

class NotInstalled:
    def find_spec(self, name, path=None, target=None):
        if name in {FRAMES}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)

sys.meta_path.insert(0, NotInstalled())
"""


def natpn(*arguments, **options):
    command = [sys.executable, "-m", "natpn", *map(str, arguments)]
    return subprocess.run(command, env=ENVIRONMENT, capture_output=True, text=True, **options)


def test_the_bare_command_shows_the_way():
    done = natpn()
    assert (done.returncode, done.stderr) == (0, "")
    shown = re.findall(r"^  (\w+) {2,}(\S.*)$", done.stdout.split("Commands:")[1], re.MULTILINE)
    assert [name for name, _ in shown] == list(cli.commands)
    assert "natpn demo" in done.stdout.split("Commands:")[0]


@pytest.mark.slow
def test_examples_of_the_readme_run_with_what_its_command_installs():
    extras = re.search(r"pip install.* '\.\[([\w,]+)\]'", README).group(1).split(",")
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    wanted = project["dependencies"] + [r for extra in extras for r in project["optional-dependencies"][extra]]
    assert not any(requirement.startswith(FRAMES) for requirement in wanted)
    blocks = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
    run = subprocess.run(
        [sys.executable, "-c", WITHOUT_FRAMES + "\n".join(blocks)], env=ENVIRONMENT, capture_output=True, text=True
    )
    assert run.returncode == 0, run.stderr


def test_no_page_or_message_sends_to_an_index_that_has_no_natpn():
    files = [*ROOT.glob("*.md"), *ROOT.glob("docs/*.md")]
    files += [
        path for folder in ("src", "paper", "examples", "benchmarks", "tools") for path in (ROOT / folder).rglob("*.py")
    ]
    found = [path.name for path in files if re.search(r"pip install[^\n`]*\bnatpn(\[| |$|`)", path.read_text())]
    assert found == []


def test_pages_are_skipped_without_a_browser_unless_one_is_required(tmp_path, monkeypatch):
    """With a PATH that has no browser, tests of the page say so in one line."""

    def mark():
        return runpy.run_path(str(ROOT / "tests" / "serve" / "test_page.py")).get("pytestmark")

    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("NATPN_REQUIRE_BROWSER", raising=False)
    assert (mark().name, mark().args) == ("skip", (MISSING,))
    assert "apt-get install -y chromium chromium-driver" in MISSING
    monkeypatch.setenv("NATPN_REQUIRE_BROWSER", "1")
    assert mark() is None
    with pytest.raises(RuntimeError, match=MISSING), chromium():
        pass


@pytest.mark.skipif(not shutil.which("make"), reason="make is not installed")
def test_the_demo_installs_no_tools_of_the_tests():
    done = subprocess.run(["make", "--dry-run", "--always-make", "demo"], cwd=ROOT, capture_output=True, text=True)
    installed = re.findall(r"-e '\.\[([\w,]+)\]'", done.stdout)
    assert installed == ["report,serve"]


@pytest.mark.skipif(not shutil.which("make"), reason="make is not installed")
def test_slow_tests_are_left_to_make_check():
    for target, left_out in (("test", True), ("check", False)):
        done = subprocess.run(["make", "--dry-run", target], cwd=ROOT, capture_output=True, text=True)
        (line,) = [line for line in done.stdout.splitlines() if "-m pytest" in line]
        assert ("-m 'not slow'" in line) == left_out
