"""The Gamma of known shape k whose rate is Gamma(a, b): y/b is beta-prime, and for k = 1 it is the Lomax distribution.

By the ratio s = b/a, the scale that stays when evidence grows, and C of `natpn.special`:
log p(y) = C(a, k) − log Γ(k) + (k − 1) log(y/s) − log s − (a + k) log(1 + y/(a s));
entropy = log Γ(k) − C(a, k) − (k − 1)(ψ(k) − φ(a)) + (a + k)(ψ(a + k) − ψ(a)) + log s.
a = inf is the Gamma with shape k and scale s. The mean k a s/(a − 1) is inf for a ≤ 1, the variance for a ≤ 2.
"""

import numpy as np
import torch
from scipy import special as sp
from torch import Tensor

from natpn.distributions.base import Array, ScalarDistribution, array, finite_count
from natpn.distributions.support import positive
from natpn.special import digamma, digamma_remainder, rising_remainder


class CompoundGamma(ScalarDistribution):
    """Positive numbers from a Gamma with shape k and a rate that is Gamma(a, a·scale).

    Args:
        shape: k, positive.
        scale: s, positive.
        a: The shape of the rate's distribution, positive; inf for a known rate.
        dtype: The precision of what it returns.
    """

    def __init__(self, shape: Tensor, scale: Tensor, a: Tensor, dtype: torch.dtype = torch.float64) -> None:
        self.shape: Tensor
        self.scale: Tensor
        self.a: Tensor
        self.shape, self.scale, self.a = torch.broadcast_tensors(shape, scale, finite_count(a))
        super().__init__(self.scale.shape, positive(), dtype)

    def _device(self) -> torch.device:
        return self.scale.device

    def _mean(self) -> Tensor:
        a = self.a.clamp(min=1)
        return torch.where(self.a > 1, self.shape * self.scale / (1 - 1 / a), torch.inf)

    def _variance(self) -> Tensor:
        a = self.a.clamp(min=2)
        inflation = (1 + (self.shape - 1) / a) / ((1 - 1 / a) ** 2 * (1 - 2 / a))
        return torch.where(self.a > 2, self.shape * self.scale**2 * inflation, torch.inf)

    def _log_prob(self, y: Tensor) -> Tensor:
        k, x = self.shape, y / self.scale
        constant = rising_remainder(self.a, k) - torch.lgamma(k) - self.scale.log()
        return constant + (k - 1) * x.log() - (self.a + k) * torch.log1p(x / self.a)

    def _sample(self, shape: torch.Size) -> Tensor:
        k, a = (t.expand(shape + self.batch_shape) for t in (self.shape, self.a))
        return self.scale * torch._standard_gamma(k) / (torch._standard_gamma(a) / a)

    def _entropy(self) -> Tensor:
        k, a = self.shape, self.a
        step = torch.log1p(k / a) + digamma_remainder(a + k) - digamma_remainder(a)
        rate = torch.lgamma(k) - rising_remainder(a, k) - (k - 1) * (digamma(k) - digamma_remainder(a))
        return rate + (a + k) * step + self.scale.log()

    def _cdf(self, y: Array) -> Array:
        k, a = array(self.shape), array(self.a)
        with np.errstate(invalid="ignore", over="ignore"):
            x = np.maximum(y, 0.0) / array(self.scale)
            limit = sp.gammainc(k, (a + (k - 1) / 2) * np.log1p(x / a))
            near = np.minimum(a, 1e6 * (k + 1))
            beta = sp.betainc(k, near, x / (near + x))
        return np.where(y == np.inf, 1.0, np.where(a > near, limit, beta))

    def _icdf(self, q: Array) -> Array:
        k, a = array(self.shape), array(self.a)
        near = np.minimum(a, 1e6 * (k + 1))
        with np.errstate(divide="ignore", over="ignore"):
            limit = a * np.expm1(sp.gammaincinv(k, q) / (a + (k - 1) / 2))
            low, high = sp.betaincinv(k, near, q), sp.betaincinv(near, k, 1 - q)
            beta = near * np.where(low < 0.5, low / (1 - low), (1 - high) / high)
        return np.asarray(array(self.scale) * np.where(q == 1, np.inf, np.where(a > near, limit, beta)))
