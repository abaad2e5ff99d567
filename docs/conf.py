"""The site: the pages of this directory, and a reference from the docstrings. `make docs` builds it into `_build`.

Pages are Markdown that GitHub shows as well, so they link to files beside this directory by relative paths, as GitHub
wants it. Here such a file is offered for download, and the README is the first page.
"""

import re
from pathlib import Path
from typing import Any

import natpn

HERE = Path(__file__).parent

project = "natpn"
author = "the authors of natpn"
version = release = natpn.__version__
language = "en_GB"

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
exclude_patterns = ["_build"]
root_doc = "index"

myst_heading_anchors = 4  # by GitHub's rule, so that page.md#a-section leads to the same place there and here
myst_enable_extensions = ["dollarmath"]

# A word in backticks is code, in docstrings as in Markdown.
default_role = "literal"
autodoc_member_order = "groupwise"
autodoc_typehints = "description"
autodoc_typehints_format = "short"
autodoc_typehints_description_target = "documented"
autodoc_default_options = {"members": True, "show-inheritance": True}
napoleon_google_docstring, napoleon_numpy_docstring = True, False
napoleon_use_ivar = True
python_use_unqualified_type_names = True
add_module_names = False

html_theme = "furo"
html_title = f"natpn {release}"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_show_sphinx = html_show_copyright = False
html_copy_source = False
pygments_style, pygments_dark_style = "friendly", "monokai"

_LINK = re.compile(r"\[([^\]]*)\]\((\.\./[^)#\s]+)(#[^)\s]*)?\)")


def _leads_to(page: Path, link: re.Match[str]) -> str:
    """Return a link as the site has it."""
    text, target = link[1], (page.parent / link[2]).resolve()
    if target.is_relative_to(HERE):
        return link[0]
    if target == HERE.parent / "README.md":
        return f"[{text}]({'../' * (len(page.relative_to(HERE).parts) - 1)}index.md)"
    return f"[{text}](path:{link[2]})" if target.is_file() else text  # a directory cannot be downloaded


def _read(app: Any, name: str, source: list[str]) -> None:
    page = Path(app.env.doc2path(name))
    source[0] = _LINK.sub(lambda link: _leads_to(page, link), source[0])


def _is_of_others(app: Any, what: str, name: str, value: object, skip: bool, options: object) -> bool | None:
    """Leave out methods that scikit-learn adds: its own pages describe them."""
    return True if str(getattr(value, "__module__", "")).startswith("sklearn.") else None


def _mend(app: Any, what: str, name: str, value: object, options: object, lines: list[str]) -> None:
    """Turn what a docstring means into reStructuredText, which would read it otherwise.

    |x| in a formula is no substitution, the attribute family_ is no link, and an indented block of a module's docstring
    is code, as in Markdown.
    """
    mended: list[str] = []
    for line in lines:
        starts = what == "module" and line.startswith("    ") and not (mended and mended[-1])
        before = next((other for other in reversed(mended) if other), "    ")
        if starts and not before.startswith((" ", "-", "::")):
            mended += ["::", ""]
        mended.append(
            line if ">>>" in line or (what == "module" and line.startswith("    ")) else line.replace("|", r"\|")
        )
    lines[:] = [re.sub(r"^(:(?:ivar|vartype) \w+)_:", r"\1\\_:", line) for line in mended]


# As sources write them: NDArray[…] and ArrayLike.
_ARRAY = re.compile(r"~?(?:numpy\.)?ndarray\[[^\[\]]*tuple\[[^\[\]]*\], [^\[\]]*dtype\[[^\[\]]*\]\]")
_ARRAY_LIKE = re.compile(r"~?[\w.]*_Buffer \| .*_NestedSequence\[[^\[\]]*\]")


def _shorten(app: Any, domain: str, kind: str, node: object) -> None:
    """Show types of numpy by the names that sources have for them."""
    for found in app.env.current_document.autodoc_annotations.values():
        for name, text in found.items():
            found[name] = _ARRAY_LIKE.sub("~numpy.typing.ArrayLike", _ARRAY.sub("~numpy.ndarray", text))


def setup(app: Any) -> None:
    """Have pages and docstrings mended as they are read."""
    app.connect("source-read", _read)
    app.connect("autodoc-skip-member", _is_of_others)
    app.connect("autodoc-process-docstring", _mend)
    app.connect("object-description-transform", _shorten, priority=400)
