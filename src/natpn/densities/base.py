"""What every density over the latent space shares: its frame, its far field and its start-up.

A member states log q(u) for u within `REACH` of the origin. The base adds the rest, for z in R^H:

    u = (z − location) / scale,  r = ‖u‖,  s = max(1, r / REACH)
    log p(z) = log q(u / s) − (s − 1) · max(−log q(u / s), REACH² / 2) − Σ log scale,  but never below −`FLOOR`

Within REACH = 10⁴ standard deviations p is exactly q. Beyond, log q is continued along the ray in proportion to
r: an exponential tail that weighs less than exp(−REACH²/2) relative to a standard normal, so p still integrates to
one in any arithmetic we have, decreases along every ray, and is finite in float32 however far z lies. At the floor
gradients are zero.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor, nn

from natpn.few_rows import Floats, Form, array, within

REACH = 1e4
FLOOR = 1e30
_THINNEST = 3.0  # times √H: real tables have units of 3 to 14 times √H
_SHRINK = 1e-15  # keeps the squares of entries up to 1e30 within float32

Reduce = Callable[[Tensor], Tensor]


def identity(summed: Tensor) -> Tensor:
    """Return a summed statistic as it is: the sum over one process."""
    return summed


def weighted_quantiles(value: Tensor, weight: Tensor, *shares: float) -> Tensor:
    """Return the smallest values, (shares,), at which at least these shares of the weight are reached."""
    order = value.argsort()
    below = weight[order].cumsum(0)
    places = torch.searchsorted(below, below.new_tensor(shares) * below[-1])
    return value[order][places.clamp(max=len(value) - 1)]


class Density(nn.Module, ABC):
    """A normalised density over latents of `dim` numbers.

    It computes in the precision of its own buffers and outside autocast: a log-density in half precision is noise.

    Args:
        dim: The number of latent features H.
    """

    location: Tensor
    scale: Tensor
    refit_suffices = False  # whether `refit` finds all parameters, and not only the frame

    def hasten(self) -> None:
        """Calculate in the precision of the parameters, where that is faster and costs few digits."""

    def __init__(self, dim: int) -> None:
        super().__init__()
        if isinstance(dim, bool) or not isinstance(dim, int) or dim < 1:
            raise ValueError(f"dim: expected a whole number of at least 1, got {dim!r}")
        self.dim = dim
        self.register_buffer("location", torch.zeros(dim))
        self.register_buffer("scale", torch.ones(dim))

    @property
    def n_continuous(self) -> int:
        """How many features it is a density over."""
        return self.dim

    @property
    def least_unit(self) -> float:
        """The least difference, in nats, that counts as one between a usual row and the rarest hundredth.

        Latents may fill a thin sheet only, on which all rows are about as dense, and a small step off it is not far.
        """
        return _THINNEST * math.sqrt(self.n_continuous)

    @abstractmethod
    def _log_prob(self, u: Tensor) -> Tensor:
        """Return log q of standardised latents (B, H) with norm up to `REACH`, as (B,)."""

    def log_prob(self, z: Tensor) -> Tensor:
        """Return the log-density, (...), of latents (..., H) of any size: finite, but NaN stays NaN."""
        if z.ndim == 0 or z.shape[-1] != self.dim:
            raise ValueError(f"z: expected shape (..., {self.dim}), got {tuple(z.shape)}")
        if torch.is_autocast_enabled(z.device.type):
            with torch.autocast(z.device.type, enabled=False):
                return self.log_prob(z)
        u = ((z.reshape(-1, self.dim).to(self.scale.dtype) - self.location) / self.scale).clamp(-FLOOR, FLOOR)
        radius = torch.linalg.vector_norm(u * _SHRINK, dim=-1)
        stretch = (radius / (_SHRINK * REACH)).clamp(min=1)
        inner = self._log_prob(u / stretch[:, None])
        slope = (-inner).clamp(min=REACH**2 / 2)
        tail = slope * (stretch - 1)  # may overflow; the clamp then gives the floor, with zero gradients
        value: Tensor = (inner - tail - self.scale.log().sum()).clamp(min=-FLOOR)
        return value.reshape(z.shape[:-1])

    def forward(self, z: Tensor) -> Tensor:
        """Return `log_prob(z)`."""
        return self.log_prob(z)

    def _inner_in_numpy(self) -> Form | None:
        """Return the numpy form of `_log_prob`, if there is one."""
        return None

    def in_numpy(self) -> Form | None:
        """Return the numpy form, if log q has one."""
        log_q = self._inner_in_numpy()
        if log_q is None:
            return None
        location, scale, log_scale = array(self.location), array(self.scale), float(self.scale.log().sum())

        def log_p(z: Floats) -> Floats:
            u = within((z - location) / scale, FLOOR)
            stretch = np.maximum(np.sqrt(np.square(u * _SHRINK).sum(1)) / (_SHRINK * REACH), 1.0)
            inner = log_q(u / stretch[:, None])
            tail = np.maximum(-inner, REACH**2 / 2) * (stretch - 1)
            value: Floats = np.maximum(inner - tail - log_scale, -FLOOR)
            return value

        return log_p

    @torch.no_grad()
    def refit(
        self,
        z: Tensor,
        weight: Tensor | None = None,
        generator: torch.Generator | None = None,
        reduce: Reduce = identity,
    ) -> None:
        """Fit to a sample by a method that is not gradient descent.

        Here: set the frame, `location` and `scale`, to the sample's mean and standard deviation. Do so before gradient
        descent: what that learns is relative to the frame. Members with a better method extend it.

        Args:
            z: Latents of shape (N, H).
            weight: How often each row counts, (N,): weight 2 is the row twice, weight 0 its absence. Default: once.
            generator: Random numbers, on the CPU, for members that draw. Default: seeded with 0, so refits repeat.
            reduce: Sums a tensor over processes that each hold some rows. If their generators are seeded alike, all
                arrive at the same parameters.
        """
        z, weight = self._checked(z, weight)
        rows = reduce(weight.sum())
        if not rows > 0:
            raise ValueError("weight: expected at least one row of positive weight, got none")
        mean = reduce(weight @ z) / rows
        deviation = (reduce(weight @ (z - mean).square()) / rows).sqrt()
        # A feature whose spread is rounding of its mean, or nothing beside the others', has no scale of its own.
        widest = deviation.max()
        constant = deviation <= 1e-6 * torch.maximum(mean.abs(), widest)
        self.location.copy_(mean)
        self.scale.copy_(torch.where(constant, torch.where(widest > 1e-12, widest, 1.0), deviation))

    def settle(self, z: Tensor) -> None:
        """Take from a sample (..., H) what stays fixed in evaluation mode, for members that have such a thing."""

    def _checked(self, z: Tensor, weight: Tensor | None) -> tuple[Tensor, Tensor]:
        """Return rows and weights in float64, or say what is wrong with them."""
        if z.ndim != 2 or z.shape[1] != self.dim:
            raise ValueError(f"z: expected latents of shape (N, {self.dim}), got {tuple(z.shape)}")
        if weight is None:
            weight = z.new_ones(z.shape[0])
        if weight.shape != z.shape[:1]:
            raise ValueError(f"weight: expected one number a row, shape ({z.shape[0]},), got {tuple(weight.shape)}")
        if z.device.type == "mps":  # has no float64
            z, weight = z.cpu(), weight.cpu()
        z, weight = z.detach().double(), weight.detach().to(z.device).double()
        for name, values in (("z", z), ("weight", weight)):
            wrong = ~values.isfinite().reshape(len(z), -1).all(1) if len(z) else torch.zeros(0)
            if wrong.any():
                first, several = int(wrong.nonzero()[0]), int(wrong.sum())
                raise ValueError(f"{name}: expected finite numbers, got others in {several} rows, first in row {first}")
        if (weight < 0).any():
            raise ValueError(f"weight: expected 0 or more, got less in row {int((weight < 0).nonzero()[0])}")
        return z, weight


class Surprise(Density):
    """A density times the probability of events that no density over numbers can weigh.

    The last feature is the log-probability of what never happened in the training data, such as a new category or the
    first missing value. It is added: log p(z₁ … z_H) = log q(z₁ … z_{H−1}) + w z_H. The weight w is set after training,
    so that an event of some probability counts as much as a density that is as rare.
    """

    weight: Tensor

    def __init__(self, density: Density) -> None:
        super().__init__(density.dim + 1)
        self.register_buffer("weight", torch.ones(()))
        self.density = density
        self.refit_suffices = density.refit_suffices

    @property
    def n_continuous(self) -> int:
        """Those of the density that it wraps."""
        return self.density.n_continuous

    def hasten(self) -> None:
        """Let the density that it wraps calculate faster."""
        self.density.hasten()

    def in_numpy(self) -> Form | None:
        """Return the numpy form, if the density has one."""
        log_q, weight = self.density.in_numpy(), float(self.weight)
        return None if log_q is None else lambda z: np.maximum(log_q(z[:, :-1]) + weight * z[:, -1], -FLOOR)

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

    def settle(self, z: Tensor) -> None:
        """Pass on all features but the last."""
        self.density.settle(z[..., :-1])
