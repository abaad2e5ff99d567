"""Student's t on the line, and its exponential.

With a = df/2 and x = (y − loc)²/(df·scale²):
log p(y) = C(a, ½) − ½ log 2π − log scale − (a + ½) log(1 + x), where C of `natpn.special` is what
log Γ(a + ½) − log Γ(a) exceeds ½ log a by;
entropy = (a + ½)(ψ(a + ½) − ψ(a)) + ½ log 2π − C(a, ½) + log scale.
df = inf is the Normal distribution. Without a mean (df ≤ 1) the centre of symmetry is given; the variance is inf for
df ≤ 2.
"""

from typing import ClassVar

import numpy as np
import torch
from scipy import special as sp
from torch import Tensor

from natpn.distributions.base import INFINITE, Array, ScalarDistribution, array, finite_count
from natpn.distributions.support import Support, positive, reals
from natpn.special import HALF_LOG_2PI, digamma_remainder, rising_remainder

_LARGEST = 1e150  # distances from the centre beyond which squares overflow
_ROUNDING = 1e-14  # of 1 − q, relative to it
_NORMAL_FROM = 1e10  # degrees of freedom from which two terms of the expansion around the Normal are exact


class StudentT(ScalarDistribution):
    """Location-scale Student's t.

    Args:
        loc: The centre.
        scale: The scale, positive.
        df: Degrees of freedom, positive; inf for the Normal.
        dtype: The precision of what it returns.
    """

    def __init__(self, loc: Tensor, scale: Tensor, df: Tensor, dtype: torch.dtype = torch.float64) -> None:
        self.loc: Tensor
        self.scale: Tensor
        self.df: Tensor
        self.loc, self.scale, self.df = torch.broadcast_tensors(loc, scale, finite_count(df))
        super().__init__(self.loc.shape, self._support(), dtype)

    def _support(self) -> Support:
        return reals()

    def _device(self) -> torch.device:
        return self.loc.device

    def _mean(self) -> Tensor:
        return self.loc

    def _variance(self) -> Tensor:
        inflation = self.df / (self.df - 2).clamp(min=0)
        return torch.where(self.df > 2, self.scale**2 * inflation, torch.inf)

    def _log_prob(self, y: Tensor) -> Tensor:
        z = ((y - self.loc) / self.scale).clamp(-_LARGEST, _LARGEST)
        a = self.df / 2
        spread = torch.log1p(z.square() / self.df)
        return rising_remainder(a, a.new_tensor(0.5)) - HALF_LOG_2PI - self.scale.log() - (a + 0.5) * spread

    def _sample(self, shape: torch.Size) -> Tensor:
        size = shape + self.batch_shape
        a = (self.df / 2).expand(size)
        normal = torch.randn(size, dtype=self.loc.dtype, device=self.loc.device)
        return self.loc + self.scale * normal * (a / torch._standard_gamma(a)).sqrt()

    def _entropy(self) -> Tensor:
        # the Normal's, as every answer asks for it; a graph that takes any numbers cannot look at them
        if not torch.compiler.is_compiling() and bool((self.df >= INFINITE).all()):
            return HALF_LOG_2PI + 0.5 + self.scale.log()
        a = self.df / 2
        step = torch.log1p(0.5 / a) + digamma_remainder(a + 0.5) - digamma_remainder(a)
        return (a + 0.5) * step + HALF_LOG_2PI - rising_remainder(a, a.new_tensor(0.5)) + self.scale.log()

    def _cdf(self, y: Array) -> Array:
        df = array(self.df)
        with np.errstate(invalid="ignore", over="ignore"):
            z = (y - array(self.loc)) / array(self.scale)
            corrected = np.where(np.isfinite(z), z * (1 - (z * z + 1) / (4 * df)), z)
        near = np.minimum(df, _NORMAL_FROM)
        return np.where(df < _NORMAL_FROM, sp.stdtr(near, z), sp.ndtr(corrected))

    def _icdf(self, q: Array) -> Array:
        df = array(self.df)
        with np.errstate(invalid="ignore", over="ignore"):
            normal = sp.ndtri(q)
            normal = np.where(np.isfinite(normal), normal * (1 + (normal * normal + 1) / (4 * df)), normal)
            tail = np.minimum(q, 1 - q)
            if (
                tail.ndim > 1 and np.ptp(tail) <= _ROUNDING * tail.min()
            ):  # the ends of an interval: by symmetry, one gives the other
                tail = tail[:1]
            heavy = np.copysign(sp.stdtrit(np.minimum(df, _NORMAL_FROM), tail), q - 0.5)
            heavy = np.where((q == 0) | (q == 1), np.where(q == 0, -np.inf, np.inf), heavy)
            return array(self.loc) + array(self.scale) * np.where(df < _NORMAL_FROM, heavy, normal)


class LogStudentT(StudentT):
    """The exponential of a Student's t: positive targets whose logarithm has the given centre and scale.

    For finite df it has no moments: mean and variance are inf, and quantiles serve in their place.
    """

    has_moments: ClassVar[bool] = False

    def _support(self) -> Support:
        return positive()

    def _is_lognormal(self) -> Tensor:
        return self.df >= finite_count(self.df.new_tensor(torch.inf))

    def _mean(self) -> Tensor:
        return torch.where(self._is_lognormal(), (self.loc + self.scale**2 / 2).exp(), torch.inf)

    def _variance(self) -> Tensor:
        variance = self.scale**2
        return torch.where(self._is_lognormal(), torch.expm1(variance) * (2 * self.loc + variance).exp(), torch.inf)

    def _log_prob(self, y: Tensor) -> Tensor:
        return super()._log_prob(y.log()) - y.log()

    def _sample(self, shape: torch.Size) -> Tensor:
        return super()._sample(shape).exp()

    def _entropy(self) -> Tensor:
        return super()._entropy() + self.loc

    def _cdf(self, y: Array) -> Array:
        with np.errstate(divide="ignore"):
            return super()._cdf(np.log(np.maximum(y, 0.0)))

    def _icdf(self, q: Array) -> Array:
        with np.errstate(over="ignore"):
            return np.exp(super()._icdf(q))
