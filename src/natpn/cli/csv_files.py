"""CSV files as tables of texts, by pyarrow.

All cells are read as texts, because types that are guessed from one piece of a file may be wrong in the next;
`natpn.cli.columns` then converts whole columns, or does as the model says. Lines are counted from 1, the header's.
"""

import contextlib
import csv
import io
import re
from collections.abc import Callable, Iterator
from typing import Any

from natpn.cli.packed import Stream
from natpn.cli.problems import Problem
from natpn.cli.source import ROWS, Source, column_name
from natpn.tabular.written import Written

BLOCK = 1 << 23  # bytes of text that are parsed at once: the longest line
_HEAD = 1 << 20
_SEPARATORS = ",;\t|"
_NOT_UTF8 = "it is not UTF-8 text; say --encoding cp1252 if Windows wrote it, or save it as UTF-8."


class CSVFile(Source):
    """A CSV file, whose cells are all texts."""

    stream: Stream
    separator: str
    again: Callable[[], contextlib.AbstractContextManager[Stream]] | None

    def batches(self, columns: list[str]) -> Iterator[Any]:
        """Yield tables of at most `ROWS` rows with some of the columns."""
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
            return f"{self.name}, {where}: {_NOT_UTF8}"
        if "straddl" in message:
            return (
                f"{self.name}: a line after row {rows:,} is longer than {BLOCK >> 20} MB; is a quote not closed, or "
                "is it not a CSV file?"
            )
        return f"{self.name} cannot be read as CSV ({message}); correct it."

    def place(self, row: int) -> str:
        """Return the line of a row."""
        line = row + 2
        if self.again is not None:
            # Empty lines and line breaks in quotes count as well; only an error is worth reading the file again.
            with contextlib.suppress(OSError, csv.Error), self.again() as file:
                csv.field_size_limit(2**31 - 1)
                text = io.TextIOWrapper(io.BufferedReader(file), encoding="utf-8", errors="replace", newline="")
                reader = csv.reader(text, delimiter=self.separator)
                filled, before = -1, 0
                for cells in reader:
                    filled += bool(cells)
                    if filled == row + 1:
                        line = before + 1
                        break
                    before = reader.line_num
        return f"line {line}"


def open_csv(
    name: str,
    file: Stream,
    size: int | None,
    written: Written,
    again: Callable[[], contextlib.AbstractContextManager[Stream]] | None,
) -> Source:
    """Return the table in a CSV file.

    Args:
        name: What to call the file.
        file: Its bytes, in UTF-8.
        size: How many there are; None if that is not known.
        written: How it writes values.
        again: Opens the same bytes once more; None if they can be read only once.

    Raises:
        Problem: If it is no text, or has no header.
    """
    head = file.read(_HEAD).removeprefix(b"\xef\xbb\xbf")
    if b"\x00" in head:
        raise Problem(f"{name} is a binary file; expected CSV, Parquet or Excel (.xlsx).")
    first = next((line for line in head.splitlines() if line.strip()), b"")
    separator = max(_SEPARATORS, key=lambda s: re.sub(rb'"[^"]*"', b"", first).count(s.encode()))
    names, length = _header(name, head, separator)
    source = CSVFile(name, names, True, size, "B", written)
    source.separator, source.again = separator, again
    source.stream = Stream(head[length:], file.read)
    return source


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
        raise Problem(f"{name}, line {len(used)}: {_NOT_UTF8}") from None
    except csv.Error as error:
        raise Problem(f"{name}, line {len(used)}: the header cannot be read ({error}); correct it.") from None
    if cells is None:
        raise Problem(f"{name} has no header and no rows; expected a CSV file with a header, or a Parquet file.")
    return [column_name(cell, place) for place, cell in enumerate(cells, 1)], sum(map(len, used))
