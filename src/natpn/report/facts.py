"""A fitted model and rows → the arrays that figures and sentences are made of.

Rows are predicted in pieces, and of each piece only numbers are kept. Of more than `MAX_ROWS` rows as many are used,
evenly spaced.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted
from torch import Tensor
from torch.utils.data import Dataset

from natpn.distributions import ScalarDistribution
from natpn.estimators import ClassDistribution, PredictiveDistribution
from natpn.estimators.inputs import n_rows, read_dataset, take
from natpn.estimators.predictive import encode_labels

Floats = NDArray[np.float64]

MAX_ROWS = 100_000
NOVEL = 0.05
LEVELS = np.arange(1, 20) / 20
_PIECE = 4096


@dataclass(frozen=True)
class Facts:
    """What a model says about rows, and what was true.

    Attributes:
        n_given: How many rows were given.
        index: Which of them are used.
        truth: The targets; class indices for classes.
        prediction: The predictions; class indices for classes.
        error: Of each row: 0 or 1 for classes, the distance for numbers and vectors, inf without a prediction.
        log_evidence: How much is known about each row.
        familiarity: The weight of the data in each answer.
        novelty_p: The share of held-out rows that were as unfamiliar.
        held_out: The log evidence of held-out rows of training.
        prior_log_n: The log of the number of rows that the prior is worth.
        exact: Whether held-out rows were kept for calibration alone.
        discrete: Whether targets are whole numbers, whose intervals cannot hold any share exactly.
        classes: The labels; None for numbers and vectors.
        confidence: Classes: the probability of the predicted label.
        interval: Numbers: the 90 % intervals, (rows, 2).
        inside: Numbers: the share of targets inside the interval of each of `LEVELS`.
        ood: The log evidence of rows unlike training, if some were given.
        ood_novelty_p: Their `novelty_p`.
    """

    n_given: int
    index: NDArray[np.intp]
    truth: Floats
    prediction: Floats
    error: Floats
    log_evidence: Floats
    familiarity: Floats
    novelty_p: Floats
    held_out: Floats
    prior_log_n: float
    exact: bool = True
    discrete: bool = False
    classes: NDArray[Any] | None = None
    confidence: Floats | None = None
    interval: Floats | None = None
    inside: Floats | None = None
    ood: Floats | None = None
    ood_novelty_p: Floats | None = None

    def __len__(self) -> int:
        return len(self.error)

    @property
    def can_flag(self) -> bool:
        """Whether there were enough held-out rows for `novelty_p` to fall below 0.05."""
        return 1 / (len(self.held_out) + 1) < NOVEL


def evenly(n: int, most: int) -> NDArray[np.intp]:
    """Return at most so many indices below n, evenly spaced."""
    return np.arange(n) if n <= most else np.arange(most) * n // most


def read(model: Any, X: Any, y: Any, ood: Any = None) -> tuple[Any, NDArray[Any], Any]:
    """Return rows, targets and rows unlike training as the other functions want them.

    Raises:
        ValueError: If the model cannot be reported on, or targets do not fit the rows.
    """
    if not hasattr(model, "predict_dist"):
        raise ValueError(
            f"model: expected a NatPNClassifier or a NatPNRegressor, got {type(model).__name__}; of a pipeline give "
            "the last step, and rows as it sees them"
        )
    check_is_fitted(model)
    if isinstance(X, Dataset):
        X, y = read_dataset(X)
    if isinstance(ood, Dataset):
        ood, _ = read_dataset(ood)
    if y is None:
        raise ValueError("y: a report compares predictions with true targets, got None")
    targets = np.asarray(y.detach().cpu() if isinstance(y, Tensor) else y)
    if targets.ndim == 2 and targets.shape[1] == 1 and not model.family_.support.event_shape:
        targets = targets[:, 0]
    if not n_rows(X) or len(targets) != n_rows(X):
        raise ValueError(f"y: expected one target a row and at least one row, got {len(targets)} for {n_rows(X)} rows")
    if not hasattr(model, "classes_"):
        targets = np.asarray(targets, np.float64)
        wrong = np.flatnonzero(~np.isfinite(targets.reshape(len(targets), -1)).all(1))
        if len(wrong):
            raise ValueError(f"y: expected finite numbers, got {targets[wrong[0]]} in row {wrong[0]}: leave it out")
    return X, targets, ood


def collect(model: Any, X: Any, y: NDArray[Any], ood: Any = None) -> Facts:
    """Predict the rows, and compare with the targets."""
    index = evenly(n_rows(X), MAX_ROWS)
    classes = getattr(model, "classes_", None)
    truth = y[index] if classes is None else encode_labels(y[index], classes).astype(np.float64)
    pieces = []
    for rows in _split(index):
        part = model.predict_dist(take(X, rows))
        pieces.append(_classes(part) if classes is not None else _numbers(part, y[rows]))
    found = {name: np.concatenate([piece[name] for piece in pieces]) for name in pieces[0]}
    scores = found.pop("score", None)
    if ood is not None:
        parts = [model.predict_dist(take(ood, rows)) for rows in _split(evenly(n_rows(ood), MAX_ROWS))]
        found["ood"] = np.concatenate([part.log_evidence for part in parts])
        found["ood_novelty_p"] = np.concatenate([part.novelty_p for part in parts])
    return Facts(
        n_given=n_rows(X),
        index=index,
        truth=truth,
        error=_error(truth, found["prediction"], classes is not None),
        held_out=model.calibration_.log_evidence,
        prior_log_n=float(model.network_.prior.log_n),
        exact=model.calibration_.scores is not None,
        discrete=scores is not None and model.family_.support.discrete,
        classes=classes,
        inside=None if scores is None else _inside(scores, model),
        **found,
    )


def _split(index: NDArray[np.intp]) -> list[NDArray[np.intp]]:
    return [index[start : start + _PIECE] for start in range(0, len(index), _PIECE)]


def _common(part: PredictiveDistribution) -> dict[str, Floats]:
    return {"log_evidence": part.log_evidence, "familiarity": part.familiarity, "novelty_p": part.novelty_p}


def _classes(part: ClassDistribution) -> dict[str, Floats]:
    p = part.probabilities
    return _common(part) | {"prediction": p.argmax(1).astype(np.float64), "confidence": p.max(1)}


def _numbers(part: PredictiveDistribution, y: Floats) -> dict[str, Floats]:
    found = _common(part) | {"prediction": part.centre()}
    if isinstance(part.predictive, ScalarDistribution):
        score = part.conformal_scores(y)
        found |= {"interval": part.interval(0.9)} | ({} if score is None else {"score": score})
    return found


def _error(truth: Floats, prediction: Floats, classes: bool) -> Floats:
    if classes:
        wrong: Floats = (truth != prediction).astype(np.float64)
        return wrong
    distance: Floats = np.abs(truth - prediction)
    if distance.ndim > 1:
        distance = np.linalg.norm(distance, axis=1)
    error: Floats = np.nan_to_num(distance, nan=np.inf, posinf=np.inf)
    return error


def _inside(scores: Floats, model: Any) -> Floats:
    """Return the share of targets inside the interval of each level, as `interval` would draw it."""
    limits = [model.calibration_.threshold(level) for level in LEVELS]
    half = np.array([level / 2 if limit is None else limit for level, limit in zip(LEVELS, limits, strict=True)])
    share: Floats = (scores <= half[:, None] + 1e-12).mean(1)
    return share
