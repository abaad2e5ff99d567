"""The radial flow against the definition and the Jacobian by automatic differentiation."""

import math

import pytest
import torch
from torch import Tensor
from torch.nn.functional import softplus

from natpn.densities import RadialFlow


def transform(flow: RadialFlow, z: Tensor) -> Tensor:
    """The definition, layer by layer: z + β h(r) (z − z₀)."""
    for centre, raw_alpha, raw_s in zip(flow.centre, flow.raw_alpha, flow.raw_s, strict=True):
        alpha = softplus(raw_alpha) + 1e-6
        beta = softplus(raw_s) + 1e-6 - alpha
        z = z + beta / (alpha + (z - centre).norm()) * (z - centre)
    return z


def make(dim: int) -> RadialFlow:
    torch.manual_seed(dim)
    flow = RadialFlow(dim, n_layers=5).double()
    with torch.no_grad():
        flow.raw_alpha.normal_(std=2)
        flow.raw_s.normal_(std=2)
    return flow


@pytest.mark.parametrize("dim", [1, 2, 5])
def test_agrees_with_the_jacobian(dim: int) -> None:
    flow = make(dim)
    for z in torch.randn(20, dim, dtype=torch.float64) * 3:
        jacobian = torch.autograd.functional.jacobian(lambda x: transform(flow, x), z)
        base = transform(flow, z)
        expected = torch.linalg.slogdet(jacobian)[1] - (base @ base + dim * math.log(2 * math.pi)) / 2
        torch.testing.assert_close(flow(z), expected)
        assert torch.linalg.det(jacobian) > 0


def test_is_smooth_at_a_centre() -> None:
    flow = make(3)
    z = flow.centre[0].detach().clone().requires_grad_()
    flow(z).backward()
    assert z.grad is not None
    assert z.grad.isfinite().all()


def test_is_invertible_whatever_its_parameters() -> None:
    flow = make(1)
    with torch.no_grad():
        flow.raw_s.fill_(-50.0)
        flow.raw_alpha.fill_(5.0)
    grid = torch.linspace(-30, 30, 301, dtype=torch.float64)
    image = torch.stack([transform(flow, x[None]) for x in grid]).squeeze()
    assert (image.diff() > 0).all()
    assert flow(grid[:, None]).isfinite().all()
