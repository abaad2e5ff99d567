"""The rows that a person should look at: those that the model knows least, and those whose truth surprised it most."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from natpn.model import NOVEL
from natpn.model.inputs import take
from natpn.report.facts import Facts
from natpn.report.words import cell, number, share
from natpn.tabular import read_table

_ROWS = 10
_ALMOST_ALL = 0.95
_STANDS_OUT = 2.0  # standard deviations


@dataclass(frozen=True)
class Row:
    """One row of the data."""

    name: str  # its id, or which row it is, from 1 on
    rarity: str  # how many held-out rows were as unfamiliar
    novel: bool
    familiarity: str  # the weight of the data in the answer; "" if it has almost all of it
    prediction: str
    truth: str
    column: str = ""  # the column that adds the most to the surprise; "" without a table
    value: str = ""
    usual: str = ""  # what training had there
    alone: bool = True  # whether that value is unusual by itself
    reason: str = ""  # why the row is novel


def least_trusted(model: Any, X: Any, facts: Facts, ids: Sequence[Any] | None = None) -> list[Row]:
    """Return the rows with the least evidence, the least known first."""
    return _listed(model, X, facts, ids, np.argsort(facts.log_evidence, kind="stable")[:_ROWS])


def most_surprising(model: Any, X: Any, facts: Facts, ids: Sequence[Any] | None = None) -> list[Row]:
    """Return the rows whose truth the model held for the least likely, the least likely first."""
    return _listed(model, X, facts, ids, np.argsort(facts.log_prob, kind="stable")[:_ROWS])


def _listed(model: Any, X: Any, facts: Facts, ids: Sequence[Any] | None, chosen: NDArray[np.intp]) -> list[Row]:
    unusual = unusual_cells(model, take(X, facts.index[chosen]), len(chosen))
    return [
        Row(
            str(facts.index[i] + 1) if ids is None else cell(ids[int(facts.index[i])], thousands=False),
            share(float(facts.novelty_p[i])),
            bool(facts.novelty_p[i] < NOVEL),
            share(float(facts.familiarity[i])) if facts.familiarity[i] < _ALMOST_ALL else "",
            _prediction(facts, i),
            _truth(facts, i),
            *found,
        )
        for i, found in zip(chosen, unusual, strict=True)
    ]


def unusual_cells(model: Any, X: Any, n: int) -> list[tuple[Any, ...]]:
    """Return column, value, usual values, whether it stands out, and the reason; nothing without a table."""
    if model.inputs_.kind != "table":
        return [()] * n
    transform = model.inputs_.table
    told = model.model_.explain(X)
    table = read_table(X)
    order = transform.match_columns(table.names, table.shape[1]) or list(range(table.shape[1]))
    cells = list(table.columns(order))
    found = []
    for row, place in enumerate(told.worst):
        column = transform.columns[place]
        odd = float(column.oddness(cells[place])[row])
        written = partial(cell, thousands=column.thousands)
        raw, alone = table.values(order[place])[row], odd >= _STANDS_OUT
        found.append((column.name, written(raw), column.usually(written, share), alone, told.reasons[row]))
    return found


def _prediction(facts: Facts, i: int) -> str:
    if facts.classes is not None and facts.confidence is not None:
        label = facts.classes[int(facts.prediction[i])]
        return f"{cell(label, thousands=False)} ({share(float(facts.confidence[i]))} sure)"
    if facts.interval is None:
        return _vector(facts.prediction[i])
    low, high = facts.interval[i]
    return f"{number(facts.prediction[i], facts.thousands)} ({_end(low, facts)} to {_end(high, facts)})"


def _truth(facts: Facts, i: int) -> str:
    if facts.classes is not None:
        return cell(facts.classes[int(facts.truth[i])], thousands=False)
    return cell(float(facts.truth[i]), facts.thousands) if facts.truth.ndim == 1 else _vector(facts.truth[i])


def _end(x: float, facts: Facts) -> str:
    return number(x, facts.thousands) if np.isfinite(x) else "−∞" if x < 0 else "∞"


def _vector(values: NDArray[np.float64]) -> str:
    values = np.atleast_1d(values)
    text = ", ".join(number(float(v)) for v in values[:4])
    return f"({text}{', …' if len(values) > 4 else ''})"
