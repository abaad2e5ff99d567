"""Gamma: positive numbers with known shape k; k = 1 is the exponential distribution.

- Likelihood: λ^k y^{k−1} e^{−λy}/Γ(k); u(y) = y, whose mean is k/λ.
- Prior: Gamma(α = kn + 1, β = nχ) on the rate λ, under which the mean of k/λ is χ; default χ = 1, n = 1.
- Expected log-likelihood: k (ψ(α) − log β) + (k − 1) log y − E[λ] y − log Γ(k) with E[λ] = α/β = (k + 1/n)/χ, which is
  k [φ(α) + log(E[λ] y)] − log y − log Γ(k) − E[λ] y.
- Predictive: `CompoundGamma` with a = α and scale 1/E[λ], whose mean is χ.
- Entropy: with respect to dλ.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from natpn.distributions import CompoundGamma
from natpn.distributions.support import Support, positive
from natpn.evidence import Evidence
from natpn.families.base import Family, Posterior, inverse_rate_link, positive_parameter, rate_link
from natpn.special import digamma_remainder, gamma_entropy


@dataclass(frozen=True, repr=False)
class Gamma(Family):
    """Positive numbers of known shape, with a Gamma prior on the rate."""

    shape: float = 1.0

    def __post_init__(self) -> None:
        positive_parameter("shape", self.shape)

    @property
    def n_statistics(self) -> int:
        """The mean."""
        return 1

    @property
    def support(self) -> Support:
        """Positive numbers."""
        return positive()

    def link(self, raw: Tensor) -> Tensor:
        """Map raw outputs to means."""
        return rate_link(raw)

    def inverse_link(self, chi: Tensor) -> Tensor:
        """Map means to raw outputs."""
        return inverse_rate_link(chi)

    def _statistics(self, y: Tensor) -> Tensor:
        return y.unsqueeze(-1)

    def _default_prior(self) -> tuple[Sequence[float], float]:
        return [1.0], 1.0

    def _posterior(self, evidence: Evidence) -> "GammaPosterior":
        return GammaPosterior(self, evidence)


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

    def predictive(self) -> CompoundGamma:
        """Return the compound Gamma, whose mean is χ."""
        return CompoundGamma(self.k, self.scale, self.alpha, self.dtype)

    def likelihood(self) -> CompoundGamma:
        """Return the Gamma with mean χ."""
        return CompoundGamma(self.k, self.mean / self.k, torch.full_like(self.k, torch.inf), self.dtype)
