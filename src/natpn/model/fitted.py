"""A fitted model: rows in, answers out, on one path for all who ask.

    rows → `inputs` → `network` → posterior → `targets`: predictive distributions in the user's units

Estimators, command line, server, report, export and experiments call this path and no other.
"""

import copy
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Any, NamedTuple, Self, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from natpn.evidence import Evidence
from natpn.families import Family
from natpn.few_rows import MAX_ROWS
from natpn.model.answers import PredictiveDistribution
from natpn.model.calibration import Calibration, LocalCalibration, Numbers
from natpn.model.drift import LEVEL, Watch
from natpn.model.explanations import Explainer, Explanation, join
from natpn.model.groups import Groups
from natpn.model.inputs import Inputs, TableInputs, n_rows, take
from natpn.model.memory import Memory
from natpn.model.shift import Shift
from natpn.model.suggestions import Suggestions, representation, sample_rows, suggest
from natpn.model.targets import Floats, Targets
from natpn.network import NaturalPosteriorEnsemble, NaturalPosteriorNetwork
from natpn.network.natural_posterior import Quick
from natpn.tabular import Column

PIECE = 2048  # rows that are answered at once
REASON = "reason"
"""The column that says why a row is novel."""

Network = NaturalPosteriorNetwork | NaturalPosteriorEnsemble


def members_of(network: Network) -> list[NaturalPosteriorNetwork]:
    """Return the networks of an ensemble; the network itself if it is one."""
    return [network] if isinstance(network, NaturalPosteriorNetwork) else network.networks


class Seen(NamedTuple):
    """What a model sees of some rows: the evidence, and the groups and weights if thresholds depend on them."""

    evidence: Evidence
    numbers: Numbers | None = None
    weights: Floats | None = None


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
        memory: What it has learned from after training; None if nothing.
    """

    inputs: Inputs
    targets: Targets
    network: Network
    calibration: Calibration
    n_rows: int
    history: list[dict[str, Any]]
    example: list[Any] | None = None
    memory: Memory | None = None

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
            yield self._answer([self._look(x)], None if exposure is None else exposure[start : start + len(x)])
            start += len(x)

    def answer(self, X: Any, exposure: Floats | None = None) -> PredictiveDistribution:
        """Return the predictive distributions of all rows."""
        return self._answer([self._look(x) for x in self.inputs.tensors(X, PIECE)], exposure)

    def answer_encoded(self, x: Tensor, exposure: Floats | None = None) -> PredictiveDistribution:
        """Return the predictive distributions of rows that `inputs` has encoded."""
        return self._answer([self._look(part) for part in x.split(PIECE)], exposure)

    def answer_seen(self, evidence: Evidence, exposure: Floats | None = None) -> PredictiveDistribution:
        """Return the predictive distributions of rows that the network has seen, all of one group."""
        return self._answer([Seen(evidence)], exposure)

    def answer_without_evidence(self, exposure: Floats | None = None) -> PredictiveDistribution:
        """Return what the prior alone predicts, as one row, by default of average exposure."""
        prior = self.network.prior
        chi = prior.wide()[0][None, : self.family.n_statistics]
        return self._answer([Seen(self.family.evidence(chi, torch.full((1,), -torch.inf)))], exposure)

    @torch.no_grad()
    def _see(self, x: Tensor) -> Evidence:
        """Return the evidence for encoded rows, in training's units."""
        if self._quick is not None and len(x) <= MAX_ROWS:
            return self._quick(x.double().numpy())
        parameter = next(self.network.parameters())
        return self.network.see(x.to(parameter.device, parameter.dtype))

    def _look(self, x: Tensor) -> Seen:
        """Return the evidence for encoded rows, and what decides on their thresholds."""
        evidence, calibration = self._see(x), self.calibration
        if calibration.scores is None:
            return Seen(evidence)
        groups, shift = calibration.groups, calibration.shift
        return Seen(
            evidence,
            None if groups is None else calibration.numbers_of(groups.keys(self.members[0].divide(x)[0].numpy())),
            None if shift is None else shift.weights_of(self._features(x, evidence)),
        )

    @torch.no_grad()
    def _features(self, x: Tensor, evidence: Evidence) -> NDArray[np.float32]:
        """Return what a shift is seen by, (rows, D): what the first network's density sees, and the evidence."""
        member, parameter = self.members[0], next(self.network.parameters())
        x = member.divide(x)[0].to(parameter.device, parameter.dtype)
        features = member.features(x, member.represent(x)[0]).cpu()
        return torch.cat([features, evidence.log_n.cpu()[:, None]], 1).float().numpy()

    @torch.no_grad()
    def _answer(self, parts: list[Seen], exposure: Floats | None = None) -> PredictiveDistribution:
        totals = [self.network.update(part.evidence).wide() for part in parts]
        chi, log_n = (found[0] if len(found) == 1 else torch.cat(found) for found in zip(*totals, strict=True))
        log_evidence = torch.cat([part.evidence.log_n for part in parts])
        chi = chi[..., : self.family.n_statistics]
        calibration = self._calibration_at(parts)
        return self.targets.answer(chi, log_n, log_evidence, self.prior_log_n, calibration, exposure)

    def _calibration_at(self, parts: list[Seen]) -> Calibration | LocalCalibration:
        numbers = [part.numbers for part in parts if part.numbers is not None]
        weights = [part.weights for part in parts if part.weights is not None]
        if not numbers and not weights:
            return self.calibration
        return self.calibration.at(
            np.concatenate(numbers) if numbers else None, np.concatenate(weights) if weights else None
        )

    def explain(self, X: Any, always: bool = False) -> Explanation:
        """Return why rows are unfamiliar: what each column adds to the surprise.

        Args:
            X: The rows.
            always: Whether all rows have a reason in words, or novel ones alone.

        Raises:
            ValueError: If the model is not one of tables.
        """
        return join([self.explain_nothing(), *cast(Explainer, self._explainer).pieces(X, PIECE, always)])

    def explain_nothing(self) -> Explanation:
        """Return the explanation of no rows."""
        if self._explainer is None:
            raise ValueError(
                f"X: only rows of tables are explained, and inputs of this model are arrays of shape "
                f"{self.inputs.shape}; predict_dist says how unfamiliar they are"
            )
        return self._explainer.nothing()

    def answer_columns(
        self, X: Any, coverage: float, names: Iterable[str] | None = None, exposure: Floats | None = None
    ) -> dict[str, NDArray[Any]]:
        """Return predictions, uncertainties and `REASON` in named columns.

        Args:
            X: The rows.
            coverage: The probability with which the interval holds the target.
            names: Which columns, in this order; all if None. No other is calculated.
            exposure: The exposure of each row, if the model was fitted with some.
        """
        asked = self.column_names(coverage) if names is None else list(names)
        answer = self.answer(X, exposure)
        found = answer.columns(coverage, [name for name in asked if name != REASON])
        if REASON in asked:
            found[REASON] = np.array(self.reasons(X, answer.novel), object)
        return {name: found[name] for name in asked}

    def column_names(self, coverage: float) -> list[str]:
        """Return the names of all columns; rows that are no table have no `REASON`."""
        answer = self.answer_without_evidence()
        reason = [REASON] if isinstance(self.inputs, TableInputs) else []
        return [*answer.predictions(coverage), *answer.uncertainties(), *reason]

    def columns_without_evidence(self, coverage: float, names: Iterable[str] | None = None) -> dict[str, NDArray[Any]]:
        """Return the same columns of what the prior alone predicts, as one row."""
        asked = self.column_names(coverage) if names is None else list(names)
        found = self.answer_without_evidence().columns(coverage, [name for name in asked if name != REASON])
        return {name: np.array([""], object) if name == REASON else found[name] for name in asked}

    def reasons(self, X: Any, novel: NDArray[np.bool_]) -> list[str]:
        """Return why rows are novel, "" for the others, and for all if the model is not one of tables."""
        found = [""] * len(novel)
        rows = np.flatnonzero(novel)
        if len(rows) and self._explainer is not None:
            for row, reason in zip(rows.tolist(), self.explain(take(X, rows), always=True).reasons, strict=True):
                found[row] = reason
        return found

    def watch(self, level: float = LEVEL) -> Watch:
        """Return what watches answers for drift from the rows that were held out in training."""
        return Watch(self.calibration, self.prior_log_n, level)

    # Its parts.

    @property
    def columns(self) -> list[Column] | None:
        """The columns that a row of a table has, that of exposures the last; None for other inputs.

        Raises:
            ValueError: If rows need exposures that have no column.
        """
        found, exposure = self.inputs.columns, self.targets.exposure
        if exposure is None:
            return found
        if found is None or exposure.described is None:
            raise ValueError(
                "model: expected a column of exposures, since it needs them, got none: fit it with exposure='NAME', a "
                "column of X"
            )
        return [*found, exposure.described]

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

    @cached_property
    def _explainer(self) -> Explainer | None:
        if not isinstance(self.inputs, TableInputs):
            return None
        return Explainer(self.inputs.table, self.fast().network, self.calibration)

    @property
    def members(self) -> list[NaturalPosteriorNetwork]:
        """The networks of an ensemble; the network itself if there is one."""
        return members_of(self.network)

    def member(self, i: int) -> Self:
        """Return a model with one network of an ensemble.

        Its `novelty_p` compares with the ensemble's held-out rows, of whose evidence each network has an equal share.
        """
        return replace(self, network=self.members[i], calibration=self.calibration.of_one_network(len(self.members)))

    def fast(self) -> Self:
        """Return the model with networks that calculate in float32; the Bayesian update stays in float64.

        Many rows take about half the time. `docs/numerics.md` says how many digits are left.
        """
        network = copy.deepcopy(self.network)
        for member in members_of(network):
            for part in member.children():  # not the prior, which belongs to the update
                part.float()
            member.density.hasten()
            if member.feedback is not None:
                member.feedback.density.hasten()
        return replace(self, network=network)

    def with_example(self, X: Any) -> Self:
        """Return the model with one of some rows as its example, if its inputs are a table."""
        if self.inputs.columns is None:
            return self
        return replace(self, example=self.inputs.most_ordinary(X, self.answer(X).log_evidence))

    # Calibration.

    def calibrated(self, encoded: Tensor, y: Floats, conformal: bool, groups: Groups | None = None) -> Self:
        """Return the model calibrated on held-out rows: how familiar they are, and how wide intervals have to be.

        Args:
            encoded: The rows, as `inputs` encodes them.
            y: Their targets, as numbers, with their exposures if they have some.
            conformal: Whether intervals are to be calibrated, too.
            groups: The groups that have intervals of their own.
        """
        known, exposure = self.targets.as_known(y), self.targets.exposures(y)
        evidence, scores, features = [], [], []
        for start in range(0, len(y), PIECE):
            x = encoded[start : start + PIECE]
            seen = self._see(x)
            part = self._answer([Seen(seen)], None if exposure is None else exposure[start : start + PIECE])
            evidence.append(part.log_evidence)
            if conformal:
                found = part.conformal_scores(known[start : start + PIECE])
                if found is None:
                    raise ValueError(f"calibrate: {self.family!r} has vectors as targets, which have no intervals")
                scores.append(found)
                features.append(self._features(x, seen))
        if not conformal:
            return replace(self, calibration=Calibration.of(np.concatenate(evidence), None))
        keys = None if groups is None else groups.keys(encoded.numpy())
        calibration = Calibration.of(
            np.concatenate(evidence), np.concatenate(scores), groups, keys, np.concatenate(features)
        )
        return replace(self, calibration=calibration)

    def adapted(self, X: Any) -> Self:
        """Return the model for target rows from another distribution of inputs.

        Raises:
            ValueError: If the model keeps no calibration rows.
        """
        if self.calibration.features is None:
            raise ValueError(
                'X: expected a model with calibrate="conformal", got one that keeps no calibration rows to weight: fit '
                "it with that"
            )
        features = [self._features(x, self._see(x)) for x in self.inputs.tensors(X, PIECE)]
        shift = Shift.between(self.calibration.features, np.concatenate(features))
        return replace(self, calibration=replace(self.calibration, shift=shift))

    def suggestions(self, X: Any, n: int) -> Suggestions:
        """Return which rows to label next, of at most `suggestions.MOST_ROWS`."""
        chosen = sample_rows(n_rows(X), n)
        pieces = list(self.inputs.tensors(X if len(chosen) == n_rows(X) else take(X, chosen), PIECE))
        variance = np.concatenate([self._answer([Seen(self._see(x))]).posterior_variance for x in pieces])
        seen = representation(self.members, torch.cat(pieces), self.inputs.has_surprise)
        found = suggest(seen, variance, n)
        return Suggestions(chosen[found.rows], found.shares)

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
