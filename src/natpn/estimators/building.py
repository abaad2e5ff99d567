"""From an estimator's parameters to a network."""

import copy
from math import prod
from typing import Literal

import torch
from torch import nn

from natpn import encoders
from natpn.densities import Density
from natpn.encoders.base import EncoderChoice
from natpn.evidence import Evidence
from natpn.families import Family
from natpn.model import Inputs, Network
from natpn.network import NaturalPosteriorEnsemble, NaturalPosteriorNetwork, default_network
from natpn.network.default import ACTIVATION
from natpn.training import Paper, Scheme

_DIMENSIONS = (1, 3)  # of inputs that have a default encoder: rows of a table, and pictures


def build(
    inputs: Inputs,
    family: Family,
    n_rows: int,
    *,
    encoder: EncoderChoice,
    density: str | Density,
    latent_dim: int,
    budget: str,
    prior: Evidence | Literal["marginal"] | None,
    scheme: str | Scheme,
    size: int,
    seed: int,
    activation: str = ACTIVATION,
    knots: int | None = None,
    texture: bool = True,
) -> Network:
    """Return an untrained network, or an ensemble of several.

    Args:
        inputs: What the inputs are.
        family: What the targets are.
        n_rows: The number of training rows.
        encoder: "auto", a name in `natpn.encoders.ENCODERS`, or a module that maps inputs to (rows, latent_dim).
        density: "auto", a name in `natpn.densities.DENSITIES`, or a density.
        latent_dim: The size of the latent vector.
        budget: "auto" or a name in `natpn.network.budgets.BUDGETS`.
        prior: What is believed without evidence, in training's units; None for the paper's prior.
        scheme: The training scheme; the paper's has a network of its own.
        size: How many members.
        seed: Where their weights start.
        activation: Of the default encoder for tables.
        knots: Of the same; by default by the number of rows.
        texture: Whether the density of pictures sees their texture; in models of earlier versions it does not.
    """
    if not isinstance(density, (str, Density)):
        raise ValueError(f"density: expected a name or a natpn.densities.Density, got {density!r}")
    members = []
    with torch.random.fork_rng(devices=[]):
        for i in range(size):
            torch.manual_seed(seed + i)
            if is_paper(scheme):
                member = _paper(inputs, family, encoder, density, latent_dim, budget, prior)
            else:
                member = default_network(
                    inputs.encoder_shape,
                    family,
                    n_rows,
                    latent_dim,
                    n_numbers=inputs.n_numbers,
                    surprise=inputs.has_surprise,
                    encoder=_encoder(encoder, inputs, latent_dim),
                    density=None if density == "auto" else copy.deepcopy(density),
                    budget="gradual" if budget == "auto" else budget,
                    prior=prior,
                    activation=activation,
                    knots=knots,
                    texture=texture,
                )
            members.append(member)
    return members[0] if size == 1 else NaturalPosteriorEnsemble(members)


def is_paper(scheme: str | Scheme) -> bool:
    """Say whether it is the paper's scheme."""
    return scheme == "paper" or isinstance(scheme, Paper)


def _encoder(encoder: EncoderChoice, inputs: Inputs, latent_dim: int) -> nn.Module | None:
    """Return a copy of a given module, what a given function makes, or a named encoder; None for the default.

    Inputs that are neither rows nor images (channels, height, width) are flattened.
    """
    if isinstance(encoder, nn.Module):
        return copy.deepcopy(encoder)
    if callable(encoder):
        return encoder()
    shape = inputs.encoder_shape
    if encoder == "auto" and len(shape) not in _DIMENSIONS:
        flat = encoders.get("tabular", n_features=prod(shape), latent_dim=latent_dim, hidden=128)
        return nn.Sequential(nn.Flatten(), flat)
    if encoder == "auto" or (encoder == "tabular" and len(shape) == 1):
        return None
    wanted = [name for name, kind in encoders.ENCODERS.items() if getattr(kind, "n_dims", None) == len(shape)]
    if encoder not in wanted:
        raise ValueError(
            f"encoder: {encoder!r} is not for inputs of shape {shape}; choose "
            f"{', '.join(map(repr, ['auto', *wanted]))}, or give an nn.Module or a function that makes one"
        )
    size = {"n_features": shape[0], "n_ignored": int(inputs.has_surprise)} if len(shape) == 1 else {"shape": shape}
    return encoders.get(encoder, **size, latent_dim=latent_dim)


def paper_encoder(inputs: Inputs, encoder: EncoderChoice, latent_dim: int) -> nn.Module:
    """Return the encoder of the paper's networks: three layers of 64 for plain numbers, convolutions for images.

    Args:
        inputs: What the inputs are.
        encoder: "auto", a name in `natpn.encoders.ENCODERS`, a module, which is copied, or a function that makes one.
        latent_dim: The size of the latent vector.
    """
    module = _encoder(encoder, inputs, latent_dim)
    if module is not None:
        return module
    shape, ignored = inputs.encoder_shape, int(inputs.has_surprise)
    if len(shape) == 1:
        return encoders.get("tabular", n_features=shape[0], latent_dim=latent_dim, n_ignored=ignored)
    return encoders.get("image", shape=shape, latent_dim=latent_dim)


def _paper(
    inputs: Inputs,
    family: Family,
    encoder: EncoderChoice,
    density: str | Density,
    latent_dim: int,
    budget: str,
    prior: Evidence | Literal["marginal"] | None,
) -> NaturalPosteriorNetwork:
    """Return the network of the paper: plain numbers, three layers of 64, a radial flow and a fixed budget."""
    module = paper_encoder(inputs, encoder, latent_dim)
    chosen = "radial" if density == "auto" else copy.deepcopy(density)
    return NaturalPosteriorNetwork(module, family, chosen, latent_dim, "normal" if budget == "auto" else budget, prior)
