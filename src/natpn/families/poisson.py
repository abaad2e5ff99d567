"""Poisson: counts (Table 1 and Appendix C.4 of the paper).

- Likelihood: λ^y e^{−λ}/y!; u(y) = y.
- Prior: Gamma(α = nχ, β = n); the paper's is χ = 1, n = 1. The marginal of targets with variance s² has
  n = χ/(s² − χ), since the variance of the predictive is χ + χ/n.
- Expected log-likelihood: y (ψ(α) − log n) − χ − log y!, which with D and S of `natpn.special` is
  y φ(nχ) − D(y, χ) − S(y).
- Predictive: negative binomial with mean χ and size nχ.
- Entropy: with respect to dλ.
"""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor

from natpn.distributions import NegativeBinomial as NegativeBinomialDistribution
from natpn.distributions.support import Support, counts
from natpn.evidence import Evidence
from natpn.families.base import Posterior
from natpn.families.description import COUNT_ENTROPY, COUNT_QUANTILES, Floats, Graph
from natpn.families.shared import PositiveMeanFamily
from natpn.special import deviance, digamma_remainder, factorial_remainder, gamma_entropy, narrow, widen

_LARGE_COUNTS = 30.0


@dataclass(frozen=True, repr=False)
class Poisson(PositiveMeanFamily):
    """Counts, with a Gamma prior on the rate."""

    suits: ClassVar[str] = "small whole numbers that vary as chance would have it"
    predicts: ClassVar[str] = "a count"
    wider: ClassVar[str | None] = "negative_binomial"

    @classmethod
    def suited(cls, y: Floats) -> int | None:
        """Take small counts that are not all the same."""
        counted = y.ndim != 2 and np.all(y >= 0) and np.all(y == np.floor(y))
        return 2 if counted and len(np.unique(y)) > 1 and y.mean() <= _LARGE_COUNTS else None

    @property
    def graph(self) -> Graph:
        """Mean and deviation."""
        return Graph(
            "the rate; n·chi and n are shape and rate of its Gamma posterior, and the predictive is negative binomial "
            "with mean chi and size n·chi",
            aleatoric=None,
            left_out=(COUNT_QUANTILES, COUNT_ENTROPY),
        )

    @property
    def support(self) -> Support:
        """Counts."""
        return counts()

    def log_likelihood(self, raw: Tensor, y: Tensor) -> Tensor:
        """Return log p(y) at `link(raw)`, −D(y, χ) − S(y): training asks for it at every step."""
        rate, y = widen(self.link(raw))[..., 0], self.support.check(y)
        return narrow(-deviance(y, rate, y - rate) - factorial_remainder(y), raw.dtype)

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
        return (
            y * digamma_remainder(self.n * self.rate) - deviance(y, self.rate, y - self.rate) - factorial_remainder(y)
        )

    def _entropy(self) -> Tensor:
        return gamma_entropy(self.n * self.rate) - self.n.log()

    def predictive(self) -> NegativeBinomialDistribution:
        """Return the negative binomial with mean χ and size nχ."""
        return NegativeBinomialDistribution(self.rate, self.n * self.rate, self.dtype)

    def likelihood(self) -> NegativeBinomialDistribution:
        """Return the Poisson with rate χ."""
        return NegativeBinomialDistribution(self.rate, torch.full_like(self.rate, torch.inf), self.dtype)
