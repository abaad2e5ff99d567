"""Numbers, counts and vectors as targets, and the answers about them."""

from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from sklearn.base import RegressorMixin
from sklearn.utils import check_array, column_or_1d

from natpn import families
from natpn.estimators.arrays import read_numbers
from natpn.estimators.data import DataEstimator, Floats
from natpn.families import FAMILIES, Family, has_vectors
from natpn.model import Units


class NumberTargets(RegressorMixin, DataEstimator):  # type: ignore[misc]
    """An estimator of numbers, counts or vectors."""

    # Parameters of every subclass.
    family: str | Family
    verbose: int

    # Set by fit.
    targets_: Units

    @property
    def units_(self) -> Units:
        """Location and scale of the targets."""
        return self.targets_

    def _read_targets(self, y: Any) -> tuple[Floats, NDArray[np.int64]]:
        values = self._numbers(y, warn=True)
        self.family_ = self._choose_family(values)
        self._check_support(values)
        return values, np.zeros(len(values), np.int64)

    def _choose_family(self, y: Floats) -> Family:
        return choose_family(self.family, y)

    def _encode_targets(self, y: Any) -> Floats:
        values = self._numbers(y, warn=False)
        self._check_support(values)
        return values

    def _numbers(self, y: Any, warn: bool) -> Floats:
        values = read_numbers(y)
        two = values.ndim == 2 and (self.family == "auto" or has_vectors(self.family))
        if not two:
            values = column_or_1d(values, warn=warn)
        elif self.family == "auto" and values.shape[1] == 1:
            values = values[:, 0]
        checked: Floats = check_array(values, ensure_2d=False, dtype=np.float64, input_name="y", estimator=self)
        return checked

    def _check_support(self, y: Floats) -> None:
        self.family_.support.check(torch.tensor(y))

    def _learn_targets(self, y: Floats, weight: Floats) -> Units:
        units = Units.of(self.family_, y, weight)
        reached = self.family_.largest_mean(units.standardise(y))
        if reached is not None:
            raise ValueError(
                f"y: {self.family_!r} expected numbers up to {reached:.2g}, the largest mean it can predict, got "
                f"{y.max():.4g}: choose family='lognormal' or 'normal'"
            )
        return units

    def predict(self, X: Any, return_std: bool = False) -> Floats | tuple[Floats, Floats]:
        """Return the predictive mean of each row, the median for `lognormal`, and the standard deviation if asked for.

        The standard deviation is inf where there is none: far from the data a Student's t has too heavy tails. For
        `lognormal`, which never has one, it is half the width of the interval that holds 68 %. For `multinomial` the
        mean is in counts if all training rows had the same number of trials, else in shares.
        """
        if not return_std:
            return np.concatenate([part.centre() for part in self.answers(X)])
        parts = [(part.centre(), part.spread()) for part in self.answers(X)]
        return np.concatenate([centre for centre, _ in parts]), np.concatenate([std for _, std in parts])

    def score(self, X: Any, y: Any, sample_weight: ArrayLike | None = None) -> float:
        """Return R² of the predictions; for `multinomial` those of shares."""
        targets = read_numbers(y)
        if hasattr(self, "units_") and self.units_.trials is not None:
            targets = targets / targets.sum(1, keepdims=True) * self.units_.trials
        return float(super().score(X, targets, sample_weight))

    def predict_quantiles(self, X: Any, q: ArrayLike = (0.1, 0.5, 0.9)) -> Floats:
        """Return quantiles, (rows, k) for k levels, (rows,) for one number."""
        return np.concatenate([part.quantile(q) for part in self.answers(X)])

    def predict_interval(self, X: Any, coverage: float = 0.9) -> Floats:
        """Return intervals that hold the target with the given probability, (rows, 2)."""
        return np.concatenate([part.interval(coverage) for part in self.answers(X)])

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = self.family == "auto" or has_vectors(self.family)
        tags.target_tags.single_output = not tags.target_tags.multi_output or self.family == "auto"
        return tags


def choose_family(family: str | Family, y: Floats) -> Family:
    """Return the family for targets.

    Args:
        family: A family, the name of one, or "auto".
        y: The targets, one or two dimensions.

    Raises:
        ValueError: If there is no such family, or its targets have another shape.
    """
    if isinstance(family, Family):
        chosen = family
    elif isinstance(family, str):
        chosen = _by_name(automatic(y) if family == "auto" else family, y)
    else:
        raise ValueError(f"family: expected a name, a Family or 'auto', got {family!r}")
    wanted = len(chosen.support.event_shape) + 1
    if y.ndim != wanted:
        raise ValueError(
            f"y: {chosen!r} predicts {'vectors' if wanted == 2 else 'single numbers'}, so y should be {wanted}-d, got "
            f"shape {y.shape}"
        )
    return chosen


def automatic(y: Floats) -> str:
    """Return the name of the family that suits the targets best, by `Family.suited`."""
    grades = {name: grade for name, kind in FAMILIES.items() if (grade := kind.suited(y)) is not None}
    return max(grades, key=lambda name: grades[name])


def _by_name(name: str, y: Floats) -> Family:
    kind = FAMILIES.get(name)
    if kind is not None and kind.is_classes:
        raise ValueError(f"family: classes are for NatPNClassifier, got {name!r}")
    return families.get(name, **({} if kind is None else kind.parameters(y)))
