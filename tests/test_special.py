"""The special functions against mpmath, over 125 orders of magnitude."""

import mpmath as mp
import numpy as np
import pytest
import torch
from torch.autograd import gradcheck

from natpn import special

GRID = np.concatenate([10.0 ** np.linspace(-60, 60, 121), np.linspace(0.03, 40, 80)])


@pytest.fixture(autouse=True)
def _digits():
    """Other tests set the digits of mpmath too, and the order of tests is nobody's."""
    with mp.workdps(100):
        yield


def phi(x):
    return mp.digamma(x) - mp.log(x)


def stirling(x):
    return mp.loggamma(x) - (x - mp.mpf(1) / 2) * mp.log(x) + x - mp.log(2 * mp.pi) / 2


FUNCTIONS = {
    "digamma_remainder": (special.digamma_remainder, phi, lambda x: mp.polygamma(1, x) - 1 / x),
    "digamma": (special.digamma, mp.digamma, lambda x: mp.polygamma(1, x)),
    "binet": (special.binet, stirling, lambda x: phi(x) + 1 / (2 * x)),
    "gamma_entropy": (
        special.gamma_entropy,
        lambda x: x + mp.loggamma(x) + (1 - x) * mp.digamma(x),
        lambda x: 1 + (1 - x) * mp.polygamma(1, x),
    ),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_values_and_derivatives(name):
    ours, value, derivative = FUNCTIONS[name]
    x = torch.tensor(GRID, requires_grad=True)
    y = ours(x)
    (slope,) = torch.autograd.grad(y.sum(), x)
    for point, got, got_slope in zip(GRID, y.tolist(), slope.tolist(), strict=True):
        want, want_slope = value(mp.mpf(point)), derivative(mp.mpf(point))
        assert abs(got - want) <= 1e-14 * (1 + abs(want)), point
        assert abs(got_slope - want_slope) <= 1e-13 * (1 / mp.mpf(point) + abs(want_slope)), point


def test_rising_remainder():
    for a in (1e-30, 0.3, 5.0, 1e4, 1e12, 1e40):
        for y in (0.5, 1.0, 7.0, 300.0):
            want = mp.loggamma(mp.mpf(a) + y) - mp.loggamma(a) - y * mp.log(a)
            got = special.rising_remainder(torch.tensor(a, dtype=torch.float64), torch.tensor(y, dtype=torch.float64))
            assert abs(got.item() - want) <= 1e-13 * (1 + abs(want) + y), (a, y)


def test_deviance_and_factorial_remainder():
    for x, e in ((0.0, 3.0), (1e-40, 2.0), (5.0, 5.0), (1e8, 1e8 + 1e3), (1e8, 1.0), (0.0, 0.0), (2.0, 1e-30)):
        want = mp.mpf(x) * mp.log(mp.mpf(x) / e) - x + e if x else mp.mpf(e)
        pair = [torch.tensor(v, dtype=torch.float64) for v in (x, e)]
        got = special.deviance(*pair, pair[0] - pair[1]).item()
        assert abs(got - want) <= 1e-12 * (1 + abs(want)), (x, e)
    for y in (0, 1, 2, 50, 10**8):
        want = mp.loggamma(y + 1) - (y * mp.log(y) if y else 0) + y
        got = special.factorial_remainder(torch.tensor(float(y), dtype=torch.float64)).item()
        assert abs(got - want) <= 1e-13 * (1 + abs(want)), y


def test_second_derivatives_and_vmap():
    x = torch.tensor([0.2, 3.0, 50.0], dtype=torch.float64, requires_grad=True)
    for function in (special.digamma_remainder, special.binet, special.gamma_entropy):
        assert gradcheck(function, x)
        assert torch.autograd.gradgradcheck(function, x)
        assert torch.equal(torch.func.vmap(function)(x), function(x))


def test_widen_saturates_gradients_and_narrow_values():
    x = torch.tensor([1.0], requires_grad=True)
    (special.widen(x) * 1e60).sum().backward()
    assert x.grad.item() == torch.finfo(torch.float32).max
    assert special.narrow(torch.tensor([1e60, -1e60], dtype=torch.float64), torch.float32).isfinite().all()
