"""A density times the probability of events that no density over numbers can weigh.

The last feature is the log-probability of what never happened in the training data, such as a category that was not
there or a value that is missing for the first time; it is added:

    log p(z₁ … z_H) = log q(z₁ … z_{H−1}) + w z_H

The weight w is set after training, so that an event of a probability counts as much as a density that is as rare.
"""

import torch
from torch import Tensor

from natpn.densities.base import FLOOR, Density, Reduce, identity


class Surprise(Density):
    """Add the last feature, weighted, to the log-density of the others.

    Args:
        density: The density over all features but the last.
    """

    weight: Tensor

    def __init__(self, density: Density) -> None:
        super().__init__(density.dim + 1)
        self.register_buffer("weight", torch.ones(()))
        self.density = density
        self.refit_suffices = density.refit_suffices

    @property
    def n_continuous(self) -> int:
        """All but the last."""
        return self.density.n_continuous

    def log_prob(self, z: Tensor) -> Tensor:
        """Return the log-density of latents (..., H), as (...)."""
        value: Tensor = self.density(z[..., :-1]) + self.weight * z[..., -1].to(self.scale.dtype)
        return value.clamp(min=-FLOOR)

    def _log_prob(self, u: Tensor) -> Tensor:
        return self.log_prob(u)

    def refit(
        self,
        z: Tensor,
        weight: Tensor | None = None,
        generator: torch.Generator | None = None,
        reduce: Reduce = identity,
    ) -> None:
        """Fit the density to all features but the last (see `Density.refit` for the arguments)."""
        self.density.refit(z[..., :-1], weight, generator, reduce)
