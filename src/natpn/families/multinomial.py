"""Multinomial: how N trials, a number that may differ by row, fall into C classes.

- Likelihood: N!/Π y_c! · Π p_c^{y_c}; u(y) = y. Evidence counts trials: N of them are N observations of y/N.
- Prior: Dirichlet(α = nχ), α₀ = Σ α_c; by default, as for `categorical`, χ = 1/C, n = C, the uniform distribution.
- Expected log-likelihood: log N! − Σ log y_c! + Σ y_c (ψ(α_c) − ψ(α₀)), which with S and D of `natpn.special` and
  e_c = Nα_c/α₀ is S(N) − Σ [S(y_c) + D(y_c, e_c)] + Σ y_c φ(α_c) − N φ(α₀).
- Predictive: Dirichlet-multinomial.
- Entropy: on the simplex, with respect to dp₁ … dp_{C−1}.
"""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor

from natpn.distributions import DirichletMultinomial
from natpn.distributions.base import INFINITE
from natpn.distributions.support import Support, count_vectors
from natpn.evidence import Evidence
from natpn.families.description import COORDINATES, COUNT_ENTROPY, Floats, Graph
from natpn.families.shared import DirichletFamily, DirichletPosterior
from natpn.special import deviance, digamma_remainder, factorial_remainder


@dataclass(frozen=True, repr=False)
class Multinomial(DirichletFamily):
    """Counts over `n_classes` classes, with a Dirichlet prior."""

    predicts: ClassVar[str] = "how often each of several labels occurs"
    is_vectors: ClassVar[bool] = True
    is_trials: ClassVar[bool] = True

    @classmethod
    def parameters(cls, y: Floats) -> dict[str, Any]:
        """Return how many classes there are counts of."""
        return {"n_classes": max(2, y.shape[1] if y.ndim == 2 else 1)}

    def location_and_scale(self, y: Floats, weight: Floats | None) -> tuple[Floats, Floats]:
        """Return 0 and the number of trials if it is the same in all rows, else 1."""
        trials = y.sum(1)
        return np.zeros(y.shape[1]), np.ones(y.shape[1]) * (trials[0] if (trials == trials[0]).all() else 1.0)

    @property
    def graph(self) -> Graph:
        """Mean counts, without their spread."""
        return Graph(
            "class probabilities; n·chi is the parameter of the Dirichlet posterior",
            "the mean count of each class, in as many trials as training rows had; if these differ, its share",
            deviation=False,
            aleatoric=None,
            left_out=(COUNT_ENTROPY, COORDINATES),
        )

    @property
    def support(self) -> Support:
        """Vectors of counts."""
        return count_vectors(self.n_classes)

    def log_likelihood(self, raw: Tensor, y: Tensor) -> Tensor:
        """Return log p(y) from the raw outputs, where small probabilities keep their digits."""
        counts = self.support.check(y).to(raw.dtype)
        ways = torch.lgamma(counts.sum(-1) + 1) - torch.lgamma(counts + 1).sum(-1)
        return ways + (counts * raw.clamp(-1e30, 1e30).log_softmax(-1)).sum(-1)

    def observe(self, y: Tensor) -> Evidence:
        """Return observed counts as evidence: one observation per trial."""
        counts = self.statistics(y)
        trials = counts.sum(-1)
        return self.evidence(counts / trials.clamp(min=1).unsqueeze(-1), trials.log())

    def _statistics(self, y: Tensor) -> Tensor:
        return y

    def _posterior(self, evidence: Evidence) -> "MultinomialPosterior":
        return MultinomialPosterior(self, evidence)


class MultinomialPosterior(DirichletPosterior[Multinomial]):
    """Dirichlet over class probabilities."""

    def _expected_log_likelihood(self, y: Tensor) -> Tensor:
        trials = y.sum(-1)
        expected = trials.unsqueeze(-1) * (self.alpha / self.total.unsqueeze(-1))
        fit = factorial_remainder(trials) - (factorial_remainder(y) + deviance(y, expected, y - expected)).sum(-1)
        return fit + (y * digamma_remainder(self.alpha)).sum(-1) - trials * digamma_remainder(self.total)

    def predictive(self, total_count: Tensor | float = 1.0) -> DirichletMultinomial:
        """Return counts of `total_count` trials; `log_prob` takes the number of trials from the counts."""
        return DirichletMultinomial(self.alpha, self._trials(total_count), self.dtype)

    def likelihood(self, total_count: Tensor | float = 1.0) -> DirichletMultinomial:
        """Return counts of `total_count` trials with the posterior mean probabilities."""
        alpha = INFINITE * (self.alpha / self.total.unsqueeze(-1))
        return DirichletMultinomial(alpha, self._trials(total_count), self.dtype)

    def _trials(self, total_count: Tensor | float) -> Tensor:
        return torch.as_tensor(total_count, dtype=self.alpha.dtype, device=self.alpha.device)
