import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose
from scipy import stats

from natpn_paper.baselines.dirichlet import alpha_of, divergence, log_density
from paper.baselines.problems import clusters, quick

ALPHA = np.array([[1.0, 1.0, 1.0], [0.3, 2.0, 5.0], [101.0, 1.0, 1.0], [40.0, 30.0, 0.05]])


def test_the_density_is_scipys():
    p = np.random.default_rng(0).dirichlet([1, 2, 3], size=4)
    found = log_density(torch.tensor(p).log(), torch.tensor(ALPHA))
    assert_allclose(found, [stats.dirichlet.logpdf(row, alpha) for row, alpha in zip(p, ALPHA, strict=True)])


@pytest.mark.parametrize("beta", [[1.0, 1.0, 1.0], [101.0, 1.0, 1.0], [2.0, 0.7, 9.0]])
def test_the_divergence_is_torchs_closed_form(beta):
    other = torch.tensor(beta, dtype=torch.float64)
    of = torch.distributions.Dirichlet
    want = torch.distributions.kl_divergence(of(torch.tensor(ALPHA)), of(other.expand(4, 3)))
    assert_allclose(divergence(torch.tensor(ALPHA), other), want, rtol=1e-9, atol=1e-9)


def test_the_divergence_is_the_mean_log_ratio():
    alpha, beta = np.array([3.0, 1.5, 2.0]), np.array([1.0, 4.0, 1.0])
    p = np.random.default_rng(0).dirichlet(alpha, size=200_000)
    ratio = stats.dirichlet.logpdf(p.T, alpha) - stats.dirichlet.logpdf(p.T, beta)
    assert float(divergence(torch.tensor(alpha), torch.tensor(beta))) == pytest.approx(ratio.mean(), abs=0.02)


def test_any_outputs_have_finite_losses_and_gradients():
    raw = torch.tensor([[1e30, -1e30, 0.0], [-1e30, -1e30, -1e30], [50.0, 50.0, -50.0]], requires_grad=True)
    alpha = alpha_of(raw)
    loss = divergence(alpha, torch.ones(3, dtype=torch.float64)) - log_density(torch.full((3,), -1.1), alpha)
    loss.sum().backward()
    assert bool(loss.isfinite().all())
    assert bool(raw.grad.isfinite().all())


@pytest.mark.parametrize("name", ["R-PriorNet", "EnD2", "PostNet"])
def test_answers_are_those_of_the_dirichlet(name):
    X, y = clusters(60)
    model = quick(name, "classes").fit(X, y)
    alpha = np.exp(model.network_(torch.from_numpy(model.inputs_.transform(X)).double()).numpy())
    found = model.predict_dist(X)
    p = alpha / alpha.sum(1, keepdims=True)
    assert_allclose(found.probabilities, p)
    assert_allclose(found.epistemic, -np.log(alpha.sum(1)), atol=1e-9)
    assert_allclose(found.aleatoric, stats.entropy(p, axis=1))
