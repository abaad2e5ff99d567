"""Weights for another distribution of inputs: how often rows are among target rows in proportion to calibration rows.

A logistic regression tells target rows from calibration rows by what the density sees of them and by their evidence.
With p(x) the probability that it gives to "target" when both are equally frequent,

    w(x) = p(x) / (1 − p(x)).

Calibration rows are weighted by regressions that did not see them (cross-fitting), new rows by the mean of these. The
penalty is the one that tells left-out rows apart best; if none does better than a coin, all weights are nearly 1.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Features = NDArray[np.float32]

MOST_ROWS = 5_000  # of each kind that a regression sees
_FOLDS = 5
_FARTHEST = 8.0  # deviations: what lies beyond counts as lying there
_LARGEST = 30.0  # of the logarithm of a weight
_STRENGTHS = 10.0 ** np.arange(-5, 2)


@dataclass(frozen=True)
class Shift:
    """Weights of rows under another distribution of inputs.

    Attributes:
        weights: Those of the calibration rows, in the order of their scores.
        location: What is subtracted from features, (D,).
        scale: What they are then divided by, (D,).
        slope: The logarithm of a weight is linear in the result, (D,) …
        intercept: … and this where it is 0.
    """

    weights: Floats
    location: Floats
    scale: Floats
    slope: Floats
    intercept: float

    @classmethod
    def between(cls, known: Features, target: Features) -> "Shift":
        """Return the weights that turn calibration rows into target rows.

        Args:
            known: Features of the calibration rows, (m, D).
            target: Those of target rows, (t, D).
        """
        from sklearn.linear_model import LogisticRegression
        from sklearn.model_selection import StratifiedKFold

        known, target = _plain(known), _plain(target[_some(np.arange(len(target)))])
        both = [known.astype(np.float64), target.astype(np.float64)]
        location = sum(part.mean(0) for part in both) / 2
        spread = np.sqrt(sum(np.square(part - location).mean(0) for part in both) / 2)
        scale = np.where(spread > 1e-6 * np.maximum(np.abs(location), 1e-30), spread, 1.0)
        first = cls(np.ones(len(known)), location, scale, np.zeros(len(location)), 0.0)
        z = np.concatenate([first._standard(part) for part in both])
        is_target = np.repeat([0, 1], [len(known), len(target)])
        n_folds = min(_FOLDS, len(known), len(target))
        if n_folds < 2:
            raise ValueError(f"X: expected at least 2 target rows, got {len(target)}: give more of them")
        folds = list(StratifiedKFold(n_folds, shuffle=True, random_state=0).split(z, is_target))
        best, chosen = np.inf, (first.slope, 0.0, np.zeros(len(known)))
        for strength in _STRENGTHS:
            slopes, intercepts, said = [], [], np.empty(len(z))
            for seen, left in folds:
                seen = np.concatenate([_some(seen[is_target[seen] == kind]) for kind in (0, 1)])
                fitted = LogisticRegression(C=strength, class_weight="balanced", max_iter=2000)
                fitted.fit(z[seen], is_target[seen])
                slopes.append(fitted.coef_[0])
                intercepts.append(fitted.intercept_[0])
                said[left] = z[left] @ slopes[-1] + intercepts[-1]
            loss = sum(np.logaddexp(0, (1 - 2 * kind) * said[is_target == kind]).mean() for kind in (0, 1))
            if loss < best:
                best, chosen = loss, (np.mean(slopes, 0), float(np.mean(intercepts)), said[: len(known)])
        slope, intercept, log_weights = chosen
        return cls(_exp(log_weights), location, scale, slope, intercept)

    def to_arrays(self) -> dict[str, Floats]:
        """Return all of it as arrays by name."""
        return {**self.__dict__, "intercept": np.array([self.intercept])}

    @classmethod
    def from_arrays(cls, arrays: dict[str, Floats], n_rows: int, n_features: int) -> "Shift":
        """Return what `to_arrays` described, for so many calibration rows and features.

        Raises:
            ValueError: If arrays do not go together.
        """
        wanted = {"weights": n_rows, "intercept": 1} | dict.fromkeys(("location", "scale", "slope"), n_features)
        for name, size in wanted.items():
            values = arrays[name]
            if values.shape != (size,) or not np.isfinite(values).all():
                raise ValueError(
                    f"the tensor calibration.shift.{name}: expected {size} finite numbers, got shape {values.shape}"
                )
        if not ((arrays["weights"] > 0).all() and (arrays["scale"] > 0).all()):
            raise ValueError("the tensors calibration.shift: expected weights and a scale above 0")
        parts = {name: arrays[name].astype(np.float64) for name in wanted if name != "intercept"}
        return cls(**parts, intercept=float(arrays["intercept"][0]))

    @property
    def effective_rows(self) -> float:
        """How many calibration rows of equal weight say as much as these: (Σ w)² / Σ w²."""
        return float(self.weights.sum() ** 2 / np.square(self.weights).sum())

    def weights_of(self, features: Features) -> Floats:
        """Return the weights of new rows."""
        return _exp(self._standard(_plain(features)) @ self.slope + self.intercept)

    def _standard(self, features: Features | Floats) -> Floats:
        z: Floats = np.clip((features - self.location) / self.scale, -_FARTHEST, _FARTHEST)
        return z


def _plain(features: Features) -> Features:
    """Return features without infinities, of which the evidence of no row at all is one."""
    return np.nan_to_num(features, nan=0.0, posinf=1e6, neginf=-1e6)


def _some(rows: NDArray[np.intp]) -> NDArray[np.intp]:
    """Return at most `MOST_ROWS` of rows, chosen at random."""
    if len(rows) <= MOST_ROWS:
        return rows
    return rows[np.sort(np.random.default_rng(0).choice(len(rows), MOST_ROWS, replace=False))]


def _exp(logarithm: Floats) -> Floats:
    weight: Floats = np.exp(np.clip(logarithm, -_LARGEST, _LARGEST))
    return weight
