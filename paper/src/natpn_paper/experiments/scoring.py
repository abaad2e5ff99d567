"""A fitted model and the splits of a data set → the scores of the paper's tables, and those in common use."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from natpn import metrics
from natpn_paper.datasets import Splits
from natpn_paper.experiments.base import ROC

Floats = NDArray[np.float64]

_CHUNK = 4096


def score(model: Any, data: Splits, names: Mapping[str, str] | None = None) -> dict[str, float]:
    """Score a model on the test rows, and against every OOD set.

    Args:
        model: A fitted estimator or baseline.
        data: The data.
        names: What the paper's columns call an OOD set, where that is not its name.
    """
    X, y = data.test
    inside = _confidences(model, X)
    found = _class_scores(model, X, y) if data.n_classes else _regression_scores(model, X, y)
    for name, other in data.ood.items():
        column = (names or {}).get(name, name)
        outside = _confidences(model, other)
        for kind in ("Alea.", "Epist."):
            if np.isnan(inside[kind]).all():
                continue  # a model without this kind of uncertainty
            pr, roc = metrics.detection(inside[kind], outside[kind])
            found |= {f"{column} {kind}": pr, f"{ROC}{column} {kind}": roc}
    return found


def _confidences(model: Any, X: Any) -> dict[str, Floats]:
    """Return the confidence in each row, by aleatoric and by epistemic uncertainty."""
    parts = [model.predict_dist(X[start : start + _CHUNK]) for start in range(0, len(X), _CHUNK)]
    return {
        "Alea.": np.concatenate([-part.aleatoric for part in parts]),
        "Epist.": np.concatenate([_knowledge(part) for part in parts]),
    }


def _knowledge(distribution: Any) -> Floats:
    # log n where there is one: in −log(n_prior + n) the prior hides differences between small n
    evidence: Floats | None = getattr(distribution, "log_evidence", None)
    return -distribution.epistemic if evidence is None else evidence


def _class_scores(model: Any, X: Any, y: NDArray[Any]) -> dict[str, float]:
    p = np.concatenate([model.predict_proba(X[start : start + _CHUNK]) for start in range(0, len(X), _CHUNK)])
    index = np.searchsorted(model.classes_, y)
    chosen = p[np.arange(len(p)), index]
    return {
        "Accuracy": metrics.accuracy(index, p),
        "Brier": metrics.brier_norm(index, p),
        "Brier score": metrics.brier_score(index, p),
        "ECE": metrics.expected_calibration_error(p.argmax(1) == index, np.clip(p.max(1), 0, 1)),
        "NLL": metrics.negative_log_likelihood(np.log(np.maximum(chosen, 1e-300))),
    }


def _regression_scores(model: Any, X: Any, y: Floats) -> dict[str, float]:
    prediction, cdf, log_prob, scores = [], [], [], []
    for start in range(0, len(X), _CHUNK):
        part, target = model.predict_dist(X[start : start + _CHUNK]), y[start : start + _CHUNK]
        prediction.append(part.mean())
        cdf.append(part.cdf(target))
        log_prob.append(part.log_prob(target))
        scores.append(len(target) * metrics.crps(target, part.equally_likely()))
    return {
        "RMSE": metrics.rmse(y, np.concatenate(prediction)),
        "Calibration": metrics.quantile_calibration(np.clip(np.concatenate(cdf), 0, 1)),
        "NLL": metrics.negative_log_likelihood(np.concatenate(log_prob)),
        "CRPS": sum(scores) / len(y),
    }
