"""Single rows in numpy are what the network says."""

import pytest
import torch
from torch.testing import assert_close

from natpn import families
from natpn.network import NaturalPosteriorEnsemble, NaturalPosteriorNetwork, default_network
from natpn.training import fit

COLUMNS = 5


def trained(name="normal", size=1, **options):
    torch.manual_seed(0)
    family = families.get(name, **({"n_classes": 3} if name == "categorical" else {}))
    x = torch.randn(120, COLUMNS + 1) * torch.tensor([1.0, 1, 3, 1, 1, 0])
    y = x[:, 0].abs().floor().clamp(max=2) if name != "normal" else x[:, 0].sin()
    members = [default_network(COLUMNS, family, 100, 4, n_numbers=3, surprise=True, **options) for _ in range(size)]
    network = members[0] if size == 1 else NaturalPosteriorEnsemble(members)
    fit(network, (x[:100], y[:100]), (x[100:], y[100:]), max_epochs=3)
    return network.double().eval().requires_grad_(False)


@pytest.mark.parametrize("name", ["normal", "categorical", "poisson"])
@pytest.mark.parametrize("size", [1, 2])
@pytest.mark.parametrize("activation", ["leaky_relu", "silu"])
def test_answers_are_those_of_the_network(activation, name, size):
    network = trained(name, size, activation=activation)
    fast = network.quick()
    x = torch.randn(40, COLUMNS + 1, dtype=torch.float64)
    x[:, -1] = -torch.arange(40) / 10
    for scale in (1.0, 1e3, 1e8, 1e15, 1e30):
        rows = x * torch.tensor([scale] * COLUMNS + [1.0])
        want, got = network.see(rows), fast(rows.numpy())
        assert_close(got.log_n, want.log_n, rtol=1e-9, atol=1e-9)
        assert_close(network.update(got).wide(), network.update(want).wide(), rtol=1e-9, atol=1e-9)


def test_other_networks_have_no_quick_way():
    family = families.get("normal")
    assert trained(density="radial").quick() is None
    assert trained().float().quick() is None
    assert NaturalPosteriorNetwork(torch.nn.Linear(3, 16), family).double().quick() is None
    assert NaturalPosteriorEnsemble([trained(), trained(density="radial")]).quick() is None
