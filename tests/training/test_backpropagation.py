"""Passes that are written out, against autograd's."""

import pytest
import torch
from torch.testing import assert_close

from natpn.training import Staged, fit
from natpn.training.by_hand import FlatParameters
from natpn.training.descent import _Run
from natpn.training.losses import PlainLoss, StackedNetworks, Start
from training.problems import network, problem


def trainee(family, members, dropout, activation="leaky_relu"):
    networks = [network(family, seed, dropout, activation) for seed in range(members or 1)]
    for each in networks:  # as the paper's scheme may have left it
        each.normalisation.running_mean.fill_(0.2)
        each.normalisation.running_variance.fill_(3.0)
    start = Start(torch.linspace(0.3, 0.6, family.n_statistics), 1.5)
    made = PlainLoss(networks[0] if members is None else StackedNetworks(networks), start)
    with torch.no_grad():  # some inputs up, others down, one out
        made.scales.share.copy_(torch.linspace(0, 0.1, made.scales.share.numel()).view_as(made.scales.share))
    return made


def batch(family, members, made):
    x, y = (t[:32] for t in problem(family)[1])
    x = made.prepare(x)
    shape = () if members is None else (members,)
    share = torch.rand(*shape, 32, generator=torch.Generator().manual_seed(0))
    return x.expand(*shape, *x.shape), y.expand(*shape, *y.shape), share


@pytest.mark.parametrize("members", [None, 3])
@pytest.mark.parametrize("dropout", [0.0, 0.1])
@pytest.mark.parametrize("family", ["normal", "poisson", "categorical"])
@pytest.mark.parametrize("activation", ["leaky_relu", "silu"])
def test_losses_and_gradients_are_those_of_autograd(activation, family, dropout, members):
    found = []
    for by_hand in (False, True):
        made = trainee(problem(family)[0], members, dropout, activation).train()
        flat = FlatParameters(made.parameters(), members)
        x, y, share = batch(family, members, made)
        passes = made.by_hand(flat)
        torch.manual_seed(1)
        for _ in range(2):  # the second call finds what the first left behind
            if by_hand:
                losses, gradient = passes(x, y, share)
            else:
                losses = made(x, y)
                (losses * share).sum().backward()
                gradient = flat.gradient()
        found.append([losses.detach().clone(), gradient.clone()])
        assert float(gradient.abs().max()) > 0
    assert_close(found[1], found[0], rtol=1e-5, atol=5e-6)


def test_other_chains_are_left_to_autograd():
    made = trainee(problem("normal")[0], None, 0.1)
    layers = made.trained[0].layers
    flat = FlatParameters(made.parameters())
    assert made.by_hand(flat) is not None
    assert made.by_hand(FlatParameters(list(made.parameters())[1:])) is None  # not all of them are trained
    layers[2].p = 0.001  # too small a share for bytes
    assert made.by_hand(flat) is None
    layers[2].p = 0.1
    hook = layers.register_forward_hook(lambda *_: None)
    assert made.by_hand(flat) is None
    hook.remove()
    assert made.by_hand(flat) is not None
    layers[1] = torch.nn.ReLU()
    assert made.by_hand(flat) is None


def test_a_fit_of_a_table_goes_by_hand(monkeypatch):
    made = []
    start = _Run.__init__

    def noted(self, *arguments):
        start(self, *arguments)
        made.append(self.by_hand is not None)

    monkeypatch.setattr(_Run, "__init__", noted)
    family, train, held_out = problem("normal", rows=64)
    fit(network(family), train, held_out, scheme=Staged(max_epochs=1))
    assert made == [True]
