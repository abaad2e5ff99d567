"""What the same answer for every row would score: the baselines beside the scores of a model.

It is the best answer that knows the targets but not the rows. For numbers it is their mean, and as a distribution the
marginal of the model's family (for the CRPS, the targets' own distribution). For classes it is the most frequent one,
and as probabilities the share of each. Precision and recall are those of labels drawn by these shares.
"""

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from natpn import metrics
from natpn.families import Family
from natpn.model import Units
from natpn.model.answers import encode_labels

WORDS = {True: "the most frequent class, or the share of each", False: "the mean, or the targets' own distribution"}


def baselines(model: Any, y: Any) -> dict[str, float]:
    """Score the same answer for every row.

    Args:
        model: The fitted model whose scores stand beside.
        y: The targets of the rows.

    Returns:
        Scores by name, for those metrics in which such an answer makes sense.
    """
    if model.family_.is_classes:
        return _classes(encode_labels(np.asarray(y), model.classes_), len(model.classes_))
    return _numbers(np.asarray(y, np.float64), model.family_)


def baseline_words(model: Any) -> str:
    """Say what the same answer is."""
    return WORDS[model.family_.is_classes]


def _classes(index: NDArray[np.int64], n_classes: int) -> dict[str, float]:
    shares = np.bincount(index, minlength=n_classes) / len(index)
    every = np.broadcast_to(shares, (len(index), n_classes))
    found = {
        "accuracy": metrics.accuracy(index, every),
        "brier": metrics.brier_norm(index, every),
        "brier_score": metrics.brier_score(index, every),
        "negative_log_likelihood": metrics.negative_log_likelihood(np.log(shares[index])),
    }
    if n_classes == 2:
        second = float(100 * shares[1])
        found |= {"auc": 50.0, "precision": second, "recall": second}
    return found


def _numbers(truth: NDArray[np.float64], family: Family) -> dict[str, float]:
    mean = np.broadcast_to(truth.mean(0), truth.shape)
    found = {"rmse": metrics.rmse(truth, mean), "mae": float(np.abs(truth - mean).mean()), "r2": 0.0}
    if truth.ndim == 1:
        n = len(truth)
        half_difference = np.sum((2 * np.arange(1, n + 1) - n - 1) * (np.sort(truth) / n)) / n
        surprise = metrics.negative_log_likelihood(_marginal_log_prob(truth, family))
        found |= {"negative_log_likelihood": surprise, "crps": float(half_difference)}
    return found


def _marginal_log_prob(truth: NDArray[np.float64], family: Family) -> NDArray[np.float64]:
    units = Units.of(family, truth)
    marginal = family.marginal(units.standardise(truth))
    chi = units.restore(marginal.chi)
    predictive = family.posterior(family.evidence(chi, marginal.log_n.to(chi.dtype))).predictive()
    log_prob: NDArray[np.float64] = predictive.log_prob(torch.tensor(truth)).numpy()
    return log_prob
