"""An ensemble of Natural Posterior Networks: one Bayesian update after the other (the paper's NatPE, Sec. 3.4).

posterior = prior + e₁ + … + e_M. Members to which an input is unfamiliar add no evidence; if it is so to all, the
posterior is the prior.

Tabular members can run at the same time (`StackedNetworks`): their weights are stacked, and each layer is one
`baddbmm`.
"""

import math
from collections.abc import Iterable, Sequence
from typing import Literal, cast, get_args

import torch
from torch import Tensor, nn

from natpn.choices import check_choice
from natpn.encoders import TabularEncoder
from natpn.encoders.base import bound
from natpn.evidence import Evidence
from natpn.families import Family
from natpn.network.natural_posterior import NaturalPosteriorNetwork, Prediction

Combination = Literal["sum", "mean"]


class NaturalPosteriorEnsemble(nn.Module):
    """Combine networks of the same family and prior.

    Args:
        members: The networks.
        evidence: "sum" counts every member's pseudo-observations, as in the paper; "mean" their average, for members
            that saw the same data and would count it several times.
    """

    members: nn.ModuleList

    def __init__(self, members: Iterable[NaturalPosteriorNetwork], evidence: Combination = "sum") -> None:
        super().__init__()
        networks = list(members)
        check_choice("evidence", evidence, get_args(Combination))
        if not networks:
            raise ValueError("members: expected at least one network, got none")
        first = networks[0]
        for i, other in enumerate(networks):
            if other.family != first.family:
                raise ValueError(f"members: member {i} predicts {other.family!r}, member 0 {first.family!r}")
            same = torch.equal(other.prior_chi, first.prior_chi) and torch.equal(other.prior_log_n, first.prior_log_n)
            if not same:
                raise ValueError(f"members: member {i} has another prior than member 0; give all the same prior")
        self.members = nn.ModuleList(networks)
        self.combination = evidence

    @property
    def family(self) -> Family:
        """What the targets are."""
        return self._first.family

    @property
    def prior(self) -> Evidence:
        """What is believed without any evidence."""
        return self._first.prior

    @property
    def _first(self) -> NaturalPosteriorNetwork:
        return cast(NaturalPosteriorNetwork, self.members[0])

    def forward(self, x: Tensor) -> Prediction:
        """Return posterior and evidence of all members together."""
        return self._first.predict(self.see(x))

    def update(self, evidence: Evidence) -> Evidence:
        """Return prior and evidence together."""
        return self._first.update(evidence)

    def see(self, x: Tensor) -> Evidence:
        """Return the evidence of all members together."""
        members = [cast(NaturalPosteriorNetwork, member) for member in self.members]
        first, encoded, beside = members[0], None, None
        if not self.training and not torch.compiler.is_compiling():  # what all would calculate alike is done once
            encoders = [member.encoder for member in members]
            if all(isinstance(encoder, TabularEncoder) for encoder in encoders) and _alike(
                [cast(TabularEncoder, encoder).encoding for encoder in encoders]
            ):
                encoded = cast(TabularEncoder, first.encoder).encode(x)
            if first.bypass is not None and _alike([member.bypass for member in members]):
                beside = first.bypass(x)
        parts = [member.see(x, encoded, beside) for member in members]
        return self.combine(torch.stack([part.chi for part in parts]), torch.stack([part.log_n for part in parts]))

    def combine(self, chi: Tensor, log_n: Tensor) -> Evidence:
        """Return the evidence of all members together, from χ and log n of each, (M, …)."""
        if self.combination == "mean":
            log_n = log_n - math.log(len(log_n))
        return self.family.evidence(chi, log_n).sum(0)


def _alike(modules: Sequence[nn.Module | None]) -> bool:
    """Say whether modules without parameters do the same, because they are of one type and have the same buffers."""
    first, *others = modules
    if first is None or any(type(other) is not type(first) for other in others) or next(first.parameters(), None):
        return False
    states = [list(cast(nn.Module, module).buffers()) for module in modules]
    return all(len(state) == len(states[0]) and all(map(torch.equal, state, states[0])) for state in states[1:])


def stackable(members: Sequence[NaturalPosteriorNetwork]) -> bool:
    """Say whether the members have tabular encoders of the same shape and encoding, so that they can be stacked."""
    if not all(isinstance(member.encoder, TabularEncoder) for member in members):
        return False
    shapes = [[(k, v.shape) for part in _parts(m) for k, v in part.state_dict().items()] for m in members]
    if not all(shape == shapes[0] for shape in shapes):
        return False
    first, *others = ([b for k, b in m.encoder.named_buffers() if k.startswith("encoding.")] for m in members)
    return all(torch.equal(a, b) for other in others for a, b in zip(first, other, strict=True))


class StackedLinear(nn.Module):
    """M linear layers in one: (M, B, in) → (M, B, out)."""

    def __init__(self, layers: Sequence[nn.Linear]) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.stack([layer.weight.detach().T for layer in layers]))
        self.bias = nn.Parameter(torch.stack([layer.bias.detach()[None] for layer in layers]))

    def forward(self, x: Tensor) -> Tensor:
        """Return x @ weight + bias."""
        return torch.baddbmm(self.bias, x, self.weight)

    def unstack(self, layers: Sequence[nn.Linear]) -> None:
        """Write the weights to single layers."""
        for layer, weight, bias in zip(layers, self.weight, self.bias, strict=True):
            layer.weight.copy_(weight.T)
            layer.bias.copy_(bias[0])


class StackedNetworks(nn.Module):
    """`represent` of several tabular networks of the same architecture and encoding in one call.

    It holds copies of the members' weights, stacked along a first dimension; `unstack` writes them back.

    Args:
        members: The networks; see `stackable`.
    """

    mean: Tensor
    factor: Tensor

    def __init__(self, members: Sequence[NaturalPosteriorNetwork]) -> None:
        super().__init__()
        if not stackable(members):
            raise ValueError("members: expected tabular encoders of the same architecture and encoding in all of them")
        self.n_members = len(members)
        self._members = tuple(members)  # in a tuple, which keeps them out of parameters() and state_dict()
        layers: list[nn.Module] = []
        for parts in zip(*(_layers(member) for member in members), strict=True):
            linear = isinstance(parts[0], nn.Linear)
            layers.append(StackedLinear(cast(tuple[nn.Linear, ...], parts)) if linear else parts[0])
        self.layers = nn.Sequential(*layers)
        # The members' normalisation stays as it is, and is no part of what is trained.
        normalisations = [member.normalisation for member in members]
        self.register_buffer("mean", torch.stack([n.running_mean[None] for n in normalisations]), persistent=False)
        self.register_buffer("factor", torch.stack([n.factor[None] for n in normalisations]), persistent=False)
        self.decoder = StackedLinear([member.decoder for member in members])

    @property
    def first(self) -> StackedLinear:
        """The first layers."""
        return cast(StackedLinear, self.layers[0])

    @property
    def columns(self) -> Tensor:
        """The column that each input of the first layers belongs to."""
        return cast(TabularEncoder, self._members[0].encoder).columns

    def represent(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Return latents and raw outputs, (M, B, …), of inputs (M, B, F), one batch for each member."""
        return self.read(self.map(self.encode(x)))

    def encode(self, x: Tensor) -> Tensor:
        """Return what the first layers see."""
        return cast(TabularEncoder, self._members[0].encoder).encode(x)

    def map(self, encoded: Tensor) -> Tensor:
        """Map what `encode` returns to latents before their normalisation."""
        return bound(self.layers(encoded))

    def read(self, latent: Tensor) -> tuple[Tensor, Tensor]:
        """Return normalised latents and raw outputs."""
        latent = (latent - self.mean) * self.factor
        return latent, self.decoder(latent)

    forward = represent

    @torch.no_grad()
    def unstack(self) -> None:
        """Write the stacked weights back to the members."""
        singles = zip(*(_layers(member) for member in self._members), strict=True)
        for layer, parts in zip(self.layers, singles, strict=True):
            if isinstance(layer, StackedLinear):
                layer.unstack(cast(tuple[nn.Linear, ...], parts))
        self.decoder.unstack([member.decoder for member in self._members])


def _layers(member: NaturalPosteriorNetwork) -> nn.Sequential:
    return cast(TabularEncoder, member.encoder).layers


def _parts(member: NaturalPosteriorNetwork) -> tuple[nn.Module, ...]:
    return member.encoder, member.normalisation, member.decoder
