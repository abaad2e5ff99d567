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


def clusters(n: int, rows: int = 400) -> tuple[Tensor, Tensor]:
    """Rows of n narrow clusters in 6 dimensions, and the middles of the clusters."""
    generator = torch.Generator().manual_seed(n)
    middles = 4 * torch.randn(n, 6, generator=generator)
    return middles.repeat(rows // n, 1) + 0.3 * torch.randn(rows // n * n, 6, generator=generator), middles


@pytest.mark.parametrize("from_rows", [True, False])
def test_a_start_among_the_rows_finds_all_clusters(from_rows: bool) -> None:
    z, middles = clusters(8)
    torch.manual_seed(0)
    flow = RadialFlow(6, n_layers=16)
    if from_rows:
        flow.refit(z)
    else:
        super(RadialFlow, flow).refit(z)  # the frame alone
    optimiser = torch.optim.Adam(flow.parameters(), 0.03)
    for _ in range(500):
        optimiser.zero_grad()
        (-flow(z).mean()).backward()
        optimiser.step()
    pairs = (middles[:, None] + middles)[~torch.eye(8, dtype=torch.bool)] / 2
    assert bool(flow(middles).min() > flow(pairs).max()) == from_rows


def test_layers_start_at_rows_and_expand_the_space_about_them() -> None:
    z, _ = clusters(8)
    flow = RadialFlow(6, n_layers=16)
    flow.refit(z)
    standardised = (z - flow.location) / flow.scale
    assert (standardised - flow.centre[0]).norm(dim=1).min() < 1e-5
    assert bool((softplus(flow.raw_s) > softplus(flow.raw_alpha)).all())
    plain = RadialFlow(6, n_layers=16)
    super(RadialFlow, plain).refit(z)
    with torch.no_grad():
        plain.raw_s.copy_(plain.raw_alpha)  # a standard normal density
    assert flow(z).mean() > plain(z).mean() + 0.3


@pytest.mark.parametrize("distinct", [1, 3])
def test_layers_without_a_row_of_their_own_change_nothing(distinct: int) -> None:
    z = torch.randn(distinct, 4).repeat(50, 1)
    flow = RadialFlow(4, n_layers=6)
    flow.refit(z)
    torch.testing.assert_close(flow.raw_s[distinct:], flow.raw_alpha[distinct:])
    assert bool(flow(z).isfinite().all())
    assert bool(flow(1e6 * torch.ones(1, 4)).isfinite())
