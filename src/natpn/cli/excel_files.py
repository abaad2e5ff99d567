"""Excel files (.xlsx) as tables of texts, by openpyxl: one of the sheets, its cells as a CSV file would write them.

Then mistakes in a column are found and named as in CSV. Numbers keep all their digits.
"""

import datetime
import warnings
from collections.abc import Iterator
from typing import IO, Any

import click

from natpn.cli.printing import note
from natpn.cli.problems import Problem, listed, near
from natpn.cli.source import ROWS, Source, column_name
from natpn.tabular.written import Written

sheet_option = click.option("--sheet", metavar="NAME", help="The sheet of an Excel file; by default the first.")


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


def open_excel(name: str, file: IO[bytes], written: Written, sheet: str | None = None) -> Source:
    """Return the table in a sheet of an Excel file.

    Args:
        name: What to call the file.
        file: Its bytes.
        written: How its texts write values.
        sheet: The name of the sheet; None takes the first, and tells of the others.

    Raises:
        Problem: If openpyxl is not installed, the file is damaged, or there is no such sheet or nothing in it.
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
    chosen = _chosen(sheets, name, sheet)
    rows = _rows(chosen, name, written)
    header = next(rows, None)
    if header is None:
        raise Problem(f"{name} has no cells in its sheet {chosen.title!r}; expected a header and rows.")
    width = max(place for place, cell in enumerate(header[1], 1) if cell is not None)
    names = [column_name(cell or "", place) for place, cell in enumerate(header[1][:width], 1)]
    source = ExcelSheet(name, names, True, None, " rows", written)
    source.rows, source.numbers = ((n, [*cells, *[None] * (width - len(cells))]) for n, cells in rows), []
    return source


def _chosen(sheets: list[Any], name: str, sheet: str | None) -> Any:
    """Return the sheet of a name, or the first.

    Raises:
        Problem: If there is none; with those that there are.
    """
    titles = [one.title for one in sheets]
    if not sheets:
        raise Problem(f"{name} has no sheet with cells; expected a header and rows.")
    if sheet is None:
        if len(sheets) > 1:
            others = f"{listed(titles[1:])} {'is' if len(sheets) == 2 else 'are'} not"
            note(f"{name}: its first sheet, {titles[0]!r}, is read, and {others}; --sheet names another")
        return sheets[0]
    if sheet not in titles:
        raise Problem(f"--sheet {sheet}: {name} has no such sheet, but {listed(titles)}{near(sheet, titles) or '.'}")
    return sheets[titles.index(sheet)]


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
    from natpn.tabular.cells import text_of

    if value is None or (isinstance(value, str) and not value.strip()):
        return None
    if isinstance(value, datetime.datetime):
        return value.isoformat()
    return text_of(value).replace(".", written.decimal) if isinstance(value, float) else text_of(value)
