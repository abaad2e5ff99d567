"""The texture of pictures: energies of whitened patches."""

import pytest
import torch
from torch.nn import functional
from torch.testing import assert_close

from natpn.network.patch_energies import PatchEnergies


def noise(rows=300, channels=3, side=12, seed=0):
    return torch.randn(rows, channels, side, side, generator=torch.Generator().manual_seed(seed))


def smooth(x):
    return 3 * functional.avg_pool2d(x, 3, stride=1, padding=1)


@pytest.mark.parametrize("channels", [1, 3, 5])
def test_training_pictures_have_energies_near_one(channels):
    x = smooth(noise(channels=channels))
    energies = PatchEnergies(x.shape[1:]).fit(x)(x).exp()
    assert energies.shape == (len(x), min(9 * channels, 27))
    assert ((energies.mean(0) > 0.5) & (energies.mean(0) < 1.05)).all()


def test_a_change_that_can_hardly_be_seen_is_felt():
    x = smooth(smooth(smooth(noise())))
    bypass = PatchEnergies((3, 12, 12)).fit(x)
    before, after = bypass(x), bypass(x + 0.1 * x.std() * noise(seed=1))
    assert (after - before).amax(1).min() > 1
    blurred = bypass(smooth(x) * x.std() / smooth(x).std())
    assert (before - blurred).amax(1).min() > 0.5


def test_far_out_it_grows_with_the_square_of_the_picture():
    x = noise(4)
    bypass = PatchEnergies((3, 12, 12)).fit(noise())
    assert_close(bypass(1e8 * x) / bypass(1e6 * x), torch.full((4, 27), 1e4), rtol=1e-3, atol=0)
    assert bypass(torch.full_like(x, torch.inf)).isfinite().all()
    assert bypass(0 * x).isfinite().all()
    edge = torch.full((1, 1, 3, 3), 1.0)
    plain = PatchEnergies((1, 3, 3))
    low, high = (plain(edge * size) for size in (31.0, 32.5))
    assert (high > low).any()
    assert (high - low).abs().max() < 0.2


def test_leading_dimensions_only_group_pictures():
    x = noise(6)
    bypass = PatchEnergies((3, 12, 12)).fit(x)
    assert_close(bypass(x.unflatten(0, (2, 3))).flatten(0, 1), bypass(x))
    with torch.no_grad():
        many = noise(300)
        parts = bypass(many)
    assert_close(parts, bypass(many))


def test_wrong_pictures_are_named():
    with pytest.raises(ValueError, match=r"built for"):
        PatchEnergies((3, 12, 12)).fit(noise(side=11))
