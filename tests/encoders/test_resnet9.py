"""The residual network for pictures, and the patches that its first layer is made of."""

import pytest
import torch
from torch import nn
from torch.nn import functional
from torch.testing import assert_close

from natpn.encoders import ResNet9Encoder
from natpn.encoders.patches import patch_components


def smooth(rows=200, channels=3, side=12):
    """Return pictures whose neighbouring pixels and channels are alike."""
    noise = torch.randn(rows, 1, side + 2, side + 2, generator=torch.Generator().manual_seed(0))
    own = torch.randn(rows, channels, side + 2, side + 2, generator=torch.Generator().manual_seed(1))
    return functional.avg_pool2d(noise + 0.3 * own, 3, stride=1)


@pytest.mark.parametrize(("channels", "width", "filters"), [(3, 64, 12), (1, 32, 9)])
def test_layers(channels, width, filters):
    encoder = ResNet9Encoder((channels, 32, 32), latent_dim=5)
    convolutions = [layer for layer in encoder.modules() if isinstance(layer, nn.Conv2d)]
    assert [layer.out_channels for layer in convolutions] == [n for w in (1, 2, 4) for n in (w * width, w * width)]
    assert convolutions[0].in_channels == 2 * filters
    assert encoder.filters.shape == (filters, channels, 3, 3)
    assert encoder.stages(torch.zeros(2, 2 * filters, 28, 19)).shape == (2, 4 * width, 4, 3)


def test_components_of_patches_are_those_of_their_scatter():
    images = smooth()
    variance, direction = patch_components(images)
    assert direction.shape == (27, 3, 3, 3)
    assert (variance.diff() <= 0).all()
    response = functional.conv2d(images.double(), direction, padding=1)
    flat = response.transpose(0, 1).flatten(1)
    assert_close(flat @ flat.T / flat.shape[1], torch.diag(variance), atol=1e-9, rtol=1e-6)
    again = patch_components(-images.flip(0))[1]
    assert_close(direction, again, atol=1e-6, rtol=1e-6)


def test_fitted_filters_have_responses_of_variance_one():
    images = smooth()
    encoder = ResNet9Encoder((3, 12, 12)).fit_filters(images)
    response = functional.conv2d(images, encoder.filters, padding=1).transpose(0, 1).flatten(1)
    assert_close(response.square().mean(1), torch.ones(12), rtol=0.15, atol=0)
    assert not any(parameter is encoder.filters for parameter in encoder.parameters())


def test_pictures_are_seen_in_parts_of_any_number():
    encoder = ResNet9Encoder((1, 8, 8), latent_dim=3, width=4).eval()
    x = torch.randn(300, 1, 8, 8, generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        parts = encoder(x)
    assert_close(parts, encoder(x).detach())


@pytest.mark.parametrize("width", [0, True, 1.5])
def test_width_is_checked(width):
    with pytest.raises(ValueError, match="width"):
        ResNet9Encoder(width=width)


def test_patches_need_pictures():
    with pytest.raises(ValueError, match=r"images: expected at least one picture, .* got shape \(4, 5\)"):
        patch_components(torch.zeros(4, 5))


@pytest.mark.parametrize("channels", [1, 3])
def test_maps_have_their_channels_last(channels):
    encoder = ResNet9Encoder((channels, 8, 8), width=4)
    seen = []
    for layer in encoder.stages.modules():
        if isinstance(layer, nn.Conv2d | nn.MaxPool2d):
            layer.register_forward_hook(
                lambda _, inputs, output: seen.append(inputs[0].is_contiguous(memory_format=torch.channels_last))
            )
    encoder(torch.randn(4, channels, 8, 8))
    assert len(seen) == 9
    assert all(seen)


def _types_in_convolutions(encoder, x):
    found = set()
    for layer in encoder.modules():
        if isinstance(layer, nn.Conv2d):
            layer.register_forward_hook(lambda _, inputs, output: found.add(output.dtype))
    latent = encoder(x)
    assert latent.dtype == x.dtype
    return found


@pytest.mark.parametrize(
    ("fast", "allowed", "training", "type_", "want"),
    [
        (True, True, True, torch.float32, torch.bfloat16),
        (False, True, True, torch.float32, torch.float32),
        (True, False, True, torch.float32, torch.float32),
        (True, True, False, torch.float32, torch.float32),
        (True, True, True, torch.float64, torch.float64),
    ],
)
def test_only_steps_of_training_are_in_half_precision(monkeypatch, fast, allowed, training, type_, want):
    monkeypatch.setattr(torch.cpu, "get_capabilities", lambda: {"avx512_bf16": fast}, raising=False)
    encoder = ResNet9Encoder((3, 8, 8), width=4, half_precision=allowed).to(type_).train(training)
    assert _types_in_convolutions(encoder, torch.randn(4, 3, 8, 8, dtype=type_)) == {want}


def test_gradients_in_half_precision_are_those_in_full(monkeypatch):
    x = smooth(64, side=16)
    gradients = []
    for fast in (True, False):
        monkeypatch.setattr(torch.cpu, "get_capabilities", lambda fast=fast: {"amx_bf16": fast}, raising=False)
        torch.manual_seed(0)
        encoder = ResNet9Encoder((3, 16, 16), width=8)
        encoder(x)[:, 0].square().sum().backward()
        kernels = [p for p in encoder.parameters() if p.ndim == 4]
        assert all(kernel.grad.dtype == torch.float32 for kernel in kernels)
        gradients.append(torch.cat([kernel.grad.flatten() for kernel in kernels]))
    half, full = gradients
    assert not torch.equal(half, full)
    assert functional.cosine_similarity(half, full, 0) > 0.95
