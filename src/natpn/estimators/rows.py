"""Rows before training: their weights, their order, and which are held out.

The result of a fit does not depend on the order of the rows: they are sorted by content first. Copies of a row become
one row with a larger weight. Otherwise a copy could be in training and another among the held-out rows, where a
remembered row would look like a good prediction. Rows are held out at random, the same share of every class,
and a class keeps most of its rows.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

Floats = NDArray[np.float64]
Indices = NDArray[np.intp]

# Equal rows are ordinary, and not copies, if a row occurs `_AVERAGE` times on average, or if one row is `_SHARE` of all
# rows and occurs `_OFTEN` times.
_AVERAGE, _SHARE, _OFTEN = 5, 0.05, 10
CANDIDATES = 256  # rows of which one becomes the model's example
ENOUGH = 300  # held-out rows of each network: more of them are worth more in training
_NOTICED = 1e-6  # the smallest share of the weight that float32 can represent beside 1


@dataclass(frozen=True)
class Split:
    """Indices of training, validation and calibration rows; of folds, which network holds out each row of training."""

    train: Indices
    validation: Indices
    calibration: Indices
    folds: NDArray[np.int64] | None = None


@dataclass(frozen=True)
class Prepared:
    """What a fit works on.

    Attributes:
        train: Inputs, targets in training's units, and weights; of files a source of these.
        validation: The same of rows that are held out; or which member of an ensemble holds out each row of `train`,
            -1 for none.
        x: Inputs of the rows to calibrate with.
        y: Their targets, as numbers.
        folds: The network that held out each of them, -1 for none; None if all did.
        some: Some rows of training as they came, of which one becomes the model's example.
    """

    train: Any
    validation: Any
    x: Tensor
    y: Floats
    folds: Tensor | None = None
    some: Any = None


def weighted_rows(sample_weight: ArrayLike | None, n_rows: int) -> tuple[Indices, Floats]:
    """Return which rows count, and how much each does.

    Raises:
        ValueError: If weights are not one finite number of at least 0 a row, or fewer than 2 rows count.
    """
    weights = np.ones(n_rows) if sample_weight is None else _read_weights(sample_weight, n_rows)
    kept = np.flatnonzero(weights)
    if len(kept) < 2:
        raise ValueError(f"A fit needs at least 2 rows, got n_samples={len(kept)}, that is 1 sample")
    weight = weights[kept]
    heaviest = int(weight.argmax())
    if weight[heaviest] > (1 - _NOTICED) * weight.sum():
        raise ValueError(
            f"sample_weight: expected at least 2 rows that count, got all but a millionth of the weight in row "
            f"{kept[heaviest]}: a fit would see that row alone; give weights nearer to each other"
        )
    return kept, weight


def _read_weights(sample_weight: ArrayLike, n_rows: int) -> Floats:
    """Return one weight a row: whole numbers as they are, others with 1 for the largest, as only their ratios matter.

    Raises:
        ValueError: If they are not one finite number of at least 0 a row, one of them above 0.
    """
    weights = checked_weights(sample_weight, n_rows)
    if not weights.any():
        raise ValueError("sample_weight: expected a weight above zero, got zero everywhere: at least 2 rows must count")
    whole = (weights == np.floor(weights)).all() and weights.sum() < 2**53
    return weights if whole else weights / weights.max()


def checked_weights(sample_weight: ArrayLike | None, n_rows: int) -> Floats:
    """Return one weight a row as it came, 1 by default.

    Raises:
        ValueError: If they are not one finite number of at least 0 a row.
    """
    if sample_weight is None:
        return np.ones(n_rows)
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
    return weights


def distinct_rows(rows: NDArray[np.float32], y: Floats, weight: Floats) -> tuple[Indices, Floats]:
    """Return which rows to use, in an order that depends on their content alone, and how much each counts.

    Copies, equal in inputs and target, become one row with the sum of their weights. They stay as they are where equal
    rows are ordinary, as in a table of few distinct values: where the same inputs also have another
    target, where rows occur 5 times on average, and where a row that occurs 10 times or more is a twentieth of all.
    """
    generator = np.random.default_rng(0)
    flat, targets = rows.reshape(len(rows), -1), y.reshape(len(y), -1)
    inputs = _keys(flat, generator)
    content = inputs + _keys(targets, generator)
    order = np.lexsort((weight, content))
    copy = np.append(False, content[order[1:]] == content[order[:-1]])
    alike, before = order[copy], order[np.flatnonzero(copy) - 1]
    copy[copy] = (flat[alike] == flat[before]).all(1) & (targets[alike] == targets[before]).all(1)
    if not copy.any():
        return order, weight[order]
    group = np.cumsum(~copy) - 1
    size = np.bincount(group)
    place = np.unique(inputs[order], return_inverse=True)[1]
    n_targets = np.bincount(place[~copy])
    frequent = size >= max(_OFTEN, _SHARE * len(rows))
    kept = ~copy | (n_targets[place] > 1) | frequent[group] | (len(rows) >= _AVERAGE * len(size)) | (len(size) == 1)
    total = np.bincount(np.cumsum(kept) - 1, weights=weight[order])
    return order[kept], total.astype(np.float64)


def _keys(values: NDArray[Any], generator: np.random.Generator) -> Floats:
    """Return a key for each row: equal for equal rows, and independent of the units of the columns."""
    low = values.min(0)
    spread = values.max(0) - low
    spread = np.where(spread > 0, spread, 1.0)
    direction = generator.normal(size=values.shape[1])
    keys = np.empty(len(values))
    # summed row by row: a matrix product may round equal rows differently
    for start in range(0, len(values), 4096):
        keys[start : start + 4096] = ((values[start : start + 4096] - low) / spread * direction).sum(1)
    return keys


def split_rows(groups: NDArray[np.int64], fraction: float, calibrate: bool, seed: int) -> Split:
    """Hold out a share of every group, half of it for calibration if that is asked for.

    If no row can be held out, the training rows also validate.
    """
    rank, share = _places(groups, np.random.default_rng(seed))
    held_out = np.flatnonzero(share < fraction)
    train = np.flatnonzero(share >= fraction)
    if not len(train):
        train = np.arange(len(groups))
    return halves(train, held_out, rank, calibrate)


def fold_rows(groups: NDArray[np.int64], n_folds: int, fraction: float, calibrate: bool, seed: int) -> Split | None:
    """Let each of several networks hold out a share of every group; no row is held out twice.

    The share is `fraction`, or less if there are so many networks that all rows are held out. Fewer networks hold out
    only half of it, as long as that is 300 rows. If calibration is asked for, half of `fraction` is held out by all
    networks and the rest is divided. None if rows are too few for that.
    """
    if not 1 < n_folds <= len(groups) / 2:
        return None
    generator = np.random.default_rng(seed)
    _, share = _places(groups, generator)
    aside = fraction / 2 if calibrate else 0.0
    calibration, train = np.flatnonzero(share < aside), np.flatnonzero(share >= aside)
    # Groups start at different folds; else all groups of one row would be in the same fold.
    turn = generator.random(groups.max() + 1)[groups[train]]
    least = fraction if n_folds * fraction >= 1 else max(fraction / 2, ENOUGH / len(train))
    n_shares = max(n_folds, round(1 / min(fraction, least)))
    place = ((share[train] - aside) / (1 - aside) + turn) % 1
    folds = np.minimum((place * n_shares).astype(np.int64), n_shares - 1)
    if len(np.unique(folds[folds < n_folds])) < n_folds:
        return None
    return Split(train, train[:0], calibration, np.where(folds < n_folds, folds, -1))


def _places(groups: NDArray[np.int64], generator: np.random.Generator) -> tuple[Indices, Floats]:
    """Return the place of each row in its group in a random order, and as a share between 0 and 1."""
    order = np.lexsort((generator.permutation(len(groups)), groups))
    size = np.bincount(groups)
    start = np.concatenate([[0], np.cumsum(size)[:-1]])
    rank = np.empty(len(groups), np.intp)
    rank[order] = np.arange(len(groups)) - np.repeat(start, size)
    return rank, (rank + 0.5) / size[groups]


def halves(train: Indices, held_out: Indices, rank: Indices, calibrate: bool) -> Split:
    """Divide the held-out rows between validation and calibration; without calibration, both get all of them."""
    if not len(held_out):
        return Split(train, train, train)
    if not calibrate or len(held_out) < 2:
        return Split(train, held_out, held_out)
    odd = np.argsort(np.argsort(rank[held_out], kind="stable"), kind="stable") % 2 == 1
    return Split(train, held_out[~odd], held_out[odd])
