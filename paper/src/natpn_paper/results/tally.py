"""How well our scores agree with the paper's, counted over the cells of its tables.

`NatPN (paper)`, trained as the paper says, agrees in a cell if |ours − paper| ≤ 2 e with the standard error e that the
paper prints. It prints two decimals: our score is rounded like that, and an error below 0.005 counts as 0.005. On
tabular data, `NatPN`, this library's default, is compared with the paper's best score of any model with a single pass.
Cells where both print 100.00 say little and are counted apart. Not compared are runs on a part of the data or for fewer
epochs than a model's own, depths of five pictures, and milliseconds of another machine.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, get_args

from natpn_paper.experiments import EXPERIMENTS, Experiment, View, higher_is_better, published
from natpn_paper.experiments.table_rows import PAPER, is_single_pass
from natpn_paper.results.tables import Cell, Line, Table, printed, tables

TABULAR = ("sensorless-drive", "bike-sharing", "uci")
LEFT_OUT = ("nyu", "inference-time")
OURS = "NatPN"
FULL = 100.0
_ROUNDING = 1e-9
_LEAST_ERROR = 0.005
Key = tuple[str, str, str]  # experiment, data, score
Nearness = Literal["near", "better", "worse", "tie"]
Rank = Literal["better", "equal", "behind"]


@dataclass(frozen=True)
class Agreement:
    """One table.

    Attributes:
        table: Its name.
        near: For each score, whether `NatPN (paper)` is within two standard errors of the paper's NatPN, better or
            worse than that, or both print 100.00.
        rank: For each score, how `NatPN` compares with the paper's best model with a single pass, as printed.
    """

    table: str
    near: Mapping[Key, Nearness] = field(default_factory=dict)
    rank: Mapping[Key, Rank] = field(default_factory=dict)


def agreement(
    lines: Iterable[Line], experiments: Mapping[str, Experiment] = EXPERIMENTS, quick: bool = False
) -> list[Agreement]:
    """Compare all tables with the paper's; tables that have nothing to compare are left out.

    Args:
        lines: What `natpn_paper.experiments.read_lines` read.
        experiments: Whose tables, by name.
        quick: Whether to compare quick runs instead of full ones.
    """
    found = [of_table(t) for t in tables(lines, experiments, quick) if t.view.table not in LEFT_OUT]
    return [one for one in found if one.near or one.rank]


def of_table(table: Table) -> Agreement:
    """Compare one table with the paper's."""
    near: dict[Key, Nearness] = {}
    rank: dict[Key, Rank] = {}
    cells = {row.model: row.cells for row in table.rows if all(map(_is_whole, row.lines))}
    for j, column in enumerate(table.view.columns):
        key = (table.experiment.name, table.view.data, table.view.prefix + column)
        as_paper, ours = (cells[name][j] if name in cells else Cell() for name in (OURS + PAPER, OURS))
        if as_paper.mean is not None and as_paper.paper is not None:
            near[key] = nearness(column, as_paper.mean, *as_paper.paper)
        best = best_single_pass(table.view, column)
        if table.view.table in TABULAR and ours.mean is not None and best is not None:
            lead = (printed(ours.mean) - best) * (1 if higher_is_better(column) else -1)
            rank[key] = "equal" if lead == 0 else "better" if lead > 0 else "behind"
    return Agreement(table.name, near, rank)


def _is_whole(line: Line) -> bool:
    return line["limit"] is None and line["epochs"] is None


def nearness(column: str, mean: float, value: float, error: float | None) -> Nearness:
    """Say whether our mean is within two standard errors of the paper's score, and otherwise on which side.

    Examples:
        >>> nearness("RMSE", 5.1, 5.0, 0.05), nearness("RMSE", 5.2, 5.0, 0.05), nearness("A", 99.999, 100.0, 0)
        ('near', 'worse', 'tie')
    """
    if printed(mean) == value == FULL:
        return "tie"
    allowed = 2 * max(error or 0.0, _LEAST_ERROR)
    if abs(printed(mean) - value) <= allowed + _ROUNDING:
        return "near"
    return "better" if (mean > value) == higher_is_better(column) else "worse"


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
    """Return rows for each table, for tabular data if there is more, and for all: name, cells near, cells better."""
    sums = [total(agreements, tabular=True), total(agreements)] if agreements else []
    if sums and len(sums[0].near) in (0, len(sums[1].near)):
        del sums[0]
    every = [*agreements, *sums]
    return [(one.table, counted_near(one), counted_rank(one)) for one in every]


def total(agreements: Iterable[Agreement], *, tabular: bool = False) -> Agreement:
    """Count every score once, though the paper shows some in two tables; with `tabular`, only those of tabular data."""
    near: dict[Key, Nearness] = {}
    rank: dict[Key, Rank] = {}
    for one in agreements:
        near, rank = {**one.near, **near}, {**one.rank, **rank}
    if not tabular:
        return Agreement("all, each score once", near, rank)
    near = {key: value for key, value in near.items() if key[0] in TABULAR}
    return Agreement("tabular data, each score once", near, rank)  # ranks are of tabular data alone


def counted_near(one: Agreement) -> str:
    """Say in how many cells `NatPN (paper)` agrees, without ties.

    Examples:
        >>> counted_near(Agreement("t", {("a", "b", "c"): "near", ("a", "b", "d"): "worse", ("a", "b", "e"): "tie"}))
        '1 of 2 (0 better, 1 worse), 1 tie'
    """
    found = list(one.near.values())
    near, better, worse, ties = (found.count(name) for name in get_args(Nearness))
    told = f"{near} of {len(found) - ties} ({better} better, {worse} worse)" if len(found) > ties else ""
    return ", ".join(filter(None, [told, f"{ties} tie{'s' * (ties > 1)}" if ties else ""]))


def counted_rank(one: Agreement) -> str:
    """Say in how many cells `NatPN` is better than, equal to and behind the paper's best.

    Examples:
        >>> counted_rank(Agreement("t", {}, {("a", "b", "c"): "better", ("a", "b", "d"): "behind"}))
        '1 better, 0 equal, 1 behind'
    """
    found = list(one.rank.values())
    return ", ".join(f"{found.count(name)} {name}" for name in get_args(Rank)) if found else ""
