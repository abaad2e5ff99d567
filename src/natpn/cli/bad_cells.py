"""Cells that are not of their column's kind: refused, or counted as missing values."""

from dataclasses import dataclass, field

import click

from natpn.cli.printing import note

bad_cells_option = click.option(
    "--bad-cells",
    type=click.Choice(["refuse", "missing"]),
    default="refuse",
    show_default=True,
    help="What to do with a cell that is not of its column's kind, as - among numbers.",
)


@dataclass
class BadCells:
    """What to do with cells that are not of their column's kind, and how many there were.

    Attributes:
        option: "refuse" or "missing".
        counts: For each column, how many cells were counted as missing, and one of them.
    """

    option: str = "refuse"
    counts: dict[str, tuple[int, str]] = field(default_factory=dict)

    @property
    def are_missing(self) -> bool:
        """Whether such cells count as missing values."""
        return self.option == "missing"

    def count(self, name: str, number: int, example: str) -> None:
        """Add cells that were counted as missing."""
        before, first = self.counts.get(name, (0, example))
        self.counts[name] = (before + number, first)

    def tell(self) -> None:
        """Print how many cells were counted as missing."""
        for name, (number, example) in self.counts.items():
            cells = "cell that is not of its kind is" if number == 1 else "cells that are not of its kind are"
            note(f"column {name!r}: {number:,} {cells} counted as missing, as {example!r}")
