"""Gamma: positive numbers with known shape k; k = 1 is the exponential distribution, which has a family of its own.

- Likelihood: λ^k y^{k−1} e^{−λy}/Γ(k); u(y) = y, whose mean is k/λ.
- Prior: Gamma(α = kn + 1, β = nχ) on the rate λ, under which the mean of k/λ is χ; by default, as for
  `poisson`, χ = 1, n = 1.
  The marginal of targets with mean square c χ² has n = c/(ck − k − 1), since that of the predictive is
  χ² (k + 1) n/(kn − 1).
- Expected log-likelihood: k (ψ(α) − log β) + (k − 1) log y − E[λ] y − log Γ(k) with E[λ] = α/β = (k + 1/n)/χ, which is
  k [φ(α) + log(E[λ] y)] − log y − log Γ(k) − E[λ] y.
- Predictive: the compound Gamma with a = α and scale s = 1/E[λ], whose mean is χ: a Gamma of shape k whose rate is
  Gamma(a, b), s = b/a. y/b is beta-prime, and for k = 1 it is the Lomax distribution. With C of `natpn.special`,
  log p(y) = C(a, k) − log Γ(k) + (k − 1) log(y/s) − log s − (a + k) log(1 + y/(a s));
  its entropy is log Γ(k) − C(a, k) − (k − 1)(ψ(k) − φ(a)) + (a + k)(ψ(a + k) − ψ(a)) + log s.
  a = inf is the Gamma with shape k and scale s. The mean k a s/(a − 1) is inf for a ≤ 1, the variance for a ≤ 2.
- Entropy: with respect to dλ.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import ClassVar

import numpy as np
import torch
from scipy import special as sp
from torch import Tensor

from natpn.evidence import Evidence
from natpn.families.base import Posterior, positive_parameter
from natpn.families.description import REACH, Graph
from natpn.families.distribution import INFINITE, POSITIVE, Array, ScalarDistribution, array, broadcast
from natpn.families.poisson import PositiveMeanFamily
from natpn.special import digamma, digamma_remainder, gamma_entropy, rising_remainder


def _lomax_quantiles(levels: Sequence[float]) -> Callable[["CompoundGamma"], Tensor]:
    """Return what returns quantiles for shape 1, where F(y) = 1 − (1 + y/(a s))^{−a}."""
    exponent = -torch.log1p(-torch.tensor(levels, dtype=torch.float64))

    def quantiles(predictive: "CompoundGamma") -> Tensor:
        scale, a = predictive.scale.unsqueeze(-1), predictive.a.unsqueeze(-1)
        return scale * a * torch.expm1(exponent / a)

    return quantiles


@dataclass(frozen=True, repr=False)
class Gamma(PositiveMeanFamily):
    """Positive numbers of known shape, with a Gamma prior on the rate."""

    predicts: ClassVar[str] = "a positive number"
    support = POSITIVE

    shape: float = 1.0

    def __post_init__(self) -> None:
        positive_parameter("shape", self.shape)

    def location_and_scale(self, y: Array, weight: Array | None) -> tuple[Array, Array]:
        """Return 0 and the mean."""
        return np.zeros(1), np.average(y.reshape(len(y), -1), axis=0, weights=weight)

    def standardise(self, y: Array, location: Array, scale: Array) -> Array:
        """Return y/s, kept above 0."""
        return np.maximum(y / scale, np.exp(-REACH))

    def rescaling(self, location: Tensor, scale: Tensor) -> tuple[Tensor, Tensor]:
        """Return what turns χ into s χ."""
        return scale, torch.zeros_like(scale)

    @property
    def graph(self) -> Graph:
        """Quantiles for shape 1 only: others are not elementary."""
        standard = float(gamma_entropy(torch.tensor(self.shape, dtype=torch.float64))) - math.log(self.shape)
        about = "Quantiles and intervals are left out: those of the compound Gamma are not elementary."
        return Graph(
            "the mean; k·n + 1 and n·chi are shape and rate of the Gamma posterior of the rate, k being the shape",
            aleatoric=lambda posterior: standard + posterior.mean.log(),
            quantiles=_lomax_quantiles if self.shape == 1 else None,
            left_out=() if self.shape == 1 else (about,),
        )

    def _marginal_n(self, mean: Tensor, square: Tensor) -> Tensor:
        ratio = square / mean.square()
        return ratio / (ratio * self.shape - self.shape - 1)

    def _posterior(self, evidence: Evidence) -> "GammaPosterior":
        return GammaPosterior(self, evidence)


@dataclass(frozen=True, repr=False)
class Exponential(Gamma):
    """Waiting times, with a Gamma prior on the rate: the Gamma of shape 1."""

    predicts: ClassVar[str] = "a positive number, such as a waiting time"

    shape: float = field(default=1.0, init=False)

    @property
    def graph(self) -> Graph:
        """The outputs of the Gamma, whose shape is known to be 1."""
        parameters = "the mean; n + 1 and n·chi are shape and rate of the Gamma posterior of its inverse"
        return replace(super().graph, parameters=parameters)


class GammaPosterior(Posterior[Gamma]):
    """Gamma over the rate."""

    def __init__(self, family: Gamma, evidence: Evidence) -> None:
        super().__init__(family, evidence)
        self.mean = self.mean_statistics[..., 0]
        self.k = torch.full_like(self.mean, family.shape)
        self.alpha = self.k * self.n + 1
        self.scale = self.mean / (self.k + 1 / self.n)

    def _expected_log_likelihood(self, y: Tensor) -> Tensor:
        x = y / self.scale
        return self.k * (digamma_remainder(self.alpha) + x.log()) - y.log() - torch.lgamma(self.k) - x

    def _entropy(self) -> Tensor:
        return gamma_entropy(self.alpha) - (self.n * self.mean).log()

    def predictive(self) -> "CompoundGamma":
        """Return the compound Gamma, whose mean is χ."""
        return CompoundGamma(self.k, self.scale, self.alpha, self.dtype)

    def likelihood(self) -> "CompoundGamma":
        """Return the Gamma with mean χ."""
        return CompoundGamma(self.k, self.mean / self.k, torch.full_like(self.k, torch.inf), self.dtype)


class CompoundGamma(ScalarDistribution):
    """Positive numbers from a Gamma with a given shape and a rate that is Gamma(a, a·scale); a = inf if it is known."""

    def __init__(self, shape: Tensor, scale: Tensor, a: Tensor, dtype: torch.dtype = torch.float64) -> None:
        self.shape, self.scale, self.a = broadcast(shape, scale, a.clamp(max=INFINITE))
        super().__init__(self.scale, POSITIVE, dtype)

    def _mean(self) -> Tensor:
        a = self.a.clamp(min=1)
        return torch.where(self.a > 1, self.shape * self.scale / (1 - 1 / a), torch.inf)

    def _variance(self) -> Tensor:
        a = self.a.clamp(min=2)
        inflation = (1 + (self.shape - 1) / a) / ((1 - 1 / a) ** 2 * (1 - 2 / a))
        return torch.where(self.a > 2, self.shape * self.scale**2 * inflation, torch.inf)

    def _log_prob(self, y: Tensor) -> Tensor:
        k, x = self.shape, y / self.scale
        constant = rising_remainder(self.a, k) - torch.lgamma(k) - self.scale.log()
        return constant + (k - 1) * x.log() - (self.a + k) * torch.log1p(x / self.a)

    def _sample(self, shape: torch.Size) -> Tensor:
        k, a = (t.expand(shape + self.batch_shape) for t in (self.shape, self.a))
        return self.scale * torch._standard_gamma(k) / (torch._standard_gamma(a) / a)

    def _entropy(self) -> Tensor:
        k, a = self.shape, self.a
        step = torch.log1p(k / a) + digamma_remainder(a + k) - digamma_remainder(a)
        rate = torch.lgamma(k) - rising_remainder(a, k) - (k - 1) * (digamma(k) - digamma_remainder(a))
        return rate + (a + k) * step + self.scale.log()

    def _cdf(self, y: Array) -> Array:
        k, a = array(self.shape), array(self.a)
        with np.errstate(invalid="ignore", over="ignore"):
            x = np.maximum(y, 0.0) / array(self.scale)
            limit = sp.gammainc(k, (a + (k - 1) / 2) * np.log1p(x / a))
            near = np.minimum(a, 1e6 * (k + 1))
            beta = sp.betainc(k, near, x / (near + x))
        return np.where(y == np.inf, 1.0, np.where(a > near, limit, beta))

    def _icdf(self, q: Array) -> Array:
        k, a = array(self.shape), array(self.a)
        near = np.minimum(a, 1e6 * (k + 1))
        with np.errstate(divide="ignore", over="ignore"):
            limit = a * np.expm1(sp.gammaincinv(k, q) / (a + (k - 1) / 2))
            low, high = sp.betaincinv(k, near, q), sp.betaincinv(near, k, 1 - q)
            beta = near * np.where(low < 0.5, low / (1 - low), (1 - high) / high)
        return np.asarray(array(self.scale) * np.where(q == 1, np.inf, np.where(a > near, limit, beta)))
