"""An ensemble of Natural Posterior Networks: one Bayesian update after the other.

posterior = prior + e₁ + … + e_M. Members that do not know an input say nothing about it; if none knows it, the prior is
left.
"""

import math
from collections.abc import Iterable
from typing import Literal, cast, get_args

import torch
from torch import Tensor, nn

from natpn.choices import check_choice
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
        parts = [member(x).evidence for member in self.members]
        evidence = self.combine(torch.stack([part.chi for part in parts]), torch.stack([part.log_n for part in parts]))
        return self._first.predict(evidence)

    def combine(self, chi: Tensor, log_n: Tensor) -> Evidence:
        """Return the evidence of all members together, from χ and log n of each, (M, …)."""
        if self.combination == "mean":
            log_n = log_n - math.log(len(log_n))
        return self.family.evidence(chi, log_n).sum(0)
