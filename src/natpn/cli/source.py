"""A table in a file, whatever its format: its columns, its rows in batches, and where each row is."""

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from natpn.cli.problems import Problem, listed
from natpn.tabular.written import PLAIN, Written

ROWS = 4096  # a batch


@dataclass
class Source(ABC):
    """A table in a file.

    Attributes:
        name: What to call it in errors.
        names: Its columns.
        texts: Whether all cells are texts.
        size: How much there is to read, in the unit of `position`; None if that is not known.
        unit: That unit, bytes or rows.
        written: How it writes numbers, dates and missing values.
        position: How much has been read.
        units: The sign beside the numbers of a column, where there is one: those of the model, and what a fit finds.
    """

    name: str
    names: list[str]
    texts: bool
    size: int | None
    unit: str
    written: Written = PLAIN
    position: int = 0
    units: dict[str, str] = field(init=False)

    def __post_init__(self) -> None:
        self.units = dict(self.written.units)
        twice = sorted(n for n, count in Counter(self.names).items() if count > 1)
        if twice:
            raise Problem(f"{self.name} has more than one column of the name {listed(twice)}; rename them.")
        if not self.names:
            raise Problem(f"{self.name} has no columns; expected some.")

    @abstractmethod
    def batches(self, columns: list[str]) -> Iterator[Any]:
        """Yield tables of at most `ROWS` rows with some of the columns."""

    def place(self, row: int) -> str:
        """Return where in the file a row is, for a person; the first row is number 0."""
        return f"row {row + 1}"


def column_name(cell: str, place: int) -> str:
    """Return the name of a column by its cell in the header; the first column has the place 1."""
    return cell.strip() or f"column_{place}"
