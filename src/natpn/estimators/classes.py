"""Classes as targets."""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import column_or_1d
from sklearn.utils.multiclass import check_classification_targets
from torch import Tensor, from_numpy

from natpn import families
from natpn.estimators.data import DataEstimator, Floats
from natpn.estimators.prediction import encode_labels
from natpn.estimators.targets import read_targets


class ClassTargets(DataEstimator):
    """An estimator of classes."""

    classes_: NDArray[Any]

    def _read_targets(self, y: Any) -> tuple[Floats, NDArray[np.int64]]:
        labels = column_or_1d(read_targets(y), warn=True)
        kinds = {type(label).__name__ for label in labels.tolist()}
        if labels.dtype.kind == "O" and kinds != {"str"}:
            raise ValueError(
                f"Unknown label type: y holds labels of the types {', '.join(sorted(kinds))}; make them all texts, as "
                "in [str(label) for label in y], or all whole numbers"
            )
        if labels.dtype.kind == "f" and not np.isfinite(labels).all():
            raise ValueError("Input y contains infinity, which is no label")
        check_classification_targets(labels)
        self.classes_, index = np.unique(labels, return_inverse=True)
        if len(self.classes_) < 2:
            raise ValueError(
                f"Classifier can't train when only one class is present: y holds {self.classes_.tolist()[0]!r} alone"
            )
        return index.astype(float), index.astype(np.int64)

    def _encode_targets(self, y: Any) -> Floats:
        return encode_labels(column_or_1d(read_targets(y)), self.classes_).astype(float)

    def _set_family(self, y: Floats, weight: Floats | None) -> None:
        self.family_ = families.get("categorical", n_classes=len(self.classes_))

    def _standardise(self, y: Floats) -> Tensor:
        return from_numpy(y.astype(np.float32))

    def _labels(self, y: Floats) -> NDArray[Any]:
        labels: NDArray[Any] = self.classes_[y.astype(np.int64)]
        return labels
