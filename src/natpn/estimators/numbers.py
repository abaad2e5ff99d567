"""Numbers, counts and vectors as targets."""

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.utils import check_array, column_or_1d
from torch import Tensor

from natpn.estimators.choice import choose_family
from natpn.estimators.data import DataEstimator, Floats
from natpn.estimators.targets import read_targets
from natpn.estimators.units import Units
from natpn.families import Family

VECTORS = ("multivariate_normal", "multinomial", "von_mises_fisher")


class NumberTargets(DataEstimator):
    """An estimator of numbers, counts or vectors."""

    # Parameters of every subclass.
    family: str | Family
    verbose: int

    # Set by fit.
    units_: Units

    def _read_targets(self, y: Any) -> tuple[Floats, NDArray[np.int64]]:
        values = self._numbers(y, warn=True)
        self.family_ = choose_family(self.family, values)
        if self.family == "auto" and self.verbose:
            print(f"family: {self.family_!r}")
        self._check_support(values)
        return values, np.zeros(len(values), np.int64)

    def _encode_targets(self, y: Any) -> Floats:
        values = self._numbers(y, warn=False)
        self._check_support(values)
        return values

    def _numbers(self, y: Any, warn: bool) -> Floats:
        values = read_targets(y)
        two = values.ndim == 2 and (self.family in (*VECTORS, "auto") or _has_vectors(self.family))
        if not two:
            values = column_or_1d(values, warn=warn)
        elif self.family == "auto" and values.shape[1] == 1:
            values = values[:, 0]
        checked: Floats = check_array(values, ensure_2d=False, dtype=np.float64, input_name="y", estimator=self)
        return checked

    def _check_support(self, y: Floats) -> None:
        self.family_.support.check(torch.tensor(y))

    def _set_family(self, y: Floats, weight: Floats | None) -> None:
        self.units_ = Units.of(self.family_, y, weight)

    def _standardise(self, y: Floats) -> Tensor:
        return self.units_.standardise(y)

    def _express(self, chi: Tensor) -> Tensor:
        return self.units_.express(chi)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = self.family in (*VECTORS, "auto") or _has_vectors(self.family)
        tags.target_tags.single_output = not tags.target_tags.multi_output or self.family == "auto"
        return tags


def _has_vectors(family: object) -> bool:
    return isinstance(family, Family) and bool(family.support.event_shape)
