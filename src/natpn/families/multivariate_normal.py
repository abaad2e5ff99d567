"""Multivariate Normal: vectors of dimension d with unknown mean and covariance.

- Likelihood: N(y | μ, Σ); u(y) = (y, y yᵀ), held centred as χ = (m, L), a mean and the lower triangle, by rows, of the
  Cholesky factor of the covariance S = L Lᵀ around it: a pooled covariance of condition 10¹² keeps its digits in the
  factor and nowhere else. Pooling is a QR decomposition of the stacked factors and deviations.
- Prior: Normal-Inverse-Wishart with λ = n, Ψ = nS, ν = n + d − 1, which is proper for every n > 0 and has the `normal`
  family's priors as marginals; the default is m = 0, S = 100·I, n = 1. The marginal of targets with covariance C has
  S = C (n − 2)/(n + 1), so that the covariance of its predictive is C.
- Expected log-likelihood, with a_j = (n + j)/2 for j = 0 … d − 1 and s = Σ_j [φ(a_j) + log(1 + j/n)]:
  ½ s − d/2 log 2π − log |L| − ½ [ν/n · |L⁻¹(y − m)|² + d/n].
- Predictive: multivariate t with df = n, centre m and scale matrix F Fᵀ = S(n + 1)/n. With a = df/2,
  x = |F⁻¹(y − m)|²/df and C of `natpn.special`: log p(y) = C(a, d/2) − d/2 log 2π − log |F| − (a + d/2) log(1 + x);
  its entropy is (a + d/2)(ψ(a + d/2) − ψ(a)) + d/2 log 2π − C(a, d/2) + log |F|.
  df = inf is the multivariate Normal. Moments are as for `StudentT`.
- Entropy: with respect to dμ and the d(d + 1)/2 entries dΣ_ij, i ≥ j. That of Σ is, with H(a) the entropy of
  Gamma(a, 1), Σ_j [H(a_j) + (j/2 − d − 1) ψ(a_j)] + d(d − 1)/4 (1 + log π) + (d + 1)(log |L| + d/2 log(n/2));
  that of μ given Σ is d/2 log 2πe − d/2 log n + log |L| − ½ s.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor

from natpn.evidence import Evidence, anchored_mean
from natpn.families.base import FEW, Family, Posterior, whole_parameter
from natpn.families.description import COORDINATES, Graph, mean_and_deviation
from natpn.families.distribution import INFINITE, Array, Distribution, Support
from natpn.special import HALF_LOG_2PI, digamma_remainder, gamma_entropy, rising_remainder

_SMALLEST_SCALE = 1e-3
_LARGEST = 1e6


def pool_mean_and_factor(a: Tensor, a_share: Tensor, b: Tensor, b_share: Tensor) -> Tensor:
    """Pool (mean, Cholesky factor of the covariance)."""
    d = (math.isqrt(9 + 8 * a.shape[-1]) - 3) // 2
    mean = anchored_mean(a[..., :d], a_share, b[..., :d], b_share)
    roots = [(share.clamp(min=1e-300).sqrt() * (share > 0)).unsqueeze(-1) for share in (a_share, b_share)]
    rows = [root * unpack(x[..., d:], d).mT for root, x in zip(roots, (a, b), strict=True)]
    apart = roots[0] * roots[1] * (b - a)[..., :d].unsqueeze(-2)
    upper = torch.linalg.qr(torch.cat([*torch.broadcast_tensors(*rows), apart], -2)).R
    signs = torch.where(upper.diagonal(dim1=-2, dim2=-1) < 0, -1.0, 1.0).detach()
    return torch.cat([mean, pack((signs.unsqueeze(-1) * upper).mT)], -1)


def unpack(packed: Tensor, d: int) -> Tensor:
    """Return the lower-triangular matrix whose entries are given by rows."""
    row, column = torch.tril_indices(d, d)
    factor = packed.new_zeros(*packed.shape[:-1], d, d)
    factor[..., row, column] = packed
    return factor


def pack(factor: Tensor) -> Tensor:
    """Return the lower triangle by rows."""
    row, column = torch.tril_indices(factor.shape[-1], factor.shape[-1])
    return factor[..., row, column]


def mahalanobis(factor: Tensor, difference: Tensor) -> Tensor:
    """Return |L⁻¹ difference|² for vectors in the last dimension."""
    shape = torch.broadcast_shapes(factor.shape[:-2], difference.shape[:-1])
    factor = factor.expand(*shape, -1, -1)
    whitened: Tensor = torch.linalg.solve_triangular(factor, difference.expand(*shape, -1).unsqueeze(-1), upper=False)
    return whitened.square().sum((-2, -1))


def log_determinant(factor: Tensor) -> Tensor:
    """Return log |L| of a triangular matrix with a positive diagonal."""
    return factor.diagonal(dim1=-2, dim2=-1).log().sum(-1)


def vectors(dim: int) -> Support:
    """Return what a vector of finite numbers may be."""
    return Support(f"a vector of {dim} finite numbers", lambda y: y.isfinite().all(-1), (dim,))


@dataclass(frozen=True, repr=False)
class MultivariateNormal(Family):
    """Vectors of a given dimension, with a Normal-Inverse-Wishart prior."""

    suits: ClassVar[str] = "vectors"
    predicts: ClassVar[str] = "several numbers at once"
    is_vectors: ClassVar[bool] = True
    graph = Graph(
        "the mean and the lower triangle, by rows, of the Cholesky factor of the covariance; the predictive is the "
        "multivariate t with n degrees of freedom and scale matrix covariance·(n + 1)/n",
        deviation=False,
        aleatoric=lambda posterior: (
            posterior.family.dimension * (HALF_LOG_2PI + 0.5) + log_determinant(posterior.factor)
        ),
        left_out=(COORDINATES,),
    )
    pool = staticmethod(pool_mean_and_factor)

    dimension: int

    def __post_init__(self) -> None:
        whole_parameter("dimension", self.dimension, range(1, 10**9))

    @property
    def n_statistics(self) -> int:
        """The mean and the lower triangle of the covariance's factor."""
        return self.dimension + self.dimension * (self.dimension + 1) // 2

    @property
    def support(self) -> Support:
        """Vectors of finite numbers."""
        return vectors(self.dimension)

    @classmethod
    def suited(cls, y: Array) -> int | None:
        """Take all vectors."""
        return 0 if y.ndim == 2 else None

    @classmethod
    def parameters(cls, y: Array) -> dict[str, Any]:
        """Return the dimension."""
        return {"dimension": y.shape[1] if y.ndim == 2 else 1}

    def location_and_scale(self, y: Array, weight: Array | None) -> tuple[Array, Array]:
        """Return mean and standard deviation of each coordinate."""
        return mean_and_deviation(y, weight)

    def standardise(self, y: Array, location: Array, scale: Array) -> Array:
        """Return (y − l)/s, each coordinate."""
        return ((y.reshape(len(y), -1) - location) / scale).reshape(y.shape)

    def rescaling(self, location: Tensor, scale: Tensor) -> tuple[Tensor, Tensor]:
        """Return what turns m into s m + l, and makes the rows of the factor s times as large."""
        rows = pack(scale[:, None].expand(-1, len(scale)))
        return torch.cat([scale, rows]), torch.cat([location, torch.zeros_like(rows)])

    def link(self, raw: Tensor) -> Tensor:
        """Map raw outputs to means and factor entries within ±10⁶, with at least 10⁻³ on the diagonal."""
        raw = raw.clamp(-_LARGEST, _LARGEST)
        mean, factor = raw[..., : self.dimension], unpack(raw[..., self.dimension :], self.dimension)
        diagonal = torch.nn.functional.softplus(factor.diagonal(dim1=-2, dim2=-1)) + _SMALLEST_SCALE
        return torch.cat([mean, pack(factor.tril(-1) + torch.diag_embed(diagonal))], -1)

    def inverse_link(self, chi: Tensor) -> Tensor:
        """Map mean and factor to raw outputs."""
        mean, factor = chi[..., : self.dimension], unpack(chi[..., self.dimension :], self.dimension)
        excess = (factor.diagonal(dim1=-2, dim2=-1) - _SMALLEST_SCALE).clamp(min=_SMALLEST_SCALE / 10)
        diagonal = excess + torch.log(-torch.expm1(-excess))  # the inverse of softplus
        return torch.cat([mean, pack(factor.tril(-1) + torch.diag_embed(diagonal))], -1)

    def _statistics(self, y: Tensor) -> Tensor:
        return torch.cat([y, y.new_zeros(*y.shape[:-1], self.n_statistics - self.dimension)], -1)

    def _default_prior(self) -> tuple[Sequence[float], float]:
        return [*[0.0] * self.dimension, *pack(10.0 * torch.eye(self.dimension)).tolist()], 1.0

    def _marginal(self, y: Tensor, weight: Tensor) -> tuple[Tensor, float]:
        mean = (weight @ y) / weight.sum()
        spread = (weight / weight.sum()).sqrt().unsqueeze(-1) * (y - mean)
        # a coordinate that is constant, or given by the others, keeps a little width of its own
        floor = _SMALLEST_SCALE * torch.eye(self.dimension, dtype=y.dtype, device=y.device)
        upper = torch.linalg.qr(torch.cat([spread, floor]) * math.sqrt((FEW - 2) / (FEW + 1))).R
        signs = torch.where(upper.diagonal() < 0, -1.0, 1.0)
        return torch.cat([mean, pack((signs.unsqueeze(-1) * upper).mT)]), FEW

    def _posterior(self, evidence: Evidence) -> "MultivariateNormalPosterior":
        return MultivariateNormalPosterior(self, evidence)


class MultivariateNormalPosterior(Posterior[MultivariateNormal]):
    """Normal-Inverse-Wishart over mean and covariance."""

    def __init__(self, family: MultivariateNormal, evidence: Evidence) -> None:
        super().__init__(family, evidence)
        d = self.family.dimension
        self.mean, self.factor = self.mean_statistics[..., :d], unpack(self.mean_statistics[..., d:], d)

    def _steps(self) -> tuple[Tensor, Tensor]:
        """Return a_j = (n + j)/2 and Σ_j [φ(a_j) + log(1 + j/n)]."""
        j = torch.arange(self.family.dimension, dtype=self.n.dtype, device=self.n.device)
        n = self.n.unsqueeze(-1)
        a = (n + j) / 2
        return a, (digamma_remainder(a) + torch.log1p(j / n)).sum(-1)

    def _expected_log_likelihood(self, y: Tensor) -> Tensor:
        d = self.family.dimension
        distance = mahalanobis(self.factor, y - self.mean)
        quadratic = (1 + (d - 1) / self.n) * distance + d / self.n
        return 0.5 * (self._steps()[1] - quadratic) - d * HALF_LOG_2PI - log_determinant(self.factor)

    def _entropy(self) -> Tensor:
        d = self.family.dimension
        a, steps = self._steps()
        log_det = log_determinant(self.factor)
        j = torch.arange(d, dtype=a.dtype, device=a.device)
        wishart = (gamma_entropy(a) + (j / 2 - d - 1) * (digamma_remainder(a) + a.log())).sum(-1)
        covariance = (
            wishart + d * (d - 1) / 4 * (1 + math.log(math.pi)) + (d + 1) * (log_det + d / 2 * (self.n / 2).log())
        )
        return covariance + d * (HALF_LOG_2PI + 0.5) - d / 2 * self.n.log() + log_det - 0.5 * steps

    def predictive(self) -> "MultivariateT":
        """Return the multivariate t with n degrees of freedom."""
        factor = self.factor * (1 + 1 / self.n).sqrt().unsqueeze(-1).unsqueeze(-1)
        return MultivariateT(self.mean, factor, self.n, self.dtype)

    def likelihood(self) -> "MultivariateT":
        """Return the Normal with mean m and covariance S."""
        return MultivariateT(self.mean, self.factor, torch.full_like(self.n, torch.inf), self.dtype)


class MultivariateT(Distribution):
    """Vectors with the given centre, Cholesky factor of the scale matrix and degrees of freedom; inf for the Normal."""

    def __init__(self, loc: Tensor, factor: Tensor, df: Tensor, dtype: torch.dtype = torch.float64) -> None:
        shape = torch.broadcast_shapes(loc.shape[:-1], factor.shape[:-2], df.shape)
        self.loc = loc.expand(*shape, -1)
        self.factor = factor.expand(*shape, -1, -1)
        self.df = df.clamp(max=INFINITE).expand(shape)
        super().__init__(self.df, vectors(loc.shape[-1]), dtype)

    def _mean(self) -> Tensor:
        return self.loc

    def _variance(self) -> Tensor:
        inflation = torch.where(self.df > 2, self.df / (self.df - 2).clamp(min=0), torch.inf)
        return self.factor.square().sum(-1) * inflation.unsqueeze(-1)

    def _log_prob(self, y: Tensor) -> Tensor:
        a, half = self.df / 2, self.loc.new_tensor(self.loc.shape[-1] / 2)
        distance = mahalanobis(self.factor, y - self.loc)
        constant = rising_remainder(a, half) - 2 * half * HALF_LOG_2PI - log_determinant(self.factor)
        return constant - (a + half) * torch.log1p(distance / self.df)

    def _sample(self, shape: torch.Size) -> Tensor:
        a = (self.df / 2).expand(shape + self.batch_shape)
        normal = torch.randn(shape + self.loc.shape, dtype=self.loc.dtype, device=self.loc.device)
        directed = (self.factor @ normal.unsqueeze(-1)).squeeze(-1)
        return self.loc + directed * (a / torch._standard_gamma(a)).sqrt().unsqueeze(-1)

    def _entropy(self) -> Tensor:
        a, half = self.df / 2, self.loc.new_tensor(self.loc.shape[-1] / 2)
        step = torch.log1p(half / a) + digamma_remainder(a + half) - digamma_remainder(a)
        constant = 2 * half * HALF_LOG_2PI + log_determinant(self.factor)
        return (a + half) * step + constant - rising_remainder(a, half)
