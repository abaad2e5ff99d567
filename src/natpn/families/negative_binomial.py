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
- Predictive: beta negative binomial.
- Entropy: with respect to dp.
"""

import math
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from scipy.optimize import minimize_scalar
from torch import Tensor

from natpn.distributions import BetaNegativeBinomial
from natpn.distributions import NegativeBinomial as NegativeBinomialDistribution
from natpn.distributions.negative_binomial import log_prob
from natpn.distributions.support import Support, counts
from natpn.evidence import Evidence
from natpn.families.base import Family, Posterior, positive_parameter
from natpn.families.description import COUNT_ENTROPY, COUNT_QUANTILES, Graph
from natpn.families.poisson import Poisson
from natpn.families.shared import PositiveMeanFamily, dirichlet_entropy
from natpn.special import digamma_remainder, widen


@dataclass(frozen=True, repr=False)
class NegativeBinomial(PositiveMeanFamily):
    """Counts of size r, with a Beta prior; with r = None they are Poisson until `refined` finds r."""

    suits: ClassVar[str] = "small whole numbers that vary more than by chance: held-out rows say so"
    predicts: ClassVar[str] = "a count that varies widely"

    r: float | None = 1.0

    def __post_init__(self) -> None:
        if self.r is not None:
            positive_parameter("r", self.r)

    @property
    def support(self) -> Support:
        """Counts."""
        return counts()

    def opened(self) -> Family:
        """Return the family of open size."""
        return NegativeBinomial(None)

    @property
    def graph(self) -> Graph:
        """Mean and deviation."""
        return Graph(
            "the mean; n·chi and n·r + 1 are the parameters of the Beta posterior of the probability of success",
            aleatoric=None,
            left_out=(COUNT_QUANTILES, COUNT_ENTROPY),
        )

    def refined(self, raw: Tensor, y: Tensor, weight: Tensor) -> Family:
        """Return the family with the size of the best held-out likelihood, or Poisson if that is as good."""
        if self.r is not None:
            return self
        rate, weight = widen(self.link(raw))[..., 0], weight.double()
        y = self.support.check(y).double()

        def loss(log_size: float) -> float:
            return -float(weight @ log_prob(y, rate, torch.full_like(rate, math.exp(log_size))))

        found = minimize_scalar(loss, bounds=(-6, 12), method="bounded")
        poisson = -float(weight @ Poisson().log_likelihood(widen(raw), y))
        return NegativeBinomial(math.exp(found.x)) if found.fun < poisson - 1 else Poisson()  # one more parameter

    def log_likelihood(self, raw: Tensor, y: Tensor) -> Tensor:
        """Return log p(y) at `link(raw)`; that of Poisson while r is open."""
        return Poisson().log_likelihood(raw, y) if self.r is None else super().log_likelihood(raw, y)

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
        return log_prob(y, self.rate, self.r) + y * success + self.r * failure

    def _entropy(self) -> Tensor:
        return dirichlet_entropy(torch.stack([self.a, self.b], -1), self.a + self.b)

    def predictive(self) -> BetaNegativeBinomial:
        """Return the beta negative binomial, whose mean is χ."""
        return BetaNegativeBinomial(self.a, self.b, self.r, self.dtype)

    def likelihood(self) -> NegativeBinomialDistribution:
        """Return the negative binomial with mean χ and size r."""
        return NegativeBinomialDistribution(self.rate, self.r, self.dtype)
