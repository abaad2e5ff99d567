"""Predictive distributions as points to draw, beside the prior's.

Numbers get densities, counts and booleans probabilities, and classes one bar each; vectors have no curve. The window
holds the usual targets of training, if the model knows them, and the middle of the predictive distribution: from 1 % to
99 %, or from 10 % to 90 % if heavy tails would squeeze the rest into a spike.
"""

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from natpn.families import ScalarDistribution
from natpn.model import ClassDistribution, Model, PredictiveDistribution

Floats = NDArray[np.float64]

POINTS = 121
LEVELS = (np.arange(80) + 0.5) / 80
HEAVY = 4.0  # for a Normal, 1 % to 99 % is 1.8 times as wide as 10 % to 90 %; for a Cauchy 10 times


@torch.no_grad()
def curves(model: Model, distribution: PredictiveDistribution) -> list[dict[str, Any] | None]:
    """Return points of the distribution of each row, and of the prior at the same places."""
    prior = model.answer_without_evidence()
    if isinstance(distribution, ClassDistribution):
        labels = [str(label) for label in distribution.classes.tolist()]
        before = prior.mean()[0].tolist()
        return [{"kind": "classes", "x": labels, "y": row, "prior": before} for row in distribution.mean().tolist()]
    if not isinstance(distribution.predictive, ScalarDistribution):
        return [None] * len(distribution)
    usual = model.targets.usual
    quantiles = distribution.quantile([0.01, 0.1, 0.9, 0.99])
    discrete = distribution.predictive.target.discrete
    drawn: list[dict[str, Any] | None] = []
    for place, (q01, q10, q90, q99) in enumerate(quantiles):
        low, high = (q10, q90) if q99 - q01 > HEAVY * (q90 - q10) else (q01, q99)
        if usual is not None:
            low, high = min(low, usual[0]), max(high, usual[1])
        inside = distribution.quantile(LEVELS)[place]
        x = _whole(low, high) if discrete else _grid(low, high, inside)
        x = x[distribution.predictive.target.holds(torch.from_numpy(x)).numpy()]
        drawn.append(
            {
                "kind": "probability" if discrete else "density",
                "x": x.tolist(),
                "y": _heights(distribution, x, place),
                "prior": _heights(prior, x, 0),
                "usual": None if usual is None else list(usual),
            }
        )
    return drawn


def _grid(low: float, high: float, inside: Floats) -> Floats:
    points = np.concatenate([np.linspace(low, high, POINTS), inside])
    return np.unique(points[(points >= low) & (points <= high) & np.isfinite(points)])


def _whole(low: float, high: float) -> Floats:
    low, high = np.floor(low), np.ceil(min(high, low + 1e15))
    return np.unique(np.round(np.linspace(low, high, int(min(high - low + 1, POINTS)))))


def _heights(distribution: PredictiveDistribution, x: Floats, place: int) -> list[float]:
    every = torch.from_numpy(x)[:, None].expand(-1, len(distribution))
    heights: list[float] = np.exp(distribution.predictive.log_prob(every)[:, place].numpy()).tolist()
    return heights
