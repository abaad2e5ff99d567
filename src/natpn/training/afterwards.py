"""Learning after training: what labelled rows that came later add to a network (`natpn.network.feedback`).

Encoder, decoder, density and budget of the network stay. Of the new rows, in a few steps and without descent on the
encoder:

1. *Density*: a mixture by expectation-maximisation, with a component for every `ROWS_PER_COMPONENT` · D rows. Its
   components borrow the shape of the network's, so that one row will do.
2. *Decoder*: a linear map from the D numbers that the density sees, latent vector and principal components, to raw
   outputs, fitted by the loss of training and drawn to what the network's own decoder says:

       Σ_i w_i loss(raw_i + A φ_i + b, y_i) / δ + λ/2 (‖A‖² + ‖b‖²),   φ the standardised numbers

   The dispersion δ is the mean square of slopes over curvatures, but at least 1: rows of a family that promises less
   noise than there is would else outweigh every λ.
3. *Noise*: its level is set as in `natpn.training.align`, drawn a little to what the decoder says.

Rows are in folds, and what a fold is judged by has not seen it. λ is the largest whose loss over all folds is within a
standard error of the smallest, the level of the noise is that of their errors, and the evidence and the scores that
calibration needs are theirs too.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

import torch
from scipy.optimize import minimize_scalar
from torch import Tensor

from natpn.densities import GaussianMixture, Surprise
from natpn.families import Family, normal_crps
from natpn.network import Feedback, NaturalPosteriorNetwork
from natpn.network.default import BANDWIDTH, COMPONENTS, ROWS_PER_COMPONENT
from natpn.network.feedback import mixture_of
from natpn.training.align import level_of_few_rows

PENALTIES = (1e3, 100.0, 10.0, 1.0, 0.1, 0.01)
_STEPS = 20
_SHIFT = 1e-3  # of raw outputs, by which slopes are compared
_LEAST_CURVATURE = 1e-6
_FARTHEST = 2.0  # that a row may ask its raw output to move in one step
_CLOSE = 3e-3  # where a smaller move ends the steps
_BORROWED = 10  # rows that the noise of the network's decoder counts for
_BOUNDS = (-3, 3)  # of the change of the level of the noise, as a logarithm


@dataclass(frozen=True)
class Lessons:
    """Rows that came after training, as a network sees them, in float64."""

    features: Tensor  # what its density sees, (N, D)
    raw: Tensor  # what its decoder says, (N, S)
    y: Tensor  # targets in training's units
    weight: Tensor  # how often each counts, (N,), above 0

    def __len__(self) -> int:
        return len(self.weight)

    def part(self, rows: Tensor) -> "Lessons":
        """Return some of the rows."""
        return Lessons(self.features[rows], self.raw[rows], self.y[rows], self.weight[rows])


def check_can_learn(network: NaturalPosteriorNetwork) -> None:
    """Raise if nothing can be added to a network after training.

    Raises:
        ValueError: If its density is no mixture.
    """
    if network.polar:
        raise ValueError("update: expected a model of a table, got one of pictures; fit again with all rows")
    if mixture_of(network.density) is None:
        kind = type(network.density.density if isinstance(network.density, Surprise) else network.density).__name__
        raise ValueError(
            f"update: expected a model whose density is a Gaussian mixture, got {kind}, which cannot take more rows; "
            'fit again with all rows, or with density="auto"'
        )


@torch.no_grad()
def learn(
    network: NaturalPosteriorNetwork, family: Family, lessons: Lessons, n_before: float, folds: Tensor
) -> tuple[Feedback, list[Feedback | None]]:
    """Return what rows add to a network, and for each fold what all others add, None if these have no rows.

    Args:
        network: The network as training left it.
        family: What targets are in training.
        lessons: The rows, at least one.
        n_before: How many rows it was trained on.
        folds: The fold of each row, (N,), from 0.
    """
    held_out = [folds == k for k in range(int(folds.max()) + 1)]
    parts = [lessons.part(~rows) for rows in held_out]
    paths = [_Path.of(family, part) for part in parts]
    losses, said = [], []
    for place in range(len(PENALTIES)):
        raw = lessons.raw.clone()
        for rows, path in zip(held_out, paths, strict=True):
            raw[rows] = path.said(lessons.part(rows), place)
        said.append(raw)
        losses.append(_loss(family, raw, lessons.y))
    best = _strongest(losses, lessons.weight)
    level = _level(family, lessons, said[best])
    whole = _feedback(network, lessons, n_before, _Path.of(family, lessons).linear(best), level)
    others = [
        _feedback(network, part, n_before, path.linear(best), level) if len(part) else None
        for part, path in zip(parts, paths, strict=True)
    ]
    return whole, others


def _strongest(losses: list[Tensor], weight: Tensor) -> int:
    """Return the place of the largest penalty whose loss exceeds the smallest by no more than a standard error."""
    rows = torch.stack(losses).nan_to_num(nan=torch.inf)
    excess = (rows - rows[int((rows @ weight).argmin())]) * weight
    within = excess.sum(1) <= excess.square().sum(1).sqrt()
    return int(within.double().argmax())


@dataclass(frozen=True)
class _Path:
    """Linear maps that change raw outputs, fitted to some rows with each of the penalties."""

    mean: Tensor
    scale: Tensor
    changes: list[Tensor]  # (1 + D, S), of a constant and standardised features

    @classmethod
    def of(cls, family: Family, lessons: Lessons) -> "_Path":
        """Return the maps of some rows; without any, raw outputs stay as they are."""
        total = lessons.weight.sum().clamp(min=1e-300)
        mean = lessons.weight @ lessons.features / total
        scale = (lessons.weight @ (lessons.features - mean).square() / total).sqrt()
        scale = torch.where(scale > 1e-6 * (1 + mean.abs()), scale, torch.inf)  # constants tell nothing
        change, changes = lessons.raw.new_zeros(1 + len(mean), lessons.raw.shape[1]), []
        design = _design(lessons.features, mean, scale)
        for penalty in PENALTIES:
            change = _minimise(family, lessons, design, penalty, change)
            changes.append(change)
        return cls(mean, scale, changes)

    def said(self, lessons: Lessons, place: int) -> Tensor:
        """Return raw outputs of rows by the map of a penalty."""
        return lessons.raw + _design(lessons.features, self.mean, self.scale) @ self.changes[place]

    def linear(self, place: int) -> tuple[Tensor, Tensor]:
        """Return weight (S, D) and bias (S,) of the map of a penalty, for features as they are."""
        weight = (self.changes[place][1:] / self.scale[:, None]).T
        return weight, self.changes[place][0] - weight @ self.mean


def _design(features: Tensor, mean: Tensor, scale: Tensor) -> Tensor:
    phi = (features - mean) / scale
    return torch.cat([torch.ones_like(phi[:, :1]), phi], 1)


def _minimise(family: Family, lessons: Lessons, design: Tensor, penalty: float, start: Tensor) -> Tensor:
    """Return the change with the smallest penalised loss, by Newton's method with each output's own curvature."""
    if not len(lessons):
        return start
    change, usual, dispersion = start, start.new_zeros(start.shape[1]), None
    ridge = penalty * torch.eye(len(start), dtype=start.dtype)
    ones = torch.ones_like(lessons.weight)
    for _ in range(_STEPS):
        raw = lessons.raw + design @ change
        slope = family.training_slope(raw, lessons.y, usual, ones)[1]
        if not bool(slope.isfinite().all()):
            return start
        curvature = _curvature(family, lessons, raw, slope)
        if dispersion is None:
            pearson = lessons.weight @ (slope.square().sum(1, keepdim=True) / curvature.sum(1, keepdim=True))
            dispersion = max(float(pearson) / float(lessons.weight.sum()), 1.0)
        gradient = design.T @ (lessons.weight[:, None] * slope) / dispersion + penalty * change
        weighted = (lessons.weight[:, None] * curvature / dispersion).T  # (S or 1, N)
        hessian = torch.einsum("nd,sn,ne->sde", design, weighted, design) + ridge
        step = torch.linalg.solve(hessian, gradient.T.unsqueeze(-1)).squeeze(-1).T
        change = change - step
        if float((design @ step).abs().max()) < _CLOSE:
            break
    return change


def _curvature(family: Family, lessons: Lessons, raw: Tensor, slope: Tensor) -> Tensor:
    """Return the curvature of the loss in each raw output, (N, S); of three or more one for all, (N, 1).

    That one is twice the curvature along the slope. None is so small that a row asks to move far in one step.
    """
    if raw.shape[1] > 2:
        length = slope.norm(dim=1, keepdim=True)
        shifts, factor = [_SHIFT * slope / length.clamp(min=1e-12)], 2.0
    else:
        length, factor = slope.abs(), 1.0
        shifts = list(_SHIFT * torch.eye(raw.shape[1], dtype=raw.dtype))
    usual, ones = raw.new_zeros(raw.shape[1]), torch.ones_like(lessons.weight)
    bent = [((family.training_slope(raw + e, lessons.y, usual, ones)[1] - slope) * e).sum(1) for e in shifts]
    curvature = factor * (torch.stack(bent, 1) / _SHIFT**2).nan_to_num()
    return torch.maximum(curvature, length / _FARTHEST).clamp(min=_LEAST_CURVATURE)


def _loss(family: Family, raw: Tensor, y: Tensor) -> Tensor:
    return family.training_loss(raw, y, raw.new_zeros(raw.shape[1]))  # targets are standardised


def _level(family: Family, lessons: Lessons, raw: Tensor) -> float:
    """Return by which logarithm the noise has to change, from raw outputs of rows that had no say in them."""
    weight = lessons.weight * len(lessons) / lessons.weight.sum()
    if family.noise == "variance":
        error = family.statistics(lessons.y)[..., 0] - raw[:, 0]
        scale = (0.5 * raw[:, 1].clamp(-30, 30)).exp()

        def cost(level: float) -> float:
            crps = normal_crps(error, scale * math.exp(level / 2)) / scale.mean()
            return float(weight @ crps) + 0.5 * level**2

    elif family.noise == "temperature":

        def cost(level: float) -> float:
            return 0.5 * level**2 - float(weight @ family.log_likelihood(raw * math.exp(-level), lessons.y))

    else:
        return 0.0
    level = float(minimize_scalar(cost, bounds=_BOUNDS, method="bounded").x)
    effective = float(lessons.weight.sum().square() / lessons.weight.square().sum())
    return level + (level_of_few_rows(effective + _BORROWED) if family.noise == "variance" else 0.0)


def _feedback(
    network: NaturalPosteriorNetwork, lessons: Lessons, n_before: float, change: tuple[Tensor, Tensor], level: float
) -> Feedback:
    """Return the module, whose numbers are rounded to float32, in which they are saved."""
    weight, bias = change
    density, before = network.density, cast(GaussianMixture, mixture_of(network.density))
    events = isinstance(density, Surprise)
    rows, dim = float(lessons.weight.sum()), density.dim
    made = Feedback(dim, len(bias), 1, events).double()
    n_components = int(max(1, min(COMPONENTS, len(lessons) // (ROWS_PER_COMPONENT * dim))))
    made.density.target, made.density.bandwidth = n_components, before.bandwidth or BANDWIDTH
    made.density.refit_beside(before, lessons.features, lessons.weight)
    made.log_ratio.fill_(math.log(rows / n_before))
    made.event_weight.copy_(density.weight if isinstance(density, Surprise) else torch.zeros(()))
    # The network's own decoder reads the latents, which are the first features, and the change all of them.
    made.decoder.weight.copy_(weight)
    made.decoder.weight[:, : network.latent_dim] += network.decoder.weight
    made.decoder.bias.copy_(network.decoder.bias + bias)
    if network.family.noise == "variance":
        made.decoder.bias[1] += level
    elif network.family.noise == "temperature":
        for part in (made.decoder.weight, made.decoder.bias):
            part.mul_(math.exp(-level))
    return made.float().double().requires_grad_(False).eval()


def attach(members: Sequence[NaturalPosteriorNetwork], feedback: Sequence[Feedback | None]) -> None:
    """Let networks answer with what they have learned after training."""
    for member, added in zip(members, feedback, strict=True):
        member.feedback = None if added is None else added.to(next(member.parameters()))
