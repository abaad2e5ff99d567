"""Every example in the documentation runs and prints what it says."""

import contextlib
import doctest
import importlib.util
import inspect
import io
import os
import pkgutil
import re
from pathlib import Path

import pytest

import natpn
import natpn_paper
from printed import says_the_same

ROOT = Path(__file__).parent.parent
WALKS = ("tutorial.md",)  # commands and Python by turns, which tests/cli/test_docs.py runs
GALLERY = sorted((ROOT / "docs" / "gallery").glob("*.md"))
PAGES = [ROOT / "README.md", *sorted(p for p in (ROOT / "docs").glob("*.md") if p.name not in WALKS), *GALLERY]
MODULES = [m.name for p in (natpn, natpn_paper) for m in pkgutil.walk_packages(p.__path__, f"{p.__name__}.")]


def pages():
    """All, those that fit several models, export one or need real data marked as slow."""
    data = os.environ.get("NATPN_DATA", "")
    needs = pytest.mark.skipif(not (Path(data) / "arena").is_dir(), reason="NATPN_DATA has no arena")
    several = (
        *("coverage.md", "estimators.md", "export.md", "suggest.md", "update.md", "which-family.md"),
        "which-number.md",
    )
    slow = {page: [] for page in PAGES if page.name in several}
    slow |= {page: [needs] for page in GALLERY}
    return [
        pytest.param(page, id=page.name, marks=[pytest.mark.slow, *slow[page]] if page in slow else [])
        for page in PAGES
    ]


@pytest.mark.parametrize("page", pages())
def test_python_blocks_print_the_text_block_behind_them(page):
    namespace: dict[str, object] = {}
    # Shares of some hundred real rows, in %, differ more than the numbers of generated ones.
    allowed = {"rel": 0.3, "near": 10.0} if page in GALLERY else {}
    for code, printed in re.findall(r"```python\n(.*?)```(?:\s*```text\n(.*?)```)?", page.read_text(), re.DOTALL):
        out = io.StringIO()
        with contextlib.redirect_stdout(out):
            exec(compile(code, str(page), "exec"), namespace)
        assert not printed or says_the_same(out.getvalue(), printed, **allowed), out.getvalue()


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
    return tool("check_links")


def tool(name):
    """Return a tool, which is in no package."""
    spec = importlib.util.spec_from_file_location(name, ROOT / "tools" / f"{name}.py")
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


def test_every_family_has_its_place():
    page = (ROOT / "docs" / "which-family.md").read_text()
    rows = re.findall(r"^\| (`.*?) \|", page, re.MULTILINE)
    assert sorted(name for row in rows for name in re.findall(r"`(\w+)`", row)) == sorted(natpn.families.FAMILIES)


def test_the_gallery_is_whole():
    names = {page.stem for page in GALLERY} - {"index"}
    assert names == set(tool("gallery").PAGES)
    assert names == {path.stem for path in (ROOT / "docs" / "gallery" / "figures").glob("*.svg")}
    index = (ROOT / "docs" / "gallery" / "index.md").read_text()
    assert all(f"]({name}.md)" in index and f"\n{name}\n" in index for name in names)


def test_the_citation_is_of_this_version():
    assert f"\nversion: {natpn.__version__}\n" in (ROOT / "CITATION.cff").read_text()
