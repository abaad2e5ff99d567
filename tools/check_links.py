"""Check that links lead somewhere: those of the Markdown files as GitHub shows them, and those of the built site.

    python tools/check_links.py docs/_build/html

A link to a page is right if the page is there, one to a section if the page has a heading or an element of that name.
Addresses of other sites are not asked for.
"""

import re
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

ROOT = Path(__file__).parents[1]


def main(site: str) -> None:
    """Print every link that leads nowhere, and exit with 1 if there is one."""
    wrong = [*of_markdown(ROOT), *of_site(Path(site))]
    if wrong:
        sys.exit("\n".join(f"check_links: {line}" for line in wrong))
    print("check_links: all links within the pages lead somewhere")


def of_markdown(root: Path) -> list[str]:
    """Return the links of Markdown files that GitHub could not follow."""
    pages = [*root.glob("*.md"), *root.glob("paper/*.md"), *root.glob("docs/**/*.md")]
    wrong = []
    for page in sorted(p for p in pages if "_build" not in p.parts):
        for link in re.findall(r"\]\(([^)\s]+)\)", without_code(page.read_text())):
            parts = urlsplit(link)
            target = page.parent / unquote(parts.path) if parts.path else page
            if parts.scheme:
                continue
            if not target.exists():
                wrong.append(f"{page.relative_to(root)}: {link}: there is no such file")
            elif parts.fragment and target.suffix == ".md" and parts.fragment not in headings(target):
                wrong.append(f"{page.relative_to(root)}: {link}: the page has no such heading")
    return wrong


def without_code(text: str) -> str:
    """Return Markdown without its blocks of code and code within lines."""
    return re.sub(r"`[^`\n]*`", "", re.sub(r"^```.*?^```", "", text, flags=re.DOTALL | re.MULTILINE))


def headings(page: Path) -> set[str]:
    """Return the names by which GitHub knows the headings of a page."""
    text = re.sub(r"^```.*?^```", "", page.read_text(), flags=re.DOTALL | re.MULTILINE)
    names: set[str] = set()
    for heading in re.findall(r"^#+ +(.*?) *#*$", text, re.MULTILINE):
        shown = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading)
        slug = re.sub(r"[^\w\- ]", "", shown.lower()).replace(" ", "-")
        names.add(next(name for i in range(10**6) if (name := f"{slug}-{i}" if i else slug) not in names))
    return names


def of_site(site: Path) -> list[str]:
    """Return the links of built pages that lead to no page of the site, or to no element of it."""
    pages = {path.resolve(): Page.of(path) for path in site.rglob("*.html")}
    if not pages:
        return [f"{site}: expected built pages, found none; run make docs"]
    wrong = []
    for path, page in sorted(pages.items()):
        for link in sorted(page.links):
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            if not target.exists():
                wrong.append(f"{path.relative_to(site.resolve())}: {link}: there is no such file")
            elif parts.fragment and target in pages and unquote(parts.fragment) not in pages[target].names:
                wrong.append(f"{path.relative_to(site.resolve())}: {link}: the page has no such place")
    return wrong


class Page(HTMLParser):
    """What a page links to, and the names of its elements."""

    def __init__(self) -> None:
        super().__init__()
        self.links: set[str] = set()
        self.names: set[str] = {"", "top"}

    @classmethod
    def of(cls, path: Path) -> "Page":
        """Read a page."""
        page = cls()
        page.feed(path.read_text())
        return page

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Take note of links and names."""
        given = {name: value for name, value in attrs if value is not None}
        self.names.update(given[name] for name in ("id", "name") if name in given)
        self.links.update(given[name] for name in ("href", "src") if name in given)


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) == 2 else "docs/_build/html")
