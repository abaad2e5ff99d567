"""Tables in files: their columns, their rows in batches, and where each row is.

pyarrow reads both CSV and Parquet: it streams them, quickly, and is one library. All cells of CSV and Excel files are
texts: types that are guessed from one piece of a file may be wrong in the next, so `natpn.cli.cell_texts` converts
whole columns, or does as the model says.
"""

import contextlib
import csv
import io
import re
import sys
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import IO, TYPE_CHECKING, Any, ClassVar

from natpn.choices import did_you_mean, listed
from natpn.cli.writing import Problem, note, on_terminal
from natpn.tabular.headers import column_names, separator_of
from natpn.tabular.texts import PLAIN, Written

if TYPE_CHECKING:  # it imports pyarrow, which help does not need
    from natpn.data import Files

ROWS = 4096  # in a batch
BLOCK = 1 << 23  # bytes of CSV that are parsed at once: the longest line
PART = 1 << 20  # bytes that a stream reads at once
_HEAD = 1 << 20  # bytes in which the header of a CSV file must end
_NOT_UTF8 = "it is not UTF-8 text; say --encoding cp1252 if Windows wrote it, or save it as UTF-8."


@dataclass
class Source(ABC):
    """A table in a file.

    Attributes:
        name: What errors call the file.
        names: The names of its columns.
        written: How it writes numbers, dates and missing values.
        size: How much there is to read, in the unit of `position`; None if that is not known.
        bad_are_missing: Whether cells that are not of their column's kind count as missing; else they are refused.
        position: How much has been read.
        units: The sign beside the numbers of a column, where there is one: those of the model, and what a fit finds.
        bad: For each column, how many cells counted as missing because they are not of its kind, and one of them.
    """

    texts: ClassVar[bool] = True  # whether all cells are texts
    unit: ClassVar[str] = " rows"  # of `position`

    name: str
    names: list[str]
    written: Written = PLAIN
    size: int | None = None
    bad_are_missing: bool = field(default=False, init=False)
    position: int = field(default=0, init=False)
    units: dict[str, str] = field(init=False)
    bad: dict[str, tuple[int, str]] = field(default_factory=dict, init=False)

    def __post_init__(self) -> None:
        self.units = dict(self.written.units)
        twice = sorted(n for n, count in Counter(self.names).items() if count > 1)
        if twice:
            raise Problem(f"{self.name} has more than one column of the name {listed(twice)}; rename them.")
        if not self.names:
            raise Problem(f"{self.name} has no columns; add some.")

    def batches(self, columns: list[str], what: str = "read") -> Iterator[tuple[int, Any]]:
        """Yield tables of at most `ROWS` rows, each with the number of its first row; a bar shows how far `what` is."""
        from tqdm import tqdm

        first = 0
        hidden, in_bytes = not on_terminal(), self.unit == "B"
        with tqdm(None, what, self.size, leave=False, disable=hidden, unit=self.unit, unit_scale=in_bytes) as bar:
            for table in self._tables(columns):
                yield first, table
                first += table.num_rows
                bar.update(self.position - bar.n)
        if not first:
            raise Problem(f"{self.name} has a header and no rows; add some.")

    @abstractmethod
    def _tables(self, columns: list[str]) -> Iterator[Any]:
        """Yield tables of 1 to `ROWS` rows with some of the columns."""

    def place(self, row: int) -> str:
        """Return where a row is, for a person; the first row is number 0."""
        return f"{self.name}, {self._row(row)}"

    def _row(self, row: int) -> str:
        return f"row {row + 1}"

    def check_column(self, option: str, name: str) -> None:
        """Raise if there is no column of a name that an option gives."""
        check_column(option, name, self.names, self.name)

    def count_bad(self, column: str, number: int, example: str) -> None:
        """Count cells that are taken for missing because they are not of their column's kind."""
        before, first = self.bad.get(column, (0, example))
        self.bad[column] = (before + number, first)

    def tell_bad(self) -> None:
        """Print how many cells counted as missing."""
        for column, (number, example) in self.bad.items():
            cells = "cell that is not of its kind is" if number == 1 else "cells that are not of its kind are"
            note(f"column {column!r}: {number:,} {cells} counted as missing, as {example!r}")


def check_column(option: str, name: str, names: Sequence[str], where: str) -> None:
    """Raise if there is no column of a name that an option gives."""
    if name not in names:
        hint = did_you_mean(name, names) or f"; it has {listed(names)}."
        raise Problem(f"--{option} {name}: {where} has no such column{hint}")


class Stream(io.RawIOBase):
    """Bytes that a function hands out: about as many of the next ones as it is asked for, and none at the end."""

    def __init__(self, part: Callable[[int], bytes]) -> None:
        self._part, self._left, self._position = part, b"", 0

    def readable(self) -> bool:
        """Say that it can be read."""
        return True

    def tell(self) -> int:
        """Return how many bytes have been read."""
        return self._position

    def peek(self, size: int) -> bytes:
        """Return the next bytes and leave them to be read: as many as asked for, fewer only at the end."""
        while len(self._left) < size and (part := self._part(size - len(self._left))):
            self._left += part
        return self._left[:size]

    def read(self, size: int = -1) -> bytes:
        """Return as many bytes as asked for, fewer only at the end, all that are left if the size is negative."""
        parts, wanted = [], sys.maxsize if size < 0 else size
        while wanted and (part := self._left or self._part(min(wanted, PART))):
            parts.append(part[:wanted])
            self._left = part[wanted:]
            wanted -= len(parts[-1])
        whole = b"".join(parts)
        self._position += len(whole)
        return whole

    def readinto(self, buffer: Any) -> int:
        """Fill a buffer as far as there is something, and return how far."""
        part = self.read(len(buffer))
        buffer[: len(part)] = part
        return len(part)


@dataclass
class CSVFile(Source):
    """A CSV file. Lines are counted from 1, the header's; `again` opens the text once more, if that is possible."""

    unit = "B"
    stream: Stream = field(kw_only=True)
    separator: str = field(kw_only=True)
    again: Callable[[], contextlib.AbstractContextManager[Stream]] | None = field(kw_only=True)

    def _tables(self, columns: list[str]) -> Iterator[Any]:
        import pyarrow as pa
        import pyarrow.csv as pc

        if not self.stream.peek(1):
            return
        rows = 0
        try:
            reader = pc.open_csv(
                self.stream,
                pc.ReadOptions(column_names=self.names, block_size=BLOCK, use_threads=False),
                pc.ParseOptions(delimiter=self.separator, newlines_in_values=True),
                pc.ConvertOptions(
                    column_types=dict.fromkeys(self.names, pa.string()),
                    include_columns=columns,
                    strings_can_be_null=False,  # which texts are missing values says natpn.tabular
                    check_utf8=False,  # but below, where the row is known
                ),
            )
            for block in reader:
                for start in range(0, block.num_rows, ROWS):
                    table = pa.Table.from_batches([block.slice(start, ROWS)])
                    if not _is_utf8(table):
                        bad = next(row for row in range(table.num_rows) if not _is_utf8(table.slice(row, 1)))
                        raise Problem(f"{self.place(rows + bad)}: {_NOT_UTF8}")
                    rows += table.num_rows
                    self.position = self.stream.tell()
                    yield table
        except pa.ArrowInvalid as error:
            for line, cells in self._lines():
                if len(cells) != len(self.names):
                    raise Problem(
                        f"{self.name}, line {line}: it has {len(cells)} cells and the header {len(self.names)}; "
                        "complete the line, or put quotes around cells that hold the separator."
                    ) from None
            raise Problem(
                f"{self.name} cannot be read as CSV after row {rows:,} ({error}); correct the line, close a quote that "
                f"is open, or shorten a line of more than {BLOCK >> 20} MB."
            ) from None

    def _row(self, row: int) -> str:
        line, _ = next(islice(self._lines(), row + 1, None), (row + 2, []))
        return f"line {line}"

    def _lines(self) -> Iterator[tuple[int, list[str]]]:
        """Yield the first line and the cells of the header and of every row, if the file can be read again.

        Empty lines and line breaks in quotes count as lines. Only an error is worth reading the file again.
        """
        if self.again is None:
            return
        with contextlib.suppress(OSError, csv.Error), self.again() as file:
            csv.field_size_limit(2**31 - 1)
            text = io.TextIOWrapper(io.BufferedReader(file), encoding="utf-8", errors="replace", newline="")
            reader = csv.reader(text, delimiter=self.separator)
            before = 0
            for cells in reader:
                if cells:
                    yield before + 1, cells
                before = reader.line_num


def _is_utf8(table: Any) -> bool:
    import pyarrow as pa

    try:
        table.validate(full=True)
    except pa.ArrowInvalid:
        return False
    return True


def open_csv(
    name: str,
    stream: Stream,
    size: int | None,
    written: Written,
    again: Callable[[], contextlib.AbstractContextManager[Stream]] | None,
) -> Source:
    """Return the table in a CSV file, given its bytes in UTF-8 and how many there are, if that is known."""
    if stream.peek(3) == b"\xef\xbb\xbf":
        stream.read(3)
    head = stream.peek(_HEAD)
    if b"\x00" in head:
        raise Problem(f"{name} is a binary file; expected CSV, Parquet or Excel (.xlsx).")
    first = next((line for line in head.splitlines() if line.strip()), b"")
    separator = separator_of(first.decode("utf-8", "replace"))
    names, length = _read_header(name, head, separator)
    stream.read(length)
    return CSVFile(name, names, written, size, stream=stream, separator=separator, again=again)


def _read_header(name: str, head: bytes, separator: str) -> tuple[list[str], int]:
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
        raise Problem(f"{name}, line {len(used)}: {_NOT_UTF8}") from None
    except csv.Error as error:
        raise Problem(f"{name}, line {len(used)}: the header cannot be read ({error}); correct it.") from None
    if cells is None:
        raise Problem(f"{name} has no header and no rows; expected a CSV file with a header, or a Parquet file.")
    return column_names(cells), sum(map(len, used))


@dataclass
class ParquetFile(Source):
    """A Parquet file, whose columns have types of their own."""

    texts = False
    file: Any = field(kw_only=True)

    def _tables(self, columns: list[str]) -> Iterator[Any]:
        import pyarrow as pa

        try:
            for batch in self.file.iter_batches(batch_size=ROWS, columns=columns, use_threads=False):
                self.position += batch.num_rows
                if batch.num_rows:
                    yield without_views(pa.Table.from_batches([batch]))
        except (pa.ArrowException, OSError) as error:
            raise Problem(f"{self.name} is damaged ({error}); write or copy it again.") from None


def open_parquet(name: str, file: IO[bytes], written: Written) -> Source:
    """Return the table in a Parquet file, which must be seekable."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        parquet = pq.ParquetFile(file)
        names = list(parquet.schema_arrow.names)
    except (pa.ArrowException, OSError, UnicodeDecodeError):
        raise Problem(f"{name} is a Parquet file that was cut short or damaged; write or copy it again.") from None
    return ParquetFile(name, names, written, parquet.metadata.num_rows, file=parquet)


def without_views(table: Any) -> Any:
    """Return a table with texts of the usual type in place of views, which not every function of pyarrow takes."""
    import pyarrow as pa

    for place, (name, kind) in enumerate(zip(table.column_names, table.schema.types, strict=True)):
        if kind == pa.string_view():
            table = table.set_column(place, name, table[place].cast(pa.string()))
    return table


@dataclass
class FileOfMany(Source):
    """The first of several Parquet files, or the only one, with the columns that all of them have."""

    texts = False
    files: "Files" = field(kw_only=True)

    def batches(self, columns: list[str], what: str = "read") -> Iterator[tuple[int, Any]]:
        """Yield tables, each with the number of its first row; there may be none, and the bar is that of all files."""
        for table in self._tables(columns):
            yield self.position, table
            self.position += table.num_rows

    def _tables(self, columns: list[str]) -> Iterator[Any]:
        yield from self.files.batches(columns)
