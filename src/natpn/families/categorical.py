"""Categorical: one of C classes.

- Likelihood: p_y; u(y) is the indicator of class y.
- Prior: Dirichlet(α = nχ), α₀ = Σ α_c; default χ = 1/C, n = C, the uniform distribution.
- Expected log-likelihood: ψ(α_y) − ψ(α₀).
- Predictive: categorical with probabilities α/α₀.
- Entropy: on the simplex, with respect to dp₁ … dp_{C−1}.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from natpn.distributions import Categorical as CategoricalDistribution
from natpn.distributions.support import Support, classes
from natpn.evidence import Evidence
from natpn.families.base import (
    Family,
    Posterior,
    dirichlet_entropy,
    inverse_probability_link,
    probability_link,
    whole_parameter,
)


@dataclass(frozen=True, repr=False)
class Categorical(Family):
    """One of `n_classes` classes, with a Dirichlet prior."""

    n_classes: int

    def __post_init__(self) -> None:
        whole_parameter("n_classes", self.n_classes, range(2, 10**9))

    @property
    def n_statistics(self) -> int:
        """One per class."""
        return self.n_classes

    @property
    def support(self) -> Support:
        """Class indices."""
        return classes(self.n_classes)

    def link(self, raw: Tensor) -> Tensor:
        """Map raw outputs to class probabilities."""
        return probability_link(raw)

    def inverse_link(self, chi: Tensor) -> Tensor:
        """Map class probabilities to raw outputs."""
        return inverse_probability_link(chi)

    def log_likelihood(self, raw: Tensor, y: Tensor) -> Tensor:
        """Return log p(y) from the raw outputs, where small probabilities keep their digits."""
        index = self.support.check(y).long().unsqueeze(-1)
        return raw.clamp(-1e30, 1e30).log_softmax(-1).gather(-1, index).squeeze(-1)

    def _statistics(self, y: Tensor) -> Tensor:
        return torch.nn.functional.one_hot(y.long(), self.n_classes)

    def _default_prior(self) -> tuple[Sequence[float], float]:
        return [1 / self.n_classes] * self.n_classes, float(self.n_classes)

    def _posterior(self, evidence: Evidence) -> "CategoricalPosterior":
        return CategoricalPosterior(self, evidence)


class CategoricalPosterior(Posterior[Categorical]):
    """Dirichlet over class probabilities."""

    def __init__(self, family: Categorical, evidence: Evidence) -> None:
        super().__init__(family, evidence)
        self.alpha = self.n.unsqueeze(-1) * self.mean_statistics
        self.total = self.alpha.sum(-1)

    def _expected_log_likelihood(self, y: Tensor) -> Tensor:
        shape = torch.broadcast_shapes(y.shape, self.total.shape)
        alpha = self.alpha.expand(*shape, -1).gather(-1, y.long().expand(shape).unsqueeze(-1)).squeeze(-1)
        return torch.digamma(alpha) - torch.digamma(self.total)

    def _entropy(self) -> Tensor:
        return dirichlet_entropy(self.alpha, self.total, self.dtype)

    def predictive(self) -> CategoricalDistribution:
        """Return the classes with their posterior mean probabilities."""
        return CategoricalDistribution(self.alpha / self.total.unsqueeze(-1), self.dtype)

    likelihood = predictive
