"""Vectors of counts: N trials over C classes whose probabilities are Dirichlet(α), α₀ = Σ α_c.

With D, T, S of `natpn.special` and δ_c = (α_c N − α₀ y_c)/(α₀ + N), what the classes hold beyond their share:
log p(y) = S(N) − T(α₀, N) + Σ_c [T(α_c, y_c) − S(y_c) − D(α_c, α_c − δ_c) − D(y_c, y_c + δ_c)].
α = inf·p is the multinomial. Classes add up, so the entropy is a sum over the beta-binomial marginals.
"""

import torch
from torch import Tensor

from natpn.distributions.base import Distribution
from natpn.distributions.support import count_vectors
from natpn.special import deviance, factorial_remainder, stirling_step

_COUNTS_AT_A_TIME = 256


class DirichletMultinomial(Distribution):
    """Counts over C classes.

    Args:
        concentration: α, shape (..., C).
        total_count: N for moments, samples and entropy, shape (...); `log_prob` takes N from the counts it is given.
        dtype: The precision of what it returns.
    """

    def __init__(self, concentration: Tensor, total_count: Tensor, dtype: torch.dtype = torch.float64) -> None:
        shape = torch.broadcast_shapes(concentration.shape[:-1], total_count.shape)
        self.concentration = concentration.expand(*shape, -1)
        self.total_count = total_count.expand(shape)
        super().__init__(shape, count_vectors(concentration.shape[-1]), dtype)

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
        for start in range(
            0, int(self.total_count.max().item() if self.total_count.numel() else 0) + 1, _COUNTS_AT_A_TIME
        ):
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
