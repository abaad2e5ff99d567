"""A fitted model and labelled rows that came later → a model that has learned from them.

Networks are as training left them, each with what the rows add to it (`natpn.training.afterwards`). The rows join those
that calibration compares with, as models judged them that had learned from the other folds alone.
"""

import copy
import hashlib
from dataclasses import replace
from typing import Any, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from natpn.evidence import Evidence
from natpn.model.fitted import PIECE, Model, Network, members_of
from natpn.model.inputs import TableInputs, take
from natpn.model.memory import FOLDS, Memory
from natpn.network import NaturalPosteriorNetwork
from natpn.training.afterwards import Lessons, attach, check_can_learn, learn

Floats = NDArray[np.float64]


def check_can_update(model: Model) -> None:
    """Raise if a model cannot learn after training.

    Raises:
        ValueError: If its inputs are pictures or other arrays, or its density is no mixture.
    """
    if not isinstance(model.inputs, TableInputs):
        raise ValueError(
            "update: expected a model of a table, got one of pictures or other arrays; fit again with all rows"
        )
    for member in model.members:
        check_can_learn(member)


@torch.no_grad()
def updated(model: Model, X: Any, y: Floats, weight: Floats) -> Model:
    """Return a model that has learned from more rows; the given one stays as it is.

    Args:
        model: The model.
        X: The rows, as `inputs` takes them.
        y: Their targets, as numbers.
        weight: How often each counts.
    """
    check_can_update(model)
    counted = np.flatnonzero(weight > 0)
    if not len(counted):
        return model
    X, y, weight = take(model.inputs.read(X), counted), y[counted], weight[counted]
    network = copy.deepcopy(model.network)
    members = members_of(network)
    attach(members, [None] * len(members))
    seen = _seen(model, members, X, y, weight)
    memory = seen if model.memory is None else model.memory.with_more(seen)
    memory = _learn(model, network, memory)
    met = model.inputs.meeting(X)
    return replace(model, inputs=met, network=network, calibration=memory.calibration, memory=memory)


def _seen(model: Model, members: list[NaturalPosteriorNetwork], X: Any, y: Floats, weight: Floats) -> Memory:
    """Return rows as networks see them that have learned nothing after training."""
    inputs = cast(TableInputs, model.inputs)
    x = inputs.transform(X)
    keys = np.array([_key(row, target) for row, target in zip(x[:, : inputs.table.n_encoded], y, strict=True)])
    surprise = _surprise(inputs, X, x[:, -1], keys % FOLDS)
    known = torch.from_numpy(x[:, : inputs.table.n_encoded + 1])
    features, raw = [], []
    for member in members:
        parameter = next(member.parameters())
        parts = [part.to(parameter.device, parameter.dtype) for part in known.split(PIECE)]
        said = [(part, *member.represent(part)) for part in parts]
        features.append(torch.cat([member.features(part, latent).float().cpu() for part, latent, _ in said]).numpy())
        raw.append(torch.cat([output.float().cpu() for _, _, output in said]).numpy())
    stacked = np.stack(features, 1), np.stack(raw, 1)
    before = replace(model.calibration, shift=None) if model.memory is None else model.memory.before
    groups = np.zeros((len(x), 0), np.float32) if before.groups is None else before.groups.keys(known.numpy())
    return Memory(before, len(x), float(weight.sum()), keys, *stacked, surprise, groups, y, weight).cut()


def _surprise(inputs: TableInputs, X: Any, now: NDArray[np.float32], folds: NDArray[np.int64]) -> Floats:
    """Return the surprise of rows beside all rows so far and those of other folds, from that beside rows so far."""
    surprise = now.astype(np.float64)
    for fold in np.unique(folds[now < 0]):  # others have no event
        rows, others = np.flatnonzero((folds == fold) & (now < 0)), np.flatnonzero(folds != fold)
        if len(others):
            surprise[rows] = inputs.meeting(take(X, others)).transform(take(X, rows))[:, -1]
    return surprise


def _learn(model: Model, network: Network, memory: Memory) -> Memory:
    """Let a network learn from rows, and return them judged."""
    members, counts = members_of(network), torch.from_numpy(memory.counts)
    folds, y = torch.from_numpy(memory.folds), model.targets.standardise(memory.y).double()
    views = zip(memory.features.swapaxes(0, 1), memory.raw.swapaxes(0, 1), strict=True)
    lessons = [Lessons(torch.tensor(f).double(), torch.tensor(r).double(), y, counts) for f, r in views]
    family = model.targets.trained_family
    learned = [learn(member, family, rows, model.n_rows, folds) for member, rows in zip(members, lessons, strict=True)]
    log_evidence = np.zeros(len(counts))
    scores = None if memory.before.scores is None else np.zeros(len(counts))
    for fold in np.unique(memory.folds):
        rows = np.flatnonzero(memory.folds == fold)
        attach(members, [others[fold] for _, others in learned])
        parts = [part.part(torch.from_numpy(rows)) for part in lessons]
        seen = _evidence(network, parts, torch.from_numpy(memory.surprise[rows]))
        answer = model.answer_seen(seen, model.targets.exposures(memory.y[rows]))
        log_evidence[rows] = answer.log_evidence
        if scores is not None:
            scores[rows] = answer.conformal_scores(model.targets.as_known(memory.y[rows]))
    attach(members, [whole for whole, _ in learned])
    return replace(memory, log_evidence=log_evidence, scores=scores)


def _evidence(network: Network, parts: list[Lessons], surprise: Tensor) -> Evidence:
    """Return the evidence for rows that each member has seen."""
    said = []
    for member, part in zip(members_of(network), parts, strict=True):
        where = next(member.parameters())
        said.append(member.evidence(part.raw.to(where), part.features.to(where), surprise.to(where)))
    if isinstance(network, NaturalPosteriorNetwork):
        return said[0]
    return network.combine(torch.stack([part.chi for part in said]), torch.stack([part.log_n for part in said]))


def _key(row: NDArray[np.float32], target: Any) -> int:
    """Return a hash of a row, the same on every machine, from 0 to 2^63 − 1."""
    content = row.astype("<f4").tobytes() + np.asarray(target, "<f8").tobytes()
    return int.from_bytes(hashlib.blake2b(content, digest_size=8).digest(), "little") >> 1
