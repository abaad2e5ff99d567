"""What models say of rows: predictive distributions as numpy arrays, in the units of the training targets.

`Predictive` is what every model offers, and `PredictiveDistribution` adds what only a posterior knows.
"""

from collections.abc import Callable, Iterable, Sequence
from functools import cache
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from scipy.special import expit
from torch import Tensor

from natpn.families import CategoricalDistribution, Distribution, Posterior, ScalarDistribution
from natpn.model.calibration import NOVEL, TIE, Calibration, LocalCalibration, check_coverage

Floats = NDArray[np.float64]
Columns = dict[str, Callable[[], NDArray[Any]]]
"""Columns by name, each calculated when it is called for."""

_WITHIN_ONE_DEVIATION = 0.6827  # of a Normal
_LEVELS = (np.arange(100) + 0.5) / 100
_DRAWS = 400


class Predictive:
    """Predictive distributions, one a row, in the units of the training targets.

    Args:
        predictive: Distributions with one batch dimension.
        calibration: What held-out rows showed; nothing if None.
    """

    def __init__(self, predictive: Distribution, calibration: Calibration | LocalCalibration | None = None) -> None:
        self.predictive = predictive
        self._calibration: Calibration | LocalCalibration = (
            Calibration(np.zeros(0)) if calibration is None else calibration
        )

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

        The ends are quantiles at the same distance from the median. The posterior predictive sets this distance, or the
        calibration rows do if the model was fitted with calibrate="conformal".
        """
        check_coverage(coverage)
        half = np.minimum(self._half(coverage), 0.5)
        found = self._scalar("interval").icdf(torch.from_numpy(np.stack([0.5 - half, 0.5 + half])))
        return as_floats(found.T)

    def limits(self, coverage: float) -> Floats:
        """Return the conformal threshold of each row; inf if its interval or set holds everything.

        Raises:
            ValueError: Without conformal calibration.
        """
        found = self._calibration.threshold(coverage)
        if found is None:
            raise ValueError('limits: expected a model with calibrate="conformal", got one without: fit it with that')
        return np.broadcast_to(found, (len(self),))

    def within(self, y: ArrayLike, coverages: Iterable[float]) -> NDArray[np.bool_]:
        """Return whether each target is in its interval of each coverage, (rows, k)."""
        values = np.asarray(y, float)
        below = self.cdf(values - 1) if self._scalar("interval").target.discrete else None
        scores = distance_from_median(self.cdf(values), below)
        return np.stack([scores <= self._half(coverage) + TIE for coverage in coverages], 1)

    def _half(self, coverage: float) -> Floats:
        """Return the probability between the median and an end of the interval, (rows,) or (1,)."""
        half = self._calibration.threshold(coverage)
        tie = TIE if self._scalar("interval").target.discrete else 0.0
        return np.atleast_1d(coverage / 2 if half is None else half + tie)

    def equally_likely(self) -> Floats:
        """Return values of equal probability, (rows, K), for `natpn.metrics.crps`: quantiles, or draws of counts.

        Quantiles of counts would be exact too, but take minutes for thousands of rows.
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

    def predictions(self, coverage: float) -> Columns:
        """Return `prediction`, `lower` and `upper` by name; for vectors `prediction_0` and so on."""
        if len(self.predictive.event_shape):
            centre = self.centre()
            return {f"prediction_{i}": lambda i=i: centre[:, i] for i in range(centre.shape[1])}  # type: ignore[misc]
        interval = cache(lambda: self.interval(coverage))
        return {"prediction": self.centre, "lower": lambda: interval()[:, 0], "upper": lambda: interval()[:, 1]}

    def uncertainties(self) -> Columns:
        """Return what is said about each prediction, by name."""
        return {}

    def columns(self, coverage: float, names: Iterable[str] | None = None) -> dict[str, NDArray[Any]]:
        """Return predictions and uncertainties in named columns.

        Args:
            coverage: The probability with which the interval holds the target.
            names: Which columns, in this order; all if None. No other is calculated.
        """
        known = self.predictions(coverage) | self.uncertainties()
        return {name: known[name]() for name in (known if names is None else names)}

    def records(self, coverage: float) -> list[dict[str, Any]]:
        """Return the same as one object a row, as JSON can hold it; vectors are lists."""
        found = {name: values() for name, values in self.predictions(coverage).items()}
        if "prediction" not in found:
            found = {"prediction": np.stack(list(found.values()), 1)}
        return self._by_row({name: values.tolist() for name, values in found.items()})

    def _by_row(self, predictions: dict[str, list[Any]]) -> list[dict[str, Any]]:
        columns = predictions | {name: values().tolist() for name, values in self.uncertainties().items()}
        return [dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True)]

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

    predictive: CategoricalDistribution

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

    def predictions(self, coverage: float) -> Columns:
        """Return `prediction`, and `p_` with the label behind it for each class."""
        p = self.probabilities
        found: Columns = {"prediction": lambda: self.classes[p.argmax(1)]}
        return found | {f"p_{label}": lambda i=i: p[:, i] for i, label in enumerate(self.classes)}

    def records(self, coverage: float) -> list[dict[str, Any]]:
        """Return one object a row, as JSON can hold it; `probabilities` has the label of each class."""
        names, p = [str(label) for label in self.classes.tolist()], self.probabilities
        labels, shares = self.classes[p.argmax(1)].tolist(), [dict(zip(names, row, strict=True)) for row in p.tolist()]
        return self._by_row({"prediction": labels, "probabilities": shares})

    def prediction_set(self, coverage: float = 0.9) -> NDArray[np.bool_]:
        """Return which classes are in the set (rows, classes) that holds the target with the given probability.

        The most probable classes that make up the coverage, or, if the model was fitted with calibrate="conformal",
        those that the calibration rows require. The most probable class is always in the set.
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
            inside = 1 - p <= np.reshape(limit, (-1, 1)) + TIE
        inside[np.arange(len(p)), p.argmax(1)] = True
        return inside

    def cdf(self, y: ArrayLike) -> Floats:
        """Raise: classes have no order."""
        raise ValueError("cdf: classes have no order; use probabilities, or prediction_set")

    quantile: Callable[..., Floats] = cdf
    interval: Callable[..., Floats] = cdf

    def _targets(self, y: ArrayLike) -> Tensor:
        return torch.tensor(encode_labels(np.asarray(y), self.classes).astype(float))


class PredictiveDistribution(Predictive):
    """Predictive distributions, one a row, in the units of the training targets.

    Args:
        posterior: Over the parameters, prior included, in the user's units.
        log_evidence: Log of the number of pseudo-observations that the network adds to the prior, one a row.
        prior_log_n: That of the prior.
        calibration: What held-out rows showed.
        trials: How many trials a target has; for counts of classes.
    """

    def __init__(
        self,
        posterior: Posterior[Any],
        log_evidence: Tensor,
        prior_log_n: float,
        calibration: Calibration | LocalCalibration,
        trials: float | None = None,
    ) -> None:
        self.posterior = posterior
        self._trials = () if trials is None else (torch.tensor(trials, dtype=torch.float64),)
        super().__init__(posterior.predictive(*self._trials), calibration)
        self.log_evidence: Floats = as_floats(log_evidence)
        self._prior_log_n = prior_log_n

    @property
    def evidence(self) -> Floats:
        """How many pseudo-observations the network adds to the prior."""
        n: Floats = np.exp(self.log_evidence)
        return n

    @property
    def familiarity(self) -> Floats:
        """The weight n/(n_prior + n) of the evidence: 0 means that the prior speaks, 1 the data."""
        weight: Floats = expit(self.log_evidence - self._prior_log_n)
        return weight

    @property
    def epistemic(self) -> Floats:
        """What is not known: −log(n_prior + n)."""
        total: Floats = np.logaddexp(self.log_evidence, self._prior_log_n)
        return -total

    @property
    def posterior_variance(self) -> Floats:
        """How much the posterior leaves open of a prediction, as a share of the noise: 1/n, with the prior in n."""
        share: Floats = np.exp(self.epistemic)
        return share

    @property
    def aleatoric(self) -> Floats:
        """The noise in the data: the entropy, in nats, of the likelihood at the posterior mean."""
        return as_floats(self.posterior.likelihood(*self._trials).entropy())

    @property
    def novelty_p(self) -> Floats:
        """Conformal p-values: the share of held-out rows that were as unfamiliar, which bounds false alarms."""
        return self._calibration.novelty_p(self.log_evidence)

    @property
    def novel(self) -> NDArray[np.bool_]:
        """Whether a row counts as unlike training: its `novelty_p` is below 0.05."""
        flagged: NDArray[np.bool_] = self.novelty_p < NOVEL
        return flagged

    def uncertainties(self) -> Columns:
        """Return noise, lack of knowledge, familiarity and novelty."""
        novelty_p = cache(lambda: self.novelty_p)
        return {
            "aleatoric": lambda: self.aleatoric,
            "epistemic": lambda: self.epistemic,
            "familiarity": lambda: self.familiarity,
            "novelty_p": novelty_p,
            "novel": lambda: novelty_p() < NOVEL,
        }

    def conformal_scores(self, y: ArrayLike) -> Floats | None:
        """Return how far each target lies from its median, in probability; None for vectors."""
        if not isinstance(self.predictive, ScalarDistribution):
            return None
        values = np.asarray(y, float)
        return distance_from_median(self.cdf(values), self.cdf(values - 1) if self.predictive.target.discrete else None)


class ClassDistribution(ClassPredictive, PredictiveDistribution):
    """Predictive distributions over classes, with their uncertainties.

    Args:
        classes: The labels.
        *arguments: Those of `PredictiveDistribution`.
    """

    @property
    def posterior_variance(self) -> Floats:
        """How much the posterior leaves open of the probabilities together: Σ p (1 − p)/n, with the prior in n."""
        p = self.probabilities
        total: Floats = (p * (1 - p)).sum(1) * super().posterior_variance
        return total

    def conformal_scores(self, y: ArrayLike) -> Floats | None:
        """Return 1 − p of each label."""
        index = encode_labels(np.asarray(y), self.classes)
        scores: Floats = 1 - self.probabilities[np.arange(len(index)), index]
        return scores


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


def distance_from_median(cdf: Floats, cdf_below: Floats | None = None) -> Floats:
    """Return how far targets lie from their medians, in probability.

    Args:
        cdf: The probability of at most the target.
        cdf_below: That of less than the target; the same if None, as it is unless targets are counts.
    """
    below = cdf if cdf_below is None else cdf_below
    distance: Floats = np.maximum(np.maximum(0.5 - cdf, below - 0.5), 0.0)
    return distance


def as_floats(x: Tensor) -> Floats:
    """Return a tensor as a float64 array."""
    return np.asarray(x.detach().cpu().numpy(), dtype=np.float64)
