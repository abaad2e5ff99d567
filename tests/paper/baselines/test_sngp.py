import math

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose
from torch import nn
from torch.nn.utils import parametrize

from natpn.encoders import TabularEncoder
from natpn_paper.baselines import SNGPClassifier
from natpn_paper.baselines.sngp import (
    GaussianProcessNetwork,
    PosteriorModeLoss,
    SpectralBound,
    bound_layers,
    release_layers,
)
from paper.baselines.problems import clusters, quick


@pytest.mark.parametrize("bound", [0.5, 1.0])
def test_fitted_layers_stay_below_the_bound(bound):
    X, y = clusters(200)
    model = quick("SNGP", "classes", norm_bound=bound, max_epochs=20, learning_rate=0.05).fit(X, y)
    layers = [m for m in model.network_.encoder.modules() if isinstance(m, nn.Linear)]
    norms = [np.linalg.svd(layer.weight.numpy(), compute_uv=False)[0] for layer in layers]
    assert len(norms) == 4
    assert max(norms) <= bound * (1 + 1e-5)
    assert max(norms) > 0.9 * bound
    assert not any(parametrize.is_parametrized(m) for m in model.network_.modules())


def test_power_iteration_finds_the_norm_and_leaves_small_weights():
    weight = torch.randn(5, 4, 3)
    bounded = SpectralBound(torch.randn(5, 4, 3), 0.7).train()
    for _ in range(100):
        found = bounded(weight)
    assert float(torch.linalg.matrix_norm(found.flatten(1), 2)) == pytest.approx(0.7, rel=1e-4)
    assert_allclose(bounded.eval()(weight), found, rtol=1e-4)
    assert torch.equal(bounded(1e-3 * weight), 1e-3 * weight)


def test_release_keeps_the_function():
    encoder = TabularEncoder(3, 4)
    bound_layers(encoder, 0.5)
    x = torch.randn(5, 3)
    before = encoder.eval()(x)
    release_layers(encoder)
    assert_allclose(encoder(x).detach(), before.detach(), rtol=1e-6)


def test_the_covariance_is_the_inverse_of_the_laplace_precision():
    network = GaussianProcessNetwork(nn.Identity(), 3, 2, 8, 1.5).double().eval()
    x, weight = torch.randn(50, 3).double(), torch.rand(50).double()
    network.fit_covariance(x, weight, 0.3)
    frequencies, phases = network.frequencies.numpy(), network.phases.numpy()
    z = x.numpy() / np.sqrt(1 + 1e-5)
    phi = np.sqrt(2 / 8) * np.cos(z @ frequencies.T + phases)
    want = np.linalg.inv(0.3 * np.eye(8) + (phi * weight.numpy()[:, None]).T @ phi)
    assert_allclose(network.covariance, want, rtol=1e-9)
    assert_allclose(network(x)[:, -1].detach(), np.einsum("ni,ij,nj->n", phi, want, phi))


def test_random_features_approach_the_kernel():
    network = GaussianProcessNetwork(nn.Identity(), 3, 2, 4000, 2.0).eval()
    x = torch.randn(6, 3)
    phi = network.features(x)
    distance = torch.cdist(x, x)
    assert_allclose(phi @ phi.T, torch.exp(-distance.square() / (2 * 2.0**2)), atol=0.08)


def test_logits_are_tempered_by_their_variance():
    X, y = clusters(60)
    model = quick("SNGP", "classes").fit(X, y)
    raw = model.network_(torch.from_numpy(model.inputs_.transform(X)).double())
    logits, variance = raw[:, :-1], raw[:, -1:]
    found = model.predict_dist(X)
    assert_allclose(found.probabilities, (logits / (1 + math.pi / 8 * variance).sqrt()).softmax(-1))
    assert_allclose(found.epistemic, variance[:, 0])


def test_the_loss_is_that_of_the_posterior_mode():
    network = GaussianProcessNetwork(nn.Identity(), 3, 2, 8, 1.0).eval()
    nn.init.normal_(network.decoder.weight)
    x, y = torch.randn(5, 3), torch.tensor([0.0, 1, 1, 0, 1])
    want = nn.functional.cross_entropy(network(x)[:, :-1], y.long()) + network.decoder.weight.square().sum() / 80
    assert_allclose(PosteriorModeLoss(network, 40.0).eval()(x, y).mean().detach(), want.detach(), rtol=1e-6)


@pytest.mark.slow
def test_uncertainty_grows_away_from_the_data():
    X, y = clusters(400)
    model = SNGPClassifier(max_epochs=40, random_state=0).fit(X, y)
    assert model.score_samples(5 * X).mean() < 3 * model.score_samples(X).mean()


@pytest.mark.parametrize("name", ["norm_bound", "n_features", "length_scale", "ridge"])
def test_wrong_parameters_are_named(name):
    with pytest.raises(ValueError, match=f"{name}: expected"):
        quick("SNGP", "classes", **{name: 0}).fit(*clusters(20))
