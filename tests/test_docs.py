"""Every example in the documentation runs and prints what it says."""

import contextlib
import doctest
import importlib
import io
import pkgutil
import re
from pathlib import Path

import pytest

import natpn
import natpn_paper

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
MODULES = [m.name for p in (natpn, natpn_paper) for m in pkgutil.walk_packages(p.__path__, f"{p.__name__}.")]


def pages():
    """All, those that fit several models or export one marked as slow."""
    slow = ("estimators.md", "export.md")
    return [pytest.param(page, id=page.name, marks=[pytest.mark.slow] if page.name in slow else []) for page in PAGES]


@pytest.mark.parametrize("page", pages())
def test_python_blocks_print_the_text_block_behind_them(page):
    namespace: dict[str, object] = {}
    for code, printed in re.findall(r"```python\n(.*?)```(?:\s*```text\n(.*?)```)?", page.read_text(), re.DOTALL):
        out = io.StringIO()
        with contextlib.redirect_stdout(out):
            exec(compile(code, str(page), "exec"), namespace)
        assert not printed or says_the_same(out.getvalue(), printed), out.getvalue()


def says_the_same(got: str, printed: str) -> bool:
    """Compare texts; numbers may differ by a tenth, since a trained model differs between kinds of machines."""
    number = r"-?\d+\.?\d*"
    words = [re.sub(r" +", " ", re.sub(number, "#", text)) for text in (got, printed)]
    values = [[float(x) for x in re.findall(number, text)] for text in (got, printed)]
    return words[0] == words[1] and values[0] == pytest.approx(values[1], rel=0.1, abs=0.05)


def test_texts_are_compared_with_tolerance_for_numbers_alone():
    assert says_the_same("mean 4.0,  90 %", "mean 4.2, 90 %")
    assert not says_the_same("mean 4.0", "mean 5.0")
    assert not says_the_same("mean 4.0", "median 4.0")
    assert not says_the_same("mean 4.0 3", "mean 4.0")


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.name)
def test_links_lead_somewhere(page):
    for target in re.findall(r"\]\(([^)#]+)[^)]*\)", page.read_text()):
        assert target.startswith("http") or (page.parent / target).exists(), target


@pytest.mark.parametrize("name", MODULES)
def test_docstring_examples(name):
    assert doctest.testmod(importlib.import_module(name)).failed == 0


def test_the_readme_shows_the_demo():
    example = (ROOT / "examples" / "families.py").read_text().split('"""', 2)[2].strip()
    assert example in (ROOT / "README.md").read_text()


def test_the_readme_lists_every_family():
    rows = re.findall(r"^\| `(\w+)` \|", (ROOT / "README.md").read_text(), re.MULTILINE)
    assert rows == list(natpn.families.FAMILIES)
