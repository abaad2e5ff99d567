"""Von Mises–Fisher: directions on the circle (dimension 2) and the sphere (dimension 3), concentration κ known.

- Likelihood: C(κ) exp(κ μᵀy) for unit vectors y; u(y) = y.
- Prior: on μ, von Mises–Fisher with concentration c = κn|χ| around m = χ/|χ|; by default χ = 0, the
  uniform distribution, and n = 1. The marginal of targets whose mean is χ has A(c) = |χ|/A(κ), as nearly as the
  approximation of Banerjee and others (2005) inverts A: then the mean of the predictive is χ.
- Expected log-likelihood, with A, B, W of `natpn.distributions.von_mises_fisher`: B(κ) − κ (1 − A(c) mᵀy).
- Predictive: von Mises–Fisher around a direction that is von Mises–Fisher.
- Entropy: with respect to the surface element; c W(c) − B(c).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor

from natpn.distributions import VonMisesFisher as VonMisesFisherDistribution
from natpn.distributions.support import Support, unit_vectors
from natpn.distributions.von_mises_fisher import direction, length_gap, log_constant, mean_length
from natpn.evidence import Evidence
from natpn.families.base import FEW, Family, Posterior, positive_parameter, whole_parameter
from natpn.families.description import COORDINATES, Floats, Graph


@dataclass(frozen=True, repr=False)
class VonMisesFisher(Family):
    """Unit vectors of known concentration, with a von Mises–Fisher prior."""

    predicts: ClassVar[str] = "a direction"
    is_vectors: ClassVar[bool] = True

    dimension: int = 3
    concentration: float = 1.0

    def __post_init__(self) -> None:
        whole_parameter("dimension", self.dimension, range(2, 4))
        positive_parameter("concentration", self.concentration)

    @property
    def n_statistics(self) -> int:
        """The mean vector."""
        return self.dimension

    @property
    def support(self) -> Support:
        """Vectors of length 1."""
        return unit_vectors(self.dimension)

    @classmethod
    def parameters(cls, y: Floats) -> dict[str, Any]:
        """Return the dimension, and the concentration around the mean (Banerjee and others 2005), at least 1."""
        if y.ndim != 2:
            return {}
        length = min(float(np.linalg.norm(y.mean(0))), 0.9999)
        concentration = max(1.0, float(length * (y.shape[1] - length**2) / (1 - length**2)))
        return {"dimension": y.shape[1], "concentration": concentration}

    @property
    def graph(self) -> Graph:
        """The mean vector."""
        about = "The aleatoric entropy is left out: with a known concentration it is the same for all rows."
        return Graph(
            "the mean vector; concentration·n·chi is the parameter of the posterior of the direction",
            "the mean vector, which is shorter than 1",
            deviation=False,
            aleatoric=None,
            left_out=(about, COORDINATES),
        )

    def link(self, raw: Tensor) -> Tensor:
        """Map raw outputs into the unit ball."""
        raw = raw.clamp(-1e15, 1e15)
        return raw / (1 + raw.square().sum(-1, keepdim=True)).sqrt()

    def inverse_link(self, chi: Tensor) -> Tensor:
        """Map vectors of the unit ball to raw outputs."""
        return chi / (1 - chi.square().sum(-1, keepdim=True)).clamp(min=1e-6).sqrt()

    def _statistics(self, y: Tensor) -> Tensor:
        return torch.nn.functional.normalize(y, dim=-1)

    def _default_prior(self) -> tuple[Sequence[float], float]:
        return [0.0] * self.dimension, 1.0

    def _marginal(self, y: Tensor, weight: Tensor) -> tuple[Tensor, float]:
        mean = (weight @ self._statistics(y)) / weight.sum()
        length = float(torch.linalg.vector_norm(mean))
        kappa = torch.tensor(self.concentration, dtype=torch.float64)
        share = min(length / float(mean_length(kappa, self.dimension)), 0.999)
        c = share * (self.dimension - share**2) / (1 - share**2)
        n = c / (self.concentration * length) if length > 0 else FEW
        return mean, min(n, FEW)

    def _posterior(self, evidence: Evidence) -> "VonMisesFisherPosterior":
        return VonMisesFisherPosterior(self, evidence)


class VonMisesFisherPosterior(Posterior[VonMisesFisher]):
    """Von Mises–Fisher over the mean direction."""

    def __init__(self, family: VonMisesFisher, evidence: Evidence) -> None:
        super().__init__(family, evidence)
        self.resultant = family.concentration * self.n.unsqueeze(-1) * self.mean_statistics
        self.c, self.centre = direction(self.resultant)
        self.kappa = torch.full_like(self.c, family.concentration)

    def _expected_log_likelihood(self, y: Tensor) -> Tensor:
        d = self.family.dimension
        cosine = (self.centre * torch.nn.functional.normalize(y, dim=-1)).sum(-1)
        return log_constant(self.kappa, d) - self.kappa * (1 - mean_length(self.c, d) * cosine)

    def _entropy(self) -> Tensor:
        d = self.family.dimension
        return self.c * length_gap(self.c, d) - log_constant(self.c, d)

    def predictive(self) -> VonMisesFisherDistribution:
        """Return directions around an uncertain mean direction."""
        return VonMisesFisherDistribution(self.resultant, self.kappa, dtype=self.dtype)

    def likelihood(self) -> VonMisesFisherDistribution:
        """Return directions around the posterior mean direction, an arbitrary one if there is none."""
        first = torch.zeros_like(self.resultant)
        first[..., 0] = 1.0
        somewhere = self.resultant.abs().sum(-1, keepdim=True) > 0
        return VonMisesFisherDistribution(torch.where(somewhere, self.resultant, first), self.kappa, True, self.dtype)
