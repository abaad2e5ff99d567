"""Files in, as batches of pyarrow tables: CSV, Parquet and Excel, the first also packed by gzip or zip.

pyarrow alone reads and writes CSV and Parquet: it streams both, quickly, and is one library. A file is known by its
content, not by its name.
"""

import codecs
import contextlib
import os
import stat
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import IO, Any

from natpn.cli.csv_files import open_csv
from natpn.cli.excel_files import open_excel
from natpn.cli.packed import GZIP, ZIP, Stream, in_utf8, open_zip, seekable, unpacked_gzip, unpacked_zip
from natpn.cli.parquet_files import open_parquet
from natpn.cli.printing import note
from natpn.cli.problems import Problem, of_system
from natpn.cli.source import Source
from natpn.tabular.written import PLAIN, Written

_HEAD = 8
_PARQUET = b"PAR1"
_OTHERS = {b"\x28\xb5\x2f\xfd": "Zstandard", b"BZh": "bzip2", b"\xfd7zXZ": "xz", b"7z\xbc\xaf": "7-Zip"}
_OLD_EXCEL = b"\xd0\xcf\x11\xe0"
_UTF16 = (b"\xff\xfe", b"\xfe\xff")


@dataclass(frozen=True)
class Content:
    """What a file holds, unpacked.

    Attributes:
        head: The first bytes.
        stream: All of them, to be read once.
        on_disk: Returns them as a file that can be read from its end.
        size: How many there are; None if that is not known.
        is_excel: Whether it is an Excel file.
    """

    head: bytes
    stream: Stream
    on_disk: Callable[[], IO[bytes]]
    size: int | None = None
    is_excel: bool = False


@contextlib.contextmanager
def opened(path: str, written: Written = PLAIN, sheet: str | None = None) -> Iterator[Source]:
    """Open a table for reading.

    Args:
        path: A CSV, Parquet or Excel file, "-" for standard input.
        written: How it writes its values.
        sheet: The sheet of an Excel file; None takes the first.

    Raises:
        Problem: If there is none, it is empty, or it is none of these.
    """
    name = "standard input" if path == "-" else path
    with contextlib.ExitStack() as stack:
        content = _content(path, name, stack)
        if not content.head:
            raise Problem(f"{name} is empty; expected a CSV file with a header, or a Parquet file.")
        if content.is_excel:
            yield open_excel(name, content.on_disk(), written, sheet)
            return
        if sheet is not None:
            note(f"{name} is not an Excel file, and has no sheets; --sheet {sheet} means nothing there")
        if content.head[:4] == _PARQUET:
            yield open_parquet(name, content.on_disk(), written)
        else:
            _check_text(name, path, content.head, written)
            again = None if path == "-" else partial(_text_again, path, name, written)
            yield open_csv(name, _text(content, name, written), content.size, written, again)


def read(path: str, written: Written = PLAIN, sheet: str | None = None) -> tuple[Source, Any]:
    """Return a whole file as one table.

    Args:
        path: A CSV, Parquet or Excel file, "-" for standard input.
        written: How it writes its values.
        sheet: The sheet of an Excel file; None takes the first.

    Raises:
        Problem: If it cannot be read, or has no rows.
    """
    import pyarrow as pa

    with opened(path, written, sheet) as source:
        tables = list(source.batches(source.names))
    if not tables:
        raise Problem(f"{source.name} has a header and no rows; add some.")
    return source, pa.concat_tables(tables).combine_chunks()


def _content(path: str, name: str, stack: contextlib.ExitStack) -> Content:
    raw = _raw(path, stack)
    head, stream = _peeked(Stream(b"", raw.read))

    def on_disk() -> IO[bytes]:
        if path == "-" or not raw.seekable():
            return seekable(stream, stack)
        raw.seek(0)
        return raw

    if head.startswith(GZIP):
        inner, unpacked = _peeked(unpacked_gzip(stream, name))
    elif head.startswith(ZIP):
        disk = on_disk()
        archive = stack.enter_context(open_zip(disk, name))
        if "xl/workbook.xml" in archive.namelist():
            return Content(head, stream, lambda: disk, is_excel=True)
        inner, unpacked = _peeked(unpacked_zip(archive, name))
    else:
        is_file = path != "-" and stat.S_ISREG(os.stat(path).st_mode)
        return Content(head, stream, on_disk, os.stat(path).st_size if is_file else None)
    return Content(inner, unpacked, lambda: seekable(unpacked, stack))


def _raw(path: str, stack: contextlib.ExitStack) -> IO[bytes]:
    if path == "-":
        return sys.stdin.buffer
    try:
        if stat.S_ISDIR(os.stat(path).st_mode):
            raise Problem(f"{path} is a directory; name a CSV, Parquet or Excel file.")
        return stack.enter_context(open(path, "rb"))
    except OSError as error:
        raise of_system(error, path) from None


def _peeked(stream: Stream) -> tuple[bytes, Stream]:
    head = stream.read(_HEAD)
    return head, Stream(head, stream.read)


def _text(content: Content, name: str, written: Written) -> Stream:
    """Return text in UTF-8."""
    plain = codecs.lookup(written.encoding).name == "utf-8"
    return content.stream if plain else in_utf8(content.stream, written.encoding, name)


@contextlib.contextmanager
def _text_again(path: str, name: str, written: Written) -> Iterator[Stream]:
    """Open the text of a file once more."""
    with contextlib.ExitStack() as stack:
        yield _text(_content(path, name, stack), name, written)


def _check_text(name: str, path: str, head: bytes, written: Written) -> None:
    """Refuse what is known not to be text.

    Raises:
        Problem: With what it is.
    """
    if Path(path).suffix in (".parquet", ".pq"):
        raise Problem(f"{name} is not a Parquet file, or its beginning is damaged; write or copy it again.")
    if head.startswith(_OLD_EXCEL):
        raise Problem(f"{name} is an Excel file of the old form (.xls) or with a password; save it as .xlsx or CSV.")
    kind = next((kind for magic, kind in _OTHERS.items() if head.startswith(magic)), None)
    if kind or head.startswith((GZIP, ZIP)):
        raise Problem(f"{name} is compressed or packed ({kind or 'twice'}); unpack it first.")
    if head.startswith(_UTF16) and "16" not in written.encoding:
        raise Problem(f"{name} is UTF-16 text; say --encoding utf-16, or save it as UTF-8.")
