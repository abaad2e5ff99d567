"""Stack of radial flows over a standard normal (Appendix A of the paper, with its determinant corrected).

Each layer contracts or expands the space about a centre z₀, with r = ‖z − z₀‖ and h(r) = 1 / (α + r):

    f(z) = z + β h(r) (z − z₀),   α > 0,   β > −α  (then f is invertible)
    log |det ∂f/∂z| = (H − 1) log(1 + β h) + log(1 + β h + β h' r)

With β = s − α, s > 0, both terms are free of cancellation and positive as written:

    1 + β h = (r + s) / (r + α),   1 + β h + β h' r = (r (r + 2α) + s α) / (r + α)²

The flow maps the latent to the base, so log q(z) = log N(f_L ∘ … ∘ f_1(z) | 0, I) + Σ log |det|. Far away every layer
is a bounded shift, and the tails are those of the base.
"""

import math

import torch
from torch import Tensor, nn
from torch.nn.functional import softplus

from natpn.densities.base import Density

_SMALLEST = 1e-6  # of α and s: the logarithms stay finite at r = 0


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
        one = math.log(math.expm1(1.0))  # softplus(one) = 1
        self.centre = nn.Parameter(torch.randn(n_layers, dim))
        self.raw_alpha = nn.Parameter(one + 0.1 * torch.randn(n_layers))
        self.raw_s = nn.Parameter(one + 0.1 * torch.randn(n_layers))

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
