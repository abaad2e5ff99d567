"""Classes as targets, and the answers about them."""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import ClassifierMixin
from sklearn.utils import column_or_1d
from sklearn.utils.multiclass import check_classification_targets

from natpn.estimators.arrays import read_targets
from natpn.estimators.data import DataEstimator, Floats
from natpn.model import Labels
from natpn.model.answers import ClassPredictive, encode_labels


class ClassTargets(ClassifierMixin, DataEstimator):  # type: ignore[misc]
    """An estimator of classes."""

    # Set by fit.
    targets_: Labels
    classes_: NDArray[Any]

    def _read_targets(self, y: Any) -> tuple[Floats, NDArray[np.int64]]:
        labels = column_or_1d(read_targets(y), warn=True)
        kinds = {type(label).__name__ for label in labels.tolist()}
        if labels.dtype.kind == "O" and kinds == {"int"}:
            raise ValueError(
                f"y: expected whole numbers of at most 64 bits, got {max(labels.tolist(), key=abs)}; make the labels "
                "texts, as in [str(label) for label in y]"
            )
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

    def _learn_targets(self, y: Floats, weight: Floats) -> Labels:
        return Labels.of(self.classes_)

    def predict(self, X: Any) -> NDArray[Any]:
        """Return the most probable label of each row."""
        best = self.predict_proba(X).argmax(1)
        labels: NDArray[Any] = self.classes_[best]
        return labels

    def predict_proba(self, X: Any) -> Floats:
        """Return the probability of each class, (rows, classes)."""
        return np.concatenate([part.mean() for part in self.answers(X)])

    def predict_log_proba(self, X: Any) -> Floats:
        """Return the logarithm of the probability of each class."""
        log: Floats = np.log(self.predict_proba(X))
        return log

    def score(self, X: Any, y: Any, sample_weight: ArrayLike | None = None) -> float:
        """Return the accuracy."""
        return float(super().score(X, read_targets(y), sample_weight))

    def predict_set(self, X: Any, coverage: float = 0.9) -> NDArray[np.bool_]:
        """Return which classes are in a set that holds the label with the given probability, (rows, classes)."""
        distribution: ClassPredictive = self.predict_dist(X)
        return distribution.prediction_set(coverage)
