"""The last stage: how much evidence a log-density is worth, and how wide the noise is, on held-out rows.

Encoder and density are frozen. Three steps, each solved and not stepped towards:

1. `refit_variance` (Normal and log-normal): the log-variance, a linear function of the latent, is refitted to held-out
   residuals, since those on the training rows are too small. A Student-t likelihood with 4 degrees of freedom keeps
   single rows from deciding, a ridge keeps it near the trained one, and its level is set by the continuous ranked
   probability score (CRPS), out of fold. It is then raised for being known from few rows only (`_few_rows`).
2. With *constant* evidence, the level of log n that scores best.
3. For each slope a in log n = a · log p + b the smallest b that scores within `tolerance` standard errors of that; of
   these pairs the one with the least evidence far out, at 5 times the distance of the first percentile of log p below
   its median. The posterior leaves its prior no further than the data ask for, and returns to it as fast as they allow.

The score of a row is the log of the predictive, and for the Normal minus the CRPS, since there the likelihood would use
the prior's wide variance to mend the noise. The `TRIMMED` share of rows with the lowest density has no say in 2 and 3:
a few strays would forbid every slope.
"""

import math
from collections.abc import Callable

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.optimize import minimize, minimize_scalar
from scipy.special import ndtri, stdtrit
from torch import Tensor

from natpn.families.normal import Normal, NormalPosterior
from natpn.network import LearnedBudget, NaturalPosteriorNetwork
from natpn.training.latents import Latents

SLOPES = (1.0, 0.7, 0.5, 0.35, 0.25, 0.18, 0.12, 0.08, 0.05, 0.03, 0.02, 0.01, 0.005, 0.002)
TOP = 20.0
TRIMMED = 0.002
_FAR = 5.0
_FOLDS = 10
_DEGREES = 4.0
_RIDGE = 10.0

Array = NDArray[np.float64]


@torch.no_grad()
def refit_variance(network: NaturalPosteriorNetwork, held_out: Latents) -> None:
    """Refit the log-variance output of the decoder to held-out residuals."""
    if not isinstance(network.family, Normal):
        return
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
        return float(mass @ _crps(error, (0.5 * (scale + shift)).exp()))

    shift = float(minimize_scalar(mean_crps, bounds=(-3, 3), method="bounded").x)
    shift += _few_rows(weight.sum() ** 2 / np.sum(weight**2))
    decoder = network.decoder
    decoder.bias[1] = w[0] + shift + w[1] * (float(decoder.bias[1]) - middle)
    decoder.weight[1] = w[1] * decoder.weight[1] + torch.from_numpy(w[2:]).to(decoder.weight)


def _few_rows(rows: float) -> float:
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
def set_budget(network: NaturalPosteriorNetwork, held_out: Latents, tolerance: float) -> None:
    """Set slope and level of a learned budget; other budgets are left as they are.

    Args:
        network: The network.
        held_out: What it says about held-out rows.
        tolerance: How many standard errors of the mean score the slope may cost.
    """
    if not isinstance(network.budget, LearnedBudget):
        return
    log_density = network.density(held_out.features).double()
    kept = log_density.argsort()[int(TRIMMED * len(log_density)) :]
    log_density, weight = log_density[kept], held_out.weight[kept].double()
    weight = weight / weight.sum()
    score = _scorer(network, network.family.link(network.decoder(held_out.latent[kept])), held_out.y[kept])

    def mean(log_n: Tensor) -> float:
        return float(weight @ score(log_n))

    levels = torch.arange(0, TOP + 0.01, 0.5).tolist()
    constant = [mean(torch.full_like(log_density, level)) for level in levels]
    best = int(np.argmax(constant))
    rows = score(torch.full_like(log_density, levels[best]))
    spread = float((weight @ (rows - constant[best]).square()).sqrt()) / math.sqrt(len(rows))
    enough = constant[best] - tolerance * spread
    middle, low = (float(log_density.quantile(q)) for q in (0.5, 0.01))

    def passes(slope: float, level: float) -> bool:
        return mean((slope * (log_density - middle) + level).clamp(max=60)) >= enough

    pairs = [(slope, level) for slope in SLOPES if (level := _least(slope, passes)) is not None]
    if not pairs:
        pairs = [(SLOPES[-1], levels[best])]
    slope, level = min(pairs, key=lambda pair: pair[1] - pair[0] * _FAR * (middle - low))
    network.budget.set(slope, level - slope * middle)


def _least(slope: float, passes: Callable[[float, float], bool]) -> float | None:
    """Return the least level that passes, to a quarter; None if none does."""
    level = next((b for b in range(0, int(TOP) + 1, 2) if passes(slope, b)), None)
    if not level:
        return level
    finer = (level - 2 + k / 4 for k in range(1, 8))
    return next((b for b in finer if passes(slope, b)), level)


def _scorer(network: NaturalPosteriorNetwork, chi: Tensor, y: Tensor) -> Callable[[Tensor], Tensor]:
    """Return log n → the score of each row."""

    def score(log_n: Tensor) -> Tensor:
        posterior = network.predict(network.family.evidence(chi.double(), log_n)).posterior
        if isinstance(posterior, NormalPosterior):
            target = network.family.statistics(y.double())[..., 0]
            scale = (posterior.variance * (1 + 1 / posterior.n)).sqrt()
            return -_crps(target - posterior.mean, scale)
        result: Tensor = posterior.predictive().log_prob(y)
        return result.double()

    return score


def _crps(error: Tensor, scale: Tensor) -> Tensor:
    """Return the continuous ranked probability score of Normal predictions."""
    u = error / scale
    density = torch.exp(-0.5 * u.square()) / math.sqrt(2 * math.pi)
    result: Tensor = scale * (u * (2 * torch.special.ndtr(u) - 1) + 2 * density - 1 / math.sqrt(math.pi))
    return result
