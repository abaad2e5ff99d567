"""Files out: written beside and renamed, so that a file is whole or not there. CSV and Parquet by pyarrow, in batches.

What is no ordinary file, such as standard output or a pipe, is written as it comes.
"""

import contextlib
import csv
import io
import os
import re
import stat
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

from natpn.cli.problems import Problem, of_system

GROUP = 1 << 16  # rows that Parquet keeps together
# A spreadsheet runs a cell that begins so as a formula, unless it is a number; after an apostrophe it is a text.
FORMULA, NUMBER = r"^[=+\-@\t\r\n]", r"^[+-]?[0-9]+([.,][0-9]+)?([eE][+-]?[0-9]+)?$"


@contextlib.contextmanager
def replacing(path: str) -> Iterator[IO[bytes]]:
    """Open a file for writing that appears under its name when the block ends well, and not at all otherwise.

    Args:
        path: The file, "-" for standard output.

    Raises:
        Problem: If it cannot be written.
    """
    if path == "-":
        yield sys.stdout.buffer
        sys.stdout.buffer.flush()
        return
    try:
        if os.path.isdir(path):
            raise Problem(f"{path} is a directory; name a file.")
        if os.path.exists(path) and not stat.S_ISREG(os.stat(path).st_mode):
            with open(path, "wb") as file:
                yield file
            return
        place = Path(os.path.realpath(path))
        number, beside = tempfile.mkstemp(prefix=f".{place.name}.", dir=place.parent)
        try:
            with open(number, "wb") as file:
                yield file
                file.flush()
                os.fsync(file.fileno())
            os.chmod(beside, place.stat().st_mode & 0o777 if place.exists() else 0o666 & ~_umask())
            os.replace(beside, place)
        except BaseException:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(beside)
            raise
    except BrokenPipeError:
        raise
    except OSError as error:
        raise of_system(error, path) from None


def write_text(path: str, text: str) -> None:
    """Write a text file, whole or not at all."""
    with replacing(path) as file:
        file.write(text.encode())


class TableWriter:
    """Write tables one after the other, all with the same columns.

    Args:
        file: Where to.
        parquet: Whether to write Parquet instead of CSV.
    """

    def __init__(self, file: IO[bytes], parquet: bool) -> None:
        self._file, self._parquet = file, parquet
        self._started = False
        self._writer: Any = None
        self._held: list[Any] = []  # the rows of the next group

    def write(self, table: Any) -> None:
        """Write a table."""
        if self._parquet:
            import pyarrow.parquet as pq

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
        table = _harmless_table(table)
        # pyarrow puts quotes around every text or none
        style = "needed" if _needs_quotes(table) else "none"
        pc.write_csv(table, self._file, pc.WriteOptions(include_header=False, quoting_style=style))

    def close(self) -> None:
        """Write what is left."""
        if self._writer is not None:
            self._write_group()
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


def _harmless_table(table: Any) -> Any:
    """Return a table whose texts a spreadsheet does not run."""
    import pyarrow as pa
    import pyarrow.compute as pc

    for place, field in enumerate(table.schema):
        if _is_text(field.type):
            texts = table.column(place).cast(pa.string())
            runs = pc.and_not(pc.match_substring_regex(texts, FORMULA), pc.match_substring_regex(texts, NUMBER))
            if pc.any(runs).as_py():
                table = table.set_column(
                    place, field.name, pc.if_else(runs, pc.binary_join_element_wise("'", texts, ""), texts)
                )
    return table


def _needs_quotes(table: Any) -> bool:
    import pyarrow as pa
    import pyarrow.compute as pc

    texts = [column.cast(pa.string()) for column in table.columns if _is_text(column.type)]
    return any(pc.any(pc.match_substring_regex(column, r'[",\r\n]')).as_py() for column in texts)


def _is_text(kind: Any) -> bool:
    import pyarrow as pa

    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_dictionary(kind))


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
