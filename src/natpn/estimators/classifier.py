"""Classes as targets, the answers about them, and the classifier."""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import ClassifierMixin
from sklearn.utils import column_or_1d
from sklearn.utils.multiclass import check_classification_targets

from natpn.estimators.arrays import read_targets
from natpn.estimators.base import NatPNEstimator
from natpn.estimators.data_estimator import DataEstimator, Floats
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


class NatPNClassifier(ClassTargets, NatPNEstimator):
    """Predict classes, the noise in the data, and how much is known.

    Args:
        encoder: "auto", "tabular", "image", "resnet9", "resnet18", a module that maps standardised inputs to
            (rows, latent_dim), or a function that makes one; members of an ensemble have copies of a module, weights
            included, and modules of their own from a function.
        density: "auto", "gaussian_mixture", "radial", "maf", "spline", or a `natpn.densities.Density`.
        latent_dim: The size of the latent vector.
        budget: "auto", or a certainty budget: "gradual", "learned", "constant", "rows", "exp_half", "exp", "normal".
        prior: What is believed without any evidence. "marginal" is the share of each class in training; "paper" all
            classes alike, which its scheme uses in place of "marginal"; or probabilities and how many rows they are
            worth, (chi, n).
        scheme: "staged", or "paper" for the network and the training of the paper; or a `natpn.training.Staged` or
            `Paper` with settings of its own.
        ensemble_size: How many networks; their evidence is added. "auto" is two for tables by the default scheme, which
            are more accurate than one and take longer, and one for anything else.
        max_epochs: Epochs of the main phase; by default by the number of rows.
        batch_size: Rows a step; by default by the number of rows.
        learning_rate: The learning rate, or its peak.
        entropy_weight: Weight of the entropy in the paper's loss.
        patience: Epochs without progress before training stops.
        validation_fraction: Share of rows held out for early stopping and calibration. Networks of an ensemble each
            hold out other rows: every row is held out once if there are enough of them; two to four hold out down to
            half of that share each, as long as it is 300 rows.
        calibrate: "conformal" sets half of the held-out rows aside, so that sets and `novelty_p` hold exactly.
        groups: A column of X, by name or number, by whose values sets are calibrated: each value with 20 calibration
            rows or more has sets that hold for its rows alone. Rarer values, and those that are new, share one
            calibration. It needs calibrate="conformal".
        device: "cpu", "cuda", "auto".
        checkpoint_dir: Where to write checkpoints, and to go on from.
        random_state: The seed.
        verbose: 1 shows a progress bar.

    Attributes:
        classes_: The labels.
        family_: What the targets are.
        network_: The trained network.
        history_: One entry an epoch.
        n_features_in_: The number of columns in training.
        feature_names_in_: Their names, if they had any.

    Example:
        >>> from sklearn.datasets import load_iris
        >>> X, y = load_iris(return_X_y=True)
        >>> model = NatPNClassifier(random_state=0).fit(X, y)
        >>> familiar, far = model.predict_dist([X[0], X[0] + 1000]).familiarity
        >>> bool(familiar > 0.9), bool(far < 0.1)
        (True, True)
    """
