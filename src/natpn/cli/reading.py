"""A path and the options of a command → a table. A file is known by its content, not by its name."""

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import partial, wraps
from pathlib import Path
from typing import Any

import click

from natpn.cli.excel import open_excel
from natpn.cli.formats import Source, open_csv, open_parquet
from natpn.cli.printing import Problem, note
from natpn.cli.streams import GZIP, ZIP, Stream, in_utf8, open_content
from natpn.tabular.texts import PLAIN, Written

_PARQUET = b"PAR1"
_OTHERS = {b"\x28\xb5\x2f\xfd": "Zstandard", b"BZh": "bzip2", b"\xfd7zXZ": "xz", b"7z\xbc\xaf": "7-Zip"}
_OLD_EXCEL = b"\xd0\xcf\x11\xe0"
_UTF16 = (b"\xff\xfe", b"\xfe\xff")
_OPTIONS = (
    click.option(
        "--bad-cells",
        type=click.Choice(["refuse", "missing"]),
        default="refuse",
        show_default=True,
        help="What to do with a cell that is not of its column's kind, such as - among numbers.",
    ),
    click.option("--decimal", metavar="SIGN", help="The sign before decimals, . or a comma."),
    click.option("--thousands", metavar="SIGN", help="The sign between thousands, such as a comma; '' is none."),
    click.option(
        "--dates", metavar="FORM", help="How dates are written: day-first, month-first, or a form such as %d.%m.%Y."
    ),
    click.option("--na", multiple=True, metavar="TEXT", help="A text that stands for missing values. Repeatable."),
    click.option("--encoding", metavar="NAME", help="The encoding of the text, such as cp1252; by default UTF-8."),
    click.option("--sheet", metavar="NAME", help="The sheet of an Excel file; by default the first."),
)
drop_option = click.option("--drop", multiple=True, metavar="COLUMN", help="Leave a column out. May be repeated.")


@dataclass(frozen=True)
class Reading:
    """What the options of a command say of how to read its files.

    Attributes:
        written: How values are written, by the fields of `Written` that an option is given for.
        bad_are_missing: Whether cells that are not of their column's kind count as missing; else they are refused.
        sheet: The sheet of an Excel file; None is the first.
    """

    written: dict[str, Any] = field(default_factory=dict)
    bad_are_missing: bool = False
    sheet: str | None = None


def reading_options(function: Callable[..., None]) -> Callable[..., None]:
    """Add the options to a command, which gets what they say as `how`."""

    @wraps(function)
    def command(*, bad_cells: str, sheet: str | None, na: tuple[str, ...], **others: Any) -> None:
        said = {"na": na or None} | {name: others.pop(name) for name in ("decimal", "thousands", "dates", "encoding")}
        written = {name: value for name, value in said.items() if value is not None}
        function(how=Reading(written, bad_cells == "missing", sheet), **others)

    for option in reversed(_OPTIONS):
        command = option(command)
    return command


@contextlib.contextmanager
def opened(path: str, how: Reading = Reading(), remembered: Written = PLAIN) -> Iterator[Source]:  # noqa: B008
    """Open a table for reading.

    Args:
        path: A CSV, Parquet or Excel file, "-" for standard input.
        how: What the options say.
        remembered: How values were written in the file of the fit: it holds where no option says otherwise.

    Raises:
        Problem: If there is none, it is empty, or it is none of these.
    """
    name = "standard input" if path == "-" else path
    written = written_as(how, remembered)
    with contextlib.ExitStack() as stack:
        content = open_content(path, name, stack)
        head = content.stream.peek(8)
        if not head:
            raise Problem(f"{name} is empty; expected a CSV file with a header, or a Parquet file.")
        if how.sheet is not None and not content.is_excel:
            note(f"{name} is not an Excel file, and has no sheets; --sheet {how.sheet} means nothing there")
        if content.is_excel:
            source = open_excel(name, content.on_disk(), written, how.sheet)
        elif head.startswith(_PARQUET):
            source = open_parquet(name, content.on_disk(), written)
        else:
            _check_text(name, path, head, written)
            again = None if path == "-" else partial(_text_again, path, name, written)
            source = open_csv(name, in_utf8(content.stream, written.encoding, name), content.size, written, again)
        source.bad_are_missing = how.bad_are_missing
        yield source


def written_as(how: Reading, remembered: Written) -> Written:
    """Return how values are written: as the options say, and where they say nothing as it was in the fit.

    Raises:
        Problem: If an option is wrong.
    """
    try:
        return replace(remembered, **how.written)
    except ValueError as error:
        raise Problem(f"--{error}.") from None


@contextlib.contextmanager
def _text_again(path: str, name: str, written: Written) -> Iterator[Stream]:
    """Open the text of a file once more."""
    with contextlib.ExitStack() as stack:
        yield in_utf8(open_content(path, name, stack).stream, written.encoding, name)


def _check_text(name: str, path: str, head: bytes, written: Written) -> None:
    """Refuse what is known not to be text."""
    if Path(path).suffix in (".parquet", ".pq"):
        raise Problem(f"{name} is not a Parquet file, or its beginning is damaged; write or copy it again.")
    if head.startswith(_OLD_EXCEL):
        raise Problem(f"{name} is an Excel file of the old form (.xls) or with a password; save it as .xlsx or CSV.")
    kind = next((kind for magic, kind in _OTHERS.items() if head.startswith(magic)), None)
    if kind or head.startswith((GZIP, ZIP)):
        raise Problem(f"{name} is compressed or packed ({kind or 'twice'}); unpack it first.")
    if head.startswith(_UTF16) and "16" not in written.encoding:
        raise Problem(f"{name} is UTF-16 text; say --encoding utf-16, or save it as UTF-8.")
