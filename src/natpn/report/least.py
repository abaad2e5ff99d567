"""The rows that the model knows least, and what is unusual in them."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from natpn.model.inputs import take
from natpn.report import story
from natpn.report.facts import Facts
from natpn.tabular import read_table

_ROWS = 10
_STANDS_OUT = 2.0  # standard deviations
_TEXT = 60


@dataclass(frozen=True)
class Row:
    """One row of the table.

    Attributes:
        number: Which row of the data it is, from 1 on.
        familiarity: The weight of the data in the answer.
        rarity: How many held-out rows were as unfamiliar, in words.
        prediction: What was predicted.
        truth: What was true.
        column: The column whose value is the most unusual; "" without a table.
        value: That value.
        usual: What training had there.
        alone: Whether that value is unusual by itself.
    """

    number: int
    familiarity: str
    rarity: str
    prediction: str
    truth: str
    column: str = ""
    value: str = ""
    usual: str = ""
    alone: bool = True


def least_trusted(model: Any, X: Any, facts: Facts) -> list[Row]:
    """Return the rows with the least evidence, the least known first."""
    chosen = np.argsort(facts.log_evidence, kind="stable")[:_ROWS]
    unusual = _unusual(model, take(X, facts.index[chosen]), len(chosen))
    return [
        Row(
            int(facts.index[i]) + 1,
            story.share(float(facts.familiarity[i])),
            story.share(float(facts.novelty_p[i])),
            _prediction(facts, i),
            _truth(facts, i),
            *found,
        )
        for i, found in zip(chosen, unusual, strict=True)
    ]


def _unusual(model: Any, X: Any, n: int) -> list[tuple[Any, ...]]:
    """Return column, value, usual values and whether it stands out, for each row; nothing without a table."""
    if model.inputs_.kind != "table":
        return [()] * n
    transform = model.inputs_.table
    names = transform.most_unusual(X)
    table = read_table(X)
    order = transform.match_columns(table.names, table.shape[1]) or list(range(table.shape[1]))
    place = {name: number for number, name in enumerate(transform.feature_names)}
    cells = list(table.columns(order))
    found = []
    for row, name in enumerate(names):
        column = transform.columns[place[name]]
        odd = float(column.oddness(cells[place[name]])[row])
        raw = table.values(order[place[name]])[row]
        found.append((name, cell(raw), column.usually(cell, story.share), odd >= _STANDS_OUT))
    return found


def cell(value: Any) -> str:
    """Return a value of a table in a few characters.

    Examples:
        >>> cell(0.123456), cell(None), cell(float("nan")), cell("red"), cell(3)
        ('0.123', 'missing', 'missing', 'red', '3')
    """
    if value is None or (isinstance(value, (float, np.floating)) and np.isnan(value)) or str(value) in ("NaT", "<NA>"):
        return "missing"
    if isinstance(value, (float, np.floating)):
        return story.number(float(value)) if np.isfinite(value) else str(value)
    text = str(value).removesuffix(" 00:00:00")
    return text if len(text) <= _TEXT else text[: _TEXT - 1] + "…"


def _prediction(facts: Facts, i: int) -> str:
    if facts.classes is not None and facts.confidence is not None:
        label = facts.classes[int(facts.prediction[i])]
        return f"{cell(label)} ({story.share(float(facts.confidence[i]))} sure)"
    if facts.interval is None:
        return _vector(facts.prediction[i])
    low, high = facts.interval[i]
    return f"{story.number(facts.prediction[i])} ({_end(low)} to {_end(high)})"


def _truth(facts: Facts, i: int) -> str:
    if facts.classes is not None:
        return cell(facts.classes[int(facts.truth[i])])
    return story.number(facts.truth[i]) if facts.truth.ndim == 1 else _vector(facts.truth[i])


def _end(x: float) -> str:
    return story.number(x) if np.isfinite(x) else "−∞" if x < 0 else "∞"


def _vector(values: NDArray[np.float64]) -> str:
    values = np.atleast_1d(values)
    text = ", ".join(story.number(float(v)) for v in values[:4])
    return f"({text}{', …' if len(values) > 4 else ''})"
