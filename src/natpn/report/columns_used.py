"""Which columns the predictions depend on: a table with a bar and an error for each, and a sentence about them."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from natpn.model.importance import importance
from natpn.report.words import number, rows

_SHOWN = 12
_ERRORS = 2.0  # standard errors from which on a column is said to matter


@dataclass(frozen=True)
class UsedColumn:
    """How much predictions depend on one column."""

    name: str
    increase: str
    error: str
    width: float  # of its bar, in % of the longest


def columns_used(model: Any, X: Any, y: Any) -> tuple[list[str], list[UsedColumn]]:
    """Return sentences, and the columns on which predictions depend the most; nothing without a table."""
    if model.inputs_.kind != "table" or len(y) < 2:
        return [], []
    inputs, exposure = model.model_.targets.read_exposures(X, None)
    found = importance(model.model_, inputs, np.asarray(y), exposure)
    order = np.argsort(-found.increase, kind="stable")
    gains = np.maximum(found.increase, 0.0)
    widths = 100 * gains / (gains.max() or 1.0)
    listed = [
        UsedColumn(
            found.names[place],
            number(float(found.increase[place])),
            number(float(found.error[place])),
            round(float(widths[place]), 1),
        )
        for place in order[:_SHOWN]
    ]
    n_used = int((found.increase > _ERRORS * found.error).sum())
    what = "−log p" if model.family_.is_classes or np.ndim(y) > 1 else "CRPS"
    said = [
        f"Each column was shuffled among {rows(found.n_rows)}, which takes away what it says; the {what} of a row, "
        f"{number(found.loss)} on average, then grows by the number beside it.",
        f"{n_used} of {rows(len(found.names), 'column')} make predictions worse by more than chance would. If two "
        "columns say the same, shuffling one of them harms little.",
    ]
    return said, listed
