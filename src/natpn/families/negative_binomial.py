"""Negative binomial: successes before the r-th failure, r known; r = 1 is the geometric distribution.

The size r may be left open (None): a network is then trained as for Poisson counts, of which the mean does not depend
on r, and r is found on held-out rows (`refined`), where it may turn out that Poisson suffices.

- Likelihood: Γ(y + r)/(Γ(r) y!) p^y (1 − p)^r; u(y) = y, whose mean is r p/(1 − p).
- Prior: Beta(a = nχ, b = nr + 1), under which the mean of r p/(1 − p) is χ; by default, as for `poisson`, χ = 1 and
  n = 1. The marginal of targets with mean square t has n = (q + rχ)/(r(q − χ²)) with q = (t − χ) r/(r + 1), the mean
  square of r p/(1 − p).
- Expected log-likelihood: log Γ(y + r)/(Γ(r) y!) + y (ψ(a) − ψ(s)) + r (ψ(b) − ψ(s)), s = a + b, which with the
  likelihood NB(y | χ) at mean χ and ε = log(1 + 1/(n(χ + r))) is
  log NB(y | χ) + y [φ(a) − φ(s) − ε] + r [φ(b) − φ(s) − ε + log(1 + 1/(nr))].
- Predictive: beta negative binomial, whose p is Beta(a, b). With D, T, S of `natpn.special`, N = a + b + r + y and
  δ = (a r − b y)/N, the main part is the deviance of the table [[a, b], [y, r]] from independence: log p(y) =
  T(a, y) + T(b, r) + T(r, y) − T(a + b, r + y) − S(y) − D(a, a − δ) − D(b, b + δ) − D(y, y + δ) − D(r, r − δ).
  The mean r a/(b − 1) is inf for b ≤ 1, the variance for b ≤ 2.
- Exposure: a count at exposure e has mean eμ and the same size r, as in regressions with an offset: the rate of a row
  is Gamma of shape r around what is expected of it, and that does not vanish with the exposure. Counties with millions
  of people have unexpected rates, too. (A sum of e independent units would have size er.) A Beta prior is not conjugate
  to counts of several exposures. So μ is Gamma(nχ, n) here, as for `poisson`, and the product of the two Gammas is
  replaced by one of the same mean and variance: the predictive is negative binomial with mean eχ and size s, where
  1/s = 1/r + 1/(nχ) + 1/(rnχ). Its mean and variance are exact at every e; everything is for n → ∞ and for r → ∞. The
  marginal has n = χ/(q − χ²).
- Entropy: with respect to dp.
"""

import math
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import torch
from scipy import special as sp
from scipy.optimize import minimize_scalar
from torch import Tensor

from natpn.evidence import Evidence
from natpn.families.base import Family, Posterior, positive_parameter
from natpn.families.categorical import dirichlet_entropy
from natpn.families.description import COUNT_ENTROPY, COUNT_QUANTILES, Graph
from natpn.families.distribution import COUNTS, TAIL, Array, CountDistribution, array, broadcast
from natpn.families.poisson import (
    NegativeBinomialDistribution,
    Poisson,
    PositiveMeanFamily,
    negative_binomial_cdf,
    times_exposure,
)
from natpn.special import deviance, digamma_remainder, factorial_remainder, gamma_entropy, stirling_step, widen

_NODES, _WEIGHTS = (np.asarray(a) for a in sp.roots_legendre(32))
_FALL = np.array([-40.0, -12, -6, -3, -1, 0, 1, 3, 6, 12, 40])
_PEAK = np.array([-9.0, -4, -1.5, 0, 1.5, 4, 9])
_ROWS = 4096
_FEW = 4096  # up to here a sum is quicker than an integral


@dataclass(frozen=True, repr=False)
class NegativeBinomial(PositiveMeanFamily):
    """Counts of size r, with a Beta prior; with r = None they are Poisson until `refined` finds r."""

    suits: ClassVar[str] = "small whole numbers that vary more than by chance: held-out rows say so"
    predicts: ClassVar[str] = "a count that varies widely"
    no_exposure: ClassVar[str | None] = None
    graph = Graph(
        "the mean; n·chi and n·r + 1 are the parameters of the Beta posterior of the probability of success",
        aleatoric=None,
        left_out=(COUNT_QUANTILES, COUNT_ENTROPY),
    )
    support = COUNTS

    r: float | None = 1.0

    def __post_init__(self) -> None:
        if self.r is not None:
            positive_parameter("r", self.r)

    def opened(self) -> Family:
        """Return the family of open size."""
        return NegativeBinomial(None)

    def refined(self, raw: Tensor, y: Tensor, weight: Tensor) -> Family:
        """Return the family with the size of the best held-out likelihood, or Poisson if that is as good."""
        if self.r is not None:
            return self
        rate, weight = widen(self.link(raw))[..., 0], weight.double()
        y = self.support.check(y).double()

        def loss(log_size: float) -> float:
            size = torch.full_like(rate, math.exp(log_size))
            return -float(weight @ NegativeBinomialDistribution(rate, size)._log_prob(y))

        found = minimize_scalar(loss, bounds=(-6, 12), method="bounded")
        poisson = -float(weight @ Poisson().log_likelihood(widen(raw), y))
        return NegativeBinomial(math.exp(found.x)) if found.fun < poisson - 1 else Poisson()  # one more parameter

    def log_likelihood(self, raw: Tensor, y: Tensor) -> Tensor:
        """Return log p(y) at `link(raw)`; that of Poisson while r is open."""
        return Poisson().log_likelihood(raw, y) if self.r is None else super().log_likelihood(raw, y)

    def at_exposure(self, evidence: Evidence, exposure: Tensor) -> Posterior[Any]:
        """Return the posterior with a Gamma over the rate, around which those of rows vary."""
        if self.r is None:
            return Poisson().at_exposure(evidence, exposure)
        return VaryingRates(self, times_exposure(evidence, exposure))

    def _exposed_marginal(self, rate: Tensor, weight: Tensor) -> tuple[Tensor, float]:
        return self._marginal(rate, weight, self._exposed_n)

    def _exposed_n(self, mean: Tensor, square: Tensor) -> Tensor:
        if self.r is None:
            return Poisson()._marginal_n(mean, square)
        return mean / ((square - mean) * self.r / (self.r + 1) - mean.square())

    def _marginal_n(self, mean: Tensor, square: Tensor) -> Tensor:
        if self.r is None:
            return Poisson()._marginal_n(mean, square)
        of_rate = (square - mean) * self.r / (self.r + 1)
        return (of_rate + self.r * mean) / (self.r * (of_rate - mean.square()))

    def _posterior(self, evidence: Evidence) -> Posterior[Any]:
        return Poisson()._posterior(evidence) if self.r is None else NegativeBinomialPosterior(self, evidence)


class NegativeBinomialPosterior(Posterior[NegativeBinomial]):
    """Beta over the probability of success."""

    def __init__(self, family: NegativeBinomial, evidence: Evidence) -> None:
        super().__init__(family, evidence)
        self.rate = self.mean_statistics[..., 0]
        self.r = torch.full_like(self.rate, math.nan if family.r is None else family.r)
        self.a, self.b = self.n * self.rate, self.n * self.r + 1

    def _expected_log_likelihood(self, y: Tensor) -> Tensor:
        total = digamma_remainder(self.a + self.b) + torch.log1p(1 / (self.n * (self.rate + self.r)))
        success = digamma_remainder(self.a) - total
        failure = digamma_remainder(self.b) - total + torch.log1p(1 / (self.n * self.r))
        return self.likelihood()._log_prob(y) + y * success + self.r * failure

    def _entropy(self) -> Tensor:
        return dirichlet_entropy(torch.stack([self.a, self.b], -1), self.a + self.b)

    def predictive(self) -> "BetaNegativeBinomial":
        """Return the beta negative binomial, whose mean is χ."""
        return BetaNegativeBinomial(self.a, self.b, self.r, self.dtype)

    def likelihood(self) -> NegativeBinomialDistribution:
        """Return the negative binomial with mean χ and size r."""
        return NegativeBinomialDistribution(self.rate, self.r, self.dtype)


class VaryingRates(Posterior[NegativeBinomial]):
    """Gamma over the mean rate, around which the rates of rows vary: what is known of a count at some exposure."""

    def __init__(self, family: NegativeBinomial, evidence: Evidence) -> None:
        super().__init__(family, evidence)
        self.rate = self.mean_statistics[..., 0]
        self.r = torch.full_like(self.rate, math.nan if family.r is None else family.r)
        self.a = self.n * self.rate

    def predictive(self) -> NegativeBinomialDistribution:
        """Return the negative binomial with mean χ and the variance of the mixture."""
        return NegativeBinomialDistribution(self.rate, 1 / (1 / self.r + (1 + 1 / self.r) / self.a), self.dtype)

    def likelihood(self) -> NegativeBinomialDistribution:
        """Return the negative binomial with mean χ and size r."""
        return NegativeBinomialDistribution(self.rate, self.r, self.dtype)

    def _expected_log_likelihood(self, y: Tensor) -> Tensor:
        raise ValueError(
            f"exposure: the paper's loss has no closed form for {self.family!r} with exposures; choose family='poisson'"
            ", or scheme='staged'"
        )

    def _entropy(self) -> Tensor:
        return gamma_entropy(self.a) - self.n.log()


class BetaNegativeBinomial(CountDistribution):
    """Counts of a negative binomial whose p is Beta(a, b)."""

    def __init__(self, a: Tensor, b: Tensor, size: Tensor, dtype: torch.dtype = torch.float64) -> None:
        self.a, self.b, self.size = broadcast(a, b, size)
        super().__init__(self.a, COUNTS, dtype)

    def _mean(self) -> Tensor:
        return torch.where(self.b > 1, self.size * self.a / (self.b - 1).clamp(min=0), torch.inf)

    def _variance(self) -> Tensor:
        less = (self.b - 1).clamp(min=1)
        inflation = (self.size + less) / (less - 1) * ((self.a + less) / less)
        return torch.where(self.b > 2, self.size * self.a / less * inflation, torch.inf)

    def _log_prob(self, y: Tensor) -> Tensor:
        a, b, r = self.a, self.b, self.size
        total = (a + b) + (r + y)
        delta = a / total * r - b / total * y
        share = (a + b) / total
        table = (
            deviance(a, share * (a + y), delta)
            + deviance(b, share * (b + r), -delta)
            + deviance(y, (r + y) / total * (a + y), -delta)
            + deviance(r, (r + y) / total * (b + r), delta)
        )
        constants = stirling_step(a, y) + stirling_step(b, r) + stirling_step(r, y) - stirling_step(a + b, r + y)
        return constants - factorial_remainder(y) - table

    def _sample(self, shape: torch.Size) -> Tensor:
        a, b, size = (torch._standard_gamma(t.expand(shape + self.batch_shape)) for t in (self.a, self.b, self.size))
        return torch.poisson((a / b * size).clamp(max=1e18))

    def _cdf(self, y: Array) -> Array:
        zero = array(self._log_prob(torch.zeros_like(self.a)))
        values = np.broadcast_arrays(y, *(array(t) for t in (self.a, self.b, self.size)), zero)
        flat = [v.reshape(-1) for v in values]
        result = np.empty(flat[0].size)
        order = np.argsort(flat[0], kind="stable")  # so that the rows of a chunk need tables of similar length
        n_few = int(np.searchsorted(flat[0][order], _FEW))
        for chosen, function, chunk in (
            (order[:n_few], _summed_cdf, _ROWS // 8),
            (order[n_few:], _integrated_cdf, _ROWS),
        ):
            for i in range(0, len(chosen), chunk):
                rows = chosen[i : i + chunk]
                result[rows] = function(*(v[rows, None] for v in flat))
        return result.reshape(values[0].shape)

    def _guess(self, q: Array, sd: Array) -> Array:
        """Count how many of the first counts have a cdf below q; the search does the rest."""
        shape = q.shape
        zero = self._log_prob(torch.zeros_like(self.a))
        parameters = [array(t.reshape(-1, 1)) for t in (self.a, self.b, self.size, zero)]
        n_rows = len(parameters[0])
        levels = q.reshape(-1, n_rows) if n_rows else q.reshape(1, 0)
        found = super()._guess(q, sd).reshape(levels.shape)
        order = np.argsort(found.max(0), kind="stable")
        for i in range(0, n_rows, _ROWS // 8):
            rows = order[i : i + _ROWS // 8]
            n = int(np.clip(2 * found[:, rows].max() + 16, 16, _FEW))
            table = _table([v[rows] for v in parameters], n)
            for place, level in enumerate(levels):
                below = (table < level[rows, None]).sum(-1)
                found[place, rows] = np.where(below < n, below, found[place, rows])
        return found.reshape(shape)

    def _bulk(self) -> tuple[Tensor, Tensor]:
        a, b, size = (t.detach() for t in (self.a, self.b, self.size))
        low, high = _log_odds_bulk(array(a), array(b))
        odds_low, odds_high = (torch.as_tensor(t, device=a.device).clamp(max=690).exp() for t in (low, high))
        # below: the rate at the lowest odds, less its own spread; above likewise
        low_rate, high_rate = size * odds_low, size * odds_high
        spread_low, spread_high = (TAIL * (1 / rate + 1 / size) for rate in (low_rate, high_rate))
        below = low_rate * (1 - (2 * spread_low).sqrt()).clamp(min=0)
        return below, high_rate * (1 + (2 * spread_high).sqrt() + spread_high)

    def _flat(self, start: int, stop: int) -> "BetaNegativeBinomial":
        a, b, size = (t.reshape(-1)[start:stop] for t in (self.a, self.b, self.size))
        return BetaNegativeBinomial(a, b, size, self.dtype)


def _log_odds_bulk(a: Array, b: Array) -> tuple[Array, Array]:
    """Return log-odds beyond which Beta(a, b) has at most about exp(−TAIL) of its mass."""
    centre = np.log(a) - np.log(b)
    width = np.sqrt(2 * TAIL * (1 / a + 1 / b))
    return centre - width - TAIL / a, centre + width + TAIL / b


def _table(parameters: list[Array], n: int) -> Array:
    """Return the cdf of the counts 0 … n − 1, (rows, n), by summation.

    The parameters are a, b, the size and the log-probability of 0, each of shape (rows, 1).
    """
    a, b, size, zero = parameters
    count = np.arange(n - 1.0)
    ratios = np.log((a + count) / (count + 1)) - np.log1p((a + b) / (size + count))
    probabilities = np.exp(np.cumsum(np.concatenate([zero, ratios], -1), -1))
    result: Array = np.minimum(np.cumsum(probabilities, -1), 1.0)
    return result


def _summed_cdf(y: Array, a: Array, b: Array, size: Array, zero: Array) -> Array:
    """Sum the probabilities of all counts up to y; the arguments have shape (rows, 1)."""
    place = np.floor(np.maximum(y, 0)).astype(int)
    found = np.take_along_axis(_table([a, b, size, zero], int(place.max()) + 1), place, -1)
    return np.where(y < 0, 0.0, found)[:, 0]


def _integrated_cdf(y: Array, a: Array, b: Array, size: Array, zero: Array) -> Array:
    """Integrate the negative binomial's cdf over the log-odds of p, with panels around its fall and the Beta's peak.

    All arguments have shape (rows, 1).
    """
    count = np.clip(np.floor(y), 0.0, 1e300)
    at_least = np.maximum(count, 0.5)
    centre = np.log(a) - np.log(b)
    low, high = _log_odds_bulk(a, b)
    fall = np.log(at_least / size) + np.sqrt(1 / at_least + 1 / size) * _FALL
    peak = centre + np.sqrt(1 / a + 1 / b) * _PEAK
    edges = np.sort(np.clip(np.concatenate([low, fall, peak, high], -1), low, high), -1)
    half = np.diff(edges, axis=-1)[..., None] / 2
    weights = (half * _WEIGHTS).reshape(len(y), -1)
    log_odds = (edges[:, :-1, None] + half * (1 + _NODES)).reshape(len(y), -1)
    density = weights * np.exp(_log_beta(log_odds - centre, a, b))
    with np.errstate(over="ignore"):
        inner = negative_binomial_cdf(count, size * np.exp(np.minimum(log_odds, 600)), size)
    result = (density * inner).sum(-1) / density.sum(-1)
    return np.where(y[:, 0] < 0, 0.0, np.where(y[:, 0] == np.inf, 1.0, result))


def _log_beta(x: Array, a: Array, b: Array) -> Array:
    """Return the log-density of the log-odds at distance x from log(a/b), less its value there."""
    p, q = a / (a + b), b / (a + b)
    near = np.clip(x, -1e-4, 1e-4)
    series = -(a * q) * near**2 / 2 * (1 + near * ((q - p) / 3 + near * (1 - 6 * p * q) / 12))
    # log(q + p eˣ) for either sign of x without overflow
    growth = np.where(x > 0, x + np.log1p(q * np.expm1(-np.abs(x))), np.log1p(p * np.expm1(-np.abs(x))))
    return np.where(np.abs(x) < 1e-4, series, a * x - (a + b) * growth)
