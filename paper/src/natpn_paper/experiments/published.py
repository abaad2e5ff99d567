"""The scores that the paper prints, to stand beside ours.

`published.csv` holds all numbers in the tables of Charpentier, Borchert, Zügner, Geisler and Günnemann: Natural
Posterior Network, ICLR 2022. Its columns are the table, what was trained on (where a table has two halves), the model,
the table's column, the value and its standard error.
"""

import csv
from functools import cache
from importlib.resources import files

Score = tuple[float, float | None]
OURS = ("cifar10-left-out",)  # tables that the paper does not have


@cache
def scores(table: str, trained_on: str = "") -> dict[tuple[str, str], Score]:
    """Return (model, column) → (value, standard error) of a table; of a cell with two values, the first.

    A table of ours has none.

    Raises:
        ValueError: If the paper has no such table.
    """
    found: dict[tuple[str, str], Score] = {}
    for row in _rows():
        if (row["table"], row["trained_on"]) == (table, trained_on):
            error = row["standard_error"]
            cell = (row["model"], row["column"])
            found.setdefault(cell, (float(row["value"].partition("/")[0]), float(error) if error else None))
    if not found and table not in OURS:
        raise ValueError(f"table: expected a table of the paper, got {table!r} trained on {trained_on!r}")
    return found


def table_names() -> tuple[str, ...]:
    """Return the names of all tables."""
    return tuple(dict.fromkeys(row["table"] for row in _rows()))


@cache
def _rows() -> tuple[dict[str, str], ...]:
    text = (files("natpn_paper.experiments") / "published.csv").read_text(encoding="utf-8")
    return tuple(csv.DictReader(text.splitlines()))
