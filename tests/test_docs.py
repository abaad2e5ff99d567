"""Every example in the documentation runs and prints what it says."""

import contextlib
import doctest
import importlib.util
import inspect
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


def test_links_lead_somewhere():
    assert check_links().of_markdown(ROOT) == []


def test_links_that_lead_nowhere_are_found(tmp_path):
    (tmp_path / "a.md").write_text("# One `two` – [three](b.md)\n[x](#one-two--three) [y](#two) [z](b.md) `[w](v)`\n")
    assert check_links().of_markdown(tmp_path) == [
        "a.md: b.md: there is no such file",
        "a.md: #two: the page has no such heading",
        "a.md: b.md: there is no such file",
    ]
    site = tmp_path / "site"
    assert "run make docs" in check_links().of_site(site)[0]
    site.mkdir()
    (site / "a.html").write_text('<p id="here"><a href="a.html#here"></a><a href="#gone"></a><img src="b.png">')
    assert check_links().of_site(site) == [
        "a.html: #gone: the page has no such place",
        "a.html: b.png: there is no such file",
    ]


def check_links():
    """Return the tool, which is in no package."""
    spec = importlib.util.spec_from_file_location("check_links", ROOT / "tools" / "check_links.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_reference_has_every_public_module():
    pages = "".join(page.read_text() for page in (ROOT / "docs" / "api").glob("*.md"))
    modules = [name for name in natpn.__all__ if inspect.ismodule(getattr(natpn, name))]
    wanted = {f"natpn.{name}" for name in modules} | {kind.__module__ for kind in natpn.families.FAMILIES.values()}
    missing = {name for name in wanted if f"automodule:: {name}\n" not in pages}
    assert not missing, f"add docs/api/NAME.md, and NAME to the list of docs/api/index.md, for {missing}"


@pytest.mark.parametrize("name", MODULES)
def test_docstring_examples(name):
    assert doctest.testmod(importlib.import_module(name)).failed == 0


def test_the_readme_shows_the_demo():
    example = (ROOT / "examples" / "families.py").read_text().split('"""', 2)[2].strip()
    assert example in (ROOT / "README.md").read_text()


def test_the_readme_lists_every_family():
    rows = re.findall(r"^\| `(\w+)` \|", (ROOT / "README.md").read_text(), re.MULTILINE)
    assert rows == list(natpn.families.FAMILIES)


def test_the_citation_is_of_this_version():
    assert f"\nversion: {natpn.__version__}\n" in (ROOT / "CITATION.cff").read_text()
