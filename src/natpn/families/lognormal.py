"""Log-normal: positive numbers whose logarithm is Normal with unknown mean and variance.

- Likelihood: N(log y | μ, σ²)/y; u(y) = (log y, log² y), held centred as in the `normal` family.
- Prior: Normal-Inverse-Gamma on the logarithm; by default, as for `normal`, χ = (0, 100), n = 1.
- Expected log-likelihood: the `normal` family's at log y, less log y.
- Predictive: the exponential of Student's t.
- Entropy: with respect to dμ dσ².
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor

from natpn.evidence import Evidence
from natpn.families.description import REACH, Graph
from natpn.families.distribution import INFINITE, POSITIVE, Array, Support
from natpn.families.normal import Normal, NormalPosterior, StudentT, student_quantiles
from natpn.special import HALF_LOG_2PI

_SKEWED = 0.3
_RATIO = 2.0  # of large to small targets, below which a logarithm is as good as a straight line


def _skewness(x: Array) -> float:
    spread = x.std()
    return float(np.mean((x - x.mean()) ** 3) / spread**3) if spread > 0 else 0.0


def _quantiles(levels: Sequence[float]) -> Callable[["LogStudentT"], Tensor]:
    of_logarithm = student_quantiles(levels)
    return lambda predictive: of_logarithm(predictive).exp()


@dataclass(frozen=True, repr=False)
class LogNormal(Normal):
    """Positive numbers, log-normal with unknown parameters, with a Normal-Inverse-Gamma prior on the logarithm."""

    suits: ClassVar[str] = "positive numbers with a long upper tail"
    predicts: ClassVar[str] = "a positive number, most of which are small and some much larger"
    graph = Graph(
        "mean and variance of the logarithm; the predictive is the exponential of Student's t with n degrees of "
        "freedom, that centre, and scale² = variance·(n + 1)/n",
        "the median of the predictive distribution, which has no mean",
        predict=lambda predictive: predictive.loc.exp(),
        deviation=False,
        aleatoric=lambda posterior: HALF_LOG_2PI + 0.5 + 0.5 * posterior.variance.log() + posterior.mean,
        quantiles=_quantiles,
        left_out=("The standard deviation is left out: the predictive distribution has none.",),
    )
    support = POSITIVE

    @classmethod
    def suited(cls, y: Array) -> int | None:
        """Take positive numbers with a long upper tail, whose logarithm is less skewed than they are.

        On nine real tables of such numbers, from hotel rates to wages, the CRPS was 0.81 to 1.02 times that of
        `normal`, 0.96 in the mean.
        """
        if y.ndim == 2 or not np.all(y > 0):
            return None
        (low, high), skewness = np.quantile(y, [0.01, 0.99]), _skewness(y)
        return 1 if high > _RATIO * low and skewness > max(_SKEWED, abs(_skewness(np.log(y)))) else None

    def location_and_scale(self, y: Array, weight: Array | None) -> tuple[Array, Array]:
        """Return mean and standard deviation of the logarithm."""
        return super().location_and_scale(np.log(y), weight)

    def standardise(self, y: Array, location: Array, scale: Array) -> Array:
        """Return exp((log y − l)/s)."""
        standard: Array = np.exp(np.clip((np.log(y) - location) / scale, -REACH, REACH))
        return standard

    def log_likelihood(self, raw: Tensor, y: Tensor) -> Tensor:
        """Return log p(y) at `link(raw)`: the `normal` family's at log y, less log y."""
        log_y = self.support.check(y).log()
        return Normal().log_likelihood(raw, log_y) - log_y.to(raw.dtype)

    def _statistics(self, y: Tensor) -> Tensor:
        return super()._statistics(y.log())

    def _posterior(self, evidence: Evidence) -> "LogNormalPosterior":
        return LogNormalPosterior(self, evidence)


class LogNormalPosterior(NormalPosterior):
    """Normal-Inverse-Gamma over mean and variance of the logarithm."""

    def _expected_log_likelihood(self, y: Tensor) -> Tensor:
        return super()._expected_log_likelihood(y.log()) - y.log()

    def predictive(self) -> "LogStudentT":
        """Return the exponential of Student's t with n degrees of freedom: it has quantiles but no moments."""
        t = super().predictive()
        return LogStudentT(t.loc, t.scale, t.df, self.dtype)

    def likelihood(self) -> "LogStudentT":
        """Return the log-normal with the posterior mean parameters."""
        t = super().likelihood()
        return LogStudentT(t.loc, t.scale, t.df, self.dtype)


class LogStudentT(StudentT):
    """The exponential of a Student's t: positive targets whose logarithm has the given centre and scale.

    For finite df it has no moments: mean and variance are inf, and quantiles serve in their place.
    """

    has_moments: ClassVar[bool] = False
    values: ClassVar[Support] = POSITIVE

    def _mean(self) -> Tensor:
        return torch.where(self.df >= INFINITE, (self.loc + self.scale**2 / 2).exp(), torch.inf)

    def _variance(self) -> Tensor:
        variance = self.scale**2
        return torch.where(self.df >= INFINITE, torch.expm1(variance) * (2 * self.loc + variance).exp(), torch.inf)

    def _log_prob(self, y: Tensor) -> Tensor:
        return super()._log_prob(y.log()) - y.log()

    def _sample(self, shape: torch.Size) -> Tensor:
        return super()._sample(shape).exp()

    def _entropy(self) -> Tensor:
        return super()._entropy() + self.loc

    def _cdf(self, y: Array) -> Array:
        with np.errstate(divide="ignore"):
            return super()._cdf(np.log(np.maximum(y, 0.0)))

    def _icdf(self, q: Array) -> Array:
        with np.errstate(over="ignore"):
            return np.exp(super()._icdf(q))
