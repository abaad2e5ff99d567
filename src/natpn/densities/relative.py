"""Clusters of latents, relative to a single normal over all of them.

    log p(z) = log q(z) − max(log r(z), c)

q is a mixture of normals with one covariance, r a single normal, and c the first percentile of log r over training
rows. What varies as much within clusters as among all rows says nothing about where a row belongs; in log q alone it
makes most of the differences, and here it cancels (the relative Mahalanobis distance of Ren and others 2021, without
classes). Where r falls below c it is held there, so p falls along every ray as q does. The result does not integrate to
one; evidence is scaled on held-out rows, and needs ratios alone.
"""

import torch
from torch import Tensor

from natpn.densities.base import FLOOR, Density, Reduce, identity, weighted_quantiles
from natpn.densities.gaussian_mixture import GaussianMixture

_RARE = 0.01
_ONE_COVARIANCE = 1e9  # rows that the pooled covariance counts for, beside those of a component


class RelativeMixture(Density):
    """A mixture of normals with one covariance, relative to a single normal.

    Args:
        dim: The number of latent features H.
        n_components: The number of clusters.
        bandwidth: Blurs both, see `GaussianMixture`.

    Example:
        >>> RelativeMixture(3, 4)(torch.zeros(2, 3)).shape
        torch.Size([2])
    """

    refit_suffices = True
    least: Tensor

    def __init__(self, dim: int, n_components: int, bandwidth: float = 0.0) -> None:
        super().__init__(dim)
        self.clusters = GaussianMixture(dim, n_components, _ONE_COVARIANCE, bandwidth)
        self.whole = GaussianMixture(dim, 1, 0.0, bandwidth)
        self.register_buffer("least", torch.zeros(()))

    @property
    def least_unit(self) -> float:
        """A third of that of other densities: most of what their rows differ by cancels."""
        return super().least_unit / 3

    def hasten(self) -> None:
        """Let both calculate faster."""
        self.clusters.hasten()
        self.whole.hasten()

    def log_prob(self, z: Tensor) -> Tensor:
        """Return the log-density, up to a constant, of latents (..., H), as (...)."""
        value: Tensor = self.clusters(z) - torch.maximum(self.whole(z), self.least)
        return value.clamp(min=-FLOOR)

    def _log_prob(self, u: Tensor) -> Tensor:
        return self.log_prob(u)

    @torch.no_grad()
    def refit(
        self,
        z: Tensor,
        weight: Tensor | None = None,
        generator: torch.Generator | None = None,
        reduce: Reduce = identity,
    ) -> None:
        """Fit both to a sample (see `Density.refit` for the arguments)."""
        z, weight = self._checked(z, weight)
        self.clusters.refit(z, weight, generator, reduce)
        self.whole.refit(z, weight, generator, reduce)
        rows = weight.sum()
        # of several processes, the mean of their quantiles
        self.least.copy_(reduce(rows * weighted_quantiles(self.whole(z).double(), weight, _RARE)[0]) / reduce(rows))
