"""Which columns the predictions of a model depend on: how much worse they get when one column is shuffled.

A column is shuffled among rows with known targets, and all others stay. With l_i the loss of row i as it is, and l'_i
that with another row's value in the column,

    importance = mean of l'_i − l_i,   error = their standard deviation / √rows.

The loss is the CRPS for numbers and counts, in the unit of the target, and −log p for classes and vectors, in nats. A
column whose importance is within two errors of 0 may not matter, or other columns say the same.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from natpn.families import ScalarDistribution
from natpn.model.answers import ClassPredictive, PredictiveDistribution
from natpn.model.inputs import Inputs, n_rows, take
from natpn.tabular import Table, read_table

Floats = NDArray[np.float64]

PREDICTIONS = 20_000  # that it takes, about, however many columns there are
MOST, LEAST = 1000, 100  # rows


@dataclass(frozen=True)
class Importance:
    """How much predictions depend on each column.

    Attributes:
        names: The columns.
        increase: By how much the loss of a row grows on average if the column is shuffled.
        error: The standard error of that.
        n_rows: How many rows were used.
        loss: The mean loss of these rows as they are.
    """

    names: list[str]
    increase: Floats
    error: Floats
    n_rows: int
    loss: float

    def columns(self) -> dict[str, NDArray[Any]]:
        """Return all columns in named columns, the most important first."""
        order = np.argsort(-self.increase, kind="stable")
        names = np.array(self.names, object)[order]
        return {"column": names, "importance": self.increase[order], "error": self.error[order]}


class Answering(Protocol):
    """A fitted model."""

    @property
    def inputs(self) -> Inputs:
        """What its inputs are."""

    def answers(self, X: Any, exposure: Floats | None = None) -> Iterator[PredictiveDistribution]:
        """Yield the predictive distributions of rows, in pieces."""


def importance(model: Answering, X: Any, y: NDArray[Any], exposure: Floats | None = None, seed: int = 0) -> Importance:
    """Return how much predictions depend on each column of a table, from rows with known targets."""
    if model.inputs.columns is None:
        raise ValueError(
            f"X: only tables have columns to shuffle, and inputs of this model are arrays of shape {model.inputs.shape}"
        )
    if len(y) != n_rows(X):
        raise ValueError(f"y: expected a target for each of {n_rows(X)} rows, got {len(y)}: give as many")
    names = [column.name for column in model.inputs.columns]
    rows = chosen_rows(len(y), len(names), seed)
    exposures, truth = None if exposure is None else exposure[rows], y[rows]
    as_it_is, *others = (losses(model.answers(table, exposures), truth) for table in shuffled(take(X, rows), seed))
    worse = np.stack(others) - as_it_is
    error = worse.std(axis=1, ddof=1) / np.sqrt(len(rows)) if len(rows) > 1 else np.full(len(names), np.nan)
    return Importance(names, worse.mean(axis=1), error, len(rows), float(as_it_is.mean()))


def chosen_rows(n_rows: int, n_columns: int, seed: int) -> NDArray[np.intp]:
    """Return the rows to use: all, or as many at random as keep the time within bounds."""
    most = max(LEAST, min(MOST, PREDICTIONS // (n_columns + 1)))
    return np.sort(np.random.default_rng(seed).permutation(n_rows)[:most])


def losses(answers: Iterator[PredictiveDistribution], y: NDArray[Any]) -> Floats:
    """Return the loss of each row."""
    from natpn import metrics  # which imports much of scikit-learn

    found, start = [], 0
    for part in answers:
        truth = y[start : start + len(part)]
        start += len(part)
        if isinstance(part, ClassPredictive) or not isinstance(part.predictive, ScalarDistribution):
            found.append(-part.log_prob(truth))
        else:
            found.append(metrics.crps_of_rows(np.asarray(truth, np.float64), part.equally_likely()))
    return np.concatenate(found)


def shuffled(X: Any, seed: int) -> Iterator[Table]:
    """Yield the rows of a table as they are, and then with each of its columns shuffled."""
    table = read_table(X).keep()
    yield table
    cells, generator = list(table.columns()), np.random.default_rng(seed)
    for place in range(len(cells)):
        changed = list(cells)
        changed[place] = cells[place].take(generator.permutation(table.shape[0]))
        yield Table(None, table.names, changed)
