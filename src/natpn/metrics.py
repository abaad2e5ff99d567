"""Arrays → numbers: the scores of the paper and the usual ones. Shares, areas and calibration are in %.

- `brier_norm`: 100 · mean ‖p − e_y‖₂, the paper's "Brier": a norm, not its square. `brier_score` is the usual mean of
  squares.
- `quantile_calibration`: 100 · √(mean over p = 0.1 … 0.9 of (p − c_p)²), c_p the share of targets in the central
  interval of mass p.
- `expected_calibration_error`: the mean over rows of |share of hits − mean confidence|, both of the rows whose
  confidence, the highest probability, is in the same of 15 bins of equal width.
- `crps`: the mean of E|X − y| − ½ E|X − X′|, X and X′ independent draws from the prediction, in the units of y.
- `detection`: areas under the precision-recall and the ROC curve with in-distribution as the positive class and
  confidence, log evidence for instance, as the score.
- `average_confidence_change`: mean of the confidences under a shift, over the mean of those without it.
"""

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import logsumexp
from sklearn.metrics import average_precision_score, roc_auc_score

Floats = NDArray[np.float64]

_BINS = 15


def accuracy(y: ArrayLike, probabilities: ArrayLike) -> float:
    """Return the share of rows whose most probable class is y."""
    classes, p = _classes(y, probabilities)
    return float(100 * np.mean(p.argmax(1) == classes))


def brier_norm(y: ArrayLike, probabilities: ArrayLike) -> float:
    """Return 100 times the mean distance between probabilities and the indicator of the class."""
    return float(100 * np.mean(np.linalg.norm(_residuals(y, probabilities), axis=1)))


def brier_score(y: ArrayLike, probabilities: ArrayLike) -> float:
    """Return the mean squared distance between probabilities and the indicator of the class."""
    return float(np.mean(np.square(_residuals(y, probabilities)).sum(1)))


def expected_calibration_error(right: ArrayLike, confidence: ArrayLike) -> float:
    """Return how far, on average, answers are from being right as often as their probability says.

    Args:
        right: Whether the most probable class was right, (rows,).
        confidence: Its probability.
    """
    hits, sure = _same(right, confidence, "right", "confidence")
    if sure.ndim != 1 or sure.min() < 0 or sure.max() > 1:
        raise ValueError("confidence: expected a vector of probabilities, got others")
    place = np.minimum((sure * _BINS).astype(np.int64), _BINS - 1)
    return float(100 * np.abs(np.bincount(place, hits - sure)).sum() / len(sure))


def rmse(y: ArrayLike, prediction: ArrayLike) -> float:
    """Return the root mean squared error."""
    truth, guess = _same(y, prediction, "y", "prediction")
    return float(np.sqrt(np.mean((truth - guess) ** 2)))


def negative_log_likelihood(log_prob: ArrayLike) -> float:
    """Return the mean of −log p."""
    return float(-np.mean(_vector(log_prob, "log_prob")))


def quantile_calibration(cdf: ArrayLike, cdf_below: ArrayLike | None = None) -> float:
    """Return how far the coverage of central intervals is from their mass, given the predictive cdf at the targets.

    Args:
        cdf: The probability of at most the target.
        cdf_below: Of counts that of less than the target.
    """
    mass = np.arange(1, 10) / 10
    return float(100 * np.sqrt(np.mean((central_shares(cdf, cdf_below, mass) - mass) ** 2)))


def central_shares(cdf: ArrayLike, cdf_below: ArrayLike | None, mass: ArrayLike) -> Floats:
    """Return the share of targets in the central part of their distribution, for each mass of it.

    A count holds the probability from `cdf_below` to `cdf`. It is inside by the share of it that is: that is the mean
    over targets that are drawn evenly from it, which are uniform if the distribution is right.
    """
    values = _vector(cdf, "cdf")
    if values.min() < 0 or values.max() > 1:
        raise ValueError(f"cdf: expected probabilities, got values from {values.min()} to {values.max()}")
    levels = np.asarray(mass, np.float64)
    below = values if cdf_below is None else np.minimum(_vector(cdf_below, "cdf_below"), values)
    width = values - below
    point, share = width <= 0, 1 / np.where(width > 0, width, 1.0)
    found = []
    for m in levels:
        part = np.clip(np.minimum(values, (1 + m) / 2) - np.maximum(below, (1 - m) / 2), 0, None) * share
        found.append(np.mean(np.where(point, np.abs(2 * values - 1) <= m + 1e-12, part)))
    return np.array(found)


def crps(y: ArrayLike, draws: ArrayLike) -> float:
    """Return the mean of `crps_of_rows`."""
    return float(np.mean(crps_of_rows(y, draws)))


def crps_of_rows(y: ArrayLike, draws: ArrayLike) -> Floats:
    """Return the continuous ranked probability score of each row, from equally likely values, K a row.

    Args:
        y: The targets, (rows,).
        draws: Samples of the prediction, (rows, K), or better its quantiles at the levels (k − ½)/K.
    """
    truth, values = _vector(y, "y"), np.sort(np.asarray(draws, dtype=np.float64), axis=-1)
    if values.ndim != 2 or len(values) != len(truth) or not values.shape[1]:
        raise ValueError(f"draws: expected shape (rows, draws) with {len(truth)} rows as in y, got {values.shape}")
    k = values.shape[1]
    level = (np.arange(k) + 0.5) / k
    distance = values - truth[:, None]
    scores: Floats = 2 * np.mean(distance * ((distance > 0) - level), axis=1)
    return scores


def detection(familiar: ArrayLike, unfamiliar: ArrayLike) -> tuple[float, float]:
    """Return the areas under the precision-recall and the ROC curve of confidence, in- against out-of-distribution."""
    inside, outside = _vector(familiar, "familiar"), _vector(unfamiliar, "unfamiliar")
    truth = np.concatenate([np.ones(len(inside)), np.zeros(len(outside))])
    # no evidence at all is −inf, which the curves take as the lowest rank
    lowest = float(np.finfo(np.float64).min)
    score = np.nan_to_num(np.concatenate([inside, outside]), nan=lowest, neginf=lowest)
    return 100 * float(average_precision_score(truth, score)), 100 * float(roc_auc_score(truth, score))


def average_confidence_change(shifted: ArrayLike, clean: ArrayLike) -> float:
    """Return the ratio of the mean confidence on shifted rows to that on clean ones.

    Args:
        shifted: Logs of the confidences, log α₀ for instance: e⁶⁰ observations are no rarity.
        clean: The same of the rows without the shift, in any number.
    """
    parts = _vector(shifted, "shifted"), _vector(clean, "clean")
    if any(np.isnan(part).any() or part.max() == np.inf for part in parts) or parts[1].max() == -np.inf:
        raise ValueError("shifted and clean: expected logs of finite confidences, not all 0, got others")
    above, below = (float(logsumexp(part)) - np.log(len(part)) for part in parts)
    return float(np.exp(above - below))


def _residuals(y: ArrayLike, probabilities: ArrayLike) -> Floats:
    classes, p = _classes(y, probabilities)
    residuals = p.copy()
    residuals[np.arange(len(p)), classes] -= 1
    return residuals


def _classes(y: ArrayLike, probabilities: ArrayLike) -> tuple[NDArray[np.int64], Floats]:
    p, classes = np.asarray(probabilities, dtype=np.float64), np.asarray(y).astype(np.int64)
    if p.ndim != 2 or classes.shape != p.shape[:1] or not len(p):
        raise ValueError(
            f"probabilities: expected shape (rows, classes) and y (rows,), got {p.shape} and {classes.shape}"
        )
    if classes.min() < 0 or classes.max() >= p.shape[1]:
        raise ValueError(
            f"y: expected class indices from 0 to {p.shape[1] - 1}, got {classes.min()} to {classes.max()}"
        )
    return classes, p


def _same(a: ArrayLike, b: ArrayLike, first: str, second: str) -> tuple[Floats, Floats]:
    x, y = np.asarray(a, dtype=np.float64), np.asarray(b, dtype=np.float64)
    if x.shape != y.shape or not x.size:
        raise ValueError(f"{first} and {second}: expected the same non-empty shape, got {x.shape} and {y.shape}")
    return x, y


def _vector(x: ArrayLike, name: str) -> Floats:
    values = np.asarray(x, dtype=np.float64)
    if values.ndim != 1 or not len(values):
        raise ValueError(f"{name}: expected a non-empty vector, got shape {values.shape}")
    return values
