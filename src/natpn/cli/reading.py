"""A path and the options of a command → a table. A file is known by its content, not by its name.

gzip and zip files are unpacked, text of other encodings is turned into UTF-8, and the cells of an Excel sheet (.xlsx,
by openpyxl) are as a CSV file would write them, so that mistakes in a column are found and named as in CSV.
"""

import codecs
import contextlib
import datetime
import glob
import gzip
import os
import shutil
import stat
import sys
import tempfile
import warnings
import zipfile
import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial, wraps
from itertools import islice
from pathlib import Path
from typing import IO, Any

import click

from natpn.choices import did_you_mean, listed
from natpn.cli.formats import PART, ROWS, Source, Stream, open_csv, open_parquet
from natpn.cli.writing import Problem, note, system_errors
from natpn.tabular.cells import text_of
from natpn.tabular.headers import column_names
from natpn.tabular.texts import PLAIN, Written

_PARQUET, _GZIP, _ZIP = b"PAR1", b"\x1f\x8b", b"PK"
_OTHERS = {b"\x28\xb5\x2f\xfd": "Zstandard", b"BZh": "bzip2", b"\xfd7zXZ": "xz", b"7z\xbc\xaf": "7-Zip"}
_OTHERS |= {_GZIP: "twice", _ZIP: "twice"}
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

    def over(self, remembered: Written) -> Written:
        """Return how values are written: as the options say, and where they say nothing as it was in the fit."""
        try:
            return replace(remembered, **self.written)
        except ValueError as error:
            raise Problem(f"--{error}.") from None


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


def is_glob(path: str) -> bool:
    """Say whether a path is a pattern, and not a file whose name looks like one."""
    return glob.has_magic(path) and not os.path.lexists(path)


def are_many(data: Sequence[str]) -> bool:
    """Say whether directories, globs or several files are named, and not a file or standard input."""
    return len(data) > 1 or os.path.isdir(data[0]) or is_glob(data[0])


def check_data(*paths: str | None) -> None:
    """Refuse directories in place of files, before they are compared with places to write to."""
    for path in paths:
        if path is not None and os.path.isdir(path):
            raise Problem(f"{path} is a directory; name a CSV, Parquet or Excel file in it.")


@contextlib.contextmanager
def opened(path: str, how: Reading = Reading(), remembered: Written = PLAIN) -> Iterator[Source]:  # noqa: B008
    """Open a CSV, Parquet or Excel file, "-" for standard input; what no option says is as it was in the fit."""
    name = "standard input" if path == "-" else path
    written = how.over(remembered)
    with contextlib.ExitStack() as stack:
        content = _open_content(path, name, stack)
        head = content.stream.peek(8)
        if not head:
            raise Problem(f"{name} is empty; expected a CSV file with a header, or a Parquet file.")
        if how.sheet is not None and not content.is_excel:
            note(f"{name} is not an Excel file, and has no sheets; --sheet {how.sheet} means nothing there")
        if content.is_excel:
            source = _open_excel(name, content.on_disk(), written, how.sheet)
        elif head.startswith(_PARQUET):
            source = open_parquet(name, content.on_disk(), written)
        else:
            _check_text(name, path, head, written)
            again = None if path == "-" else partial(_text_again, path, name, written)
            source = open_csv(name, _in_utf8(content.stream, written.encoding, name), content.size, written, again)
        source.bad_are_missing = how.bad_are_missing
        yield source


@contextlib.contextmanager
def _text_again(path: str, name: str, written: Written) -> Iterator[Stream]:
    """Open the text of a file once more."""
    with contextlib.ExitStack() as stack:
        yield _in_utf8(_open_content(path, name, stack).stream, written.encoding, name)


def _check_text(name: str, path: str, head: bytes, written: Written) -> None:
    """Refuse what is known not to be text."""
    if Path(path).suffix in (".parquet", ".pq"):
        raise Problem(f"{name} is not a Parquet file, or its beginning is damaged; write or copy it again.")
    if head.startswith(_OLD_EXCEL):
        raise Problem(f"{name} is an Excel file of the old form (.xls) or with a password; save it as .xlsx or CSV.")
    kind = next((kind for magic, kind in _OTHERS.items() if head.startswith(magic)), None)
    if kind:
        raise Problem(f"{name} is compressed or packed ({kind}); unpack it first.")
    if head.startswith(_UTF16) and "16" not in written.encoding:
        raise Problem(f"{name} is UTF-16 text; say --encoding utf-16, or save it as UTF-8.")


# Bytes.


@dataclass(frozen=True)
class _Content:
    """What a file holds, unpacked: bytes to be read once, or as a file on the disk, and their number if it is known."""

    stream: Stream
    on_disk: Callable[[], IO[bytes]]
    size: int | None = None
    is_excel: bool = False


def _open_content(path: str, name: str, stack: contextlib.ExitStack) -> _Content:
    """Open a file, which the stack closes, and unpack it if it is packed."""
    check_data(path)
    with system_errors(path):
        raw: IO[bytes] = sys.stdin.buffer if path == "-" else stack.enter_context(open(path, "rb"))  # noqa: SIM115
    stream = Stream(raw.read)
    head = stream.peek(8)

    def on_disk() -> IO[bytes]:
        if path == "-" or not raw.seekable():
            return _copied(stream, stack)
        raw.seek(0)
        return raw

    if head.startswith(_GZIP):
        unpacked = _unpacked(gzip.GzipFile(fileobj=stream), name, "gzip")
    elif head.startswith(_ZIP):
        disk = on_disk()
        with _unpacking(name, "zip"):
            archive = stack.enter_context(zipfile.ZipFile(disk))
        if "xl/workbook.xml" in archive.namelist():
            return _Content(stream, lambda: disk, is_excel=True)
        unpacked = _only_file(archive, name)
    else:
        is_file = path != "-" and stat.S_ISREG(os.stat(path).st_mode)
        return _Content(stream, on_disk, os.stat(path).st_size if is_file else None)
    return _Content(unpacked, lambda: _copied(unpacked, stack))


def _copied(stream: Stream, stack: contextlib.ExitStack) -> IO[bytes]:
    """Return a stream as a file on the disk, for what is read from its end."""
    copy = stack.enter_context(tempfile.TemporaryFile())  # noqa: SIM115
    shutil.copyfileobj(stream, copy, PART)
    copy.seek(0)
    return copy


def _only_file(archive: zipfile.ZipFile, name: str) -> Stream:
    """Return the one file that a zip file holds, beside those that macOS adds."""
    files = [
        one
        for one in archive.infolist()
        if not (one.is_dir() or one.filename.startswith("__MACOSX/") or Path(one.filename).name.startswith("."))
    ]
    if len(files) != 1:
        held = f"holds {len(files)} files, {listed([one.filename for one in files])}" if files else "holds no file"
        raise Problem(f"{name} {held}; expected one: unpack it and name the file to read.")
    if files[0].flag_bits & 1:
        raise Problem(f"{name} has a password; unpack it and name the file to read.")
    with _unpacking(name, "zip"):
        return _unpacked(archive.open(files[0]), name, "zip")


def _unpacked(file: IO[bytes] | gzip.GzipFile, name: str, form: str) -> Stream:
    """Return what a packed file holds; damage is found when it is read."""

    def part(size: int) -> bytes:
        with _unpacking(name, form):
            return file.read(size)

    return Stream(part)


@contextlib.contextmanager
def _unpacking(name: str, form: str) -> Iterator[None]:
    try:
        yield
    except (EOFError, OSError, ValueError, zlib.error, zipfile.BadZipFile, NotImplementedError) as error:
        raise Problem(
            f"{name} is a {form} file that was cut short or damaged ({error}); write or copy it again."
        ) from None


def _in_utf8(stream: Stream, encoding: str, name: str) -> Stream:
    """Return text of another encoding as UTF-8; bytes that are not of that encoding are found when they are read."""
    if codecs.lookup(encoding).name == "utf-8":
        return stream
    decoder = codecs.getincrementaldecoder(encoding)()

    def part(size: int) -> bytes:
        text, raw = "", b"?"
        while raw and not text:  # a part of a character is no text yet
            raw = stream.read(max(size, 16))
            try:
                text = decoder.decode(raw, final=not raw)
            except UnicodeError:
                before = max(stream.tell() - len(raw), 0)
                raise Problem(
                    f"{name}: after byte {before:,} it is not text in {encoding}; say another --encoding."
                ) from None
        return text.encode()

    return Stream(part)


# Excel.


@dataclass
class ExcelSheet(Source):
    """A sheet of an Excel file; `rows` are pairs of a row's number and its cells."""

    rows: Iterator[tuple[int, list[str | None]]] = field(kw_only=True)
    numbers: list[int] = field(default_factory=list, init=False)

    def _tables(self, columns: list[str]) -> Iterator[Any]:
        import pyarrow as pa

        width = len(self.names)
        places = [self.names.index(name) for name in columns]
        while part := list(islice(self.rows, ROWS)):
            for number, cells in part:
                if any(cell is not None for cell in cells[width:]):
                    raise Problem(
                        f"{self.name}, row {number}: it has cells beyond the header's {width}; complete the header, or "
                        "remove them."
                    )
            self.numbers += [number for number, _ in part]
            self.position += len(part)
            filled = [[*cells, *[None] * (width - len(cells))] for _, cells in part]
            yield pa.table([pa.array([row[place] for row in filled], pa.string()) for place in places], columns)

    def _row(self, row: int) -> str:
        return f"row {self.numbers[row]}"


def _open_excel(name: str, file: IO[bytes], written: Written, sheet: str | None) -> Source:
    """Return the table in a sheet of an Excel file; without a name the first, and the others are told of."""
    try:
        import openpyxl
    except ImportError:
        raise Problem(
            f"{name} is an Excel file, and openpyxl is not installed; in a clone of natpn, run: "
            "pip install '.[excel]'; or save it as CSV."
        ) from None
    with _excel_errors(name), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of drawings and the like, which hold no cells
        sheets = openpyxl.load_workbook(file, read_only=True, data_only=True).worksheets
    titles = [one.title for one in sheets]
    if not sheets:
        raise Problem(f"{name} has no sheet with cells; expected a header and rows.")
    if sheet is None and len(sheets) > 1:
        others = f"{listed(titles[1:])} {'is' if len(sheets) == 2 else 'are'} not"
        note(f"{name}: its first sheet, {titles[0]!r}, is read, and {others}; --sheet names another")
    if sheet is not None and sheet not in titles:
        near = did_you_mean(sheet, titles) or "."
        raise Problem(f"--sheet {sheet}: {name} has no such sheet, but {listed(titles)}{near}")
    chosen = sheets[0 if sheet is None else titles.index(sheet)]
    rows = _excel_rows(chosen, name, written)
    _, header = next(rows, (0, []))
    if not header:
        raise Problem(f"{name} has no cells in its sheet {chosen.title!r}; expected a header and rows.")
    width = max(place for place, cell in enumerate(header, 1) if cell is not None)
    return ExcelSheet(name, column_names([cell or "" for cell in header[:width]]), written, rows=rows)


def _excel_rows(sheet: Any, name: str, written: Written) -> Iterator[tuple[int, list[str | None]]]:
    """Yield the rows that have a cell."""
    sheet.reset_dimensions()  # what some programs say of the size is wrong
    with _excel_errors(name):
        for number, cells in enumerate(sheet.iter_rows(values_only=True), 1):
            texts = [_excel_text(cell, written) for cell in cells]
            if any(text is not None for text in texts):
                yield number, texts


@contextlib.contextmanager
def _excel_errors(name: str) -> Iterator[None]:
    try:
        yield
    except Exception as error:  # whatever XML parsers and openpyxl raise on damage
        raise Problem(f"{name} is an Excel file that cannot be read ({error}); save it again.") from None


def _excel_text(value: Any, written: Written) -> str | None:
    """Return a cell as the file would write it in CSV; numbers keep all their digits."""
    if value is None or (isinstance(value, str) and not value.strip()):
        return None
    if isinstance(value, datetime.datetime):
        return value.isoformat()
    return text_of(value).replace(".", written.decimal) if isinstance(value, float) else text_of(value)
