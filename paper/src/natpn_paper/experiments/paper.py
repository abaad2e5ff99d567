"""The paper's figures, which stand beside ours.

`paper.csv` holds all numbers of the tables of Charpentier, Borchert, Zügner, Geisler and Günnemann: Natural Posterior
Network, ICLR 2022: table, what was trained on where a table has two halves, model, column, value and standard error.
"""

import csv
from functools import cache
from importlib.resources import files

Figure = tuple[float, float | None]


@cache
def figures(table: str, trained_on: str = "") -> dict[tuple[str, str], Figure]:
    """Return (model, column) → (value, standard error) of a table; a cell with two values has the first.

    Raises:
        ValueError: If the paper has no such table.
    """
    found: dict[tuple[str, str], Figure] = {}
    for row in _rows():
        if (row["table"], row["trained_on"]) == (table, trained_on):
            error = row["standard_error"]
            cell = (row["model"], row["column"])
            found.setdefault(cell, (float(row["value"].partition("/")[0]), float(error) if error else None))
    if not found:
        raise ValueError(f"table: the paper has no {table!r} trained on {trained_on!r}")
    return found


def tables() -> tuple[str, ...]:
    """Return the names of all tables."""
    return tuple(dict.fromkeys(row["table"] for row in _rows()))


@cache
def _rows() -> tuple[dict[str, str], ...]:
    text = (files("natpn_paper.experiments") / "paper.csv").read_text(encoding="utf-8")
    return tuple(csv.DictReader(text.splitlines()))
