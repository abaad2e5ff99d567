"""A fitted model and rows with known targets → numbers that say how good it is, and what each of them means.

The metrics are those of `natpn.metrics` and scikit-learn. Rows are predicted in pieces, and of each piece only numbers
are kept, so a million rows need no more memory than their table.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.metrics import mean_absolute_error, r2_score, roc_auc_score

from natpn import metrics
from natpn.distributions import ScalarDistribution
from natpn.estimators import ClassDistribution, PredictiveDistribution
from natpn.estimators.inputs import n_rows, take
from natpn.estimators.predictive import encode_labels

Floats = NDArray[np.float64]

MEANINGS = {
    "accuracy": "Share of rows whose most probable label is the right one, in %.",
    "brier": "The paper's Brier score: 100 times the mean distance of the probabilities from the truth; 0 is perfect.",
    "brier_score": "Mean squared distance of the probabilities from the truth; 0 is perfect, 2 the worst.",
    "expected_calibration_error": "How far the model's confidence is from how often it is right, in %; 0 is best.",
    "auc": "Of two classes: how well rows are ranked by the probability of the second; 100 is perfect, 50 is chance.",
    "precision": "Share of the rows predicted as the second of two classes that are of it, in %.",
    "recall": "Share of the rows of the second of two classes that are predicted as such, in %.",
    "rmse": "Typical error, large ones weigh more; in the unit of the target.",
    "mae": "Mean error, all weigh the same; in the unit of the target.",
    "r2": "Share of the target's variation that is explained; 1 is perfect, 0 no better than the mean.",
    "negative_log_likelihood": "How surprised the predicted distribution is by the target; lower is better.",
    "crps": "Typical distance of the predicted distribution from the target, in the target's unit; lower is better.",
    "calibration": "How far the share of targets in predicted intervals is from what was promised, in %; 0 is best.",
    "coverage_90": "Share of targets inside the 90 % interval, in %; 90 is right.",
    "familiarity": "Median weight of the data in the answer: near 1 the rows are like training, near 0 unlike it.",
    "novel": "Share of rows flagged as unlike training, in %; about 5 is right for rows like it.",
    "ood_familiarity": "Median familiarity of the other rows; lower than that of the ordinary ones if they differ.",
    "ood_novel": "Share of the other rows flagged as unlike training, in %; 100 if all are caught.",
    "ood_evidence_auc_pr": "How well the evidence tells ordinary from other rows: precision-recall, 100 is perfect.",
    "ood_evidence_auc_roc": "The same by the ROC curve: 100 is perfect, 50 is chance.",
    "ood_aleatoric_auc_pr": "How well the predicted noise alone tells them apart: precision-recall, 100 is perfect.",
    "ood_aleatoric_auc_roc": "The same by the ROC curve: 100 is perfect, 50 is chance.",
}
_ROWS = 4096
_NOVEL = 0.05


def scores(model: Any, X: Any, y: Any, ood: Any = None) -> dict[str, float]:
    """Score a fitted model.

    Args:
        model: A fitted `NatPNClassifier` or `NatPNRegressor`.
        X: Rows.
        y: Their targets.
        ood: Rows that are unlike training, to see whether the model notices.

    Returns:
        Scores by name, in the order of `MEANINGS`, which says what they mean.
    """
    found = _classes(model, X, y) if hasattr(model, "classes_") else _numbers(model, X, y)
    inside = found.pop("rows")
    result = {name: float(value) for name, value in found.items()} | _familiarity(inside)
    if ood is not None:
        outside = _concatenated(_row_numbers(part) for part, _ in _parts(model, ood))
        result |= {f"ood_{name}": value for name, value in _familiarity(outside).items()}
        for name, sign in (("evidence", 1), ("aleatoric", -1)):
            areas = metrics.detection(sign * inside[name], sign * outside[name])
            result |= {f"ood_{name}_auc_pr": areas[0], f"ood_{name}_auc_roc": areas[1]}
    return result


def _parts(model: Any, X: Any) -> Iterator[tuple[PredictiveDistribution, slice]]:
    for start in range(0, n_rows(X), _ROWS):
        rows = slice(start, min(start + _ROWS, n_rows(X)))
        yield model.predict_dist(take(X, rows)), rows


def _row_numbers(part: PredictiveDistribution) -> dict[str, Floats]:
    return {
        "evidence": part.log_evidence,
        "aleatoric": part.aleatoric,
        "familiarity": part.familiarity,
        "novelty_p": part.novelty_p,
    }


def _concatenated(parts: Iterator[dict[str, Floats]]) -> dict[str, Floats]:
    collected = list(parts)
    return {name: np.concatenate([part[name] for part in collected]) for name in collected[0]}


def _familiarity(rows: dict[str, Floats]) -> dict[str, float]:
    return {
        "familiarity": float(np.median(rows["familiarity"])),
        "novel": float(100 * np.mean(rows["novelty_p"] < _NOVEL)),
    }


def _classes(model: Any, X: Any, y: Any) -> dict[str, Any]:
    index = encode_labels(np.asarray(y), model.classes_)
    sums = {"accuracy": 0.0, "brier": 0.0, "brier_score": 0.0}

    def pieces() -> Iterator[dict[str, Floats]]:
        for part, rows in _parts(model, X):
            if not isinstance(part, ClassDistribution):
                raise ValueError(f"model: expected a distribution over classes, got {part!r}")
            p = part.probabilities
            weight = len(part) / n_rows(X)
            sums["accuracy"] += weight * metrics.accuracy(index[rows], p)
            sums["brier"] += weight * metrics.brier_norm(index[rows], p)
            sums["brier_score"] += weight * metrics.brier_score(index[rows], p)
            log_p = part.log_prob(np.asarray(y)[rows])
            own = {"log_prob": log_p, "sure": p.max(1), "right": p.argmax(1) == index[rows], "last": p[:, -1]}
            yield _row_numbers(part) | own

    rows = _concatenated(pieces())
    right, last = rows.pop("right"), rows.pop("last")
    found = sums | {
        "expected_calibration_error": metrics.expected_calibration_error(right, rows.pop("sure")),
        "negative_log_likelihood": metrics.negative_log_likelihood(rows.pop("log_prob")),
    }
    return found | (_second(index == 1, right, last) if len(model.classes_) == 2 else {}) | {"rows": rows}


def _second(truth: NDArray[np.bool_], right: Floats, probability: Floats) -> dict[str, float]:
    """Return how well the second of two classes is found; NaN where there are no such rows."""
    predicted = truth == right
    hits = np.sum(truth & predicted)
    return {
        "auc": 100 * roc_auc_score(truth, probability) if 0 < truth.mean() < 1 else np.nan,
        "precision": 100 * hits / predicted.sum() if predicted.any() else np.nan,
        "recall": 100 * hits / truth.sum() if truth.any() else np.nan,
    }


def _numbers(model: Any, X: Any, y: Any) -> dict[str, Any]:
    truth = np.asarray(y, np.float64)

    def pieces() -> Iterator[dict[str, Floats]]:
        for part, rows in _parts(model, X):
            found = {"prediction": part.centre(), "log_prob": part.log_prob(truth[rows])}
            if isinstance(part.predictive, ScalarDistribution):
                score = metrics.crps(truth[rows], part.equally_likely())
                found["crps"] = np.full(len(part), score)  # the mean of this piece, for each of its rows
                low, high = part.interval(0.9).T
                found |= {"cdf": part.cdf(truth[rows]), "inside": (low <= truth[rows]) & (truth[rows] <= high)}
            yield found | _row_numbers(part)

    rows = _concatenated(pieces())
    found = {
        "rmse": metrics.rmse(truth, rows["prediction"]),
        # scikit-learn refuses infinite predictions, which a mean that does not exist is
        "mae": mean_absolute_error(truth, rows["prediction"]) if np.isfinite(rows["prediction"]).all() else np.inf,
        "r2": r2_score(truth, rows["prediction"])
        if np.isfinite(rows["prediction"]).all() and len(truth) > 1
        else np.nan,
        "negative_log_likelihood": metrics.negative_log_likelihood(rows["log_prob"]),
    }
    if "cdf" in rows:
        found["crps"] = np.mean(rows["crps"])
        found["calibration"] = metrics.quantile_calibration(np.clip(rows["cdf"], 0, 1))
        found["coverage_90"] = 100 * np.mean(rows["inside"])
    return found | {"rows": rows}
