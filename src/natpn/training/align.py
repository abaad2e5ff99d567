"""The last stage: how wide the noise is, and how much evidence a density is worth, on held-out rows.

Encoder and density are frozen. Three steps, each solved directly and not by gradient descent:

1. `refit_noise`: the trained noise is too small, because it was trained on the rows it is judged by. Normal and log-
   normal: the log-variance, a linear function of the latent, is refitted to held-out residuals. A Student-t
   likelihood with 4 degrees of freedom keeps single rows from deciding, a ridge keeps it near the trained one, and
   its level is set by the continuous ranked probability score (CRPS), out of fold. It is then raised for being known
   from few rows only (`level_of_few_rows`). Classes: one temperature divides the raw outputs.
2. `set_budget`, the unit of distance: 1 is where the first percentile of held-out rows is, counted from their median
   (of fewer than 300 rows the third-lowest), but no less than 3√H of the density's H dimensions. Latents of a few
   simple columns fill a thin sheet, on which all rows are about as dense; a step off it would count as far.
   An event that was never seen in training, of probability P, is worth `EVENT` · log(1/P)/log(100) units. That is
   more than an equally rare density is worth, because such a cell tells nothing of what the column usually tells.
3. `set_budget`, the level: at the distance h the prior counts as much as ρ · (`LEAST` + h/2) times the evidence, where
   ρ is the noise that is left (`Family.noise_share`) but at most `MOST`. The errors of a network grow with the distance
   in units of its own noise, so a precise network returns to its prior later: what the prior adds to its variance there
   is about h/2 times the noise. Far outside, the noise is no guide any more, and the prior outweighs every network.
   How fast it grows is `USUAL`, ½, for most tables. Groups of rows that were left out may show a larger number; it is
   used as far as ordinary rows lose nothing by it.

Rows that are held out at random are near others, and do not show how rows of a new kind are predicted. So groups are
taken out: both ends of the first principal direction, the neighbourhood of a row, and the ends of two columns, which
for an indicator are the rows of a category. A network with a sixth of the steps is trained on the rest, and `choose`
finds how fast its evidence has to fall for the best predictions in the groups. A table whose groups are predicted as
well as other rows keeps its evidence for longer than one where the network was sure and wrong.

This is done for tables of `FEWEST_ROWS` to `MOST_ROWS` rows. In larger ones a small network on some of the rows errs
more outside
than the final one, which then returned to its prior too soon; there the rule above holds as it is.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.optimize import minimize, minimize_scalar
from scipy.special import ndtri, stdtrit
from torch import Tensor

from natpn import parallel
from natpn.densities import Surprise
from natpn.families import normal_crps
from natpn.network import GradualBudget, NaturalPosteriorNetwork
from natpn.training.batches import Rows, RowSource
from natpn.training.session import Session

EVENT = 2.0
LEAST = 0.01  # with the onset of the budget, 0.02, `USUAL` follows
MOST = 0.1
USUAL = 0.5
STEEPNESS = (USUAL, 1.0, 2.0, 5.0, 10.0, 20.0, 50.0)
_WORSE = 0.005  # what a steepness above the usual may cost ordinary rows
_RARE = 0.01
_LOWEST = 3  # of few rows the lowest itself varies too much
_FOLDS = 10
_DEGREES = 4.0
_RIDGE = 10.0
_LARGEST_ERROR = 9.0  # squared errors above it, in units of the variance, count as this: single rows do not decide
_LEAST_NOISE = 0.3

FEWEST_ROWS = 200
MOST_ROWS = 1500
_SHARE = 0.1
_RANGE = (0.02, 0.35)  # how large a group may be where values are tied
_COLUMNS = 2
_DIRECTIONS = 8
_MOST_COLUMNS = 500  # of wider tables so many are drawn, which suffice to tell rows that are near each other
_PULL = 0.003  # towards the usual steepness, for each e-fold squared

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Latents:
    """The outputs of a frozen network, one row a target; rows of weight 0 are left out."""

    latent: Tensor  # normalised, (N, H)
    raw: Tensor  # outputs of the decoder, (N, S)
    features: Tensor  # what the density sees, (N, D)
    y: Tensor
    weight: Tensor  # how much each target counts


@torch.no_grad()
def latents(network: NaturalPosteriorNetwork, data: RowSource, session: Session, max_rows: int) -> Latents:
    """Run the network, in evaluation mode, over this process's share of the data.

    About `max_rows` rows of all processes together are kept, evenly spaced.
    """
    network.eval()
    size = len(network.family.support.event_shape)
    parts: list[tuple[Tensor, ...]] = []
    for x, y, weight in data.chunks():
        with parallel.autocast(session.device, session.precision):
            latent, raw = network.represent(x)
            features = network.features(x, latent)
        wide = weight.reshape(-1, *[1] * (latent.ndim - 2)).expand(latent.shape[:-1])
        flat = [t.reshape(-1, t.shape[-1]) for t in (latent, raw, features)]
        parts.append((*flat, y.reshape(-1, *y.shape[y.ndim - size :]), wide.flatten()))
    joined = [torch.cat(column) for column in zip(*parts, strict=True)]
    joined = [t[joined[-1] > 0] for t in joined]
    rows = int(parallel.total(torch.tensor(len(joined[0]), device=session.device)))
    every = max(1, -(-rows // max_rows))
    return Latents(*(t[::every] for t in joined))


@torch.no_grad()
def refit_noise(network: NaturalPosteriorNetwork, held_out: Latents) -> None:
    """Refit the decoder's noise to held-out rows, in the way that the family asks for (`Family.noise`)."""
    if network.family.noise == "variance":
        _refit_variance(network, held_out)
    elif network.family.noise == "temperature":
        _refit_temperature(network, held_out)


def _refit_temperature(network: NaturalPosteriorNetwork, held_out: Latents) -> None:
    """Divide the raw outputs by the temperature of the best held-out likelihood, drawn a little towards 1."""
    raw, weight = held_out.raw.double(), held_out.weight.double()

    def loss(log_temperature: float) -> float:
        likelihood = network.family.log_likelihood(raw * math.exp(-log_temperature), held_out.y)
        return float(0.5 * log_temperature**2 - weight @ likelihood)

    factor = math.exp(-minimize_scalar(loss, bounds=(-3, 3), method="bounded").x)
    network.decoder.weight.mul_(factor)
    network.decoder.bias.mul_(factor)


def _refit_variance(network: NaturalPosteriorNetwork, held_out: Latents) -> None:
    centred = network.family.statistics(held_out.y.double())[..., 0]
    residual, trained, z, weight = (
        t.double().cpu().numpy()
        for t in (centred - held_out.raw[:, 0], held_out.raw[:, 1], held_out.latent, held_out.weight)
    )
    weight = weight * len(weight) / weight.sum()
    middle = float(np.average(trained, weights=weight))
    design = np.column_stack([np.ones(len(z)), trained - middle, z])
    start = np.zeros(design.shape[1])
    start[:2] = middle, 1.0
    ridge = np.full(len(start), _RIDGE)
    ridge[0] = 0.0

    def loss(w: Array, rows: NDArray[np.bool_]) -> tuple[float, Array]:
        log_variance = np.clip(design[rows] @ w, -30, 30)
        ratio = residual[rows] ** 2 * np.exp(-log_variance)
        value = weight[rows] @ (0.5 * log_variance + (_DEGREES + 1) / 2 * np.log1p(ratio / _DEGREES))
        slope = weight[rows] * (0.5 - (_DEGREES + 1) / 2 * ratio / (_DEGREES + ratio))
        return value + 0.5 * np.sum(ridge * (w - start) ** 2), design[rows].T @ slope + ridge * (w - start)

    w = _minimiser(loss, start, np.ones(len(z), dtype=bool))
    fold = np.arange(len(z)) % _FOLDS if len(z) >= 2 * _FOLDS else np.full(len(z), -1)
    fitted = design @ w
    for k in range(_FOLDS):  # the level is judged on rows that the rest was not fitted to
        fitted[fold == k] = design[fold == k] @ _minimiser(loss, start, fold != k)
    scale = torch.from_numpy(np.clip(fitted, -30, 30))
    error, mass = torch.from_numpy(residual), torch.from_numpy(weight)

    def mean_crps(shift: float) -> float:
        return float(mass @ normal_crps(error, (0.5 * (scale + shift)).exp()))

    shift = float(minimize_scalar(mean_crps, bounds=(-3, 3), method="bounded").x)
    shift += level_of_few_rows(weight.sum() ** 2 / np.sum(weight**2))
    decoder = network.decoder
    decoder.bias[1] = w[0] + shift + w[1] * (float(decoder.bias[1]) - middle)
    decoder.weight[1] = w[1] * decoder.weight[1] + torch.from_numpy(w[2:]).to(decoder.weight)


def level_of_few_rows(rows: float) -> float:
    """Return what to add to a log-variance that is known from so many residuals.

    Over a standard deviation found from m Normal residuals the next one has Student's t distribution with m degrees of
    freedom, and the Normal with the same 90 % interval is wider by the ratio of quantiles. Rows count half here, for
    the state of the network was chosen on them and tails are heavier than a Normal's: 23 % wider at 10 rows, 2 % at
    100.
    """
    return 2 * math.log(stdtrit(rows / 2, 0.95) / ndtri(0.95))


def _minimiser(
    loss: Callable[[Array, NDArray[np.bool_]], tuple[float, Array]], start: Array, rows: NDArray[np.bool_]
) -> Array:
    found: Array = minimize(loss, start, args=(rows,), jac=True, method="L-BFGS-B").x
    return found


@torch.no_grad()
def share_noise(members: Sequence[NaturalPosteriorNetwork], folds: Sequence[Sequence[Latents]]) -> None:
    """Lower the noise of members that each held out a fold by what would be counted twice.

    A member's noise is fitted to its errors on rows that it has not seen. These contain the noise of the data and v,
    the variance of the predictions of networks that were trained on other rows. The mean of M members errs by v/M only,
    and their pooled distribution already contains their disagreement, (1 − 1/M) v. So 2 (1 − 1/M) v is too much.

    No row is new to all members, so v has to be found from rows that all but one were trained on. There they agree
    better, because each remembers some of the target. If a prediction were the share h of the target and 1 − h of what
    it would be without it, errors would be smaller by 1 − h and the disagreement by (1 − h)². Networks do not all
    remember the same, and the disagreement shrinks by nearly 1 − h: so corrected, v was 0.65 to 1.25 times that on
    fresh rows, on eight tables of 1,000 rows.

    Fewer than three members, and families without a variance, are left as they are. folds[i][k] is what member k says
    about the rows of the fold of member i.
    """
    size = len(members)
    family = members[0].family
    if size < 3 or family.noise != "variance":
        return
    sums = torch.zeros(4, dtype=torch.float64)
    for place, answers in enumerate(folds):
        raw = torch.stack([answer.raw for answer in answers]).double()
        y, weight = answers[0].y.double(), answers[0].weight.double()
        variance = raw[..., 1].clamp(-30, 30).exp()
        error = ((family.statistics(y)[..., 0] - raw[..., 0]).square() / variance).clamp(max=_LARGEST_ERROR)
        others = [k for k in range(size) if k != place]
        disagreement = raw[others, :, 0].var(0) / variance.mean(0)
        rows = torch.stack([torch.ones_like(weight), disagreement, error[others].mean(0), error[place]])
        sums += (rows * weight).sum(1).cpu()
    total, disagreement, seen, unseen = sums.tolist()
    remembered = math.sqrt(max(seen, 1e-6 * total) / max(unseen, 1e-6 * total))  # 1 − h
    factor = 1 - 2 * (1 - 1 / size) * disagreement / total / min(remembered, 1.0)
    for member in members:
        member.decoder.bias[1] += math.log(max(factor, _LEAST_NOISE))


@torch.no_grad()
def set_budget(network: NaturalPosteriorNetwork, held_out: Latents) -> None:
    """Set a gradual budget, and the weight of surprise; other budgets are left as they are.

    Its steepness is kept, or lowered as far as `USUAL` if held-out rows are predicted worse with so much.
    """
    budget = network.budget
    if not isinstance(budget, GradualBudget):
        return
    density, features = network.density, held_out.features
    without = density.density(features[..., :-1]) if isinstance(density, Surprise) else density(features)
    rare = min(max(_RARE, _LOWEST / len(without)), 0.5)
    middle, low = (float(without.double().quantile(q)) for q in (0.5, rare))
    unit = max(middle - low, density.least_unit)
    if isinstance(density, Surprise):
        density.weight.fill_(EVENT * unit / -math.log(_RARE))
    chi = network.family.link(network.decoder(held_out.latent))
    share = network.family.noise_share(chi.double(), held_out.y, held_out.weight.double())
    say = LEAST * share * MOST / (share + MOST)
    prior = float(network.prior_log_n)
    budget.set(middle, unit, prior - math.log(say), prior)
    steepest = USUAL + LEAST * float(budget.rise)
    steeper = [k for k in STEEPNESS if USUAL < k < 1.01 * steepest]
    if steeper:
        _temper(network, held_out, steeper)


def _temper(network: NaturalPosteriorNetwork, held_out: Latents, steeper: list[float]) -> None:
    """Take the largest steepness with which held-out rows are predicted no worse than with the usual one."""
    set_steepness(network, USUAL)
    usual = _loss(network, held_out)
    for k in reversed(steeper):
        set_steepness(network, k)
        if _loss(network, held_out) <= usual + _WORSE:
            return
    set_steepness(network, USUAL)


def set_steepness(network: NaturalPosteriorNetwork, steepness: float) -> None:
    """Set how much of the noise the prior gains on the evidence from inside to outside.

    What exceeds `USUAL` stops growing outside: the groups that were left out are near, other rows may be far.
    """
    if isinstance(network.budget, GradualBudget):
        network.budget.rise.fill_((steepness - USUAL) / LEAST)


def _loss(network: NaturalPosteriorNetwork, rows: Latents) -> float:
    """Return the loss of the posterior that the network gives rows."""
    evidence = network.evidence(network.decoder(rows.latent), rows.features)
    return network.predict(evidence).posterior.loss(rows.y, rows.weight)


def divide(rows: Rows, surprise: bool, generator: torch.Generator) -> tuple[Rows, Rows, list[Rows]] | None:
    """Return rows to train on, rows to hold out, and groups; None if rows are too few or too many, or have no groups.

    The last number of inputs may be a surprise, which is in no group.
    """
    x, y, weight = rows.x, rows.y, rows.weight
    if not FEWEST_ROWS <= len(x) <= MOST_ROWS:
        return None
    masks = groups(x[:, :-1] if surprise else x, generator)
    if not masks:
        return None
    rest = (~torch.stack(masks).any(0)).nonzero()[:, 0]
    rest = rest[torch.randperm(len(rest), generator=generator).to(rest.device)]
    held_out = len(rest) // 5
    if held_out < FEWEST_ROWS / 20:
        return None
    indices = [rest[held_out:], rest[:held_out], *(mask.nonzero()[:, 0] for mask in masks)]
    train, validation, *left_out = (Rows(x[i], y[i], weight[i]) for i in indices)
    return train, validation, left_out


def groups(x: Tensor, generator: torch.Generator) -> list[Tensor]:
    """Return which rows are in each group, (N,) truth values."""
    x = x[:, torch.randperm(x.shape[1], generator=generator)[:_MOST_COLUMNS].to(x.device)]
    centred = (x - x.mean(0)).double()
    directions = torch.linalg.svd(centred, full_matrices=False)[2][:_DIRECTIONS]
    places = centred @ directions.T
    middle = places[int(torch.randint(len(x), (1,), generator=generator))]
    found = [_end(places[:, 0]), _end(-places[:, 0]), _end(-(places - middle).square().sum(1))]
    ends: list[Tensor] = []
    for column in centred.T:
        sign = 1 if float(torch.rand((), generator=generator)) < 0.5 else -1
        end = _end(sign * column)
        if end.any():
            ends.append(end)
        if len(ends) == _COLUMNS:
            break
    return [group for group in found + ends if group.any()]


def _end(values: Tensor) -> Tensor:
    """Return which values are the largest; none if too few or too many are tied."""
    limit = values.quantile(1 - _SHARE)
    for end in (values > limit, values >= limit):
        if _RANGE[0] <= float(end.double().mean()) <= _RANGE[1]:
            return end
    return torch.zeros_like(values, dtype=torch.bool)


@torch.no_grad()
def choose(network: NaturalPosteriorNetwork, left_out: Sequence[Latents]) -> float:
    """Return the steepness with which groups have the best mean −log p; the usual one if none is finite."""
    counted = [group for group in left_out if len(group.y)]
    said = [(network.family.link(group.raw), network.density(group.features), group) for group in counted]

    def cost(steepness: float) -> float:
        set_steepness(network, steepness)
        total = len(said) * _PULL * math.log(steepness / USUAL) ** 2
        for chi, log_density, group in said:
            evidence = network.family.evidence(chi, network.budget(log_density))
            total += network.predict(evidence).posterior.surprise(group.y, group.weight)
        return total if math.isfinite(total) else math.inf

    return min(STEEPNESS, key=cost)
