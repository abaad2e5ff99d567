"""A fitted model and rows with known targets → numbers that say how good it is, and what each of them means.

Rows are answered once, in pieces, and of each piece only numbers are kept (`judge`), so a million rows need no more
memory than their table. Every score is a total over these numbers: one entry in `METRICS`, which command line and
report read. A new score is one line there.

The baselines beside the scores are those of the same answer for every row: the best one that knows the targets but not
the rows. For numbers it is their mean, and as a distribution the marginal of the model's family (for the CRPS, the
targets' own distribution). For classes it is the most frequent one, and as probabilities the share of each. Precision
and recall are those of labels drawn by these shares.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.metrics import mean_absolute_error, r2_score, roc_auc_score

from natpn import metrics
from natpn.families import Family, ScalarDistribution
from natpn.model import NOVEL, Units
from natpn.model.answers import ClassPredictive, Predictive, encode_labels

Floats = NDArray[np.float64]
Judged = Mapping[str, Floats]
"""What a model said of rows, and what was true, by name: an array with one entry a row.

Of all rows: `log_prob`, and what the model says of its knowledge (`log_evidence`, `aleatoric`, `familiarity`,
`novelty_p`), which of other rows begin with `ood_`. Of numbers and vectors: `truth` and `prediction`. Of single numbers
also `cdf`, `crps`, `lower` and `upper`, the ends of the 90 % interval, `within`, whether the interval of each of
`LEVELS` holds the truth, (rows, k), and `cdf_below`, the probability of less than the truth, which of counts differs
from `cdf`. Of classes: the places of labels, `label` and `guess`, `right`, `confidence`, `distance` and
`squared_distance` of the probabilities from the truth; of two classes `second`, the probability of the second.
"""

LEVELS = np.arange(1, 20) / 20
_KNOWLEDGE = ("log_evidence", "aleatoric", "familiarity", "novelty_p")


@dataclass(frozen=True)
class Metric:
    """One score."""

    title: str  # its name for a person
    meaning: str  # what it says, and which values are good; "in %" if it is a percentage
    needs: tuple[str, ...]  # the numbers that it is made of; it is left out for rows that do not have them
    total: Callable[..., float]  # makes one number of them
    # If `needs` has the metric's own name: returns that number for each row of a piece, from what the model says of it
    # and what was true; None if it has no such number.
    of_rows: Callable[[Any, NDArray[Any]], Floats | None] | None = None


def _percent(values: Floats) -> float:
    return float(100 * np.mean(values))


def _area(label: Floats, second: Floats) -> float:
    return float(100 * roc_auc_score(label == 1, second)) if 0 < np.mean(label == 1) < 1 else np.nan


def _share_right(rows: Floats, label: Floats, guess: Floats) -> float:
    """Return the share of rows of the second class, by one of label and guess, on which both agree; NaN if none are."""
    return _percent((label == guess)[rows == 1]) if (rows == 1).any() else np.nan


def _if_finite(function: Callable[[Floats, Floats], float], otherwise: float) -> Callable[[Floats, Floats], float]:
    """Return a function of scikit-learn's, which refuses infinite predictions, with a value for these."""
    return lambda truth, said: float(function(truth, said)) if np.isfinite(said).all() else otherwise


def _r2(truth: Floats, prediction: Floats) -> float:
    return float(r2_score(truth, prediction)) if len(truth) > 1 else np.nan


def _detection(place: int, sign: int) -> Callable[[Floats, Floats], float]:
    return lambda inside, outside: metrics.detection(sign * inside, sign * outside)[place]


METRICS: dict[str, Metric] = {
    "accuracy": Metric(
        "Accuracy", "Share of rows whose most probable label is the right one, in %.", ("right",), _percent
    ),
    "brier": Metric(
        "Brier score (norm)",
        "The paper's Brier score: 100 times the mean distance of the probabilities from the truth; 0 is perfect.",
        ("distance",),
        _percent,
    ),
    "brier_score": Metric(
        "Brier score",
        "Mean squared distance of the probabilities from the truth; 0 is perfect, 2 the worst.",
        ("squared_distance",),
        np.mean,
    ),
    "expected_calibration_error": Metric(
        "Calibration error",
        "How far the model's confidence is from how often it is right, in %; 0 is best.",
        ("right", "confidence"),
        metrics.expected_calibration_error,
    ),
    "auc": Metric(
        "Area under the ROC curve",
        "Of two classes: how well rows are ranked by the probability of the second; 100 is perfect, 50 is chance.",
        ("label", "second"),
        _area,
    ),
    "precision": Metric(
        "Precision",
        "Share of the rows predicted as the second of two classes that are of it, in %.",
        ("label", "guess", "second"),
        lambda label, guess, second: _share_right(guess, label, guess),
    ),
    "recall": Metric(
        "Recall",
        "Share of the rows of the second of two classes that are predicted as such, in %.",
        ("label", "guess", "second"),
        lambda label, guess, second: _share_right(label, label, guess),
    ),
    "rmse": Metric(
        "Root mean squared error",
        "Typical error, large ones weigh more; in the unit of the target.",
        ("truth", "prediction"),
        metrics.rmse,
    ),
    "mae": Metric(
        "Mean absolute error",
        "Mean error, all weigh the same; in the unit of the target.",
        ("truth", "prediction"),
        _if_finite(mean_absolute_error, np.inf),
    ),
    "r2": Metric(
        "R²",
        "Share of the target's variation that is explained; 1 is perfect, 0 no better than the mean.",
        ("truth", "prediction"),
        _if_finite(_r2, np.nan),
    ),
    "negative_log_likelihood": Metric(
        "Negative log-likelihood",
        "How surprised the predicted distribution is by the target; lower is better.",
        ("log_prob",),
        metrics.negative_log_likelihood,
    ),
    "crps": Metric(
        "CRPS",
        "Typical distance of the predicted distribution from the target, in the target's unit; lower is better.",
        ("crps",),
        np.mean,
    ),
    "calibration": Metric(
        "Quantile calibration",
        "How far the share of targets in predicted intervals is from what was promised, in %; 0 is best.",
        ("cdf", "cdf_below"),
        lambda cdf, below: metrics.quantile_calibration(*np.clip((cdf, below), 0, 1)),
    ),
    "coverage_90": Metric(
        "Coverage of the 90 % interval",
        "Share of targets inside the 90 % interval, in %; 90 is right.",
        ("truth", "lower", "upper"),
        lambda truth, lower, upper: _percent((lower <= truth) & (truth <= upper)),
    ),
    "familiarity": Metric(
        "Familiarity",
        "Median weight of the data in the answer: near 1 the rows are like training, near 0 unlike it.",
        ("familiarity",),
        np.median,
    ),
    "novel": Metric(
        "Flagged as novel",
        "Share of rows flagged as unlike training, in %; about 5 is right for rows like it.",
        ("novelty_p",),
        lambda p: _percent(p < NOVEL),
    ),
    "ood_familiarity": Metric(
        "Familiarity, other rows",
        "Median familiarity of the other rows; lower than that of the ordinary ones if they differ.",
        ("ood_familiarity",),
        np.median,
    ),
    "ood_novel": Metric(
        "Flagged as novel, other rows",
        "Share of the other rows flagged as unlike training, in %; 100 if all are caught.",
        ("ood_novelty_p",),
        lambda p: _percent(p < NOVEL),
    ),
    "ood_evidence_auc_pr": Metric(
        "Other rows told by evidence, AUC-PR",
        "How well the evidence tells ordinary from other rows: precision-recall, 100 is perfect.",
        ("log_evidence", "ood_log_evidence"),
        _detection(0, 1),
    ),
    "ood_evidence_auc_roc": Metric(
        "Other rows told by evidence, AUC-ROC",
        "The same by the ROC curve: 100 is perfect, 50 is chance.",
        ("log_evidence", "ood_log_evidence"),
        _detection(1, 1),
    ),
    "ood_aleatoric_auc_pr": Metric(
        "Other rows told by noise, AUC-PR",
        "How well the predicted noise alone tells them apart: precision-recall, 100 is perfect.",
        ("aleatoric", "ood_aleatoric"),
        _detection(0, -1),
    ),
    "ood_aleatoric_auc_roc": Metric(
        "Other rows told by noise, AUC-ROC",
        "The same by the ROC curve: 100 is perfect, 50 is chance.",
        ("aleatoric", "ood_aleatoric"),
        _detection(1, -1),
    ),
}


def scores(model: Any, X: Any, y: Any, ood: Any = None) -> dict[str, float]:
    """Score a fitted model.

    Args:
        model: A fitted estimator.
        X: Rows.
        y: Their targets.
        ood: Rows that are unlike training, to see whether the model notices.

    Returns:
        Scores by name, in the order of `METRICS`, which says what they mean.
    """
    return totals(judge(model, X, y, ood))


def totals(judged: Judged) -> dict[str, float]:
    """Return the scores of rows that were judged, by name."""
    return {
        name: float(metric.total(*(judged[column] for column in metric.needs)))
        for name, metric in METRICS.items()
        if all(column in judged for column in metric.needs)
    }


def judge(model: Any, X: Any, y: Any, ood: Any = None) -> Judged:
    """Answer rows, and those unlike training, once, and compare with the targets in the form of training."""
    judged = judge_answers(model.answers(X), y)
    if ood is not None:
        others = _concatenated([_knowledge(part) for part in model.answers(ood)])
        judged |= {f"ood_{name}": values for name, values in others.items()}
    return judged


def judge_answers(answers: Iterable[Predictive], y: Any) -> dict[str, Floats]:
    """Compare answers, in pieces, with the targets of their rows."""
    targets = np.asarray(y)
    found, start = [], 0
    for part in answers:
        truth = targets[start : start + len(part)]
        own = {name: metric.of_rows(part, truth) for name, metric in METRICS.items() if metric.of_rows is not None}
        numbers = {name: values for name, values in own.items() if values is not None}
        found.append(_compare(part, truth) | _knowledge(part) | numbers)
        start += len(part)
    return _concatenated(found)


def _concatenated(parts: list[dict[str, Floats]]) -> dict[str, Floats]:
    return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}


def _knowledge(part: Predictive) -> dict[str, Floats]:
    return {name: getattr(part, name) for name in _KNOWLEDGE if hasattr(part, name)}


def _compare(part: Predictive, y: NDArray[Any]) -> dict[str, Floats]:
    if isinstance(part, ClassPredictive):
        return _compare_classes(part, y)
    truth = np.asarray(y, np.float64)
    found = {"truth": truth, "prediction": part.centre(), "log_prob": part.log_prob(truth)}
    if isinstance(part.predictive, ScalarDistribution):
        lower, upper = part.interval(0.9).T
        found |= {"cdf": part.cdf(truth), "lower": lower, "upper": upper}
        found["within"] = part.within(truth, LEVELS).astype(float)
        found["cdf_below"] = part.cdf(truth - 1) if part.predictive.target.discrete else found["cdf"]
        found["crps"] = metrics.crps_of_rows(truth, part.equally_likely())
    return found


def _compare_classes(part: ClassPredictive, y: NDArray[Any]) -> dict[str, Floats]:
    index, p = encode_labels(y, part.classes), part.probabilities
    away = p.copy()
    away[np.arange(len(p)), index] -= 1
    squared = np.square(away).sum(1)
    found = {
        "label": index.astype(np.float64),
        "guess": p.argmax(1).astype(np.float64),
        "right": (p.argmax(1) == index).astype(np.float64),
        "confidence": np.clip(p.max(1), 0, 1),
        "distance": np.sqrt(squared),
        "squared_distance": squared,
        "log_prob": part.log_prob(y),
    }
    return found | ({"second": p[:, 1]} if len(part.classes) == 2 else {})


def baselines(model: Any, y: Any) -> dict[str, float]:
    """Return the scores of the same answer for every row, by name, where such an answer makes sense."""
    if model.family_.is_classes:
        return _baselines_of_classes(encode_labels(np.asarray(y), model.classes_), len(model.classes_))
    return _baselines_of_numbers(np.asarray(y, np.float64), model.family_)


def baseline_words(model: Any) -> str:
    """Say what the same answer is."""
    if model.family_.is_classes:
        return "the most frequent class, or the share of each"
    return "the mean, or the targets' own distribution"


def _baselines_of_classes(index: NDArray[np.int64], n_classes: int) -> dict[str, float]:
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


def _baselines_of_numbers(truth: Floats, family: Family) -> dict[str, float]:
    mean = np.broadcast_to(truth.mean(0), truth.shape)
    found = {"rmse": metrics.rmse(truth, mean), "mae": float(np.abs(truth - mean).mean()), "r2": 0.0}
    if truth.ndim == 1:
        n = len(truth)
        half_difference = np.sum((2 * np.arange(1, n + 1) - n - 1) * (np.sort(truth) / n)) / n
        surprise = metrics.negative_log_likelihood(_marginal_log_prob(truth, family))
        found |= {"negative_log_likelihood": surprise, "crps": float(half_difference)}
    return found


def _marginal_log_prob(truth: Floats, family: Family) -> Floats:
    units = Units.of(family, truth)
    marginal = family.marginal(units.standardise(truth))
    chi = units.restore(marginal.chi)
    predictive = family.posterior(family.evidence(chi, marginal.log_n.to(chi.dtype))).predictive()
    log_prob: Floats = predictive.log_prob(torch.tensor(truth)).numpy()
    return log_prob
