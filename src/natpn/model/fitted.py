"""A fitted model: rows in, answers out, on one path for all who ask.

    rows → `inputs` → `network` → posterior → `targets`: predictive distributions in the user's units

Estimators, command line, server, report, export and experiments call this path and no other.
"""

import copy
from collections.abc import Iterator
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Any, Self, cast

import numpy as np
import torch
from torch import Tensor

from natpn.evidence import Evidence
from natpn.families import Family
from natpn.few_rows import MAX_ROWS
from natpn.model.answers import PredictiveDistribution
from natpn.model.calibration import Calibration
from natpn.model.drift import LEVEL, Watch
from natpn.model.inputs import Inputs
from natpn.model.targets import Floats, Targets
from natpn.network import NaturalPosteriorEnsemble, NaturalPosteriorNetwork
from natpn.network.natural_posterior import Quick

PIECE = 2048  # rows that are answered at once

Network = NaturalPosteriorNetwork | NaturalPosteriorEnsemble


def members_of(network: Network) -> list[NaturalPosteriorNetwork]:
    """Return the networks of an ensemble; the network itself if it is one."""
    return [network] if isinstance(network, NaturalPosteriorNetwork) else list(network.members)  # type: ignore[arg-type]


@dataclass(frozen=True)
class Model:
    """Everything that answers need.

    Attributes:
        inputs: How rows become what the network sees.
        targets: How what the network says becomes what the user knows.
        network: The network, in the state in which it predicts.
        calibration: What held-out rows showed.
        n_rows: How many rows it was trained on.
        history: One entry an epoch of training.
        example: An ordinary row of training, for people to begin with, as JSON writes it; None if none is kept.
    """

    inputs: Inputs
    targets: Targets
    network: Network
    calibration: Calibration
    n_rows: int
    history: list[dict[str, Any]]
    example: list[Any] | None = None

    @classmethod
    def of(
        cls,
        inputs: Inputs,
        targets: Targets,
        network: Network,
        n_rows: int,
        history: list[dict[str, Any]],
        calibration: Calibration | None = None,
    ) -> Self:
        """Return the model of a trained network, which is frozen here.

        Tables are predicted in float64, where the answer to a row does not depend on the rows beside it.
        """
        network.eval().requires_grad_(False)
        if inputs.kind == "table" and next(network.parameters()).device.type != "mps":
            network.double()
        calibration = Calibration(np.zeros(0)) if calibration is None else calibration
        targets = targets.with_family(network.family)
        for member in members_of(network):
            member.family = targets.family  # in training it may have been that of pairs with an exposure
        return cls(inputs, targets, network, calibration, n_rows, history)

    # Answers. Where rows have exposures, they are given in the user's unit, one a row, as `targets` has read them.

    def answers(self, X: Any, exposure: Floats | None = None) -> Iterator[PredictiveDistribution]:
        """Yield the predictive distributions of rows, in pieces of at most `PIECE`."""
        start = 0
        for x in self.inputs.tensors(X, PIECE):
            yield self._answer([self._see(x)], None if exposure is None else exposure[start : start + len(x)])
            start += len(x)

    def answer(self, X: Any, exposure: Floats | None = None) -> PredictiveDistribution:
        """Return the predictive distributions of all rows."""
        return self._answer([self._see(x) for x in self.inputs.tensors(X, PIECE)], exposure)

    def answer_encoded(self, x: Tensor, exposure: Floats | None = None) -> PredictiveDistribution:
        """Return the predictive distributions of rows that `inputs` has encoded."""
        return self._answer([self._see(part) for part in x.split(PIECE)], exposure)

    def answer_without_evidence(self) -> PredictiveDistribution:
        """Return what the prior alone predicts, as one row, of average exposure if rows have exposures."""
        prior = self.network.prior
        chi = prior.wide()[0][None, : self.family.n_statistics]
        return self._answer([self.family.evidence(chi, torch.full((1,), -torch.inf))])

    @torch.no_grad()
    def _see(self, x: Tensor) -> Evidence:
        """Return the evidence for encoded rows, in training's units."""
        if self._quick is not None and len(x) <= MAX_ROWS:
            return self._quick(x.double().numpy())
        parameter = next(self.network.parameters())
        return self.network.see(x.to(parameter.device, parameter.dtype))

    @torch.no_grad()
    def _answer(self, parts: list[Evidence], exposure: Floats | None = None) -> PredictiveDistribution:
        totals = [self.network.update(part).wide() for part in parts]
        chi, log_n = (found[0] if len(found) == 1 else torch.cat(found) for found in zip(*totals, strict=True))
        log_evidence = torch.cat([part.log_n for part in parts])
        chi = chi[..., : self.family.n_statistics]
        return self.targets.answer(chi, log_n, log_evidence, self.prior_log_n, self.calibration, exposure)

    def watch(self, level: float = LEVEL) -> Watch:
        """Return what watches answers for drift from the rows that were held out in training."""
        return Watch(self.calibration, self.prior_log_n, level)

    # Its parts.

    @property
    def family(self) -> Family:
        """What the targets are."""
        return self.targets.family

    @cached_property
    def prior_log_n(self) -> float:
        """The log of the number of observations that the prior is worth."""
        return float(self.network.prior.log_n)

    @cached_property
    def _quick(self) -> Quick | None:
        return self.network.quick()

    @property
    def members(self) -> list[NaturalPosteriorNetwork]:
        """The networks of an ensemble; the network itself if there is one."""
        return members_of(self.network)

    def member(self, i: int) -> Self:
        """Return a model with one network of an ensemble.

        Its `novelty_p` compares with the ensemble's held-out rows, of whose evidence each network has an equal share.
        """
        share = self.calibration.log_evidence - np.log(len(self.members))
        return replace(self, network=self.members[i], calibration=replace(self.calibration, log_evidence=share))

    def fast(self) -> Self:
        """Return the model with networks that calculate in float32; the Bayesian update stays in float64.

        Many rows take about half the time. `docs/numerics.md` says how many digits are left.
        """
        network = copy.deepcopy(self.network)
        for member in [network] if isinstance(network, NaturalPosteriorNetwork) else network.members:
            for part in member.children():  # not the prior, which belongs to the update
                part.float()
            cast(NaturalPosteriorNetwork, member).density.hasten()
        return replace(self, network=network)

    def with_example(self, X: Any) -> Self:
        """Return the model with one of some rows as its example, if its inputs are a table."""
        if self.inputs.columns is None:
            return self
        return replace(self, example=self.inputs.most_ordinary(X, self.answer(X).log_evidence))

    # Calibration.

    def calibrated(self, encoded: Tensor, y: Floats, conformal: bool) -> Self:
        """Return the model calibrated on held-out rows: how familiar they are, and how wide intervals have to be.

        Args:
            encoded: The rows, as `inputs` encodes them.
            y: Their targets, as numbers, with their exposures if they have some.
            conformal: Whether intervals are to be calibrated, too.
        """
        known, exposure, parts, scores = self.targets.as_known(y), self.targets.exposures(y), [], []
        for start in range(0, len(y), PIECE):
            some = None if exposure is None else exposure[start : start + PIECE]
            part = self.answer_encoded(encoded[start : start + PIECE], some)
            parts.append(part.log_evidence)
            found = part.conformal_scores(known[start : start + PIECE]) if conformal else None
            if conformal and found is None:
                raise ValueError(f"calibrate: {self.family!r} has vectors as targets, which have no intervals")
            scores += [] if found is None else [found]
        calibration = Calibration.of(np.concatenate(parts), np.concatenate(scores) if scores else None)
        return replace(self, calibration=calibration)

    def calibrated_by_folds(self, encoded: Tensor, folds: Tensor) -> Self:
        """Return the ensemble calibrated on the rows that its members held out.

        Args:
            encoded: All rows, as `inputs` encodes them.
            folds: Which member held out each row, -1 for none.
        """
        evidence = [self.member(i).answer_encoded(encoded).log_evidence for i in range(len(self.members))]
        return replace(self, calibration=Calibration.of_folds(np.stack(evidence), folds.numpy()))

    # The quick network is a copy of the network, and holds functions, which cannot be pickled.

    def __getstate__(self) -> dict[str, Any]:
        return {field.name: getattr(self, field.name) for field in fields(self)}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
