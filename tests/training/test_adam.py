"""Adam against torch's, and parameters that are views of one tensor."""

import pytest
import torch
from torch import nn
from torch.testing import assert_close

from natpn.training.by_hand import Adam, FlatParameters

RATES = [0.1, 0.05, 0.2, 0.01, 0.1, 0.1]


def start():
    torch.manual_seed(0)
    return [nn.Parameter(torch.randn(shape, dtype=torch.float64)) for shape in ((2, 3), (2, 4, 5))]


def loss(x, y):
    return (x - 1).square().sum() + (y * 3).square().sum() + y.exp().sum()


def follow(flat, adam, parameters, rates):
    for rate in rates:
        loss(*parameters).backward()
        adam.step(flat.gradient(), rate)


@pytest.mark.parametrize("penalty", [0.0, 0.3])
@pytest.mark.parametrize("n_members", [None, 2])
def test_steps_are_those_of_torch(n_members, penalty):
    own, theirs = start(), start()
    flat = FlatParameters(own, n_members)
    assert_close(own, start(), rtol=0, atol=0)
    follow(flat, Adam(flat.value, penalty), own, RATES)
    torch_adam = torch.optim.Adam(theirs, weight_decay=penalty)
    for rate in RATES:
        torch_adam.zero_grad()
        loss(*theirs).backward()
        torch_adam.param_groups[0]["lr"] = rate
        torch_adam.step()
    flat.release()
    flat.value.zero_()
    assert_close(own, theirs, rtol=1e-12, atol=1e-12)
    assert not torch.equal(own[1], start()[1])


def test_it_goes_on_from_its_state():
    own, other = start(), start()
    flats = [FlatParameters(p) for p in (own, other)]
    first, second = (Adam(flat.value) for flat in flats)
    follow(flats[0], first, own, RATES)
    follow(flats[1], second, other, [0.3])
    second.load_state_dict(first.state_dict())
    flats[1].value.copy_(flats[0].value)
    follow(flats[0], first, own, RATES)
    follow(flats[1], second, other, RATES)
    assert_close(own, other, rtol=0, atol=0)


@pytest.mark.parametrize("n_members", [None, 2])
def test_gradients_are_joined_and_forgotten(n_members):
    x, y = start()
    flat = FlatParameters([x, y], n_members)
    (3 * x).sum().backward()
    want = torch.cat([torch.full((2, 3), 3.0), torch.zeros(2, 20)], 1).double()
    got = flat.gradient()
    assert got.shape == (n_members or 1, 46 // (n_members or 1))
    assert_close(got.reshape(-1).sort().values, want.reshape(-1).sort().values)
    if n_members:
        assert_close(got, want)
    assert x.grad is None
    assert not flat.gradient().any()
