"""Negative binomial: successes before the r-th failure, r known; r = 1 is the geometric distribution.

- Likelihood: Γ(y + r)/(Γ(r) y!) p^y (1 − p)^r; u(y) = y, whose mean is r p/(1 − p).
- Prior: Beta(a = nχ, b = nr + 1), under which the mean of r p/(1 − p) is χ; default χ = 1, n = 1.
- Expected log-likelihood: log Γ(y + r)/(Γ(r) y!) + y (ψ(a) − ψ(s)) + r (ψ(b) − ψ(s)), s = a + b, which with the
  likelihood NB(y | χ) at mean χ and ε = log(1 + 1/(n(χ + r))) is
  log NB(y | χ) + y [φ(a) − φ(s) − ε] + r [φ(b) − φ(s) − ε + log(1 + 1/(nr))].
- Predictive: beta negative binomial.
- Entropy: with respect to dp.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from natpn.distributions import BetaNegativeBinomial
from natpn.distributions import NegativeBinomial as NegativeBinomialDistribution
from natpn.distributions.negative_binomial import log_prob
from natpn.distributions.support import Support, counts
from natpn.evidence import Evidence
from natpn.families.base import Family, Posterior, dirichlet_entropy, inverse_rate_link, positive_parameter, rate_link
from natpn.special import digamma_remainder


@dataclass(frozen=True, repr=False)
class NegativeBinomial(Family):
    """Counts with known size r, with a Beta prior."""

    r: float = 1.0

    def __post_init__(self) -> None:
        positive_parameter("r", self.r)

    @property
    def n_statistics(self) -> int:
        """The mean count."""
        return 1

    @property
    def support(self) -> Support:
        """Counts."""
        return counts()

    def link(self, raw: Tensor) -> Tensor:
        """Map raw outputs to mean counts."""
        return rate_link(raw)

    def inverse_link(self, chi: Tensor) -> Tensor:
        """Map mean counts to raw outputs."""
        return inverse_rate_link(chi)

    def _statistics(self, y: Tensor) -> Tensor:
        return y.unsqueeze(-1)

    def _default_prior(self) -> tuple[Sequence[float], float]:
        return [1.0], 1.0

    def _posterior(self, evidence: Evidence) -> "NegativeBinomialPosterior":
        return NegativeBinomialPosterior(self, evidence)


class NegativeBinomialPosterior(Posterior[NegativeBinomial]):
    """Beta over the probability of success."""

    def __init__(self, family: NegativeBinomial, evidence: Evidence) -> None:
        super().__init__(family, evidence)
        self.rate = self.mean_statistics[..., 0]
        self.r = torch.full_like(self.rate, family.r)
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
