"""A fitted model and the splits of a data set → the scores of the paper's tables, and those in common use.

The scores and the two uncertainties by which OOD inputs are detected are those of the paper's Section 4.1 ("Metrics").
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from natpn import metrics
from natpn_paper.datasets import Splits
from natpn_paper.experiments.base import ROC

Floats = NDArray[np.float64]

_ROWS = 4096  # of a part


def score(model: Any, data: Splits, names: Mapping[str, str] | None = None) -> dict[str, float]:
    """Score a model on the test rows, and against every OOD set.

    Args:
        model: A fitted estimator or baseline.
        data: The data.
        names: What the paper's columns call an OOD set, where that is not its name.
    """
    X, y = data.test
    parts = in_parts(model, X)
    inside = _confidences(parts)
    found = _class_scores(parts, np.searchsorted(model.classes_, y)) if data.n_classes else _regression_scores(parts, y)
    for name, other in data.ood.items():
        column = (names or {}).get(name, name)
        outside = _confidences(in_parts(model, other))
        for kind in ("Alea.", "Epist."):
            if np.isnan(inside[kind]).all():
                continue  # a model without this kind of uncertainty
            pr, roc = metrics.detection(inside[kind], outside[kind])
            found |= {f"{column} {kind}": pr, f"{ROC}{column} {kind}": roc}
    return found


def in_parts(model: Any, X: Any, rows: int = _ROWS) -> list[Any]:
    """Return the predictive distributions of inputs, in parts of at most this many rows, to save memory."""
    return [model.predict_dist(X[start : start + rows]) for start in range(0, len(X), rows)]


def _confidences(parts: list[Any]) -> dict[str, Floats]:
    """Return the confidence in each row, by aleatoric and by epistemic uncertainty."""
    return {
        "Alea.": np.concatenate([-part.aleatoric for part in parts]),
        "Epist.": np.concatenate([_knowledge(part) for part in parts]),
    }


def _knowledge(distribution: Any) -> Floats:
    # log n where there is one: in −log(n_prior + n) the prior hides differences between small n
    evidence: Floats | None = getattr(distribution, "log_evidence", None)
    return -distribution.epistemic if evidence is None else evidence


def _class_scores(parts: list[Any], index: NDArray[np.intp]) -> dict[str, float]:
    p = np.concatenate([part.probabilities for part in parts])
    chosen = p[np.arange(len(p)), index]
    return {
        "Accuracy": metrics.accuracy(index, p),
        "Brier": metrics.brier_norm(index, p),
        "Brier score": metrics.brier_score(index, p),
        "ECE": metrics.expected_calibration_error(p.argmax(1) == index, np.clip(p.max(1), 0, 1)),
        "NLL": metrics.negative_log_likelihood(np.log(np.maximum(chosen, 1e-300))),
    }


def _regression_scores(parts: list[Any], y: Floats) -> dict[str, float]:
    pairs = list(zip(parts, np.split(y, range(_ROWS, len(y), _ROWS)), strict=True))
    return {
        "RMSE": metrics.rmse(y, np.concatenate([part.mean() for part in parts])),
        "Calibration": metrics.quantile_calibration(
            np.clip(np.concatenate([part.cdf(target) for part, target in pairs]), 0, 1)
        ),
        "NLL": metrics.negative_log_likelihood(np.concatenate([part.log_prob(target) for part, target in pairs])),
        "CRPS": sum(len(target) * metrics.crps(target, part.equally_likely()) for part, target in pairs) / len(y),
    }
