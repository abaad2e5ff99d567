"""Rows before training: weights as repetitions, an order of their own, and who is held out.

The result of a fit does not depend on the order of the rows: they are sorted by content first. Whole-number weights are
repetitions. Rows are held out by lot, the same share of every class, and a class keeps most of its rows.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import _check_sample_weight

Floats = NDArray[np.float64]
Indices = NDArray[np.intp]

_REPETITIONS = 10  # times as many rows as there are, at most


@dataclass(frozen=True)
class Split:
    """Indices of training, validation and calibration rows."""

    train: Indices
    validation: Indices
    calibration: Indices


def repetitions(X: object, sample_weight: object, n_rows: int) -> tuple[Indices, Floats | None]:
    """Return which rows to use, those of whole-number weights as often as they count, and the weights that are left.

    Raises:
        ValueError: If weights are negative, not finite, or all zero.
    """
    if sample_weight is None:
        return np.arange(n_rows), None
    weight = np.asarray(_check_sample_weight(sample_weight, np.empty((n_rows, 1)), dtype=np.float64))
    if (weight < 0).any():
        raise ValueError(f"sample_weight: expected none below 0, got {weight.min()} in row {int(weight.argmin())}")
    if not weight.any():
        raise ValueError("sample_weight: expected at least one above 0, got none")
    if np.all(weight == np.floor(weight)) and weight.sum() <= _REPETITIONS * n_rows:
        return np.repeat(np.arange(n_rows), weight.astype(np.intp)), None
    kept = np.flatnonzero(weight > 0)
    return kept, weight[kept] / weight[kept].mean()


def order_by_content(rows: NDArray[np.float32], y: Floats, weight: Floats | None) -> Indices:
    """Return an order of rows that depends on what is in them, and not on where they were."""
    generator = np.random.default_rng(0)
    columns: list[NDArray[Any]] = [rows.reshape(len(rows), -1), y.reshape(len(y), -1)]
    key = np.zeros(len(rows))
    for values in columns:
        # from 0 to 1, so that the order is the same in other units
        low = values.min(0)
        spread = values.max(0) - low
        spread = np.where(spread > 0, spread, 1.0)
        direction = generator.normal(size=values.shape[1])
        # summed row by row, which a matrix product may do differently in different places
        for start in range(0, len(rows), 4096):
            key[start : start + 4096] += ((values[start : start + 4096] - low) / spread * direction).sum(1)
    return np.argsort(key if weight is None else key + 1e-3 * weight, kind="stable")


def split_rows(groups: NDArray[np.int64], fraction: float, calibrate: bool, seed: int) -> Split:
    """Hold out a share of every group, half of it for calibration if that is asked for.

    Without a row to hold out, validation is on the training rows.
    """
    lot = np.random.default_rng(seed).permutation(len(groups))
    order = np.lexsort((lot, groups))
    size = np.bincount(groups)
    start = np.concatenate([[0], np.cumsum(size)[:-1]])
    rank = np.empty(len(groups), np.intp)
    rank[order] = np.arange(len(groups)) - np.repeat(start, size)
    share = (rank + 0.5) / size[groups]
    held_out = np.flatnonzero(share < fraction)
    train = np.flatnonzero(share >= fraction)
    if not len(train):
        train = np.arange(len(groups))
    return halves(train, held_out, rank, calibrate)


def halves(train: Indices, held_out: Indices, rank: Indices, calibrate: bool) -> Split:
    """Divide the held-out rows between validation and calibration; without both, both get all of them."""
    if not len(held_out):
        return Split(train, train, train)
    if not calibrate or len(held_out) < 2:
        return Split(train, held_out, held_out)
    odd = np.argsort(np.argsort(rank[held_out], kind="stable"), kind="stable") % 2 == 1
    return Split(train, held_out[~odd], held_out[odd])
