"""Multinomial: how N trials, a number that may differ by row, fall into C classes.

- Likelihood: N!/Π y_c! · Π p_c^{y_c}; u(y) = y. Evidence counts trials: N of them are N observations of y/N.
- Prior: Dirichlet(α = nχ), α₀ = Σ α_c; by default, as for `categorical`, χ = 1/C, n = C, the uniform distribution.
- Expected log-likelihood: log N! − Σ log y_c! + Σ y_c (ψ(α_c) − ψ(α₀)), which with S and D of `natpn.special` and
  e_c = Nα_c/α₀ is S(N) − Σ [S(y_c) + D(y_c, e_c)] + Σ y_c φ(α_c) − N φ(α₀).
- Predictive: Dirichlet-multinomial. With D, T, S and δ_c = (α_c N − α₀ y_c)/(α₀ + N), what classes hold beyond their
  share: log p(y) = S(N) − T(α₀, N) + Σ_c [T(α_c, y_c) − S(y_c) − D(α_c, α_c − δ_c) − D(y_c, y_c + δ_c)].
  α = inf·p is the multinomial. Classes add up, so the entropy is a sum over the beta-binomial marginals.
- Entropy: on the simplex, with respect to dp₁ … dp_{C−1}.
"""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor

from natpn.evidence import Evidence
from natpn.families.categorical import DirichletFamily, DirichletPosterior
from natpn.families.description import COORDINATES, COUNT_ENTROPY, Graph
from natpn.families.distribution import COUNTS, INFINITE, Array, Distribution, Support
from natpn.special import deviance, digamma_remainder, factorial_remainder, stirling_step

_COUNTS_AT_A_TIME = 256


def count_vectors(dim: int) -> Support:
    """Return what a vector of counts may be."""
    return Support(f"a vector of {dim} counts", lambda y: COUNTS.holds(y).all(-1), (dim,), discrete=True)


@dataclass(frozen=True, repr=False)
class Multinomial(DirichletFamily):
    """Counts over `n_classes` classes, with a Dirichlet prior."""

    predicts: ClassVar[str] = "how often each of several labels occurs"
    is_vectors: ClassVar[bool] = True
    is_trials: ClassVar[bool] = True
    no_exposure: ClassVar[str | None] = (
        "whose exposure is the number of trials, the sum of a row's counts; leave it out"
    )
    graph = Graph(
        "class probabilities; n·chi is the parameter of the Dirichlet posterior",
        "the mean count of each class, in as many trials as training rows had; if these differ, its share",
        deviation=False,
        aleatoric=None,
        left_out=(COUNT_ENTROPY, COORDINATES),
    )

    @classmethod
    def parameters(cls, y: Array) -> dict[str, Any]:
        """Return how many classes there are counts of."""
        return {"n_classes": max(2, y.shape[1] if y.ndim == 2 else 1)}

    def location_and_scale(self, y: Array, weight: Array | None) -> tuple[Array, Array]:
        """Return 0 and the number of trials if it is the same in all rows, else 1."""
        trials = y.sum(1)
        return np.zeros(y.shape[1]), np.ones(y.shape[1]) * (trials[0] if (trials == trials[0]).all() else 1.0)

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

    def predictive(self, total_count: Tensor | float = 1.0) -> "DirichletMultinomial":
        """Return counts of `total_count` trials; `log_prob` takes the number of trials from the counts."""
        return DirichletMultinomial(self.alpha, self._trials(total_count), self.dtype)

    def likelihood(self, total_count: Tensor | float = 1.0) -> "DirichletMultinomial":
        """Return counts of `total_count` trials with the posterior mean probabilities."""
        alpha = INFINITE * (self.alpha / self.total.unsqueeze(-1))
        return DirichletMultinomial(alpha, self._trials(total_count), self.dtype)

    def _trials(self, total_count: Tensor | float) -> Tensor:
        return torch.as_tensor(total_count, dtype=self.alpha.dtype, device=self.alpha.device)


class DirichletMultinomial(Distribution):
    """Counts over C classes with concentration α, shape (..., C).

    `total_count` is N for moments, samples and entropy, shape (...); `log_prob` takes N from the counts it is given.
    """

    def __init__(self, concentration: Tensor, total_count: Tensor, dtype: torch.dtype = torch.float64) -> None:
        shape = torch.broadcast_shapes(concentration.shape[:-1], total_count.shape)
        self.concentration = concentration.expand(*shape, -1)
        self.total_count = total_count.expand(shape)
        super().__init__(self.total_count, count_vectors(concentration.shape[-1]), dtype)

    def _probs(self) -> Tensor:
        return self.concentration / self.concentration.sum(-1, keepdim=True)

    def _mean(self) -> Tensor:
        return self.total_count.unsqueeze(-1) * self._probs()

    def _variance(self) -> Tensor:
        probs, total = self._probs(), self.concentration.sum(-1, keepdim=True)
        trials = self.total_count.unsqueeze(-1)
        return trials * probs * (1 - probs) * ((trials + total) / (1 + total))

    def _log_prob(self, y: Tensor) -> Tensor:
        trials, total = y.sum(-1), self.concentration.sum(-1)
        terms = _class_terms(y, self.concentration, trials.unsqueeze(-1), total.unsqueeze(-1))
        return factorial_remainder(trials) - stirling_step(total, trials) + terms.sum(-1)

    def _sample(self, shape: torch.Size) -> Tensor:
        weights = torch._standard_gamma(self.concentration.expand(shape + self.concentration.shape))
        left = self.total_count.expand(shape + self.batch_shape).clone()
        after = weights.flip(-1).cumsum(-1).flip(-1)
        draws = []
        for c in range(weights.shape[-1]):
            share = torch.where(after[..., c] > 0, weights[..., c] / after[..., c], 0.0).clamp(max=1.0)
            draws.append(torch.binomial(left, share if c + 1 < weights.shape[-1] else torch.ones_like(share)))
            left = left - draws[-1]
        return torch.stack(draws, -1)

    def _entropy(self) -> Tensor:
        alpha, trials = self.concentration, self.total_count.unsqueeze(-1)
        total = alpha.sum(-1, keepdim=True)
        before, after = alpha.cumsum(-1), alpha.flip(-1).cumsum(-1).flip(-1)
        others = torch.cat([torch.zeros_like(total), before[..., :-1]], -1)
        others = others + torch.cat([after[..., 1:], torch.zeros_like(total)], -1)  # without total − α, which cancels
        expected = torch.zeros_like(alpha)
        most = int(self.total_count.max()) if self.total_count.numel() else 0
        for start in range(0, most + 1, _COUNTS_AT_A_TIME):
            k = torch.arange(start, start + _COUNTS_AT_A_TIME, dtype=alpha.dtype, device=alpha.device)
            k = k.reshape(-1, *[1] * alpha.dim())
            inside = k <= trials
            k = torch.where(inside, k, 0.0)
            own = _class_terms(k, alpha, trials, total)
            rest = _class_terms(trials - k, others, trials, total)
            log_p = factorial_remainder(trials) - stirling_step(total, trials) + own + rest
            expected = expected + (own * log_p.exp() * inside).sum(0)
        return stirling_step(total, trials)[..., 0] - factorial_remainder(self.total_count) - expected.sum(-1)


def _class_terms(y: Tensor, alpha: Tensor, trials: Tensor, total: Tensor) -> Tensor:
    sum_ = total + trials
    delta = alpha / sum_ * trials - total / sum_ * y
    table = deviance(alpha, total / sum_ * (alpha + y), delta) + deviance(y, trials / sum_ * (alpha + y), -delta)
    return stirling_step(alpha, y) - factorial_remainder(y) - table
