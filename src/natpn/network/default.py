"""The network that is used where nothing else is asked for."""

import math
from collections.abc import Sequence
from typing import Literal

from torch import nn

from natpn import densities, encoders
from natpn.densities import Density, GaussianMixture, Surprise
from natpn.evidence import Evidence
from natpn.families import Family
from natpn.network.bypass import PrincipalComponents
from natpn.network.natural_posterior import NaturalPosteriorNetwork

ACTIVATION = "silu"
KNOTS, MOST_KNOTS, KNOTS_ROWS, KNOTS_GROWTH = 9, 17, 3000, 0.28  # 13 with 10,000 rows, 17 with 30,000
COMPONENTS = 60
ROWS_PER_COMPONENT = 2.0
SHRINKAGE = 0.2
BANDWIDTH = 0.05


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
) -> NaturalPosteriorNetwork:
    """Return the default network for standardised inputs of a shape; `docs/method.md` says how it was chosen.

    Numbers go through a perceptron of three layers of 128 that sees them by themselves and in pieces, the more rows the
    finer; images through the paper's convolutions. The density sees the latent vector and the leading principal
    components of the input. It is a Gaussian mixture of up to 60 components, each with at least twice as many training
    rows as there are features; its covariances are drawn towards the pooled one with the weight of a fifth as many
    rows, and blurred by a few hundredths of the data's spread.

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
        encoder = encoders.get("image", shape=size, latent_dim=latent_dim)
    bypass = PrincipalComponents(size, min(16, math.prod(size)), n_passed=int(surprise))
    dim = latent_dim + bypass.n_components
    if density is None:
        components = int(max(1, min(COMPONENTS, n_rows // (ROWS_PER_COMPONENT * dim))))
        density = GaussianMixture(dim, components, SHRINKAGE * dim, BANDWIDTH)
    elif isinstance(density, str):
        density = densities.get(density, dim)
    if surprise:
        density = Surprise(density)
    return NaturalPosteriorNetwork(encoder, family, density, latent_dim, budget, prior, bypass)


def default_knots(n_rows: int) -> int:
    """Return how many knots a column of numbers has: fine structure needs rows to learn it from."""
    return min(MOST_KNOTS, max(KNOTS, round(KNOTS * math.pow(n_rows / KNOTS_ROWS, KNOTS_GROWTH))))
