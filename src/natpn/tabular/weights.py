"""Sample weights, as statistics and as counts.

Whole-number weights are repetitions: a row of weight 2 counts as two rows, everywhere. Other weights say how much a row
matters; their scale means nothing, so they weigh the means and shares but a row stays one row where rows are counted.
A row of weight 0 is absent.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray


@dataclass(frozen=True)
class Weights:
    """The weight of every row that is present.

    Attributes:
        present: Which rows have a weight above 0; None if all do.
        weights: Their weights; None if all are 1.
        counts: How many rows each stands for; None if each stands for itself.
        n_rows: How many rows they stand for together.
    """

    present: NDArray[np.bool_] | None
    weights: NDArray[np.float64] | None
    counts: NDArray[np.int64] | None
    n_rows: int

    def rows(self, values: NDArray[Any]) -> NDArray[Any]:
        """Return the values of the rows that are present."""
        return values if self.present is None else values[self.present]

    def share(self, chosen: NDArray[np.bool_]) -> float:
        """Return the share of the present rows that are chosen."""
        if self.weights is None:
            return float(np.count_nonzero(chosen) / len(chosen))
        return float(self.weights[chosen].sum() / self.weights.sum())


def read_weights(sample_weight: ArrayLike | None, n_rows: int) -> Weights:
    """Check weights and split off the rows of weight 0.

    Raises:
        ValueError: If they are not one finite number of at least 0 a row, one of them above 0.
    """
    if sample_weight is None:
        return Weights(None, None, None, n_rows)
    try:
        weights = np.asarray(sample_weight, np.float64)
    except (TypeError, ValueError):
        raise ValueError("sample_weight: expected numbers, got values that are none: give one weight a row") from None
    if weights.ndim == 0:
        weights = np.full(n_rows, float(weights))
    if weights.shape != (n_rows,):
        raise ValueError(
            f"sample_weight: expected one weight for each of {n_rows} rows, got shape {weights.shape}: give one a row"
        )
    bad = ~(np.isfinite(weights) & (weights >= 0))
    if bad.any():
        row = int(np.argmax(bad))
        raise ValueError(
            f"sample_weight: expected finite numbers of at least 0, got {weights[row]} in row {row}: correct it, or "
            "give 0 to leave the row out"
        )
    if not weights.any():
        raise ValueError("sample_weight: expected a weight above zero, got zero everywhere: at least 2 rows must count")
    present = weights > 0
    kept = weights[present]
    if (kept == 1).all():
        return Weights(present, None, None, len(kept))
    if (kept == np.floor(kept)).all() and kept.sum() < 2**53:
        return Weights(present, kept, kept.astype(np.int64), int(kept.sum()))
    return Weights(present, kept / kept.max(), None, len(kept))
