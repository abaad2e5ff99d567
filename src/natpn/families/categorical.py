"""Categorical: one of C classes (Table 1 and Appendix C.2 of the paper).

- Likelihood: p_y; u(y) is the indicator of class y.
- Prior: Dirichlet(α = nχ), α₀ = Σ α_c; the paper's is χ = 1/C, n = C, the uniform distribution.
- Expected log-likelihood: ψ(α_y) − ψ(α₀).
- Predictive: categorical with probabilities α/α₀.
- Entropy: on the simplex, with respect to dp₁ … dp_{C−1}.
"""

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from natpn.distributions import Categorical as CategoricalDistribution
from natpn.distributions.support import Support, classes
from natpn.evidence import Evidence
from natpn.families.description import Graph
from natpn.families.shared import DirichletFamily, DirichletPosterior


@dataclass(frozen=True, repr=False)
class Categorical(DirichletFamily):
    """One of `n_classes` classes, with a Dirichlet prior."""

    predicts: ClassVar[str] = "one of several labels"
    is_classes: ClassVar[bool] = True

    @property
    def graph(self) -> Graph:
        """Every output but the standard deviation: a class has none."""
        return Graph(
            "class probabilities; n·chi is the parameter of the Dirichlet posterior",
            "the probability of each class, in the order of `classes`",
            deviation=False,
        )

    @property
    def support(self) -> Support:
        """Class indices."""
        return classes(self.n_classes)

    def log_likelihood(self, raw: Tensor, y: Tensor) -> Tensor:
        """Return log p(y) from the raw outputs, where small probabilities keep their digits."""
        index = self.support.check(y).long().unsqueeze(-1)
        return raw.clamp(-1e30, 1e30).log_softmax(-1).gather(-1, index).squeeze(-1)

    @torch.no_grad()
    def training_slope(self, raw: Tensor, y: Tensor, usual: Tensor, share: Tensor) -> tuple[Tensor, Tensor]:
        """Return the training loss and its gradient, without autograd."""
        index = self.support.check(y).long().unsqueeze(-1)
        log_p = raw.clamp(-1e30, 1e30).log_softmax(-1)
        slope = log_p.exp()
        slope.scatter_add_(-1, index, slope.new_full((), -1.0).expand(index.shape))
        return -log_p.gather(-1, index).squeeze(-1), slope * share.unsqueeze(-1)

    def _statistics(self, y: Tensor) -> Tensor:
        return torch.nn.functional.one_hot(y.long(), self.n_classes)

    def _posterior(self, evidence: Evidence) -> "CategoricalPosterior":
        return CategoricalPosterior(self, evidence)


class CategoricalPosterior(DirichletPosterior[Categorical]):
    """Dirichlet over class probabilities."""

    def _expected_log_likelihood(self, y: Tensor) -> Tensor:
        shape = torch.broadcast_shapes(y.shape, self.total.shape)
        alpha = self.alpha.expand(*shape, -1).gather(-1, y.long().expand(shape).unsqueeze(-1)).squeeze(-1)
        return torch.digamma(alpha) - torch.digamma(self.total)

    def predictive(self) -> CategoricalDistribution:
        """Return the classes with their posterior mean probabilities."""
        return CategoricalDistribution(self.alpha / self.total.unsqueeze(-1), self.dtype)

    likelihood = predictive
