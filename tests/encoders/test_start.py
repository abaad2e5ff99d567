"""Latents of encoders with batch norm start around 0."""

import pytest
import torch
from torch.testing import assert_close

from natpn import encoders
from natpn.encoders.start import centre_latents


@pytest.mark.parametrize("name", ["resnet9", "image", "resnet18", "dense"])
def test_latents_start_around_zero_with_spread_one(name):
    torch.manual_seed(0)
    x = torch.randn(64, 3, 16, 16) * torch.linspace(0.1, 3, 64)[:, None, None, None]  # in the order of their contrast
    encoder = encoders.get(name, shape=(3, 16, 16), latent_dim=4).eval()
    encoders.fit_to_inputs(encoder, x)
    centre_latents(encoder, x)
    assert not encoder.training
    latents = encoder(x).flatten(0, -2).detach()
    assert_close(latents.mean(0), torch.zeros(4), rtol=0, atol=1e-4)
    assert_close(latents.std(0, correction=0), torch.ones(4), rtol=1e-3, atol=0)
    assert all(m.momentum == 0.1 for m in encoder.modules() if isinstance(m, torch.nn.BatchNorm2d))


def test_latents_in_training_are_those_in_evaluation():
    torch.manual_seed(0)
    x = torch.randn(512, 1, 16, 16) * torch.linspace(0.1, 3, 512)[:, None, None, None]  # in the order of their contrast
    encoder = encoders.get("resnet9", shape=(1, 16, 16), latent_dim=4)
    centre_latents(encoder, x)
    assert encoder.training
    in_training = encoder(x).detach()
    apart = (encoder.eval()(x).detach() - in_training).square().mean().sqrt()
    assert float(apart) < 0.05


def test_other_encoders_stay():
    encoder = encoders.get("tabular", n_features=3, latent_dim=2)
    before = {name: tensor.clone() for name, tensor in encoder.state_dict().items()}
    centre_latents(encoder, torch.randn(20, 3))
    assert_close(encoder.state_dict(), before, rtol=0, atol=0)
