"""A fitted model: rows in, answers out, on one path for all who ask.

    rows → `inputs` → `network` → posterior → `targets`: predictive distributions in the user's units

Estimators, command line, server, report, export and experiments call this path and no other.
"""

from collections.abc import Iterator
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Any, Self

import numpy as np
import torch
from torch import Tensor

from natpn.families import Family, Posterior
from natpn.few_rows import MAX_ROWS
from natpn.model.answers import PredictiveDistribution
from natpn.model.calibration import Calibration
from natpn.model.inputs import Inputs
from natpn.model.targets import Floats, Targets
from natpn.network import NaturalPosteriorEnsemble, NaturalPosteriorNetwork
from natpn.network.natural_posterior import Quick

PIECE = 4096  # rows that are answered at once

Network = NaturalPosteriorNetwork | NaturalPosteriorEnsemble


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
    """

    inputs: Inputs
    targets: Targets
    network: Network
    calibration: Calibration
    n_rows: int
    history: list[dict[str, Any]]

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
        return cls(inputs, targets.with_family(network.family), network, calibration, n_rows, history)

    # Answers.

    def answers(self, X: Any) -> Iterator[PredictiveDistribution]:
        """Yield the predictive distributions of rows, in pieces of at most `PIECE`."""
        for x in self.inputs.tensors(X, PIECE):
            yield self._answer(*self._posterior(x))

    def answer(self, X: Any) -> PredictiveDistribution:
        """Return the predictive distributions of all rows."""
        return self._all(self.inputs.tensors(X, PIECE))

    def answer_encoded(self, x: Tensor) -> PredictiveDistribution:
        """Return the predictive distributions of rows that `inputs` has encoded."""
        return self._all(iter(x.split(PIECE)))

    def answer_without_evidence(self) -> PredictiveDistribution:
        """Return what the prior alone predicts, as one row."""
        prior, family = self.network.prior, self.family
        posterior = family.posterior(family.evidence(prior.chi[None], prior.log_n.reshape(1)))
        return self._answer(posterior, torch.full((1,), -torch.inf, dtype=torch.float64))

    def _all(self, encoded: Iterator[Tensor]) -> PredictiveDistribution:
        parts = [self._posterior(x) for x in encoded]
        if len(parts) == 1:
            return self._answer(*parts[0])
        chi = torch.cat([posterior.mean_statistics for posterior, _ in parts])
        log_n = torch.cat([posterior.evidence.log_n for posterior, _ in parts])
        posterior = self.family.posterior(self.family.evidence(chi, log_n.to(chi.dtype)))
        return self._answer(posterior, torch.cat([log_evidence for _, log_evidence in parts]))

    @torch.no_grad()
    def _posterior(self, x: Tensor) -> tuple[Posterior[Any], Tensor]:
        """Return the posterior of encoded rows in training's units, and the log evidence."""
        if self._quick is not None and len(x) <= MAX_ROWS:
            posterior, evidence = self._quick(x.double().numpy())
        else:
            parameter = next(self.network.parameters())
            posterior, evidence = self.network(x.to(parameter.device, parameter.dtype))
        return posterior, evidence.log_n

    def _answer(self, posterior: Posterior[Any], log_evidence: Tensor) -> PredictiveDistribution:
        return self.targets.answer(posterior, log_evidence, self.prior_log_n, self.calibration)

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
        return [self.network] if isinstance(self.network, NaturalPosteriorNetwork) else list(self.network.members)  # type: ignore[arg-type]

    def member(self, i: int) -> Self:
        """Return a model with one network of an ensemble.

        Its `novelty_p` compares with the ensemble's held-out rows, of whose evidence each network has an equal share.
        """
        share = self.calibration.log_evidence - np.log(len(self.members))
        return replace(self, network=self.members[i], calibration=replace(self.calibration, log_evidence=share))

    # Calibration.

    def calibrated(self, encoded: Tensor, y: Floats, conformal: bool) -> Self:
        """Return the model calibrated on held-out rows: how familiar they are, and how wide intervals have to be.

        Args:
            encoded: The rows, as `inputs` encodes them.
            y: Their targets, as numbers.
            conformal: Whether intervals are to be calibrated, too.
        """
        known, parts, scores = self.targets.as_known(y), [], []
        for start in range(0, len(y), PIECE):
            part = self.answer_encoded(encoded[start : start + PIECE])
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
