"""Excel files (.xlsx) as tables of texts, by openpyxl: the first sheet, its cells as a CSV file would write them.

Then mistakes in a column are found and named as in CSV. Numbers keep all their digits.
"""

import datetime
import warnings
from collections.abc import Iterator
from typing import IO, Any

from natpn.cli.printing import note
from natpn.cli.problems import Problem
from natpn.cli.source import ROWS, Source, column_name
from natpn.tabular.written import Written


class ExcelSheet(Source):
    """A sheet of an Excel file."""

    rows: Iterator[tuple[int, list[str | None]]]
    numbers: list[int]

    def batches(self, columns: list[str]) -> Iterator[Any]:
        """Yield tables of at most `ROWS` rows with some of the columns."""
        places = [self.names.index(name) for name in columns]
        held: list[list[str | None]] = []
        for number, cells in self.rows:
            if any(cell is not None for cell in cells[len(self.names) :]):
                raise Problem(
                    f"{self.name}, row {number}: it has cells beyond the header's {len(self.names)}; complete the "
                    "header, or remove them."
                )
            self.numbers.append(number)
            held.append(cells)
            if len(held) == ROWS:
                yield self._table(held, columns, places)
                held = []
        if held:
            yield self._table(held, columns, places)

    def _table(self, rows: list[list[str | None]], columns: list[str], places: list[int]) -> Any:
        import pyarrow as pa

        self.position += len(rows)
        cells = {name: [row[place] for row in rows] for name, place in zip(columns, places, strict=True)}
        return pa.table({name: pa.array(column, pa.string()) for name, column in cells.items()})

    def place(self, row: int) -> str:
        """Return the row of the sheet, whose header has one too."""
        return f"row {self.numbers[row]}"


def open_excel(name: str, file: IO[bytes], written: Written) -> Source:
    """Return the table in the first sheet of an Excel file.

    Raises:
        Problem: If openpyxl is not installed, or the file is damaged or empty.
    """
    try:
        import openpyxl
    except ImportError:
        raise Problem(
            f"{name} is an Excel file, and openpyxl is not installed; in a clone of natpn, run: "
            "pip install '.[excel]'; "
            "or save it as CSV."
        ) from None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of drawings and the like, which hold no cells
            sheets = openpyxl.load_workbook(file, read_only=True, data_only=True).worksheets
    except Exception as error:  # whatever XML parsers and openpyxl raise on damage
        raise _damaged(name, error) from None
    if len(sheets) > 1:
        note(f"{name} has {len(sheets)} sheets; the first, {sheets[0].title!r}, is read, save another as its own file")
    rows = _rows(sheets[0], name, written) if sheets else iter(())
    header = next(rows, None)
    if header is None:
        raise Problem(f"{name} has no cells in its first sheet; expected a header and rows.")
    width = max(place for place, cell in enumerate(header[1], 1) if cell is not None)
    names = [column_name(cell or "", place) for place, cell in enumerate(header[1][:width], 1)]
    source = ExcelSheet(name, names, True, None, " rows", written)
    source.rows, source.numbers = ((n, [*cells, *[None] * (width - len(cells))]) for n, cells in rows), []
    return source


def _rows(sheet: Any, name: str, written: Written) -> Iterator[tuple[int, list[str | None]]]:
    """Yield the rows that have a cell, each with its number in the sheet."""
    sheet.reset_dimensions()  # what some programs say of the size is wrong
    rows = enumerate(sheet.iter_rows(values_only=True), 1)
    while True:
        try:
            number, cells = next(rows)
        except StopIteration:
            return
        except Exception as error:
            raise _damaged(name, error) from None
        texts = [_text(cell, written) for cell in cells]
        if any(text is not None for text in texts):
            yield number, texts


def _damaged(name: str, error: Exception) -> Problem:
    return Problem(f"{name} is an Excel file that cannot be read ({error}); save it again.")


def _text(value: Any, written: Written) -> str | None:
    """Return a cell as the file would write it in CSV."""
    from natpn.tabular.objects import text_of

    if value is None or (isinstance(value, str) and not value.strip()):
        return None
    if isinstance(value, datetime.datetime):
        return value.isoformat()
    return text_of(value).replace(".", written.decimal) if isinstance(value, float) else text_of(value)
