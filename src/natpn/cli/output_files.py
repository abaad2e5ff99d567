"""Files that commands write, by the rule of `natpn.outputs`: CSV and Parquet by pyarrow, and pages."""

import contextlib
import csv
import io
import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any, Self

from natpn import outputs
from natpn.cli.printing import of_system
from natpn.cli.streams import as_input
from natpn.outputs import Kind

GROUP = 1 << 16  # rows that Parquet keeps together
# A spreadsheet runs a cell that begins so as a formula, unless it is a number; after an apostrophe it is a text.
FORMULA, NUMBER = r"^[=+\-@\t\r\n]", r"^[+-]?[0-9]+([.,][0-9]+)?([eE][+-]?[0-9]+)?$"
_LAST = ["aleatoric", "epistemic", "familiarity", "novelty_p", "novel"]  # columns of all predictions
_PREDICTED = re.compile(rf"prediction(_\d+)?|lower|upper|p_.*|{'|'.join(_LAST)}", re.DOTALL)
_MARK = b"natpn.predictions"  # in the metadata of Parquet


def _are_predictions(file: IO[bytes]) -> bool:
    """Say whether the columns are those of predictions: at most one that names the rows, then what natpn predicts.

    Of a file with some of these columns, Parquet says itself that natpn wrote it; in CSV there must be one that only
    natpn has.
    """
    names = names_of_columns(file)
    if "prediction" in names[:2] and names[-len(_LAST) :] == _LAST:
        return True
    if read_mark(file) is not None:
        return True
    own = names if names and _PREDICTED.fullmatch(names[0]) else names[1:]
    return all(map(_PREDICTED.fullmatch, own)) and not set(own).isdisjoint(_LAST)


def _is_page(file: IO[bytes]) -> bool:
    return b'<meta name="generator" content="natpn ' in file.read(1 << 10)


PREDICTIONS = Kind("a file of predictions that natpn wrote", _are_predictions)
PAGE = Kind("a page that natpn wrote", _is_page)


def check_output(out: str, kind: Kind, *inputs: str | None) -> None:
    """Raise if a file cannot be written there, before time is spent on it.

    Args:
        out: The file, "-" for standard output.
        kind: What it will be.
        inputs: What is read, "-" for standard input.

    Raises:
        Problem: If its directory cannot be written.
        ValueError: If something else is there, or it is or lies in what is read.
    """
    if out == "-" or outputs.is_special(out):
        return
    try:
        outputs.check_apart(out, *(as_input(path) for path in inputs if path is not None))
        outputs.check_file(out, kind)
        outputs.check_writable(Path(os.path.realpath(out)).parent)
    except OSError as error:
        raise of_system(error, out) from None


@contextlib.contextmanager
def open_output(path: str, kind: Kind) -> Iterator[IO[bytes]]:
    """Open a file for writing that appears under its name when the block ends well, and not at all otherwise.

    Args:
        path: The file, "-" for standard output.
        kind: What it will be; only a file of the same kind is replaced.

    Raises:
        Problem: If it cannot be written.
        ValueError: If something else is there.
    """
    if path == "-":
        yield sys.stdout.buffer
        sys.stdout.buffer.flush()
        return
    try:
        with outputs.replacing(path, kind) as file:
            yield file
    except BrokenPipeError:
        raise
    except OSError as error:
        raise of_system(error, path) from None


def write_text(path: str, text: str, kind: Kind) -> None:
    """Write a text file, whole or not at all."""
    with open_output(path, kind) as file:
        file.write(text.encode())


def names_of_columns(file: IO[bytes]) -> list[str]:
    """Return the columns of a CSV or Parquet file; none if it is neither."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    head = file.read(4)
    file.seek(0)
    try:
        if head == b"PAR1":
            return list(pq.ParquetFile(file).schema_arrow.names)
        return next(csv.reader(io.StringIO(file.read(1 << 20).decode(errors="replace"), newline="")), [])
    except (pa.ArrowException, OSError, ValueError, csv.Error):
        return []


def read_mark(file: IO[bytes]) -> str | None:
    """Return the mark that `TableWriter` wrote into a Parquet file; None if there is none."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    file.seek(0)
    try:
        found = (pq.ParquetFile(file).schema_arrow.metadata or {}).get(_MARK)
    except (pa.ArrowException, OSError, ValueError):
        return None
    return None if found is None else found.decode(errors="replace")


class TableWriter:
    """Write tables one after the other, all with the same columns; as a context, whose end writes what is left.

    Args:
        file: Where to.
        parquet: Whether to write Parquet instead of CSV.
        mark: What Parquet says of itself, so that `read_mark` finds it.
    """

    def __init__(self, file: IO[bytes], parquet: bool, mark: str | None = None) -> None:
        self._file, self._parquet, self._mark = file, parquet, mark
        self._started = False
        self._writer: Any = None  # of Parquet
        self._held: list[Any] = []  # the rows of its next group

    def write(self, table: Any) -> None:
        """Write a table."""
        if self._parquet:
            import pyarrow.parquet as pq

            if self._mark is not None:
                table = table.replace_schema_metadata({_MARK: self._mark})
            self._writer = self._writer or pq.ParquetWriter(self._file, table.schema)
            self._held.append(table)
            if sum(part.num_rows for part in self._held) >= GROUP:
                self._write_group()
            return
        import pyarrow.csv as pc

        if not self._started:
            header = io.StringIO()
            csv.writer(header, lineterminator="\n").writerow(map(_harmless, table.column_names))
            self._file.write(header.getvalue().encode())
            self._started = True
        table, style = _harmless_table(table)
        pc.write_csv(table, self._file, pc.WriteOptions(include_header=False, quoting_style=style))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if self._writer is None:
            return
        if kind is None:
            self._write_group()
            self._writer.close()
            return
        with contextlib.suppress(Exception):  # the file is lost; pyarrow would complain if it went before its writer
            self._writer.close()

    def _write_group(self) -> None:
        import pyarrow as pa

        if self._held:
            self._writer.write_table(pa.concat_tables(self._held))
        self._held = []


def is_parquet(path: str, form: str | None) -> bool:
    """Say whether a file is to be Parquet: by the form that was asked for, else by its name."""
    return form == "parquet" if form else Path(path).suffix in (".parquet", ".pq")


def _harmless(text: str) -> str:
    """Return a cell that a spreadsheet does not run."""
    return f"'{text}" if re.match(FORMULA, text) and not re.match(NUMBER, text) else text


def _harmless_table(table: Any) -> tuple[Any, str]:
    """Return a table whose texts a spreadsheet does not run, and the style of quotes that it needs."""
    import pyarrow as pa
    import pyarrow.compute as pc
    import pyarrow.types as types

    style = "none"  # pyarrow puts quotes around every text or none
    for place, field in enumerate(table.schema):
        if any(fits(field.type) for fits in (types.is_string, types.is_large_string, types.is_dictionary)):
            texts = table.column(place).cast(pa.string())
            runs = pc.and_not(pc.match_substring_regex(texts, FORMULA), pc.match_substring_regex(texts, NUMBER))
            if pc.any(runs).as_py():
                texts = pc.if_else(runs, pc.binary_join_element_wise("'", texts, ""), texts)
                table = table.set_column(place, field.name, texts)
            if pc.any(pc.match_substring_regex(texts, r'[",\r\n]')).as_py():
                style = "needed"
    return table, style
