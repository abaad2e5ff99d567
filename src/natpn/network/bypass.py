"""A linear bypass: features of the input that reach the density beside the latent vector.

An encoder keeps what the targets depend on and may drop the rest. What it dropped cannot be missed by a density over
its latents, so inputs that differ from the training data only there look familiar. The leading principal components of
the inputs, added to what the density sees, close that gap. The decoder does not see them.
"""

from collections.abc import Iterable
from math import prod
from typing import Self

import torch
from torch import Tensor, nn

from natpn.encoders.base import bound, check_positive

MAX_ROWS = 20_000


class PrincipalComponents(nn.Module):
    """Map inputs to their leading principal components, each with the variance it has in the data.

    Inputs are taken to be standardised; beyond 8 standard deviations a number counts a tenth. Until `fit` the
    components are the first entries of the input.

    Args:
        shape: The shape of one input, or the number of its features.
        latent_dim: How many components, at most as many as an input has entries.
        n_passed: How many more columns follow, in a table, that are passed on as they are behind the components.
    """

    mean: Tensor
    components: Tensor

    def __init__(self, shape: int | Iterable[int], latent_dim: int = 16, n_passed: int = 0) -> None:
        super().__init__()
        inner = (shape,) if isinstance(shape, int) else tuple(shape)
        n_features = prod(inner)
        check_positive(latent_dim=latent_dim, n_features=n_features)
        if n_passed and len(inner) > 1:
            raise ValueError(f"n_passed = {n_passed}, but only a table has more columns; the shape is {inner}")
        self.n_passed = n_passed
        self.shape = (n_features + n_passed,) if n_passed else inner
        self.n_components = min(latent_dim, n_features)
        self.latent_dim = self.n_components + n_passed
        self.register_buffer("mean", torch.zeros(n_features))
        self.register_buffer("components", torch.eye(n_features, self.n_components))

    @torch.no_grad()
    def fit(self, x: Tensor) -> Self:
        """Take the components of training inputs, shape (rows, *shape); of many rows, evenly spaced ones."""
        if tuple(x.shape[1:]) != self.shape or not len(x):
            raise ValueError(f"x: expected at least one row of shape {self.shape}, got shape {tuple(x.shape)}")
        sample = x[:: -(-len(x) // MAX_ROWS)].flatten(1)[:, : len(self.mean)]
        rows = _soften(sample.to(self.mean.device, torch.float64))
        if not bool(rows.isfinite().all()):
            raise ValueError("x: expected finite numbers, got NaN or inf: impute them first")
        mean = rows.mean(0)
        value, vector = _eigenvectors(rows - mean)
        leading = vector.flip(-1)[:, : self.n_components]
        # The sign of an eigenvector is arbitrary: make its largest entry positive, so that fits repeat.
        largest = leading.gather(0, leading.abs().argmax(0, keepdim=True))
        self.mean.copy_(mean)
        self.components.zero_()  # where there are fewer rows than components
        kept = value.flip(-1)[: self.n_components] > 1e-12 * value[-1]
        self.components[:, : len(kept)] = (leading * largest.sign() * kept).to(self.components.dtype)
        return self

    def forward(self, x: Tensor) -> Tensor:
        """Map `x`, shape (..., *shape), to (..., latent_dim)."""
        flat = bound(x.reshape(*x.shape[: x.ndim - len(self.shape)], -1).to(self.mean.dtype))
        inner, passed = flat[..., : len(self.mean)], flat[..., len(self.mean) :]
        components = bound((_soften(inner) - self.mean) @ self.components)
        return torch.cat([components, passed], -1) if self.n_passed else components


def _eigenvectors(centred: Tensor) -> tuple[Tensor, Tensor]:
    """Return the eigenvalues of the columns' scatter, ascending, and the eigenvectors: all, or all but those of 0."""
    n_rows, n_columns = centred.shape
    if n_rows >= n_columns:
        value, vector = torch.linalg.eigh(centred.T @ centred)
        return value, vector
    # There are at most as many eigenvalues above 0 as rows; the product of the rows has the same, and is smaller.
    value, weight = torch.linalg.eigh(centred @ centred.T)
    vector = centred.T @ weight / value.clamp(min=torch.finfo(value.dtype).tiny).sqrt()
    return value, vector


def _soften(x: Tensor) -> Tensor:
    """Let numbers beyond ±8 count a tenth: heavy tails do not take the components, and far out it grows linearly."""
    return x - 0.9 * (x - x.clamp(-8, 8))
