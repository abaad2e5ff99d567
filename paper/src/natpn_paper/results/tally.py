"""How well our scores agree with the paper's, counted over the cells of its tables.

`NatPN (paper)`, trained as the paper says, agrees in a cell if |ours − paper| ≤ 2 √(e² + e_paper²) with both standard
errors. A missing error counts as 0, and our score is rounded as the paper prints. On tabular data, `NatPN`, this
library's default, is compared with the paper's best score of any model with a single pass. Runs on a part of the data,
or for fewer epochs than a model's own, are not compared.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from natpn_paper.experiments import EXPERIMENTS, Experiment, View, higher_is_better, published
from natpn_paper.experiments.table_rows import PAPER, is_single_pass
from natpn_paper.results.tables import Cell, Line, Table, printed, tables

TABULAR = ("sensorless-drive", "bike-sharing", "uci")
OURS = "NatPN"
_ROUNDING = 1e-9
Key = tuple[str, str, str]  # experiment, data, score


@dataclass(frozen=True)
class Agreement:
    """One table.

    Attributes:
        table: Its name.
        near: For each score, whether `NatPN (paper)` is within two standard errors of the paper's NatPN.
        good: For each score, whether `NatPN` is at least as good as the paper's best model with a single pass.
    """

    table: str
    near: Mapping[Key, bool] = field(default_factory=dict)
    good: Mapping[Key, bool] = field(default_factory=dict)


def agreement(
    lines: Iterable[Line], experiments: Mapping[str, Experiment] = EXPERIMENTS, quick: bool = False
) -> list[Agreement]:
    """Compare all tables with the paper's; tables that have nothing to compare are left out.

    Args:
        lines: What `natpn_paper.experiments.read_lines` read.
        experiments: Whose tables, by name.
        quick: Whether to compare quick runs instead of full ones.
    """
    found = [of_table(table) for table in tables(lines, experiments, quick)]
    return [one for one in found if one.near or one.good]


def of_table(table: Table) -> Agreement:
    """Compare one table with the paper's."""
    near, good = {}, {}
    cells = {row.model: row.cells for row in table.rows if all(map(_is_whole, row.lines))}
    for j, column in enumerate(table.view.columns):
        key = (table.experiment.name, table.view.data, table.view.prefix + column)
        as_paper, ours = (cells[name][j] if name in cells else Cell() for name in (OURS + PAPER, OURS))
        if as_paper.mean is not None and as_paper.paper is not None:
            near[key] = is_near(as_paper)
        best = best_single_pass(table.view, column)
        if table.view.table in TABULAR and ours.mean is not None and best is not None:
            sign = 1 if higher_is_better(column) else -1
            good[key] = sign * printed(ours.mean) >= sign * best
    return Agreement(table.name, near, good)


def _is_whole(line: Line) -> bool:
    return line["limit"] is None and line["epochs"] is None


def is_near(cell: Cell) -> bool:
    """Say whether our score and the paper's are within two standard errors of each other."""
    if cell.mean is None or cell.paper is None:
        return False
    value, error = cell.paper
    allowed = 2 * math.hypot(cell.error or 0.0, error or 0.0)
    return abs(printed(cell.mean) - value) <= allowed + _ROUNDING


def best_single_pass(view: View, column: str) -> float | None:
    """Return the paper's best score of a column among models with a single pass; None if it has none."""
    values = [
        value
        for (model, name), (value, _) in published.scores(view.table, view.trained_on).items()
        if name == column and model.endswith(view.suffix) and is_single_pass(model.removesuffix(view.suffix))
        if math.isfinite(value)
    ]
    return (max if higher_is_better(column) else min)(values, default=None)


def counts(agreements: Sequence[Agreement]) -> list[tuple[str, str, str]]:
    """Return a row for each table and one for all: its name, and the counts of cells that are near and good."""
    every = [*agreements, total(agreements)] if agreements else []
    return [(one.table, counted(one.near), counted(one.good)) for one in every]


def total(agreements: Iterable[Agreement]) -> Agreement:
    """Count every score once, though the paper shows some in two tables."""
    near: dict[Key, bool] = {}
    good: dict[Key, bool] = {}
    for one in agreements:
        near, good = {**one.near, **near}, {**one.good, **good}
    return Agreement("all, each score once", near, good)


def counted(cells: Mapping[Key, bool]) -> str:
    """Say how many cells are true.

    Examples:
        >>> counted({("a", "b", "c"): True, ("a", "b", "d"): False}), counted({})
        ('1 of 2', '')
    """
    return f"{sum(cells.values())} of {len(cells)}" if cells else ""
