"""What rows after training add to a network: one sum of densities, and predictions by shares of it."""

import numpy as np
import pytest
import torch
from scipy.special import logsumexp

from natpn import families
from natpn.densities import GaussianMixture
from natpn.network import Feedback, default_network
from natpn.network.feedback import mixture_of


@pytest.fixture
def parts():
    torch.manual_seed(0)
    feedback = Feedback(5, 2).double().requires_grad_(False)
    feedback.log_ratio.fill_(-1.2)
    feedback.event_weight.fill_(3.0)
    raw, features = torch.randn(40, 2, dtype=torch.float64), torch.randn(40, 5, dtype=torch.float64)
    return feedback, raw, features, torch.randn(40, dtype=torch.float64) - 8, -torch.rand(40, dtype=torch.float64)


def test_densities_are_added_and_decoders_mixed_by_their_shares(parts):
    feedback, raw, features, log_density, met = parts
    found_raw, found = feedback(raw, features, log_density, met)
    own = feedback.density(features).numpy() - 1.2 + 3.0 * met.numpy()
    both = logsumexp(np.stack([log_density.numpy(), own]), axis=0)
    share = np.exp(own - both)[:, None]
    np.testing.assert_allclose(found, both, rtol=1e-12)
    expected = (1 - share) * raw.numpy() + share * feedback.decoder(features).numpy()
    np.testing.assert_allclose(found_raw, expected, rtol=1e-10)
    assert 0.01 < share.mean() < 0.99


def test_the_numpy_form_is_the_same(parts):
    feedback, *inputs = parts
    quick = feedback.in_numpy()(*(part.numpy() for part in inputs))
    for a, b in zip(quick, feedback(*inputs), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-9)


def test_where_new_rows_are_not_nothing_changes(parts):
    feedback, raw, features, log_density, met = parts
    feedback.log_ratio.fill_(-1e6)
    found_raw, found = feedback(raw, features, log_density, met)
    assert torch.equal(found_raw, raw)
    assert torch.equal(found, log_density)


def test_the_mixture_of_a_density():
    network = default_network(3, families.get("normal"), 100, surprise=True)
    assert isinstance(mixture_of(network.density), GaussianMixture)
    assert mixture_of(default_network(3, families.get("normal"), 100, density="radial").density) is None
