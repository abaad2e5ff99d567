"""A density over latents, less what densities of other views of the same input fall short.

    log p(z) = log q₀(z₀) + u₀ · Σ_v min(0, (log q_v(z_v) − c_v) / u_v)

z_v are the columns of z that a view sees. c_v is the median of log q_v over training rows, and u_v how far below it
their first percentile is, so views are added in units of their own, however many numbers they have; u₀ is at least
the `least_unit` of q₀, or else nothing would be taken off a density that is the same for all rows. One density over all
would be ruled by the view with the most numbers. A view that looks more usual than most takes nothing off, and adds
nothing: a picture with a common texture may still show what was never seen. The result does not integrate to one;
evidence is scaled on held-out rows, and needs ratios alone.
"""

from collections.abc import Sequence
from typing import cast

import torch
from torch import Tensor, nn

from natpn.densities.base import FLOOR, Density, Reduce, identity, weighted_quantiles

_RARE = 0.01
_THINNEST = 1e-6  # nats


class Rising(Density):
    """log p = z, for one feature of which more is more familiar; it grows without end, so it can only be a view."""

    refit_suffices = True

    def __init__(self) -> None:
        super().__init__(1)

    def log_prob(self, z: Tensor) -> Tensor:
        """Return the feature, (..., 1), as (...)."""
        return z[..., 0].to(self.scale.dtype)

    def _log_prob(self, u: Tensor) -> Tensor:
        return self.log_prob(u)


class Views(Density):
    """A density over some features, less the shortfalls of densities over others.

    Args:
        parts: The densities.
        first: The first column that each of them sees; by default they see one after the other.

    Example:
        >>> from natpn.densities import GaussianMixture
        >>> Views([GaussianMixture(3, 2), GaussianMixture(2, 2)])(torch.zeros(4, 5)).shape
        torch.Size([4])
        >>> Views([GaussianMixture(3, 2), GaussianMixture(2, 2)], first=[0, 1])(torch.zeros(4, 3)).shape
        torch.Size([4])
    """

    middle: Tensor
    unit: Tensor

    def __init__(self, parts: Sequence[Density], first: Sequence[int] | None = None) -> None:
        first = [sum(part.dim for part in parts[:i]) for i in range(len(parts))] if first is None else first
        columns = [slice(start, start + part.dim) for start, part in zip(first, parts, strict=True)]
        super().__init__(max(part.stop for part in columns))
        self.columns = columns
        self.parts = nn.ModuleList(parts)
        self.refit_suffices = all(part.refit_suffices for part in parts)
        self.register_buffer("middle", torch.zeros(len(parts)))
        self.register_buffer("unit", torch.ones(len(parts)))

    @property
    def n_continuous(self) -> int:
        """Those of the first view, in whose nats it is."""
        return self._parts[0].n_continuous

    @property
    def _parts(self) -> list[Density]:
        return cast(list[Density], list(self.parts))

    def hasten(self) -> None:
        """Let all parts calculate faster."""
        for part in self._parts:
            part.hasten()

    def log_prob(self, z: Tensor) -> Tensor:
        """Return the log-density of features (..., H), as (...)."""
        value, *others = self._each(z)
        for i, other in enumerate(others, 1):
            value = value + self.unit[0] * ((other - self.middle[i]) / self.unit[i]).clamp(max=0)
        return value.clamp(min=-FLOOR)

    def _seen(self, z: Tensor) -> list[tuple[Density, Tensor]]:
        """Return each part with the features that it sees."""
        return [(part, z[..., columns]) for part, columns in zip(self._parts, self.columns, strict=True)]

    def _each(self, z: Tensor) -> list[Tensor]:
        return [part(view) for part, view in self._seen(z)]

    def _log_prob(self, u: Tensor) -> Tensor:
        return self.log_prob(u)

    @torch.no_grad()
    def refit(
        self,
        z: Tensor,
        weight: Tensor | None = None,
        generator: torch.Generator | None = None,
        reduce: Reduce = identity,
    ) -> None:
        """Fit each part to its features, then the units (see `Density.refit` for the arguments)."""
        z, weight = self._checked(z, weight)
        for part, view in self._seen(z):
            part.refit(view, weight, generator, reduce)
        rows = reduce(weight.sum())
        for i, value in enumerate(self._each(z)):
            # of several processes, the mean of their quantiles
            middle, low = reduce(weight.sum() * weighted_quantiles(value.double(), weight, 0.5, _RARE)) / rows
            self.middle[i] = middle
            self.unit[i] = (middle - low).clamp(min=_THINNEST if i else self._parts[0].least_unit)

    def settle(self, z: Tensor) -> None:
        """Pass on to each part its features."""
        for part, view in self._seen(z):
            part.settle(view)
