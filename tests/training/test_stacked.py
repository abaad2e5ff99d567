"""Members that are stacked say what they say alone."""

import pytest
import torch
from torch.testing import assert_close

from natpn import encoders, families
from natpn.network import NaturalPosteriorNetwork
from natpn.training.losses import StackedNetworks, stackable


def member(family, seed=0, encoding="plain", knots=0, **options):
    rows = torch.randn(50, 4, generator=torch.Generator().manual_seed(knots))
    torch.manual_seed(seed)
    encoder = encoders.get("tabular", n_features=4, latent_dim=5, hidden=8, encoding=encoding)
    network = NaturalPosteriorNetwork(encoder.fit_knots(rows), family, latent_dim=5, **options)
    network.normalisation.running_mean.normal_()
    network.normalisation.running_variance.uniform_(0.5, 2)
    return network


@pytest.mark.parametrize("encoding", ["plain", "piecewise"])
@pytest.mark.parametrize("training", [True, False])
def test_stacked_members_are_the_members(encoding, training):
    members = [member(families.get("normal"), seed, encoding) for seed in range(3)]
    stacked = StackedNetworks(members).train(training)
    x = torch.randn(3, 16, 4)
    latent, raw = stacked.read(stacked.encoder(x))
    raw.square().sum().backward()
    for i, network in enumerate(members):
        network.train(training).normalisation.eval()
        want_latent, want_raw = network.represent(x[i])
        assert_close(latent[i], want_latent, rtol=1e-4, atol=1e-4)
        assert_close(raw[i], want_raw, rtol=1e-4, atol=1e-4)
        want_raw.square().sum().backward()
        assert_close(
            stacked.encoder.layers[0].weight.grad[i].T, network.encoder.layers[0].weight.grad, rtol=1e-4, atol=1e-4
        )


def test_stacked_weights_can_be_written_back():
    members = [member(families.get("poisson"), seed) for seed in range(2)]
    stacked = StackedNetworks(members)
    assert sum(p.numel() for p in stacked.parameters()) == sum(
        p.numel() for m in members for part in (m.encoder, m.decoder) for p in part.parameters()
    )
    x = torch.randn(2, 16, 4)
    stacked.read(stacked.encoder(x))
    with torch.no_grad():
        for p in stacked.parameters():
            p.add_(0.1)
        want = stacked.eval().read(stacked.encoder(x))[1]
    stacked.unstack()
    for network, rows, raw in zip(members, x, want, strict=True):
        assert_close(network.eval().represent(rows)[1], raw)


def test_what_cannot_be_stacked():
    family = families.get("poisson")
    image = NaturalPosteriorNetwork(encoders.get("image", shape=(1, 8, 8)), family)
    assert not stackable([image, image])
    assert not stackable([member(family), member(family, encoding="piecewise")])
    assert stackable([member(family), member(family, 1, density="radial")])
    assert stackable([member(family, s, "both") for s in (0, 1)])
    assert not stackable([member(family, s, "both", knots=s) for s in (0, 1)])
    with pytest.raises(ValueError, match="same architecture"):
        StackedNetworks([image, image])
