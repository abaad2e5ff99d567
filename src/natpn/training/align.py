"""The last stage: how much evidence a log-density is worth, and how wide the noise is, on held-out rows.

Encoder and density are frozen. Three steps, each solved and not stepped towards:

1. `refit_variance` (Normal and log-normal): the log-variance, a linear function of the latent, is refitted to held-out
   residuals, since those on the training rows are too small. A Student-t likelihood with 4 degrees of freedom keeps
   single rows from deciding, a ridge keeps it near the trained one, and its level is set by the continuous ranked
   probability score (CRPS).
2. With *constant* evidence, the level of log n that scores best.
3. The largest slope a in log n = a · log p + b for which some b scores within `tolerance` standard errors of that, and
   the smallest such b: the posterior leaves its prior no further than the data ask for, and returns to it as fast as
   they allow.

The score of a row is the log of the predictive, and for the Normal minus the CRPS, since there the likelihood would use
the prior's wide variance to mend the noise.
"""

import math
from collections.abc import Callable

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.optimize import minimize, minimize_scalar
from torch import Tensor

from natpn.families.normal import Normal, NormalPosterior
from natpn.network import LearnedBudget, NaturalPosteriorNetwork
from natpn.training.latents import Latents

SLOPES = (1.0, 0.7, 0.5, 0.35, 0.25, 0.18, 0.12, 0.08, 0.05, 0.03, 0.02, 0.01)
TOP = 20.0
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

    def loss(w: Array) -> tuple[float, Array]:
        log_variance = np.clip(design @ w, -30, 30)
        ratio = residual**2 * np.exp(-log_variance)
        value = weight @ (0.5 * log_variance + (_DEGREES + 1) / 2 * np.log1p(ratio / _DEGREES))
        slope = weight * (0.5 - (_DEGREES + 1) / 2 * ratio / (_DEGREES + ratio))
        return value + 0.5 * np.sum(ridge * (w - start) ** 2), design.T @ slope + ridge * (w - start)

    w = minimize(loss, start, jac=True, method="L-BFGS-B").x
    fitted = torch.from_numpy(np.clip(design @ w, -30, 30))
    error, mass = torch.from_numpy(residual), torch.from_numpy(weight)

    def mean_crps(shift: float) -> float:
        return float(mass @ _crps(error, (0.5 * (fitted + shift)).exp()))

    shift = float(minimize_scalar(mean_crps, bounds=(-3, 3), method="bounded").x)
    decoder = network.decoder
    decoder.bias[1] = w[0] + shift + w[1] * (float(decoder.bias[1]) - middle)
    decoder.weight[1] = w[1] * decoder.weight[1] + torch.from_numpy(w[2:]).to(decoder.weight)


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
    chi = network.family.link(network.decoder(held_out.latent))
    log_density = network.density(held_out.features).double()
    middle = log_density.median()
    weight = held_out.weight.double() / held_out.weight.double().sum()
    score = _scorer(network, chi, held_out.y)

    def mean(log_n: Tensor) -> float:
        return float(weight @ score(log_n))

    levels = torch.arange(0, TOP + 0.01, 0.5).tolist()
    constant = [mean(torch.full_like(log_density, level)) for level in levels]
    best = int(np.argmax(constant))
    rows = score(torch.full_like(log_density, levels[best]))
    spread = float((weight @ (rows - constant[best]).square()).sqrt()) / math.sqrt(len(rows))
    enough = constant[best] - tolerance * spread

    def passes(slope: float, level: float) -> bool:
        return mean((slope * (log_density - middle) + level).clamp(max=60)) >= enough

    for slope in SLOPES:
        level = next((b for b in range(int(TOP) + 1) if passes(slope, b)), None)
        if level is not None:
            finer = next(b for b in (level - 0.75, level - 0.5, level - 0.25, level) if b == level or passes(slope, b))
            network.budget.set(slope, finer - slope * float(middle))
            return
    network.budget.set(SLOPES[-1], levels[best] - SLOPES[-1] * float(middle))


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
