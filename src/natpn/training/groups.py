"""How errors grow outside: groups of rows are left out, and a small network that has not seen them is judged on them.

Rows that are held out at random are near others, and do not show how rows of a new kind are predicted. So groups are
taken out: both ends of the first principal direction, the neighbourhood of a row, and the ends of two columns, which
for an indicator are the rows of a category. A network with a sixth of the steps is trained on the rest, and `choose`
finds how fast its evidence has to fall for the best predictions in the groups. A table whose groups are predicted as
well as other rows keeps its evidence for longer than one where the network was sure and wrong.

This is done for tables of `FEWEST` to `MOST` rows. In larger ones a small network on some of the rows errs more outside
than the final one, which then returned to its prior too soon; there the rule of `natpn.training.align` holds as it is.
"""

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from natpn.network import NaturalPosteriorNetwork
from natpn.training.align import STEEPNESS, USUAL, set_steepness
from natpn.training.batches import Rows
from natpn.training.latents import Latents

FEWEST = 200
MOST = 1500
_SHARE = 0.1
_RANGE = (0.02, 0.35)  # how large a group may be where values are tied
_COLUMNS = 2
_DIRECTIONS = 8
_MOST_COLUMNS = 500  # of wider tables so many are drawn, which suffice to tell rows that are near each other
_PULL = 0.003  # towards the usual steepness, for each e-fold squared


def divide(rows: Rows, surprise: bool, generator: torch.Generator) -> tuple[Rows, Rows, list[Rows]] | None:
    """Take groups out of rows.

    Args:
        rows: The rows, one input vector each.
        surprise: Whether the last number of the inputs is a surprise, which is in no group.
        generator: Chooses the groups, and which of the other rows are held out.

    Returns:
        Rows to train on, rows to hold out, and the groups; None if there are too few or too many, or no groups.
    """
    x, y, weight = rows.x, rows.y, rows.weight
    if not FEWEST <= len(x) <= MOST:
        return None
    masks = groups(x[:, :-1] if surprise else x, generator)
    if not masks:
        return None
    rest = (~torch.stack(masks).any(0)).nonzero()[:, 0]
    rest = rest[torch.randperm(len(rest), generator=generator).to(rest.device)]
    held_out = len(rest) // 5
    if held_out < FEWEST / 20:
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
