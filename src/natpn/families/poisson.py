"""Poisson: counts (Table 1 and Appendix C.4 of the paper), and what families of one positive mean share.

- Likelihood: λ^y e^{−λ}/y!; u(y) = y.
- Prior: Gamma(α = nχ, β = n); the paper's is χ = 1, n = 1. The marginal of targets with variance s² has
  n = χ/(s² − χ), since the variance of the predictive is χ + χ/n.
- Expected log-likelihood: y (ψ(α) − log n) − χ − log y!, which with D and S of `natpn.special` is
  y φ(nχ) − D(y, χ) − S(y).
- Predictive: negative binomial with mean m = χ and size r = nχ, whose variance is m + m²/r. With the expected split of
  r + y, e_r = (r + y) r/(r + m) and e_y = (r + y) m/(r + m), and T of `natpn.special`:
  log p(y) = T(r, y) − S(y) − D(r, e_r) − D(y, e_y), where r − e_r = e_y − y = r(m − y)/(r + m).
  No term is larger than the answer, so that it holds at m = 10⁸ as it does at 1. r = inf is the Poisson distribution.
- Exposure: a count at exposure e is Poisson with rate eλ, which is Gamma(α, β/e): the same family with eχ and n/e.
  It is exact: a count y at exposure e adds y to α and e to β.
- Entropy: with respect to dλ.
"""

from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch
from scipy import special as sp
from torch import Tensor

from natpn.evidence import Evidence, rounded
from natpn.families.base import FEW, Family, Posterior
from natpn.families.description import COUNT_ENTROPY, COUNT_QUANTILES, Graph
from natpn.families.distribution import COUNTS, INFINITE, TAIL, Array, CountDistribution, array, broadcast
from natpn.special import deviance, digamma_remainder, factorial_remainder, gamma_entropy, narrow, stirling_step, widen

_LARGE_COUNTS = 30.0
_POISSON_SERIES_FROM = 64.0
_LARGE = 1e5  # from here on Temme's expansion serves
# c(η) near 0, where 1/μ − 1/η cancels
_SERIES = (-1 / 3, 1 / 12, -2 / 135, 1 / 864, 1 / 2835, -139 / 777600)


Moments = Callable[[Tensor, Tensor], Tensor]  # of mean and mean square


def times_exposure(evidence: Evidence, exposure: Tensor) -> Evidence:
    """Return evidence about a rate λ ~ Gamma(nχ, n) as evidence about eλ ~ Gamma(nχ, n/e)."""
    (chi, log_n), exposure = evidence.wide(), widen(exposure)
    exact = chi * exposure.unsqueeze(-1), log_n - exposure.log()
    return rounded(exact, evidence.chi.shape[-1], evidence.pool, evidence.chi.dtype)


@dataclass(frozen=True, repr=False)
class PositiveMeanFamily(Family):
    """Families of one statistic of positive mean, by default u(y) = y; the paper's prior is one observation of 1."""

    n_statistics = 1

    def link(self, raw: Tensor) -> Tensor:
        """Map raw outputs to means from 10⁻⁸ to 10⁸, by the exponential."""
        return raw.clamp(-18.42, 18.42).exp()

    def inverse_link(self, chi: Tensor) -> Tensor:
        """Map means to raw outputs."""
        return chi.clamp(1e-8, 1e8).log()

    def largest_mean(self, y: Tensor) -> float | None:
        """Return the largest mean that `link` reaches, if statistics of targets lie beyond."""
        largest = self._statistics(y.double()).max().reshape(1, 1)
        reached = float(self.link(self.inverse_link(largest)))
        return reached if reached < 0.99 * float(largest) else None

    def _statistics(self, y: Tensor) -> Tensor:
        return y.unsqueeze(-1)

    def _default_prior(self) -> tuple[Sequence[float], float]:
        return [1.0], 1.0

    def _marginal(self, y: Tensor, weight: Tensor, n_of: Moments | None = None) -> tuple[Tensor, float]:
        u = self._statistics(y)[..., 0]
        # if all targets are 0, half a count in all of them: a rate of 0 would be certainty
        mean = (weight @ u) / weight.sum() if bool((u > 0).any()) else 0.5 / weight.sum()
        square = (weight @ u.square()) / weight.sum()
        n = float((n_of or self._marginal_n)(mean, torch.maximum(square, mean.square())))
        return mean.unsqueeze(-1), n if 0 < n < FEW else FEW

    @abstractmethod
    def _marginal_n(self, mean: Tensor, square: Tensor) -> Tensor:
        """Return n of the prior whose predictive has this mean and mean square; not positive if none has."""


@dataclass(frozen=True, repr=False)
class Poisson(PositiveMeanFamily):
    """Counts, with a Gamma prior on the rate."""

    suits: ClassVar[str] = "small whole numbers that vary as chance would have it"
    predicts: ClassVar[str] = "a count"
    wider: ClassVar[str | None] = "negative_binomial"
    no_exposure: ClassVar[str | None] = None
    graph = Graph(
        "the rate; n·chi and n are shape and rate of its Gamma posterior, and the predictive is negative binomial "
        "with mean chi and size n·chi",
        aleatoric=None,
        left_out=(COUNT_QUANTILES, COUNT_ENTROPY),
    )
    support = COUNTS

    @classmethod
    def suited(cls, y: Array) -> int | None:
        """Take small counts that are not all the same."""
        counted = y.ndim != 2 and np.all(y >= 0) and np.all(y == np.floor(y))
        return 2 if counted and len(np.unique(y)) > 1 and y.mean() <= _LARGE_COUNTS else None

    def log_likelihood(self, raw: Tensor, y: Tensor) -> Tensor:
        """Return log p(y) at `link(raw)`, −D(y, χ) − S(y): training asks for it at every step."""
        rate, y = widen(self.link(raw))[..., 0], self.support.check(y)
        return narrow(-deviance(y, rate, y - rate) - factorial_remainder(y), raw.dtype)

    def at_exposure(self, evidence: Evidence, exposure: Tensor) -> "PoissonPosterior":
        """Return the posterior with eχ and n/e."""
        return self._posterior(times_exposure(evidence, exposure))

    def _marginal_n(self, mean: Tensor, square: Tensor) -> Tensor:
        return mean / (square - mean.square() - mean)

    def _posterior(self, evidence: Evidence) -> "PoissonPosterior":
        return PoissonPosterior(self, evidence)


class PoissonPosterior(Posterior[Poisson]):
    """Gamma over the rate."""

    def __init__(self, family: Poisson, evidence: Evidence) -> None:
        super().__init__(family, evidence)
        self.rate = self.mean_statistics[..., 0]

    def _expected_log_likelihood(self, y: Tensor) -> Tensor:
        fit = deviance(y, self.rate, y - self.rate)
        return y * digamma_remainder(self.n * self.rate) - fit - factorial_remainder(y)

    def _entropy(self) -> Tensor:
        return gamma_entropy(self.n * self.rate) - self.n.log()

    def predictive(self) -> "NegativeBinomialDistribution":
        """Return the negative binomial with mean χ and size nχ."""
        return NegativeBinomialDistribution(self.rate, self.n * self.rate, self.dtype)

    def likelihood(self) -> "NegativeBinomialDistribution":
        """Return the Poisson with rate χ."""
        return NegativeBinomialDistribution(self.rate, torch.full_like(self.rate, torch.inf), self.dtype)


class NegativeBinomialDistribution(CountDistribution):
    """Counts with the given mean and size; size = inf is the Poisson."""

    def __init__(self, mean: Tensor, size: Tensor, dtype: torch.dtype = torch.float64) -> None:
        self.rate, self.size = broadcast(mean, size.clamp(max=INFINITE))
        super().__init__(self.rate, COUNTS, dtype)

    def _mean(self) -> Tensor:
        return self.rate

    def _variance(self) -> Tensor:
        return self.rate * (1 + self.rate / self.size)

    def _log_prob(self, y: Tensor) -> Tensor:
        mean, size, total = self.rate, self.size, self.size + y
        gap = size / (size + mean) * (mean - y)
        e_size = total / (1 + mean / size)
        e_y = total * (mean / (size + mean))
        return stirling_step(size, y) - factorial_remainder(y) - deviance(size, e_size, gap) - deviance(y, e_y, -gap)

    def _sample(self, shape: torch.Size) -> Tensor:
        size = self.size.expand(shape + self.batch_shape)
        return torch.poisson(self.rate * (torch._standard_gamma(size) / size))

    def _entropy(self) -> Tensor:
        r = 1 / self.rate.clamp(min=_POISSON_SERIES_FROM)
        series = 0.5 * (2 * torch.pi * torch.e / r).log() - r * (1 / 12 + r * (1 / 24 + r * (19 / 360 + r * 9 / 80)))
        is_large_poisson = (self.size >= INFINITE) & (self.rate >= _POISSON_SERIES_FROM)
        return torch.where(is_large_poisson, series, super()._entropy())

    def _cdf(self, y: Array) -> Array:
        return negative_binomial_cdf(y, array(self.rate), array(self.size))

    def _bulk(self) -> tuple[Tensor, Tensor]:
        spread = TAIL * (1 / self.rate + 1 / self.size).detach()
        rate = self.rate.detach()
        return rate * (1 - (2 * spread).sqrt()).clamp(min=0), rate * (1 + (2 * spread).sqrt() + spread)

    def _flat(self, start: int, stop: int) -> "NegativeBinomialDistribution":
        rate, size = (t.reshape(-1)[start:stop] for t in (self.rate, self.size))
        return NegativeBinomialDistribution(rate, size, self.dtype)


def negative_binomial_cdf(y: Array, mean: Array, size: Array) -> Array:
    """Return P(Y ≤ y): an incomplete beta function, or its gamma limit where the size dwarfs the count."""
    y = np.floor(y)
    k = np.clip(y, 0.0, 1e300) + 1
    with np.errstate(over="ignore"):
        limit = upper_gamma(k, (size + (k - 1) / 2) * np.log1p(mean / size))
    beta = sp.betaincc(k, np.minimum(size, 1e6 * k), mean / (size + mean))
    return np.where(y < 0, 0.0, np.where(y == np.inf, 1.0, np.where(size > 1e6 * k, limit, beta)))


def upper_gamma(a: Array, x: Array) -> Array:
    """Return the regularised incomplete gamma function Q(a, x) = Γ(a, x)/Γ(a) for a > 0, x ≥ 0 of any size.

    `scipy.special.gammaincc` loses its digits a few standard deviations from the centre once a is in the millions.
    There, Temme's uniform expansion holds: with μ = x/a − 1, η = ±√(2(μ − log(1 + μ))) and c(η) = 1/μ − 1/η,
    Q(a, x) = ½ erfc(η √(a/2)) + exp(−aη²/2)/√(2πa) · (c(η) − 1/(540 a) + …).
    """
    a, x = np.broadcast_arrays(np.asarray(a, dtype=np.float64), np.asarray(x, dtype=np.float64))
    large = np.maximum(a, _LARGE)
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        mu = np.maximum((np.where(a > _LARGE, x, large) - large) / large, -1 + 1e-15)
        eta = np.copysign(np.sqrt(2 * np.maximum(mu - np.log1p(mu), 0.0)), mu)
        near = np.clip(eta, -0.05, 0.05)
        c = np.where(np.abs(eta) < 0.05, np.polynomial.polynomial.polyval(near, _SERIES), 1 / mu - 1 / eta)
        tail = np.exp(-large * eta**2 / 2) / np.sqrt(2 * np.pi * large) * (c - 1 / (540 * large))
        uniform = np.clip(sp.erfc(eta * np.sqrt(large / 2)) / 2 + np.where(np.isfinite(tail), tail, 0.0), 0.0, 1.0)
        return np.where(a > _LARGE, uniform, sp.gammaincc(np.minimum(a, _LARGE), x))
