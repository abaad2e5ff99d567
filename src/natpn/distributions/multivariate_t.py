"""Student's t for vectors of dimension d, with scale matrix L Lᵀ.

With a = df/2 and x = |L⁻¹(y − loc)|²/df:
log p(y) = C(a, d/2) − d/2 log 2π − Σ log L_ii − (a + d/2) log(1 + x);
entropy = (a + d/2)(ψ(a + d/2) − ψ(a)) + d/2 log 2π − C(a, d/2) + Σ log L_ii.
df = inf is the multivariate Normal. Moments are as for `StudentT`.
"""

import torch
from torch import Tensor

from natpn.distributions.base import Distribution, finite_count
from natpn.distributions.support import vectors
from natpn.special import HALF_LOG_2PI, digamma_remainder, rising_remainder


class MultivariateT(Distribution):
    """Vectors with the given centre, Cholesky factor of the scale matrix, and degrees of freedom.

    Args:
        loc: The centre, shape (..., d).
        factor: L, lower triangular with a positive diagonal, shape (..., d, d).
        df: Degrees of freedom, shape (...); inf for the Normal.
        dtype: The precision of what it returns.
    """

    def __init__(self, loc: Tensor, factor: Tensor, df: Tensor, dtype: torch.dtype = torch.float64) -> None:
        shape = torch.broadcast_shapes(loc.shape[:-1], factor.shape[:-2], df.shape)
        self.loc = loc.expand(*shape, -1)
        self.factor = factor.expand(*shape, -1, -1)
        self.df = finite_count(df).expand(shape)
        super().__init__(shape, vectors(loc.shape[-1]), dtype)

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


def mahalanobis(factor: Tensor, difference: Tensor) -> Tensor:
    """Return |L⁻¹ difference|² for vectors in the last dimension."""
    shape = torch.broadcast_shapes(factor.shape[:-2], difference.shape[:-1])
    factor = factor.expand(*shape, -1, -1)
    whitened: Tensor = torch.linalg.solve_triangular(factor, difference.expand(*shape, -1).unsqueeze(-1), upper=False)
    return whitened.square().sum((-2, -1))


def log_determinant(factor: Tensor) -> Tensor:
    """Return log |L| of a triangular matrix with a positive diagonal."""
    return factor.diagonal(dim1=-2, dim2=-1).log().sum(-1)
