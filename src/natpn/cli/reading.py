"""CSV and Parquet files in, as batches of pyarrow tables.

pyarrow alone reads and writes: it streams both formats, quickly, and is one library. All cells of a CSV file are read
as texts, because types that are guessed from one piece of a file may be wrong in the next; `natpn.cli.columns` then
converts whole columns, or does as the model says.

A file is known by its content, not by its name. Lines are counted from 1, the header's.
"""

import contextlib
import csv
import io
import os
import re
import stat
import sys
import tempfile
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from natpn.cli.problems import Problem, listed, of_system

ROWS = 4096  # a batch
BLOCK = 1 << 23  # bytes of CSV text that are parsed at once: the longest line
_HEAD = 1 << 20
_SEPARATORS = ",;\t|"
_BINARY = {b"\x1f\x8b": "gzip", b"PK": "zip", b"\x28\xb5\x2f\xfd": "Zstandard", b"BZh": "bzip2"}


@dataclass
class Source(ABC):
    """A table in a file.

    Attributes:
        name: What to call it in errors.
        names: Its columns.
        texts: Whether all cells are texts.
        size: How much there is to read, in the unit of `position`; None if that is not known.
        unit: That unit, bytes or rows.
        position: How much has been read.
    """

    name: str
    names: list[str]
    texts: bool
    size: int | None
    unit: str
    position: int = 0

    @abstractmethod
    def batches(self, columns: list[str]) -> Iterator[Any]:
        """Yield tables of at most `ROWS` rows with some of the columns."""

    def place(self, row: int) -> str:
        """Return where in the file a row is, for a person; the first row is number 0."""
        return f"row {row + 1}"


@contextlib.contextmanager
def opened(path: str) -> Iterator[Source]:
    """Open a table for reading.

    Args:
        path: A CSV or Parquet file, "-" for standard input.

    Raises:
        Problem: If there is none, it is empty, or it is neither.
    """
    name = "standard input" if path == "-" else path
    with contextlib.ExitStack() as stack:
        file: IO[bytes]
        if path == "-":
            file = sys.stdin.buffer
        else:
            try:
                if stat.S_ISDIR(os.stat(path).st_mode):
                    raise Problem(f"{path} is a directory; name a CSV or Parquet file.")
                file = stack.enter_context(open(path, "rb"))
            except OSError as error:
                raise of_system(error, path) from None
        head = _read(file, _HEAD)
        if not head:
            raise Problem(f"{name} is empty; expected a CSV file with a header, or a Parquet file.")
        if head[:4] == b"PAR1":
            yield _parquet(name, _seekable(file, head, path, stack))
            return
        if Path(path).suffix in (".parquet", ".pq"):
            raise Problem(f"{name} is not a Parquet file, or its beginning is damaged; write or copy it again.")
        yield _csv(name, path, file, head)


def read(path: str, needed: list[str] | None = None) -> tuple[Source, Any]:
    """Return a whole file as one table, with some of its columns or all of them."""
    import pyarrow as pa

    with opened(path) as source:
        tables = list(source.batches(source.names if needed is None else needed))
    if not tables:
        raise Problem(f"{source.name} has a header and no rows; add some.")
    return source, pa.concat_tables(tables).combine_chunks()


def _read(file: IO[bytes], size: int) -> bytes:
    """Read as much as asked for, from a pipe too, unless the file ends."""
    parts: list[bytes] = []
    while size > 0 and (part := file.read(size)):
        parts.append(part)
        size -= len(part)
    return b"".join(parts)


def _seekable(file: IO[bytes], head: bytes, path: str, stack: contextlib.ExitStack) -> IO[bytes]:
    """Return the file from its start; standard input goes to the disk first, since Parquet is read from its end."""
    if path != "-" and file.seekable():
        file.seek(0)
        return file
    spool = stack.enter_context(tempfile.TemporaryFile())  # noqa: SIM115
    spool.write(head)
    while part := file.read(1 << 20):
        spool.write(part)
    spool.seek(0)
    return spool


# Parquet.


class _Parquet(Source):
    file: Any

    def batches(self, columns: list[str]) -> Iterator[Any]:
        import pyarrow as pa

        try:
            for batch in self.file.iter_batches(batch_size=ROWS, columns=columns, use_threads=False):
                self.position += batch.num_rows
                if batch.num_rows:
                    yield _without_views(pa.Table.from_batches([batch]))
        except (pa.ArrowException, OSError) as error:
            raise Problem(f"{self.name} is damaged ({error}); write or copy it again.") from None


def _without_views(table: Any) -> Any:
    """Return a table whose texts are of the usual type, which every function of pyarrow takes."""
    import pyarrow as pa

    for place, kind in enumerate(table.schema.types):
        if kind == pa.string_view():
            table = table.set_column(place, table.column_names[place], table[place].cast(pa.string()))
    return table


def _parquet(name: str, file: IO[bytes]) -> Source:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        parquet = pq.ParquetFile(file)
        names = list(parquet.schema_arrow.names)
    except (pa.ArrowException, OSError, UnicodeDecodeError):
        raise Problem(f"{name} is a Parquet file that was cut short or damaged; write or copy it again.") from None
    _check_names(name, names)
    source = _Parquet(name, names, False, parquet.metadata.num_rows, "rows")
    source.file = parquet
    return source


# CSV.


class _CSV(Source):
    path: str
    stream: "_Stream"
    separator: str

    def batches(self, columns: list[str]) -> Iterator[Any]:
        import pyarrow as pa
        import pyarrow.csv as pc

        rows = 0
        try:
            reader = pc.open_csv(
                self.stream,
                pc.ReadOptions(column_names=self.names, block_size=BLOCK, use_threads=False),
                pc.ParseOptions(delimiter=self.separator, newlines_in_values=True),
                pc.ConvertOptions(
                    column_types=dict.fromkeys(self.names, pa.string()),
                    include_columns=columns,
                    strings_can_be_null=False,  # which texts are missing values says natpn.tabular.texts
                ),
            )
            for block in reader:
                for start in range(0, block.num_rows, ROWS):
                    part = block.slice(start, ROWS)
                    rows += part.num_rows
                    self.position = self.stream.tell()
                    yield pa.Table.from_batches([part])
        except pa.ArrowInvalid as error:
            if str(error) == "Empty CSV file":
                return
            raise Problem(self._sentence(str(error), rows)) from None

    def _sentence(self, message: str, rows: int) -> str:
        found = re.search(r"Row #(\d+): Expected (\d+) columns, got (\d+)", message)
        if found:
            row, expected, got = map(int, found.groups())
            return (
                f"{self.name}, {self.place(row - 1)}: it has {got} cells and the header {expected}; complete the line, "
                "or put quotes around cells that hold the separator."
            )
        if "UTF8" in message:
            number = re.search(r"Row #(\d+)", message)
            where = self.place(int(number[1]) - 1) if number else f"after {rows:,} rows"
            return f"{self.name}, {where}: it is not UTF-8 text; save it as UTF-8, as by iconv -f latin1 -t utf-8."
        if "straddl" in message:
            return (
                f"{self.name}: a line after row {rows:,} is longer than {BLOCK >> 20} MB; is a quote not closed, or "
                "is it not a CSV file?"
            )
        return f"{self.name} cannot be read as CSV ({message}); correct it."

    def place(self, row: int) -> str:
        line = row + 2
        if self.path != "-":
            # Empty lines and line breaks in quotes count as well; only an error is worth reading the file again.
            with (
                contextlib.suppress(OSError, csv.Error),
                open(self.path, encoding="utf-8", errors="replace", newline="") as file,
            ):
                csv.field_size_limit(2**31 - 1)
                reader = csv.reader(file, delimiter=self.separator)
                filled, before = -1, 0
                for cells in reader:
                    filled += bool(cells)
                    if filled == row + 1:
                        line = before + 1
                        break
                    before = reader.line_num
        return f"line {line}"


class _Stream(io.RawIOBase):
    """What was read ahead, and then the rest."""

    def __init__(self, head: bytes, file: IO[bytes]) -> None:
        self._head, self._file, self._position = head, file, 0

    def readable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._position

    def read(self, size: int = -1) -> bytes:
        part, self._head = (self._head[:size], self._head[size:]) if size >= 0 else (self._head, b"")
        if len(part) < size or size < 0:
            part += _read(self._file, size - len(part)) if size >= 0 else self._file.read()
        self._position += len(part)
        return part


def _csv(name: str, path: str, file: IO[bytes], head: bytes) -> Source:
    head = head.removeprefix(b"\xef\xbb\xbf")
    _check_text(name, head)
    first = next((line for line in head.splitlines() if line.strip()), b"")
    separator = max(_SEPARATORS, key=lambda s: re.sub(rb'"[^"]*"', b"", first).count(s.encode()))
    names, length = _header(name, head, separator)
    _check_names(name, names)
    size = os.stat(path).st_size if path != "-" and stat.S_ISREG(os.stat(path).st_mode) else None
    source = _CSV(name, names, True, size, "B")
    source.path, source.separator = path, separator
    source.stream = _Stream(head[length:], file)
    return source


def _check_text(name: str, head: bytes) -> None:
    kind = next((kind for magic, kind in _BINARY.items() if head.startswith(magic)), None)
    if kind:
        raise Problem(f"{name} is compressed or packed ({kind}); unpack it first.")
    if head[:2] in (b"\xff\xfe", b"\xfe\xff"):
        raise Problem(f"{name} is UTF-16 text; save it as UTF-8, as by iconv -f utf-16 -t utf-8.")
    if b"\x00" in head:
        raise Problem(f"{name} is a binary file; expected CSV or Parquet.")


def _header(name: str, head: bytes, separator: str) -> tuple[list[str], int]:
    """Return the names of the columns, and how many bytes the header takes."""
    lines = re.findall(rb"[^\r\n]*(?:\r\n|\r|\n|$)", head)
    used: list[bytes] = []

    def texts() -> Iterator[str]:
        for line in lines:
            used.append(line)
            yield line.decode("utf-8")

    csv.field_size_limit(2**31 - 1)
    try:
        cells = next((cells for cells in csv.reader(texts(), delimiter=separator) if any(cells)), None)
    except UnicodeDecodeError:
        raise Problem(
            f"{name}, line {len(used)}: it is not UTF-8 text; save it as UTF-8, as by iconv -f latin1 -t utf-8."
        ) from None
    except csv.Error as error:
        raise Problem(f"{name}, line {len(used)}: the header cannot be read ({error}); correct it.") from None
    if cells is None:
        raise Problem(f"{name} has no header and no rows; expected a CSV file with a header, or a Parquet file.")
    return [cell.strip() or f"column_{place}" for place, cell in enumerate(cells, 1)], sum(map(len, used))


def _check_names(name: str, names: list[str]) -> None:
    twice = sorted(n for n, count in Counter(names).items() if count > 1)
    if twice:
        raise Problem(f"{name} has more than one column of the name {listed(twice)}; rename them.")
    if not names:
        raise Problem(f"{name} has no columns; expected some.")
