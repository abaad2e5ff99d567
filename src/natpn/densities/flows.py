"""Flows over a standard normal: radial ones, and autoregressive ones built with zuko.

`radial` is a stack of layers (Appendix A of the paper, with its determinant
corrected). Each layer contracts or expands the space about a centre z₀, with r = ‖z − z₀‖ and h(r) = 1 / (α + r):

    f(z) = z + β h(r) (z − z₀),   α > 0,   β > −α  (then f is invertible)
    log |det ∂f/∂z| = (H − 1) log(1 + β h) + log(1 + β h + β h' r)

With β = s − α, s > 0, both terms are free of cancellation and positive as written:

    1 + β h = (r + s) / (r + α),   1 + β h + β h' r = (r (r + 2α) + s α) / (r + α)²

The flow maps the latent to the base, so log q(z) = log N(f_L ∘ … ∘ f_1(z) | 0, I) + Σ log |det|. Far away every layer
is a bounded shift, and the tails are those of the base.

`maf` and `spline` are autoregressive. Each layer maps feature i by an increasing function whose parameters a network
reads off the features before it; odd layers take the features in reverse. So log q(u) = log N(f(u) | 0, I) +
Σ log f_i'(u_i).

- `maf` (`masked_autoregressive.py`): f_i is affine.
- `spline`: f_i is a monotone rational-quadratic spline on [−5, 5], the identity outside: defined everywhere.

The networks would extrapolate without bound. They read their inputs clamped to [−5, 5], the range of standardised
data: whatever they compute, the Jacobian stays triangular, so q stays exactly normalised, and beyond the range its
parameters stand still. Far away every layer is thus affine along a ray, and q has the Gaussian tails of its base.
With one feature there is nothing to read, and the parameters of f are free.
"""

import math
from collections.abc import Sequence
from typing import Any

import torch
import zuko  # type: ignore[import-untyped]
from torch import Tensor, nn
from torch.nn.functional import softplus

from natpn.densities.base import REACH, Density, Reduce, identity
from natpn.densities.expectation_maximization import choose_centres

# Where a radial flow starts among latents: α and s in root mean squares of the distance to the nearest centre.
_ALPHA, _S = 0.4, 0.5
_SMALLEST = 1e-6  # of α and s of radial layers: the logarithms stay finite at r = 0
_BOUND = 5.0


class RadialFlow(Density):
    """Radial flows: the density of the paper. Cheap, and unimodal to within its few centres.

    Args:
        dim: The number of latent features H.
        n_layers: The number of radial flows.
    """

    def __init__(self, dim: int, n_layers: int = 8) -> None:
        super().__init__(dim)
        if n_layers < 1:
            raise ValueError(f"n_layers: expected at least 1, got {n_layers!r}")
        one = _inverse_softplus(1.0)
        self.centre = nn.Parameter(torch.randn(n_layers, dim))
        self.raw_alpha = nn.Parameter(one + 0.1 * torch.randn(n_layers))
        self.raw_s = nn.Parameter(one + 0.1 * torch.randn(n_layers))

    @torch.no_grad()
    def refit(
        self,
        z: Tensor,
        weight: Tensor | None = None,
        generator: torch.Generator | None = None,
        reduce: Reduce = identity,
    ) -> None:
        """Fit the frame, and let each layer expand the space a little about a row, with the rows far apart.

        Gradient descent does not move a layer to a cluster that none is near. See `Density.refit` for the arguments.
        """
        super().refit(z, weight, generator, reduce)
        generator = generator or torch.Generator().manual_seed(0)
        z, weight = self._checked(z, weight)
        u = (z - self.location.to(z)) / self.scale.to(z)
        u = u / (torch.linalg.vector_norm(u, dim=1, keepdim=True) / REACH).clamp(min=1)
        centres = choose_centres(u, weight, len(self.centre), generator, reduce)
        nearest = torch.cdist(u, centres).amin(1)
        spread = float((reduce(weight @ nearest.square()) / reduce(weight.sum())).sqrt())
        alpha, s = (share * (spread if spread > _SMALLEST else 1.0) for share in (_ALPHA, _S))
        self.centre.zero_()
        self.raw_alpha.fill_(_inverse_softplus(alpha))
        self.raw_s.fill_(_inverse_softplus(alpha))  # layers without a row of their own change nothing
        self.raw_s[: len(centres)] = _inverse_softplus(s)
        for layer in range(len(centres)):
            self.centre[layer] = centres[layer]
            offset = centres - centres[layer]  # the other rows, as the next layer sees them
            radius = torch.linalg.vector_norm(offset, dim=1, keepdim=True)
            centres = centres[layer] + offset * ((radius + s) / (radius + alpha))

    def _log_prob(self, u: Tensor) -> Tensor:
        alpha, s = (softplus(raw) + _SMALLEST for raw in (self.raw_alpha, self.raw_s))
        # The offset from a layer's centre is carried on, so that each layer is one norm and one multiply-add.
        step = self.centre - torch.cat([self.centre[1:], torch.zeros_like(self.centre[:1])])
        offset = u - self.centre[0]
        radii = []
        for a, b, delta in zip(alpha.unbind(), s.unbind(), step.unbind(), strict=True):
            radius = torch.linalg.vector_norm(offset, dim=-1)
            offset = torch.addcmul(delta, offset, ((radius + b) / (radius + a))[:, None])
            radii.append(radius)
        r, alpha, s = torch.stack(radii), alpha[:, None], s[:, None]
        log_det = (
            (self.dim - 1) * (r + s).log()
            - (self.dim + 1) * (r + alpha).log()
            + (r * (r + 2 * alpha) + s * alpha).log()
        )
        return log_det.sum(0) - (offset.square().sum(-1) + self.dim * math.log(2 * math.pi)) / 2


def _inverse_softplus(value: float) -> float:
    return value + math.log(-math.expm1(-value))


def check_sizes(n_layers: int, hidden_dims: Sequence[int]) -> None:
    """Raise unless there is a layer, and its network has widths.

    Raises:
        ValueError: Otherwise.
    """
    if n_layers < 1:
        raise ValueError(f"n_layers: expected at least 1, got {n_layers!r}")
    if isinstance(hidden_dims, int) or not hidden_dims or min(hidden_dims) < 1:
        raise ValueError(f"hidden_dims: expected widths such as (64, 64), got {hidden_dims!r}")


class AutoregressiveFlow(Density):
    """A zuko flow whose networks read bounded inputs."""

    def __init__(self, dim: int, flow: Any) -> None:
        super().__init__(dim)
        self.layers = flow.transform
        for layer in self.layers.transforms:
            if dim > 1:
                layer.hyper.insert(0, nn.Hardtanh(-_BOUND, _BOUND))
            else:
                for parameter in layer.phi:  # zuko draws these from a standard normal: start nearer the identity
                    nn.init.normal_(parameter, std=0.1)

    def _log_prob(self, u: Tensor) -> Tensor:
        if u.shape[0] == 0:  # torch.distributions cannot sum over no rows
            return u.sum(-1)
        base: Tensor
        log_det: Tensor
        base, log_det = self._to_base(u)
        return log_det - (base.square().sum(-1) + self.dim * math.log(2 * math.pi)) / 2

    def _to_base(self, u: Tensor) -> tuple[Tensor, Tensor]:
        """Return where latents (B, H) are in the base, and log |det|, (B,)."""
        found: tuple[Tensor, Tensor] = self.layers().call_and_ladj(u)
        return found


class SplineFlow(AutoregressiveFlow):
    """Neural spline flow: rational-quadratic layers with linear tails.

    Args:
        dim: The number of latent features H.
        n_layers: The number of autoregressive layers.
        hidden_dims: Widths of the hidden layers of each network.
        n_bins: The number of pieces of each spline.
    """

    def __init__(self, dim: int, n_layers: int = 3, hidden_dims: Sequence[int] = (64, 64), n_bins: int = 8) -> None:
        check_sizes(n_layers, hidden_dims)
        if n_bins < 2:
            raise ValueError(f"n_bins: expected at least 2, got {n_bins!r}")
        super().__init__(dim, zuko.flows.NSF(dim, transforms=n_layers, hidden_features=tuple(hidden_dims), bins=n_bins))
