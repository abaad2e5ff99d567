"""The network that is used by default, and what its density sees of an input beside the latent vector."""

import math
from collections.abc import Iterable, Sequence
from typing import Literal, Self, cast

import numpy as np
import torch
from torch import Tensor, nn

from natpn import densities, encoders
from natpn.densities import Density, GaussianMixture, RelativeMixture, Rising, Surprise, Views
from natpn.encoders.base import LIMIT, bound, check_positive
from natpn.evidence import Evidence
from natpn.families import Family
from natpn.few_rows import Floats, Form, array, within
from natpn.network.natural_posterior import NaturalPosteriorNetwork
from natpn.network.patch_energies import PatchEnergies

ACTIVATION = "silu"
KNOTS, MOST_KNOTS, KNOTS_ROWS, KNOTS_GROWTH = 9, 17, 3000, 0.28  # 13 with 10,000 rows, 17 with 30,000
COMPONENTS = 60
CLUSTERS, ROWS_PER_CLUSTER = 12, 8  # of the latents of pictures; more, if there are more classes
ROWS_PER_COMPONENT = 2.0
SHRINKAGE = 0.2
BANDWIDTH = 0.05
_MOST_ROWS = 20_000  # that principal components are taken from


class PrincipalComponents(nn.Module):
    """Map inputs to their leading principal components, each with the variance it has in the data.

    It is a bypass: the density sees its output beside the latent vector, the decoder does not. An encoder keeps what
    the targets depend on and may drop the rest, so inputs that differ from the training data only in what it dropped
    would look familiar.

    Inputs are expected to be standardised; what a number exceeds 8 standard deviations by counts a tenth. Until `fit`
    the components are the first entries of the input.

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
        n_features = math.prod(inner)
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
        """Take the components of training inputs, shape `(rows, *shape)`; of many rows, evenly spaced ones."""
        if tuple(x.shape[1:]) != self.shape or not len(x):
            raise ValueError(f"x: expected at least one row of shape {self.shape}, got shape {tuple(x.shape)}")
        sample = x[:: -(-len(x) // _MOST_ROWS)].flatten(1)[:, : len(self.mean)]
        rows = soften(sample.to(self.mean.device, torch.float64))
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
        """Map `x`, shape `(..., *shape)`, to (..., latent_dim)."""
        flat = bound(x.reshape(*x.shape[: x.ndim - len(self.shape)], -1).to(self.mean.dtype))
        inner, passed = flat[..., : len(self.mean)], flat[..., len(self.mean) :]
        components = bound((soften(inner) - self.mean) @ self.components)
        return torch.cat([components, passed], -1) if self.n_passed else components

    def in_numpy(self) -> Form | None:
        """Return the numpy form, for tables."""
        if len(self.shape) > 1:
            return None
        mean, components = array(self.mean), array(self.components)

        def form(x: Floats) -> Floats:
            x = within(x, LIMIT)
            inner, passed = x[:, : len(mean)], x[:, len(mean) :]
            soft = inner - 0.9 * (inner - within(inner, 8))
            return np.concatenate([within((soft - mean) @ components, LIMIT), passed], 1)

        return form


class SideBySide(nn.Module):
    """Several bypasses as one: their outputs one after the other."""

    def __init__(self, *parts: PatchEnergies | PrincipalComponents) -> None:
        super().__init__()
        self.parts = nn.ModuleList(parts)
        self.latent_dim = sum(part.latent_dim for part in parts)

    def fit(self, x: Tensor) -> Self:
        """Fit each to training inputs."""
        for part in self.parts:
            cast(PatchEnergies | PrincipalComponents, part).fit(x)
        return self

    def forward(self, x: Tensor) -> Tensor:
        """Map `x`, shape `(..., *shape)`, to (..., latent_dim)."""
        return torch.cat([part(x) for part in self.parts], -1)


def default_network(
    shape: int | Sequence[int],
    family: Family,
    n_rows: int,
    latent_dim: int = 16,
    *,
    n_numbers: int | None = None,
    surprise: bool = False,
    encoder: nn.Module | None = None,
    density: str | Density | None = None,
    budget: str = "gradual",
    prior: Evidence | Literal["marginal"] | None = "marginal",
    activation: str = ACTIVATION,
    knots: int | None = None,
    texture: bool = True,
) -> NaturalPosteriorNetwork:
    """Return the default network for standardised inputs of a shape; `docs/method.md` says how it was chosen.

    Numbers go through a perceptron of three layers of 128 that sees them by themselves and in pieces, the more rows the
    finer; pictures through a small residual network. The density sees the latent vector and the leading principal
    components of the input. It is a Gaussian mixture of up to 60 components, each with at least twice as many
    training rows as there are features; its covariances are drawn towards the pooled one with the weight of a fifth as
    many rows, and blurred by a few hundredths of the data's spread. Of a picture, a `RelativeMixture` sees direction
    and length of the latent vector. Taken off is what the length falls short, what a mixture of the texture
    (`PatchEnergies`) does, and of grey pictures what a mixture of their components does (`Views`).

    Args:
        shape: The number of features, or the shape (channels, height, width) of an image.
        family: What the targets are.
        n_rows: The number of training rows.
        latent_dim: The size of the latent vector.
        n_numbers: How many first columns of a table are numbers, the others being indicators; by default all.
        surprise: Whether one more column follows, with the log-probability of events that never happened in training.
        encoder: Another encoder.
        density: Another density, or its name.
        budget: Another budget.
        prior: What is believed without evidence; by default what the training targets say of any row.
        activation: Of the default encoder for tables; models of earlier versions have "leaky_relu".
        knots: Of each column of numbers in that encoder; by default from 9 to 17, by the number of rows.
        texture: Whether pictures are seen by their texture beside the latent vector; in models of earlier versions they
            are seen by their components, as tables are.
    """
    size = (shape,) if isinstance(shape, int) else tuple(shape)
    if encoder is None and len(size) == 1:
        encoder = encoders.get(
            "tabular",
            n_features=size[0],
            latent_dim=latent_dim,
            hidden=128,
            n_layers=3,
            encoding="both",
            knots=default_knots(n_rows) if knots is None else knots,
            dropout=0.2,
            activation=activation,
            n_numbers=n_numbers,
            n_ignored=int(surprise),
        )
    elif encoder is None:
        encoder = encoders.get("resnet9", shape=size, latent_dim=latent_dim)
    polar = texture and len(size) == 3
    components = PrincipalComponents(size, min(16, math.prod(size)), n_passed=int(surprise))
    views: list[PatchEnergies | PrincipalComponents] = [components] if not polar or size[0] == 1 else []
    if polar:
        views.insert(0, PatchEnergies(size))
    bypass = SideBySide(*views) if len(views) > 1 else views[0]
    inner = latent_dim + int(polar)
    dim = inner + bypass.latent_dim - int(surprise)
    if density is None and polar:
        clusters = min(COMPONENTS, max(CLUSTERS, family.n_statistics), max(2, n_rows // ROWS_PER_CLUSTER))
        others = [default_mixture(view.latent_dim, n_rows) for view in views]
        # of the latents the last number is the logarithm of their length
        first = [0, inner - 1, *(inner + sum(other.dim for other in others[:i]) for i in range(len(others)))]
        density = Views([RelativeMixture(inner, clusters, BANDWIDTH), Rising(), *others], first)
    elif density is None:
        density = default_mixture(dim, n_rows)
    elif isinstance(density, str):
        density = densities.get(density, dim)
    if surprise:
        density = Surprise(density)
    return NaturalPosteriorNetwork(encoder, family, density, latent_dim, budget, prior, bypass, polar)


def default_mixture(dim: int, n_rows: int) -> GaussianMixture:
    """Return an unfitted mixture for features of as many training rows."""
    n_components = int(max(1, min(COMPONENTS, n_rows // (ROWS_PER_COMPONENT * dim))))
    return GaussianMixture(dim, n_components, SHRINKAGE * dim, BANDWIDTH)


def default_knots(n_rows: int) -> int:
    """Return how many knots a column of numbers has: fine structure needs rows to learn it from."""
    return min(MOST_KNOTS, max(KNOTS, round(KNOTS * math.pow(n_rows / KNOTS_ROWS, KNOTS_GROWTH))))


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


def soften(x: Tensor) -> Tensor:
    """Let numbers beyond ±8 count a tenth: heavy tails do not take the components, and far out it grows linearly."""
    return x - 0.9 * (x - x.clamp(-8, 8))


def harden(x: Tensor) -> Tensor:
    """Undo `soften`."""
    return x + 9 * (x - x.clamp(-8, 8))
