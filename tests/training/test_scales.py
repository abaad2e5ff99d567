"""Factors of the inputs: learned with the weights, and then part of them."""

import pytest
import torch
from torch.testing import assert_close

from natpn import families
from natpn.network import default_network
from natpn.training import fit
from natpn.training.losses import PlainLoss, StackedNetworks, Start
from training.problems import network, problem


@pytest.mark.parametrize("members", [None, 2])
def test_the_network_that_is_left_says_the_same(members):
    family, (x, _), _ = problem("normal")
    networks = [network(family, seed).eval() for seed in range(members or 1)]
    start = Start(torch.zeros(2), 1.0)
    made = PlainLoss(networks[0] if members is None else StackedNetworks(networks), start)
    share = made.scales.share
    with torch.no_grad():
        share.copy_(torch.linspace(0, 0.1, share.numel()).view_as(share))
    with torch.no_grad():
        if members is None:
            wanted = [networks[0].encoder.map(made.scales(made.prepare(x)))]
        else:
            wanted = list(made.stacked.encoder.map(made.scales(made.prepare(x.expand(members, *x.shape)))))
    before = networks[0].encoder(x)
    made.close()
    found = [member.encoder(x) for member in networks]
    assert_close(found, wanted)
    assert not torch.allclose(found[0], before)
    made.close()  # there is nothing left to do
    assert_close([member.encoder(x) for member in networks], wanted)


def test_columns_that_carry_nothing_are_turned_down():
    torch.manual_seed(0)
    x = torch.randn(400, 60)
    y = x[:, 0] + x[:, 1].square() + 0.1 * torch.randn(400)
    model = default_network(60, families.get("normal"), 300)
    fit(model, (x[:300], y[:300]), (x[300:], y[300:]), max_epochs=60)
    reach = model.encoder.first.weight.detach().square().sum(0)
    numbers, pieces = reach[:60], reach[60:].view(60, -1).sum(1)
    assert float((numbers + pieces)[:2].min()) > 3 * float((numbers + pieces)[2:].median())
