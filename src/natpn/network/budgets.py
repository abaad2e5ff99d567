"""Certainty budgets: how a log-density becomes the logarithm of the evidence.

The paper's five (Sec. 3.2) give n = N_H · p(z) with a fixed N_H, H being the number of features the density sees:

| name | N_H |
|---|---|
| `constant` | 1 |
| `rows` | the number of training rows |
| `exp_half` | e^{H/2} |
| `exp` | e^H |
| `normal` | (4π)^{H/2}: one pseudo-observation on average if the features are standard normal |

`learned` is log n = a · log p(z) + b with a ≥ `SMALLEST_SLOPE`, for training by gradients. It starts as `normal`,
that is at a = 1.

The default, `gradual`, lets the evidence fall as a power of the distance from the data. With the distance d = (c −
log p(z))/u, where c is the median of log p over held-out rows and u how far below it their first percentile is,

    1/n = (e^−b · ((1 + h/o)^k + r · h⁴/(h⁴ + 1)) + e^−a · (h/`OUTSIDE`)³) · (1 + h/`FAR`)²,
    h = (d + √(d² + 4s²))/2,

where s = 0.05 rounds the corner at d = 0: rows that are denser than the median still differ. log p falls with the
square of a distance in the latent space, and the squared errors of a network grow with it too: hence k = 1, and 1/n
grows with d itself from the onset o on. If log n were linear in log p it would act as a switch, since log p falls by
hundreds within a step. The term with r is for errors that grow faster, as groups of rows that were left out may show:
it tells rows outside from those inside, and stops growing there. With a the logarithm of what the prior counts for, the
prior outweighs the evidence from d = `OUTSIDE` on, whatever the other terms are.

All are increasing in p(z): they rank inputs as the density does, and far from the training data n falls to 0. log n is
not cut here, so that it ranks; the posterior counts at most e^`LARGEST` observations.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import softplus

from natpn.choices import check_choice
from natpn.few_rows import Floats, Form

CORNER = 0.05
FAR = 100.0
LARGEST = 60.0
ONSET = 0.02
OUTSIDE = 40.0
SMALLEST_SLOPE = 1e-3


class Budget(nn.Module, ABC):
    """log p(z) → log n."""

    @abstractmethod
    def forward(self, log_density: Tensor) -> Tensor:
        """Return log n."""

    centred = False  # whether `distance` is 0 for ordinary rows

    def distance(self, log_density: Tensor) -> Tensor:
        """Return how far rows are, in a unit in which it falls by a constant for each nat of log p; here −log n."""
        negative: Tensor = -self(log_density)
        return negative

    def see_rows(self, n: float) -> None:
        """Take the number of training rows, for budgets that depend on it."""

    def in_numpy(self) -> Form:
        """Return the numpy form."""
        return lambda log_density: self(torch.from_numpy(log_density)).numpy()


class FixedBudget(Budget):
    """n = N_H · p(z)."""

    log_budget: Tensor

    def __init__(self, log_budget: float) -> None:
        super().__init__()
        self.register_buffer("log_budget", torch.tensor(float(log_budget)))

    def forward(self, log_density: Tensor) -> Tensor:
        """Add log N_H."""
        return log_density + self.log_budget


class RowBudget(FixedBudget):
    """n = N · p(z) with N the number of training rows, which training fills in."""

    def see_rows(self, n: float) -> None:
        """Set N."""
        if not n >= 1:
            raise ValueError(f"n: expected a number of training rows of at least 1, got {n}")
        self.log_budget.fill_(math.log(n))


class LearnedBudget(Budget):
    """log n = a · log p(z) + b, with a above `SMALLEST_SLOPE`; it starts at a = 1 and b = `level`."""

    def __init__(self, level: float) -> None:
        super().__init__()
        self.raw_slope = nn.Parameter(torch.zeros(()))
        self.level = nn.Parameter(torch.zeros(()))
        self.set(1.0, level)

    @property
    def slope(self) -> Tensor:
        """The slope a."""
        return SMALLEST_SLOPE + softplus(self.raw_slope)

    @torch.no_grad()
    def set(self, slope: float, level: float) -> None:
        """Set a and b."""
        if not slope > SMALLEST_SLOPE:
            raise ValueError(f"slope: expected more than {SMALLEST_SLOPE}, got {slope}")
        excess = slope - SMALLEST_SLOPE
        self.raw_slope.fill_(excess + math.log(-math.expm1(-excess)))  # the inverse of softplus
        self.level.fill_(level)

    def forward(self, log_density: Tensor) -> Tensor:
        """Return a · log p + b."""
        return self.slope * log_density + self.level


class GradualBudget(Budget):
    """1/n = (e^−b · ((1 + h/o)^k + r · h⁴/(h⁴ + 1)) + e^−a · (h/`OUTSIDE`)³) · (1 + h/`FAR`)², see above.

    k is 1 and o is `ONSET`, except in models that earlier versions saved. c and u start as they are for standard normal
    features, `dim` of them.
    """

    centred = True
    centre: Tensor
    unit: Tensor
    level: Tensor
    power: Tensor
    onset: Tensor
    rise: Tensor
    prior: Tensor

    def __init__(self, dim: int) -> None:
        super().__init__()
        start = {"centre": -dim / 2 * math.log(2 * math.pi * math.e), "unit": 2.33 * math.sqrt(dim / 2), "level": 7.0}
        for name, value in (start | {"power": 1.0, "onset": ONSET, "rise": 0.0, "prior": 0.0}).items():
            self.register_buffer(name, torch.tensor(value))

    def set(self, centre: float, unit: float, level: float, prior: float) -> None:
        """Set c, u, b and a."""
        if not unit > 0:
            raise ValueError(f"unit: expected a positive number, got {unit}")
        self.centre.fill_(centre)
        self.unit.fill_(unit)
        self.level.fill_(level)
        self.prior.fill_(prior)

    def distance(self, log_density: Tensor) -> Tensor:
        """Return d: 0 at the median of held-out rows, 1 at their first percentile."""
        return (self.centre - log_density) / self.unit

    def forward(self, log_density: Tensor) -> Tensor:
        """Return log n."""
        beyond = _beyond(self.distance(log_density))
        outside = 1 / (1 + beyond.clamp(min=1e-6).pow(-4))
        slow = self.power * torch.log1p(beyond / self.onset)
        near = slow + torch.log1p(self.rise * outside * (-slow).exp()) - self.level
        far = 3 * (beyond / OUTSIDE).log() - self.prior
        larger = torch.maximum(near, far)  # the sum of both, as a logarithm
        both = larger + torch.log1p((torch.minimum(near, far) - larger.clamp(max=1e30)).exp())
        return -both - 2 * torch.log1p(beyond / FAR)

    def in_numpy(self) -> Form:
        """Return the numpy form."""
        centre, unit, level = float(self.centre), float(self.unit), float(self.level)
        power, onset, rise, prior = (float(t) for t in (self.power, self.onset, self.rise, self.prior))

        def log_n(log_density: Floats) -> Floats:
            distance = (centre - log_density) / unit
            size = np.abs(distance)
            apart = size + np.maximum(np.sqrt(np.square(np.minimum(size, 1e6)) + (2 * CORNER) ** 2), size)
            beyond = np.where(distance > 0, apart / 2, 2 * CORNER**2 / apart)
            outside = 1 / (1 + np.maximum(beyond, 1e-6) ** -4)
            slow = power * np.log1p(beyond / onset)
            near = slow + np.log1p(rise * outside * np.exp(-slow)) - level
            both = np.logaddexp(near, 3 * np.log(beyond / OUTSIDE) - prior)
            value: Floats = -both - 2 * np.log1p(beyond / FAR)
            return value

        return log_n


def _beyond(distance: Tensor) -> Tensor:
    """Return h, without cancellation where d is below 0, and without squares that overflow."""
    near = distance.clamp(-1e6, 1e6)
    root = torch.maximum((near.square() + (2 * CORNER) ** 2).sqrt(), distance.abs())
    return torch.where(distance > 0, (distance + root) / 2, 2 * CORNER**2 / (root - distance))


def _log_normal_budget(dim: int) -> float:
    return dim / 2 * math.log(4 * math.pi)


BUDGETS: dict[str, Callable[[int], Budget]] = {
    "gradual": GradualBudget,
    "learned": lambda dim: LearnedBudget(_log_normal_budget(dim)),
    "constant": lambda dim: FixedBudget(0.0),
    "rows": lambda dim: RowBudget(0.0),
    "exp_half": lambda dim: FixedBudget(dim / 2),
    "exp": lambda dim: FixedBudget(dim),
    "normal": lambda dim: FixedBudget(_log_normal_budget(dim)),
}


def get(name: str, dim: int) -> Budget:
    """Make a budget by name, for a density over `dim` features.

    Example:
        >>> get("exp", 16)(torch.tensor(-20.0))
        tensor(-4.)
    """
    check_choice("budget", name, BUDGETS)
    return BUDGETS[name](dim)
