"""Gamma: positive numbers with known shape k; k = 1 is the exponential distribution.

- Likelihood: λ^k y^{k−1} e^{−λy}/Γ(k); u(y) = y, whose mean is k/λ.
- Prior: Gamma(α = kn + 1, β = nχ) on the rate λ, under which the mean of k/λ is χ; by default, as for
  `poisson`, χ = 1, n = 1.
  The marginal of targets with mean square c χ² has n = c/(ck − k − 1), since that of the predictive is
  χ² (k + 1) n/(kn − 1).
- Expected log-likelihood: k (ψ(α) − log β) + (k − 1) log y − E[λ] y − log Γ(k) with E[λ] = α/β = (k + 1/n)/χ, which is
  k [φ(α) + log(E[λ] y)] − log y − log Γ(k) − E[λ] y.
- Predictive: `CompoundGamma` with a = α and scale 1/E[λ], whose mean is χ.
- Entropy: with respect to dλ.
"""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor

from natpn.distributions import CompoundGamma
from natpn.distributions.support import Support, positive
from natpn.evidence import Evidence
from natpn.families.base import Posterior, positive_parameter
from natpn.families.description import REACH, Floats, Graph, entropy_at
from natpn.families.shared import PositiveMeanFamily
from natpn.special import digamma_remainder, gamma_entropy


def _lomax_quantiles(predictive: CompoundGamma, levels: Tensor) -> Tensor:
    """Return quantiles for shape 1, where F(y) = 1 − (1 + y/(a s))^{−a}."""
    scale, a = predictive.scale.unsqueeze(-1), predictive.a.unsqueeze(-1)
    return scale * a * torch.expm1(-torch.log1p(-levels) / a)


@dataclass(frozen=True, repr=False)
class Gamma(PositiveMeanFamily):
    """Positive numbers of known shape, with a Gamma prior on the rate."""

    predicts: ClassVar[str] = "a positive number"

    shape: float = 1.0

    def __post_init__(self) -> None:
        positive_parameter("shape", self.shape)

    @property
    def support(self) -> Support:
        """Positive numbers."""
        return positive()

    def location_and_scale(self, y: Floats, weight: Floats | None) -> tuple[Floats, Floats]:
        """Return 0 and the mean."""
        return np.zeros(1), np.average(y.reshape(len(y), -1), axis=0, weights=weight)

    def standardise(self, y: Floats, location: Floats, scale: Floats) -> Floats:
        """Return y/s, kept above 0."""
        return np.maximum(y / scale, np.exp(-REACH))

    def restore(self, chi: Tensor, location: Tensor, scale: Tensor) -> Tensor:
        """Return s χ."""
        return chi * scale

    def express(self, chi: Tensor, location: Tensor, scale: Tensor) -> Tensor:
        """Return χ/s."""
        return chi / scale

    def usual_targets(self, location: float, scale: float) -> tuple[float, float]:
        """Return 0 to four times the mean."""
        return 0.0, 4 * scale

    @property
    def graph(self) -> Graph:
        """Quantiles for shape 1 only: others are not elementary."""
        standard = entropy_at(self, [1.0])
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
