"""Directions on the circle (d = 2) and the sphere (d = 3): y ~ vMF(μ, κ) where μ ~ vMF(m, c).

The density of vMF(μ, κ) is exp(log C(κ) + κ μᵀy). With B(x) = log C(x) + x, which grows like ((d − 1)/2) log x, and
ρ = |κy + cm|: log p(y) = B(κ) + B(c) − B(ρ) − 2κc(1 − mᵀy)/(ρ + c + κ).
With A(x) = 1 − W(x) the mean length of vMF(·, x): E[y] = A(κ)A(c)m, and vMF(m, c) has entropy c W(c) − B(c).
c = inf is the plain vMF(m, κ), c = 0 the uniform distribution.
"""

import math

import numpy as np
import torch
from scipy import special as sp
from torch import Tensor

from natpn.distributions.base import Distribution, finite_count
from natpn.distributions.support import unit_vectors
from natpn.special import HALF_LOG_2PI

_LARGE = 1e4  # from here on three terms of the expansion in 1/x are exact on the circle
_SMALL = 0.5  # up to here a power series is needed on the sphere
_COTH = [float(2.0 ** (2 * k) * sp.bernoulli(2 * k)[-1] / math.factorial(2 * k)) for k in range(1, 11)]
_NODES, _WEIGHTS = (torch.from_numpy(np.asarray(a)) for a in sp.roots_legendre(160))


def log_constant(x: Tensor, dim: int) -> Tensor:
    """Return B(x) = log C(x) + x for x ≥ 0."""
    if dim == 2:
        near, far = x.clamp(max=_LARGE), x.clamp(min=_LARGE)
        tail = 0.5 * far.log() + HALF_LOG_2PI - torch.log1p((1 + 9 / (16 * far)) / (8 * far))
        return torch.where(x < _LARGE, -torch.special.i0e(near).log(), tail) - 2 * HALF_LOG_2PI
    x = x.clamp(min=1e-100)
    return -torch.log(-torch.expm1(-2 * x) / (2 * x)) - math.log(4 * math.pi)


def length_gap(x: Tensor, dim: int) -> Tensor:
    """Return W(x) = 1 − A(x), how much the mean of vMF(·, x) falls short of length 1."""
    if dim == 2:
        near, far = x.clamp(max=_LARGE), x.clamp(min=_LARGE)
        tail = (1 + (1 + 1 / far) / (4 * far)) / (2 * far)
        return torch.where(x < _LARGE, 1 - torch.special.i1e(near) / torch.special.i0e(near), tail)
    near, far = x.clamp(max=_SMALL), x.clamp(min=_SMALL)
    return torch.where(x < _SMALL, 1 - _coth_series(near), 1 / far - 2 / torch.expm1(2 * far.clamp(max=300)))


def mean_length(x: Tensor, dim: int) -> Tensor:
    """Return A(x), with its own digits near 0."""
    near = x.clamp(max=_SMALL)
    small = torch.special.i1e(near) / torch.special.i0e(near) if dim == 2 else _coth_series(near)
    return torch.where(x < _SMALL, small, 1 - length_gap(x, dim))


def _coth_series(x: Tensor) -> Tensor:
    """Return coth x − 1/x for x ≤ 1/2."""
    series = torch.zeros_like(x)
    for coefficient in reversed(_COTH):
        series = series * x * x + coefficient
    return series * x


def direction(v: Tensor) -> tuple[Tensor, Tensor]:
    """Return v's length and v over its length, with gradients that stay finite at 0."""
    length = v.square().sum(-1).clamp(min=1e-200).sqrt()
    return length, v / length.unsqueeze(-1)


class VonMisesFisher(Distribution):
    """Directions around a direction that is itself uncertain.

    Args:
        resultant: c·m, shape (..., 2) or (..., 3).
        kappa: κ of the targets, shape (...).
        known: Whether m is known (c = inf) and `resultant` gives its direction only.
        dtype: The precision of what it returns.
    """

    def __init__(
        self, resultant: Tensor, kappa: Tensor, known: bool = False, dtype: torch.dtype = torch.float64
    ) -> None:
        self.dim = resultant.shape[-1]
        length, self.centre = direction(resultant)
        concentration = torch.full_like(length, torch.inf) if known else length
        self.concentration: Tensor
        self.kappa: Tensor
        self.concentration, self.kappa = torch.broadcast_tensors(finite_count(concentration), kappa)
        super().__init__(self.kappa.shape, unit_vectors(self.dim), dtype)

    def _shrinkage(self, x: Tensor) -> Tensor:
        """Return A(x)/x, the variance of vMF(·, x) across its mean direction."""
        return mean_length(x, self.dim) / x

    def _mean(self) -> Tensor:
        length = mean_length(self.kappa, self.dim) * mean_length(self.concentration, self.dim)
        return length.unsqueeze(-1) * self.centre

    def _variance(self) -> Tensor:
        own, outer = (self._shrinkage(x).unsqueeze(-1) for x in (self.kappa, self.concentration))
        second = own + (1 - self.dim * own) * (outer + (1 - self.dim * outer) * self.centre.square())
        return second - self._mean().square()

    def _log_prob(self, y: Tensor) -> Tensor:
        y = torch.nn.functional.normalize(y, dim=-1)
        return self._log_density((y - self.centre).square().sum(-1) / 2)

    def _log_density(self, fall: Tensor) -> Tensor:
        """Return the log-density where 1 − mᵀy is `fall`."""
        kappa, c = self.kappa, self.concentration
        both = kappa + c
        lost = 2 * kappa * (c / both) * (fall / both)
        rho = both * (1 - lost).clamp(min=1e-60).sqrt()
        constants = log_constant(kappa, self.dim) + log_constant(c, self.dim) - log_constant(rho, self.dim)
        return constants - 2 * kappa * c / (rho + both) * fall

    def _sample(self, shape: torch.Size) -> Tensor:
        size = shape + self.batch_shape
        first = torch.zeros_like(self.centre)
        first[..., 0] = 1.0
        centre = torch.where(self.centre.abs().sum(-1, keepdim=True) > 0, self.centre, first)
        mu = _draw(centre.expand(*size, -1), self.concentration.expand(size))
        return _draw(mu, self.kappa.expand(size))

    def _entropy(self) -> Tensor:
        """Integrate over the angle to the centre, as far as there is any mass."""
        width = (1 / self.kappa + 1 / self.concentration.clamp(min=1e-3)).detach().sqrt()
        half = (14 * width).clamp(max=math.pi) / 2
        nodes, weights = (t.to(half).reshape(-1, *[1] * half.dim()) for t in (_NODES, _WEIGHTS))
        angle = half * (1 + nodes)
        log_p = self._log_density(2 * torch.sin(angle / 2) ** 2)
        surface = 2 * torch.ones_like(angle) if self.dim == 2 else 2 * math.pi * torch.sin(angle)
        return -(log_p * log_p.exp() * surface * half * weights).sum(0)


def _draw(mu: Tensor, kappa: Tensor) -> Tensor:
    """Draw from vMF(mu, kappa)."""
    noise = torch.randn_like(mu)
    across = torch.nn.functional.normalize(noise - (noise * mu).sum(-1, keepdim=True) * mu, dim=-1)
    if mu.shape[-1] == 2:
        moderate = kappa.clamp(1e-6, 1e5)
        angle: Tensor = torch.distributions.VonMises(torch.zeros_like(moderate), moderate, validate_args=False).sample()
        angle = torch.where(kappa > 1e5, torch.randn_like(kappa) / kappa.sqrt(), angle)
        cosine, sine = angle.cos(), angle.sin()
    else:
        kappa = kappa.clamp(min=1e-100)
        fall = -torch.log1p(torch.rand_like(kappa) * torch.expm1(-2 * kappa)) / kappa
        cosine, sine = 1 - fall, (fall * (2 - fall)).clamp(min=0).sqrt()
    return cosine.unsqueeze(-1) * mu + sine.unsqueeze(-1) * across
