"""Predictive distributions, one a row, as numpy arrays in the units of the training targets: what every model offers.

`PredictiveDistribution` adds what only a posterior knows.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from natpn.distributions import Categorical, Distribution, ScalarDistribution
from natpn.estimators.conformal import Calibration, check_coverage

Floats = NDArray[np.float64]

# Counts that are as far from the median as a calibration row are in the interval, rounding or not.
_WITHIN_ONE_DEVIATION = 0.6827  # of a Normal
_TIE = 1e-12
_LEVELS = (np.arange(100) + 0.5) / 100
_DRAWS = 400


class Predictive:
    """Predictive distributions, one a row, in the units of the training targets.

    Args:
        predictive: Distributions with one batch dimension.
        calibration: What held-out rows showed; nothing if None.
    """

    def __init__(self, predictive: Distribution, calibration: Calibration | None = None) -> None:
        self.predictive = predictive
        self._calibration = Calibration(np.zeros(0)) if calibration is None else calibration

    def __len__(self) -> int:
        return int(self.predictive.batch_shape[0])

    def __repr__(self) -> str:
        return f"{type(self).__name__}({len(self)} × {type(self.predictive).__name__})"

    def mean(self) -> Floats:
        """Return the means; inf where there is none."""
        return as_floats(self.predictive.mean)

    def variance(self) -> Floats:
        """Return the variances; inf where there is none."""
        return as_floats(self.predictive.variance)

    def std(self) -> Floats:
        """Return the standard deviations; inf where there is none."""
        deviation: Floats = np.sqrt(self.variance())
        return deviation

    def entropy(self) -> Floats:
        """Return the entropies of the predictive distributions, in nats."""
        return as_floats(self.predictive.entropy())

    def log_prob(self, y: ArrayLike) -> Floats:
        """Return the log-probabilities, or log-densities, of one target a row."""
        return as_floats(self.predictive.log_prob(self._targets(y)))

    def sample(self, n: int = 1, random_state: int | None = None) -> NDArray[Any]:
        """Draw n targets a row, shape (n, rows, …)."""
        if n < 0:
            raise ValueError(f"n: expected a number of draws from 0 on, got {n}")
        with torch.random.fork_rng(devices=[]):
            if random_state is None:
                torch.seed()
            else:
                torch.manual_seed(random_state)
            return self.predictive.sample((n,)).numpy()

    def cdf(self, y: ArrayLike) -> Floats:
        """Return the probabilities of a target of at most y, one a row."""
        return as_floats(self._scalar("cdf").cdf(torch.tensor(np.asarray(y, float))))

    def quantile(self, q: ArrayLike) -> Floats:
        """Return quantiles: shape (rows,) for a number q, (rows, k) for k of them."""
        levels = torch.tensor(np.asarray(q, float))
        found = self._scalar("quantile").icdf(levels.reshape(-1, 1))
        return as_floats(found[0] if levels.ndim == 0 else found.T)

    def interval(self, coverage: float = 0.9) -> Floats:
        """Return intervals (rows, 2) that hold the target with the given probability.

        Between quantiles of equal distance from the median; of which distance, the posterior predictive says, or the
        calibration rows if the model was fitted with calibrate="conformal".
        """
        check_coverage(coverage)
        half = self._calibration.threshold(coverage)
        if half is None:
            half = coverage / 2
        elif self._scalar("interval").target.discrete:
            half += _TIE
        half = min(half, 0.5)
        return self.quantile([0.5 - half, 0.5 + half])

    def equally_likely(self) -> Floats:
        """Return values of equal probability, (rows, K), for `natpn.metrics.crps`: quantiles, or draws of counts.

        Quantiles of counts would be exact too, and take minutes for thousands of rows.
        """
        return self.sample(_DRAWS, 0).T if self._scalar("crps").target.discrete else self.quantile(_LEVELS)

    def median(self) -> Floats:
        """Return the medians."""
        return self.quantile(0.5)

    def centre(self) -> Floats:
        """Return what is predicted: the means, or the medians where no mean exists."""
        return self.mean() if self.predictive.has_moments else self.median()

    def spread(self) -> Floats:
        """Return the standard deviations, or where none exists half the widths of intervals that hold as much."""
        if self.predictive.has_moments:
            return self.std()
        low, high = self.interval(_WITHIN_ONE_DEVIATION).T
        width: Floats = high - low
        return width / 2

    def _targets(self, y: ArrayLike) -> Tensor:
        return torch.tensor(np.asarray(y, float))

    def _scalar(self, what: str) -> ScalarDistribution:
        if not isinstance(self.predictive, ScalarDistribution):
            raise ValueError(f"{what}: {type(self.predictive).__name__} has vectors as targets, which have no order")
        return self.predictive


class ClassPredictive(Predictive):
    """Predictive distributions over classes.

    Args:
        classes: The labels.
        *arguments: Those of the next class.
    """

    predictive: Categorical

    def __init__(self, classes: NDArray[Any], *arguments: Any) -> None:
        super().__init__(*arguments)
        self.classes = classes

    @property
    def probabilities(self) -> Floats:
        """The probability of each class, (rows, classes)."""
        return as_floats(self.predictive.probs)

    def mean(self) -> Floats:
        """Return the probability of each class, (rows, classes)."""
        return self.probabilities

    def sample(self, n: int = 1, random_state: int | None = None) -> NDArray[Any]:
        """Draw n labels a row, shape (n, rows)."""
        drawn: NDArray[Any] = self.classes[super().sample(n, random_state)]
        return drawn

    def mode(self) -> NDArray[Any]:
        """Return the most probable labels."""
        labels: NDArray[Any] = self.classes[self.probabilities.argmax(1)]
        return labels

    def prediction_set(self, coverage: float = 0.9) -> NDArray[np.bool_]:
        """Return which classes are in the set (rows, classes) that holds the target with the given probability.

        The most probable classes that make up the coverage, or, if the model was fitted with calibrate="conformal",
        those that the calibration rows ask for. The most probable class is always in it.
        """
        check_coverage(coverage)
        p = self.probabilities
        limit = self._calibration.threshold(coverage)
        if limit is None:
            order = np.argsort(-p, axis=1, kind="stable")
            ranked = np.take_along_axis(p, order, 1)
            before = np.cumsum(ranked, 1) - ranked
            inside = np.zeros(p.shape, bool)
            np.put_along_axis(inside, order, before < coverage, 1)
        else:
            inside = 1 - p <= limit
        inside[np.arange(len(p)), p.argmax(1)] = True
        return inside

    def cdf(self, y: ArrayLike) -> Floats:
        """Raise: classes have no order."""
        raise ValueError("cdf: classes have no order; use probabilities, or prediction_set")

    quantile: Callable[..., Floats] = cdf
    interval: Callable[..., Floats] = cdf

    def _targets(self, y: ArrayLike) -> Tensor:
        return torch.tensor(encode_labels(np.asarray(y), self.classes).astype(float))


def encode_labels(y: NDArray[Any], classes: NDArray[Any]) -> NDArray[np.int64]:
    """Return the index of each label in the sorted classes.

    Raises:
        ValueError: If a label was not in training.
    """
    # By Python's equality, which is exact: numpy compares some whole numbers as floats.
    known = {label: place for place, label in enumerate(classes.tolist())}
    labels = y.ravel().tolist()
    found = [known.get(label, -1) for label in labels]
    if -1 in found:
        label = labels[found.index(-1)]
        raise ValueError(f"y: the label {label!r} was not in training, where there were {_some(classes.tolist())}")
    return np.array(found, np.int64).reshape(y.shape)


def _some(values: Sequence[object]) -> str:
    return ", ".join(map(repr, values[:10])) + (", …" if len(values) > 10 else "")


def as_floats(x: Tensor) -> Floats:
    """Return a tensor as a float64 array."""
    return np.asarray(x.detach().cpu().numpy(), dtype=np.float64)
