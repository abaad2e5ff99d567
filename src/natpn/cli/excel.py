"""Excel files (.xlsx) by openpyxl: the cells of one sheet as a CSV file would write them.

So mistakes in a column are found and named as in CSV. Numbers keep all their digits.
"""

import datetime
import warnings
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import islice
from typing import IO, Any

from natpn.choices import did_you_mean, listed
from natpn.cli.formats import ROWS, Source, column_names
from natpn.cli.printing import Problem, note
from natpn.tabular.cells import text_of
from natpn.tabular.texts import Written

Row = tuple[int, list[str | None]]  # its number in the sheet, and its cells


@dataclass
class ExcelSheet(Source):
    """A sheet of an Excel file."""

    rows: Iterator[Row] = field(kw_only=True)
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


def open_excel(name: str, file: IO[bytes], written: Written, sheet: str | None = None) -> Source:
    """Return the table in a sheet of an Excel file.

    Args:
        name: What errors call the file.
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
            "pip install '.[excel]'; or save it as CSV."
        ) from None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of drawings and the like, which hold no cells
            sheets = openpyxl.load_workbook(file, read_only=True, data_only=True).worksheets
    except Exception as error:  # whatever XML parsers and openpyxl raise on damage
        raise _unreadable(name, error) from None
    chosen = _chosen(sheets, name, sheet)
    rows = _rows(chosen, name, written)
    _, header = next(rows, (0, []))
    if not header:
        raise Problem(f"{name} has no cells in its sheet {chosen.title!r}; expected a header and rows.")
    width = max(place for place, cell in enumerate(header, 1) if cell is not None)
    return ExcelSheet(name, column_names([cell or "" for cell in header[:width]]), written, rows=rows)


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
        near = did_you_mean(sheet, titles) or "."
        raise Problem(f"--sheet {sheet}: {name} has no such sheet, but {listed(titles)}{near}")
    return sheets[titles.index(sheet)]


def _rows(sheet: Any, name: str, written: Written) -> Iterator[Row]:
    """Yield the rows that have a cell."""
    sheet.reset_dimensions()  # what some programs say of the size is wrong
    try:
        for number, cells in enumerate(sheet.iter_rows(values_only=True), 1):
            texts = [_text(cell, written) for cell in cells]
            if any(text is not None for text in texts):
                yield number, texts
    except Exception as error:
        raise _unreadable(name, error) from None


def _unreadable(name: str, error: Exception) -> Problem:
    return Problem(f"{name} is an Excel file that cannot be read ({error}); save it again.")


def _text(value: Any, written: Written) -> str | None:
    """Return a cell as the file would write it in CSV."""
    if value is None or (isinstance(value, str) and not value.strip()):
        return None
    if isinstance(value, datetime.datetime):
        return value.isoformat()
    return text_of(value).replace(".", written.decimal) if isinstance(value, float) else text_of(value)
