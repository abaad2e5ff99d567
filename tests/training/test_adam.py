"""Adam against torch's."""

import torch
from torch.testing import assert_close

from natpn.training.adam import Adam


def descend(optimiser, parameters, rates):
    """Follow the gradient of a crooked valley; the second parameter has no gradient at every third step."""
    for step, rate in enumerate(rates):
        for p in parameters:
            p.grad = None
        x, y = parameters
        loss = (x - 1).square().sum() + (x.sum() * 3 if step % 3 == 2 else (y * x).square().sum() + y.exp().sum())
        loss.backward()
        if isinstance(optimiser, Adam):
            optimiser.step(rate)
        else:
            optimiser.param_groups[0]["lr"] = rate
            optimiser.step()


def start():
    torch.manual_seed(0)
    return [torch.nn.Parameter(torch.randn(4, 3, dtype=torch.float64)) for _ in range(2)]


def test_steps_are_those_of_torch():
    rates = [0.1, 0.05, 0.2, 0.01, 0.1, 0.1]
    own, theirs = start(), start()
    descend(Adam(own), own, rates)
    descend(torch.optim.Adam(theirs), theirs, rates)
    assert_close(own, theirs, rtol=1e-12, atol=1e-12)
    assert not torch.equal(own[1], start()[1])


def test_it_goes_on_from_its_state():
    own, other = start(), start()
    first, second = Adam(own), Adam(other)
    descend(first, own, [0.1] * 3)
    descend(second, other, [0.3])
    second.load_state_dict(first.state_dict())
    with torch.no_grad():
        for a, b in zip(other, own, strict=True):
            a.copy_(b)
    descend(first, own, [0.1] * 3)
    descend(second, other, [0.1] * 3)
    assert_close(own, other, rtol=0, atol=0)


def test_gradients_are_forgotten():
    parameters = start()
    descend(optimiser := Adam(parameters), parameters, [0.1])
    optimiser.zero_grad()
    assert all(p.grad is None for p in parameters)
