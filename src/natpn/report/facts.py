"""What a model said of rows → the arrays that figures and sentences are made of.

If there are more than `MAX_ROWS` rows, that many are used, evenly spaced.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted
from torch import Tensor
from torch.utils.data import Dataset

from natpn import metrics
from natpn.model import NOVEL, Labels, Model
from natpn.model.inputs import evenly, n_rows, read_dataset
from natpn.report.scores import LEVELS, Judged
from natpn.tabular.number import is_year_or_code

Floats = NDArray[np.float64]

MAX_ROWS = 100_000


@dataclass(frozen=True)
class Facts:
    """What a model says about rows, and what was true; of classes, predictions and targets are their indices."""

    n_given: int  # how many rows were given
    index: NDArray[np.intp]  # which of them are used
    truth: Floats
    prediction: Floats
    error: Floats  # 0 or 1 for classes, the distance for numbers and vectors, inf without a prediction
    log_evidence: Floats
    familiarity: Floats  # the weight of the data in each answer
    novelty_p: Floats  # the share of held-out rows that were as unfamiliar
    held_out: Floats  # the log evidence of held-out rows of training
    log_prob: Floats  # of the truth
    exact: bool = True  # whether these were kept for calibration alone
    discrete: bool = False  # whether targets are whole numbers, whose intervals cannot hold any share exactly
    classes: NDArray[Any] | None = None  # the labels; None for numbers and vectors
    confidence: Floats | None = None  # classes: the probability of the predicted label
    interval: Floats | None = None  # numbers: the 90 % intervals, (rows, 2)
    inside: Floats | None = None  # numbers: the share of targets inside the interval of each of `LEVELS`
    central: Floats | None = None  # the same of the central part of the distribution, which counts are in by halves
    thousands: bool = True  # whether people set thousands apart in the targets, as they do not in years
    ood: Floats | None = None  # the log evidence of rows unlike training, if some were given
    ood_novelty_p: Floats | None = None

    def __len__(self) -> int:
        return len(self.error)

    @property
    def can_flag(self) -> bool:
        """Whether there were enough held-out rows for `novelty_p` to fall below 0.05."""
        return 1 / (len(self.held_out) + 1) < NOVEL


def read(model: Any, X: Any, y: Any, ood: Any = None) -> tuple[Any, NDArray[Any], Any]:
    """Check the model, rows, targets and rows unlike training, and return these as arrays or tables."""
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
    if not model.family_.is_classes:
        targets = np.asarray(targets, np.float64)
        wrong = np.flatnonzero(~np.isfinite(targets.reshape(len(targets), -1)).all(1))
        if len(wrong):
            raise ValueError(f"y: expected finite numbers, got {targets[wrong[0]]} in row {wrong[0]}: leave it out")
    return X, targets, ood


def collect(model: Model, judged: Judged) -> Facts:
    """Return the facts of judged rows; of many rows only some, evenly spaced."""
    n = len(judged["log_prob"])
    index = evenly(n, MAX_ROWS)
    known = {name: values[index] for name, values in judged.items() if not name.startswith("ood_")}
    classes = model.targets.classes if isinstance(model.targets, Labels) else None
    truth, prediction = (known[name] for name in (("truth", "prediction") if classes is None else ("label", "guess")))
    scalar = "cdf" in known
    discrete = scalar and bool((known["cdf_below"] != known["cdf"]).any())
    inside = known["within"].mean(0) if scalar else None
    usual = model.targets.usual
    others = evenly(len(judged.get("ood_log_evidence", ())), MAX_ROWS)
    return Facts(
        n_given=n,
        index=index,
        truth=truth,
        prediction=prediction,
        error=_error(truth, prediction, classes is not None),
        log_evidence=known["log_evidence"],
        familiarity=known["familiarity"],
        novelty_p=known["novelty_p"],
        held_out=model.calibration.log_evidence,
        exact=model.calibration.scores is not None,
        log_prob=known["log_prob"],
        discrete=discrete,
        classes=classes,
        confidence=known.get("confidence"),
        interval=np.stack([known["lower"], known["upper"]], 1) if scalar else None,
        inside=inside,
        central=_central(known) if discrete and model.calibration.scores is None else inside,
        thousands=usual is None or not is_year_or_code("", *usual),
        ood=judged["ood_log_evidence"][others] if len(others) else None,
        ood_novelty_p=judged["ood_novelty_p"][others] if len(others) else None,
    )


def _error(truth: Floats, prediction: Floats, classes: bool) -> Floats:
    if classes:
        return np.asarray(truth != prediction, np.float64)
    distance: Floats = np.abs(truth - prediction)
    if distance.ndim > 1:
        distance = np.linalg.norm(distance, axis=1)
    return np.nan_to_num(distance, nan=np.inf, posinf=np.inf)


def _central(known: Judged) -> Floats:
    """Return the share of counts in the central part of their distribution, for each level."""
    cdf, below = np.clip((known["cdf"], known["cdf_below"]), 0, 1)
    return metrics.central_shares(cdf, below, LEVELS)
