import pytest
import torch
from torch import nn

from natpn.training import Descent, Trainee, TrainingError, minimise


class SquaredError(Trainee):
    def __init__(self, module):
        super().__init__()
        self.trained = self.module = module

    def forward(self, x, y):
        return (self.module(x)[:, 0] - y).square()


def rows(n=200):
    x = torch.randn(n, 2)
    return x, 1 + x @ torch.tensor([2.0, -1.0])


def test_any_loss_is_minimised():
    model = nn.Linear(2, 1)
    result = minimise(SquaredError(model), rows(), rows(), Descent(60, 32, 0.05, "one_cycle"), phase="line")
    assert model.weight[0].tolist() == pytest.approx([2.0, -1.0], abs=1e-3)
    assert model.bias.tolist() == pytest.approx([1.0], abs=1e-3)
    assert result.validation_loss < 1e-5
    assert {entry["phase"] for entry in result.history} == {"line"}
    assert not model.training


def test_the_seed_decides_and_the_global_generator_is_left_alone():
    data, found = rows(), []
    for seed in (0, 0, 1):
        torch.manual_seed(5)
        model = nn.Sequential(nn.Linear(2, 4), nn.Dropout(0.5), nn.Linear(4, 1))
        state = torch.get_rng_state()
        minimise(SquaredError(model), data, data, Descent(2, 32, 0.05), seed=seed)
        assert torch.equal(torch.get_rng_state(), state)
        found.append(model[0].weight.detach())
    assert torch.equal(found[0], found[1])
    assert not torch.equal(found[0], found[2])


def test_a_loss_that_is_not_a_number_ends_it():
    x, y = rows()
    with pytest.raises(TrainingError, match="phase 'training', epoch 1: the training loss"):
        minimise(SquaredError(nn.Linear(2, 1)), (x * float("nan"), y), (x, y), Descent(2, 32, 0.05))
