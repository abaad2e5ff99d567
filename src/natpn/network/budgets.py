"""Certainty budgets: how a log-density becomes the logarithm of the evidence.

The paper's five give n = N_H · p(z) with a fixed N_H, H being the number of features the density sees:

| name | N_H |
|---|---|
| `constant` | 1 |
| `rows` | the number of training rows |
| `exp_half` | e^{H/2} |
| `exp` | e^H |
| `normal` | (4π)^{H/2}: one pseudo-observation on average if the features are standard normal |

The default, `learned`, is log n = a · log p(z) + b with a ≥ `SMALLEST_SLOPE`. It starts as `normal`, that is at a = 1.
Being increasing in p(z) it ranks inputs as the density does, and far from the training data n still falls to 0.
log n is cut at `LARGEST` from above and never from below.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn.functional import softplus

from natpn.choices import check_choice

LARGEST = 60.0
SMALLEST_SLOPE = 1e-3


class Budget(nn.Module, ABC):
    """log p(z) → log n."""

    @abstractmethod
    def scale(self, log_density: Tensor) -> Tensor:
        """Return log n before it is cut."""

    def see_rows(self, n: float) -> None:
        """Take note of the number of training rows, in case it matters."""

    def forward(self, log_density: Tensor) -> Tensor:
        """Return log n, at most `LARGEST`."""
        return self.scale(log_density).clamp(max=LARGEST)


class FixedBudget(Budget):
    """n = N_H · p(z).

    Args:
        log_budget: log N_H.
    """

    log_budget: Tensor

    def __init__(self, log_budget: float) -> None:
        super().__init__()
        self.register_buffer("log_budget", torch.tensor(float(log_budget)))

    def scale(self, log_density: Tensor) -> Tensor:
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
    """log n = a · log p(z) + b, with a above `SMALLEST_SLOPE`.

    Args:
        level: b to start from; a starts at 1.
    """

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

    def scale(self, log_density: Tensor) -> Tensor:
        """Return a · log p + b."""
        return self.slope * log_density + self.level


def _log_normal_budget(dim: int) -> float:
    return dim / 2 * math.log(4 * math.pi)


BUDGETS: dict[str, Callable[[int], Budget]] = {
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
