"""Orthogonal steps: what they are, which parameters take them, and that they go on from a state."""

import pytest
import torch
from torch import nn
from torch.testing import assert_close

from natpn import encoders, families
from natpn.encoders.base import ScaleFreeConvolution, convolution
from natpn.network import NaturalPosteriorNetwork
from natpn.training import Paper, Staged, fit
from natpn.training.by_hand import FlatParameters
from natpn.training.orthogonal import TIMES, OrthogonalSteps, orthogonal, scale_free_kernels


def pictures(rows=48):
    generator = torch.Generator().manual_seed(0)
    return torch.randn(rows, 1, 8, 8, generator=generator), torch.arange(rows) % 3


def network():
    torch.manual_seed(0)
    encoder = encoders.get("resnet9", shape=(1, 8, 8), latent_dim=3, width=4)
    return NaturalPosteriorNetwork(encoder, families.get("categorical", n_classes=3), latent_dim=3)


@pytest.mark.parametrize("shape", [(5, 40), (40, 5), (16, 16)])
@pytest.mark.parametrize("scale", [1e-6, 1.0, 1e6])
def test_singular_vectors_stay_and_their_values_come_near_1(shape, scale):
    torch.manual_seed(1)
    left, _ = torch.linalg.qr(torch.randn(shape[0], min(shape), dtype=torch.float64))
    right, _ = torch.linalg.qr(torch.randn(shape[1], min(shape), dtype=torch.float64))
    values = torch.logspace(-1, 0, min(shape), dtype=torch.float64)
    found = left.T @ orthogonal(scale * (left * values) @ right.T) @ right
    assert_close(found, torch.diag(found.diag()), atol=1e-9, rtol=0)
    assert found.diag().min() > 0.6
    assert found.diag().max() < 1.2


def test_a_gradient_of_0_is_no_direction():
    assert torch.equal(orthogonal(torch.zeros(3, 4)), torch.zeros(3, 4))


def test_kernels_move_and_the_rest_of_the_gradient_stays():
    layers = convolution(2, 4, kind=ScaleFreeConvolution)
    kernel, other = layers[0].weight, layers[1].weight
    flat = FlatParameters(layers.parameters())
    before, gradient = kernel.detach().clone(), torch.randn(1, flat.value.shape[1])
    parts = [part.clone() for part in flat.views(gradient)]
    steps = OrthogonalSteps(flat, scale_free_kernels(layers))
    steps.step(gradient, 0.01)
    # the sum of past gradients starts at 0: the first step is along the gradient itself
    moved = before * 2 / before.norm() - 0.01 * TIMES * orthogonal(1.6 * parts[0].flatten(1)).view_as(before)
    assert_close(kernel.detach(), moved)
    assert torch.equal(other.detach(), torch.ones(4))
    assert_close(flat.views(gradient), [torch.zeros_like(before), *parts[1:]])
    # the second remembers the first
    second = torch.randn_like(gradient)
    own = flat.views(second)[0].clone()
    steps.step(second, 0.01)
    direction = orthogonal((1.6 * own + 0.36 * parts[0]).flatten(1)).view_as(before)
    assert_close(kernel.detach(), moved * 2 / moved.norm() - 0.01 * TIMES * direction)


def test_kernels_are_those_that_say_so():
    module = network()
    convolutions = [layer for layer in module.modules() if isinstance(layer, nn.Conv2d)]
    assert len(scale_free_kernels(module)) == len(convolutions) == 6
    assert not scale_free_kernels(encoders.get("dense", shape=(1, 8, 8), latent_dim=3))
    # a kernel that is calculated from another parameter is not moved
    assert not scale_free_kernels(nn.utils.parametrizations.spectral_norm(ScaleFreeConvolution(1, 2, 3)))
    assert not scale_free_kernels(ScaleFreeConvolution(1, 2, 3).requires_grad_(False))


@pytest.mark.parametrize(
    ("scheme", "is_unit"),
    [
        (Staged(max_epochs=1, averaging=0.0), True),
        (Paper(max_epochs=1), False),
        (Paper(max_epochs=1, schedule="one_cycle"), True),
    ],
)
def test_a_cycle_takes_orthogonal_steps_and_a_constant_rate_does_not(scheme, is_unit):
    module = network()
    kernel = scale_free_kernels(module)[0]
    kernel.data *= 3
    fit(module, pictures(), pictures(), scheme=scheme, seed=0)
    # after a step, it has the length √n but for that step
    assert (abs(float(kernel.detach().norm()) / len(kernel) ** 0.5 - 1) < 0.1) == is_unit


def test_steps_go_on_from_a_state():
    torch.manual_seed(2)
    start = torch.randn(4, 2, 3, 3)
    gradients = [torch.randn(1, start.numel()) for _ in range(6)]
    found = []
    for stop in (None, 3):
        kernel = nn.Parameter(start.clone())
        flat = FlatParameters([kernel])
        steps = OrthogonalSteps(flat, [kernel])
        for i, gradient in enumerate(gradients):
            if i == stop:
                state = {"momentum": [m.clone() for m in steps.state_dict()["momentum"]]}
                steps = OrthogonalSteps(flat, [kernel])
                steps.load_state_dict(state)
            steps.step(gradient.clone(), 0.01)
        found.append(kernel.detach().clone())
    assert torch.equal(*found)
