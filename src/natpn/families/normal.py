"""Normal: numbers with unknown mean and variance.

- Likelihood: N(y | μ, σ²); u(y) = (y, y²), held centred as χ = (m, v), a mean and a variance around it, so that an
  observation is (y, 0). Pooling adds the variance of the means to the mean of the variances.
- Prior: Normal-Inverse-Gamma with μ₀ = m, λ = n, α = n/2, β = nv/2; the paper's is χ = (0, 100), n = 1. The marginal of
  targets with variance s² has v = s² (n − 2)/(n + 1), so that the variance of its predictive is s².
- Expected log-likelihood, with φ(a) = ψ(a) − log a: −½ [log 2πv − φ(n/2) + (y − m)²/v + 1/n].
- Predictive: Student's t with df = n, centre m and scale² = v(n + 1)/n.
- Entropy: with respect to dμ dσ². With a = n/2 and H(a) the entropy of Gamma(a, 1) it is
  H(a) − 5/2 φ(a) + 3/2 log v − log a − ½ log n + ½ log 2πe.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

import torch
from torch import Tensor

from natpn.distributions import StudentT
from natpn.distributions.support import Support, reals
from natpn.evidence import Evidence, Pool, anchored_mean, minus, plus
from natpn.families.base import FEW, Family, Posterior
from natpn.special import HALF_LOG_2PI, digamma_remainder, gamma_entropy, narrow, widen

_SMALLEST_VARIANCE = 1e-6
_LARGEST = 1e6
_LARGEST_LOG_VARIANCE = 27.6


def pool_mean_and_variance(
    a: Tensor, a_carry: Tensor | None, a_share: Tensor, b: Tensor, b_carry: Tensor | None, b_share: Tensor
) -> tuple[Tensor, Tensor]:
    """Pool (mean, variance): the mean of the variances plus the variance of the means."""
    total, carry = anchored_mean(a, a_carry, a_share, b, b_carry, b_share)
    apart = (plus(b, b_carry) - plus(a, a_carry))[..., :1]
    between = a_share * b_share * apart.square()
    return torch.cat([total[..., :1], total[..., 1:] + between], -1), carry


@dataclass(frozen=True, repr=False)
class Normal(Family):
    """Numbers with unknown mean and variance, with a Normal-Inverse-Gamma prior."""

    @property
    def pool(self) -> Pool:
        """Pool around the means."""
        return pool_mean_and_variance

    @property
    def n_statistics(self) -> int:
        """Mean and variance."""
        return 2

    @property
    def support(self) -> Support:
        """Finite numbers."""
        return reals()

    def link(self, raw: Tensor) -> Tensor:
        """Map raw outputs to a mean within ±10⁶ and a variance, the exponential, from 10⁻⁶ to 10¹²."""
        mean = raw[..., :1].clamp(-_LARGEST, _LARGEST)
        variance = raw[..., 1:].clamp(max=_LARGEST_LOG_VARIANCE).exp() + _SMALLEST_VARIANCE
        return torch.cat([mean, variance], -1)

    def inverse_link(self, chi: Tensor) -> Tensor:
        """Map mean and variance to raw outputs."""
        excess = (chi[..., 1:] - _SMALLEST_VARIANCE).clamp(min=_SMALLEST_VARIANCE / 10)
        return torch.cat([chi[..., :1], excess.log()], -1)

    def log_likelihood(self, raw: Tensor, y: Tensor) -> Tensor:
        """Return log p(y) at `link(raw)`, in closed form: training asks for it at every step."""
        mean, variance = widen(self.link(raw)).unbind(-1)
        squared = (self.support.check(y) - mean).square() / variance
        return narrow(-HALF_LOG_2PI - 0.5 * (variance.log() + squared), raw.dtype)

    @torch.no_grad()
    def log_likelihood_and_slope(self, raw: Tensor, y: Tensor, share: Tensor) -> tuple[Tensor, Tensor]:
        """Return the same, and its gradient, in the operations that autograd would use, and without autograd."""
        y = self.support.check(y)
        cut = raw.clamp(*_limits(raw.dtype, raw.device))
        mean, log_variance = cut.unbind(-1)
        spread = log_variance.exp()
        variance = (spread + _SMALLEST_VARIANCE).to(y.dtype)
        apart = y - mean.to(y.dtype)
        ratio = apart.square() / variance
        value = variance.log().add_(ratio).mul_(-0.5).sub_(HALF_LOG_2PI)
        inner = share.to(y.dtype) * -0.5
        by_ratio = inner / variance
        by_variance = by_ratio - inner * (ratio / variance)
        slope = narrow(torch.stack([by_ratio * (apart * -2), by_variance], -1), raw.dtype)
        slope[..., 1].mul_(spread)
        return narrow(value, raw.dtype), slope.masked_fill_(raw != cut, 0.0)

    def _statistics(self, y: Tensor) -> Tensor:
        return torch.stack([y, torch.zeros_like(y)], -1)

    def _default_prior(self) -> tuple[Sequence[float], float]:
        return [0.0, 100.0], 1.0

    def _marginal(self, y: Tensor, weight: Tensor) -> tuple[Tensor, float]:
        centre = self._statistics(y)[..., 0]
        mean = (weight @ centre) / weight.sum()
        variance = (weight @ (centre - mean).square()) / weight.sum()
        return torch.stack([mean, (variance * (FEW - 2) / (FEW + 1)).clamp(min=_SMALLEST_VARIANCE)]), FEW

    def _posterior(self, evidence: Evidence) -> "NormalPosterior":
        return NormalPosterior(self, evidence)


@cache
def _limits(dtype: torch.dtype, device: torch.device) -> tuple[Tensor, Tensor]:
    """Return the lowest and highest raw outputs that make a difference, as `Normal.link` cuts them."""
    limits = [-_LARGEST, -torch.inf], [_LARGEST, _LARGEST_LOG_VARIANCE]
    return torch.tensor(limits[0], dtype=dtype, device=device), torch.tensor(limits[1], dtype=dtype, device=device)


class NormalPosterior(Posterior[Normal]):
    """Normal-Inverse-Gamma over mean and variance."""

    def __init__(self, family: Normal, evidence: Evidence) -> None:
        super().__init__(family, evidence)
        self.mean = self.chi[..., 0]
        self.mean_carry = None if self.carry is None else self.carry[..., 0]
        self.variance = self.mean_statistics[..., 1]

    def _expected_log_likelihood(self, y: Tensor) -> Tensor:
        squared = minus(y, self.mean, self.mean_carry).square() / self.variance
        return -HALF_LOG_2PI - 0.5 * (self.variance.log() - digamma_remainder(self.n / 2) + squared + 1 / self.n)

    def _entropy(self) -> Tensor:
        a = self.n / 2
        shape = gamma_entropy(a) - 2.5 * digamma_remainder(a) - a.log() - 0.5 * self.n.log()
        return shape + 1.5 * self.variance.log() + HALF_LOG_2PI + 0.5

    def predictive(self) -> StudentT:
        """Return Student's t with n degrees of freedom."""
        scale = (self.variance * (1 + 1 / self.n)).sqrt()
        return StudentT(self.mean, scale, self.n, self.mean_carry, self.dtype)

    def likelihood(self) -> StudentT:
        """Return the Normal with mean m and variance v."""
        infinite = torch.full_like(self.n, torch.inf)
        return StudentT(self.mean, self.variance.sqrt(), infinite, self.mean_carry, self.dtype)
