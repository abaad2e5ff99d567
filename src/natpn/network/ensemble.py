"""An ensemble of Natural Posterior Networks: one Bayesian update after the other (the paper's NatPE, Sec. 3.4).

posterior = prior + e₁ + … + e_M. Members to which an input is unfamiliar add no evidence; if it is so to all, the
posterior is the prior.
"""

import math
from collections.abc import Iterable, Sequence
from typing import Literal, cast, get_args

import torch
from torch import Tensor, nn

from natpn.choices import check_choice
from natpn.encoders import ChainEncoder
from natpn.evidence import Evidence
from natpn.families import Family
from natpn.network.natural_posterior import NaturalPosteriorNetwork, Prediction, Quick, quick_way

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
    def networks(self) -> list[NaturalPosteriorNetwork]:
        """The members."""
        return [cast(NaturalPosteriorNetwork, member) for member in self.members]

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
        shared = self._shared(x)
        parts = [member.see(x, *shared) for member in self.networks]
        return self.combine(torch.stack([part.chi for part in parts]), torch.stack([part.log_n for part in parts]))

    def log_densities(self, x: Tensor) -> list[Tensor]:
        """Return the log-density of inputs by each member."""
        shared = self._shared(x)
        return [member.log_density(x, *shared) for member in self.networks]

    def _shared(self, x: Tensor) -> tuple[Tensor | None, Tensor | None]:
        """Return what all members would calculate alike: prepared inputs, and the output of the bypass."""
        first, members = self._first, self.networks
        prepared = beside = None
        if not self.training and not torch.compiler.is_compiling():
            encoder, inputs = first.encoder, first.divide(x)[0]
            if isinstance(encoder, ChainEncoder) and all(encoder.prepares_like(m.encoder) for m in members[1:]):
                prepared = encoder.prepare(inputs)
            if first.bypass is not None and _alike([member.bypass for member in members]):
                beside = first.bypass(inputs)
        return prepared, beside

    def combine(self, chi: Tensor, log_n: Tensor) -> Evidence:
        """Return the evidence of all members together, from χ and log n of each, (M, …)."""
        if self.combination == "mean":
            log_n = log_n - math.log(len(log_n))
        return self.family.evidence(chi, log_n).sum(0)

    def quick(self) -> Quick | None:
        """Return `see` as a function of a few rows (see `NaturalPosteriorNetwork.quick`)."""
        return quick_way(self.networks, self.combine)


def _alike(modules: Sequence[nn.Module | None]) -> bool:
    """Say whether modules without parameters do the same, because they are of one type and have the same buffers."""
    first, *others = modules
    if first is None or any(type(other) is not type(first) for other in others) or next(first.parameters(), None):
        return False
    states = [list(cast(nn.Module, module).buffers()) for module in modules]
    return all(len(state) == len(states[0]) and all(map(torch.equal, state, states[0])) for state in states[1:])
