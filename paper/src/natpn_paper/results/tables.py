"""Results of `natpn reproduce` → the paper's tables, each score of ours beside the paper's.

A cell is the mean over seeds and its standard error, s / √n with s² = Σ (x − mean)² / (n − 1); one seed has no error.
As in the paper, the best score of a column is marked twice: among models with a single pass, and among all. Scores that
print alike are equally good.

If a run has several lines, the last counts. A row of a table uses the lines with the most rows of data: those without a
limit, else those with the largest limit; among these, the lines with the most epochs. Quick runs are never mixed with
full ones.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from natpn_paper.experiments import EXPERIMENTS, Experiment, View, higher_is_better, published
from natpn_paper.experiments.base import ROC
from natpn_paper.experiments.table_rows import is_single_pass, plain_name

Line = Mapping[str, Any]
Size = tuple[float, ...]  # rows and epochs
DECIMALS = 2  # as the paper prints


@dataclass(frozen=True)
class Cell:
    """One score of one model.

    Attributes:
        mean: Our mean over seeds; None if no run has the score.
        error: Its standard error; None for one seed.
        paper: The paper's score and its error, where it has them.
        best_single: Whether it is the best among models with a single pass.
        best: Whether it is the best of all.
    """

    mean: float | None = None
    error: float | None = None
    paper: published.Score | None = None
    best_single: bool = False
    best: bool = False


@dataclass(frozen=True)
class Row:
    """One model of a table."""

    model: str
    single_pass: bool
    cells: tuple[Cell, ...]
    lines: tuple[Line, ...]


@dataclass(frozen=True)
class Table:
    """A table of the paper, filled."""

    experiment: Experiment
    view: View
    rows: tuple[Row, ...]

    @property
    def name(self) -> str:
        """A name that no other table has."""
        table, data = self.view.table, self.view.data
        if sum(view.table == table for view in self.experiment.views) == 1:
            return table
        return data if data.startswith(table) else f"{table}-{data}"

    @property
    def title(self) -> str:
        """What it shows."""
        part = "" if len(self.experiment.data) == 1 else f": {self.view.data}"
        return f"{self.experiment.title}{part}{', areas under the ROC curve' if self.view.prefix == ROC else ''}"

    @property
    def lines(self) -> tuple[Line, ...]:
        """The runs behind it."""
        return tuple(line for row in self.rows for line in row.lines)


def tables(
    lines: Iterable[Line], experiments: Mapping[str, Experiment] = EXPERIMENTS, quick: bool = False
) -> list[Table]:
    """Return all tables for which there are lines, in the paper's order.

    Args:
        lines: What `natpn_paper.experiments.read_lines` read.
        experiments: Whose tables, by name.
        quick: Whether to show quick runs instead of full ones.
    """
    known = list(lines)
    found = []
    for experiment in experiments.values():
        own = chosen(known, experiment, quick)
        found += [made for view in experiment.views if (made := _table(experiment, view, own)).rows]
    return found


def chosen(lines: Iterable[Line], experiment: Experiment, quick: bool = False) -> list[Line]:
    """Return the lines of an experiment that count: the last of each run, and for each row those with the most data."""
    last: dict[tuple[str, str, int, Size], Line] = {}
    most: dict[tuple[str, str], Size] = {}
    for line in lines:
        if line["experiment"] != experiment.name or bool(line["quick"]) != quick:
            continue
        size = tuple(math.inf if line[name] is None else float(line[name]) for name in ("limit", "epochs"))
        row = (line["data"], line["model"])
        last[(*row, line["seed"], size)] = line
        most[row] = max(size, most.get(row, size))
    return [line for (data, model, _, size), line in last.items() if size == most[data, model]]


def mean_and_error(values: Sequence[float]) -> tuple[float, float | None]:
    """Return the mean and its standard error.

    Examples:
        >>> mean_and_error([1.0, 3.0]), mean_and_error([2.0])
        ((2.0, 1.0), (2.0, None))
    """
    error = float(np.std(values, ddof=1) / math.sqrt(len(values))) if len(values) > 1 else None
    return float(np.mean(values)), error


def printed(value: float) -> float:
    """Return a score rounded as it is printed."""
    return round(value, DECIMALS)


def _table(experiment: Experiment, view: View, lines: Sequence[Line]) -> Table:
    paper = published.scores(view.table, view.trained_on)
    rows = []
    for model in sorted(experiment.models, key=is_single_pass):
        own = [line for line in lines if (line["data"], line["model"]) == (view.data, model)]
        if not own:
            continue
        cells = []
        for column in view.columns:
            values = [line["scores"][name] for line in own if (name := view.prefix + column) in line["scores"]]
            mean, error = mean_and_error(values) if values else (None, None)
            cells.append(Cell(mean, error, paper.get((plain_name(model) + view.suffix, column))))
        rows.append(Row(model, is_single_pass(model), tuple(cells), tuple(own)))
    return Table(experiment, view, _with_best(rows, view.columns))


def _with_best(rows: list[Row], columns: Sequence[str]) -> tuple[Row, ...]:
    """Mark the best of each column."""
    marked = [list(row.cells) for row in rows]
    for j, column in enumerate(columns):
        sign = 1 if higher_is_better(column) else -1
        scores = [_comparable(row.cells[j], sign) for row in rows]
        single = [score for row, score in zip(rows, scores, strict=True) if row.single_pass]
        for i, (row, score) in enumerate(zip(rows, scores, strict=True)):
            if score > -math.inf:
                marked[i][j] = replace(
                    row.cells[j],
                    best_single=row.single_pass and score == max(single),
                    best=score == max(scores),
                )
    return tuple(replace(row, cells=tuple(cells)) for row, cells in zip(rows, marked, strict=True))


def _comparable(cell: Cell, sign: int) -> float:
    """Return a number that is larger for a better score, and -inf if there is no score."""
    return -math.inf if cell.mean is None or not math.isfinite(cell.mean) else sign * printed(cell.mean)
