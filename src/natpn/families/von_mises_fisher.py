"""Von Mises–Fisher: directions on the circle (dimension 2) and the sphere (dimension 3), concentration κ known.

- Likelihood: C(κ) exp(κ μᵀy) for unit vectors y; u(y) = y.
- Prior: on μ, von Mises–Fisher with concentration c = κn|χ| around m = χ/|χ|; by default χ = 0, the
  uniform distribution, and n = 1. The marginal of targets whose mean is χ has A(c) = |χ|/A(κ), as nearly as the
  approximation of Banerjee and others (2005) inverts A: then the mean of the predictive is χ.
- Expected log-likelihood: B(κ) − κ (1 − A(c) mᵀy), with B(x) = log C(x) + x, which grows like ((d − 1)/2) log x, and
  A(x) = 1 − W(x), the mean length of vMF(·, x).
- Predictive: von Mises–Fisher around a direction that is von Mises–Fisher. With ρ = |κy + cm|,
  log p(y) = B(κ) + B(c) − B(ρ) − 2κc(1 − mᵀy)/(ρ + c + κ), and its mean is A(κ)A(c)m.
  c = inf is the plain vMF(m, κ), c = 0 the uniform distribution.
- Entropy: with respect to the surface element; c W(c) − B(c).
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import torch
from scipy import special as sp
from torch import Tensor

from natpn.evidence import Evidence
from natpn.families.base import FEW, Family, Posterior, positive_parameter, whole_parameter
from natpn.families.description import COORDINATES, Graph
from natpn.families.distribution import INFINITE, Array, Distribution, Support, broadcast
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


def unit_vectors(dim: int) -> Support:
    """Return what a vector of length one, to 10⁻⁴, may be."""
    return Support(
        f"a vector of {dim} numbers of length 1",
        lambda y: (torch.linalg.vector_norm(y, dim=-1) - 1).abs() <= 1e-4,
        (dim,),
    )


@dataclass(frozen=True, repr=False)
class VonMisesFisher(Family):
    """Unit vectors of known concentration, with a von Mises–Fisher prior."""

    predicts: ClassVar[str] = "a direction"
    is_vectors: ClassVar[bool] = True
    graph = Graph(
        "the mean vector; concentration·n·chi is the parameter of the posterior of the direction",
        "the mean vector, which is shorter than 1",
        deviation=False,
        aleatoric=None,
        left_out=(
            "The aleatoric entropy is left out: with a known concentration it is the same for all rows.",
            COORDINATES,
        ),
    )

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
    def parameters(cls, y: Array) -> dict[str, Any]:
        """Return the dimension, and the concentration around the mean (Banerjee and others 2005), at least 1."""
        if y.ndim != 2:
            return {}
        length = min(float(np.linalg.norm(y.mean(0))), 0.9999)
        concentration = max(1.0, float(length * (y.shape[1] - length**2) / (1 - length**2)))
        return {"dimension": y.shape[1], "concentration": concentration}

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

    def predictive(self) -> "VonMisesFisherDistribution":
        """Return directions around an uncertain mean direction."""
        return VonMisesFisherDistribution(self.resultant, self.kappa, dtype=self.dtype)

    def likelihood(self) -> "VonMisesFisherDistribution":
        """Return directions around the posterior mean direction, an arbitrary one if there is none."""
        first = torch.zeros_like(self.resultant)
        first[..., 0] = 1.0
        somewhere = self.resultant.abs().sum(-1, keepdim=True) > 0
        return VonMisesFisherDistribution(torch.where(somewhere, self.resultant, first), self.kappa, True, self.dtype)


class VonMisesFisherDistribution(Distribution):
    """Directions of concentration κ around a direction m that is itself uncertain, given by `resultant` = c·m.

    If m is `known` (c = inf), the resultant gives its direction only.
    """

    def __init__(
        self, resultant: Tensor, kappa: Tensor, known: bool = False, dtype: torch.dtype = torch.float64
    ) -> None:
        self.dim = resultant.shape[-1]
        length, self.centre = direction(resultant)
        concentration = torch.full_like(length, torch.inf) if known else length
        self.concentration, self.kappa = broadcast(concentration.clamp(max=INFINITE), kappa)
        super().__init__(self.kappa, unit_vectors(self.dim), dtype)

    def _mean(self) -> Tensor:
        length = mean_length(self.kappa, self.dim) * mean_length(self.concentration, self.dim)
        return length.unsqueeze(-1) * self.centre

    def _variance(self) -> Tensor:
        # A(x)/x is the variance of vMF(·, x) across its mean direction
        own, outer = ((mean_length(x, self.dim) / x).unsqueeze(-1) for x in (self.kappa, self.concentration))
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
