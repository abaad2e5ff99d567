import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose
from scipy import stats
from torch import nn

from natpn_paper.baselines.evidential import EvidentialLoss, NormalInverseGamma, read_parameters
from paper.baselines.problems import line, quick

RAW = np.random.default_rng(0).normal(size=(6, 4)) * 2


def parameters():
    gamma, nu, alpha, beta = RAW.T
    nu, alpha, beta = (np.log1p(np.exp(raw)) + 1e-6 for raw in (nu, alpha, beta))
    return gamma, nu, alpha + 1, beta


def test_outputs_become_parameters():
    assert_allclose(np.stack(read_parameters(torch.tensor(RAW))), np.stack(parameters()))


def test_the_loss_is_scipys_students_t_with_the_regulariser():
    gamma, nu, alpha, beta = parameters()
    y = np.linspace(-2, 2, 6)
    t = stats.t(2 * alpha, gamma, np.sqrt(beta * (1 + nu) / (nu * alpha)))
    found = EvidentialLoss(nn.Identity(), 0.3)(torch.tensor(RAW), torch.tensor(y))
    assert_allclose(found, -t.logpdf(y) + 0.3 * np.abs(y - gamma) * (2 * nu + alpha))


def test_the_predictive_is_that_of_draws_of_mean_and_variance():
    found = NormalInverseGamma(*(torch.tensor(v, dtype=torch.float64) for v in (1.0, 3.0, 6.0, 4.0)))
    generator = np.random.default_rng(0)
    variance = 4.0 / generator.gamma(6.0, size=400_000)
    mean = 1.0 + np.sqrt(variance / 3.0) * generator.normal(size=400_000)
    y = mean + np.sqrt(variance) * generator.normal(size=400_000)
    assert float(found.variance()) == pytest.approx(variance.mean(), rel=0.01)
    assert float(found.predictive().variance) == pytest.approx(y.var(), rel=0.02)
    levels = [0.05, 0.5, 0.95]
    assert_allclose(found.predictive().icdf(torch.tensor(levels)), np.quantile(y, levels), atol=0.02)


def test_answers_are_in_the_users_units():
    X, y = line(60)
    model = quick("EvReg", "normal").fit(X, 100 * y + 7)
    raw = model.network_(torch.from_numpy(model.inputs_.transform(X)).double())
    gamma, nu, alpha, beta = (part.numpy() for part in read_parameters(raw))
    scale, location = model.units_.scale[0], model.units_.location[0]
    found = model.predict_dist(X)
    want = stats.t(2 * alpha, gamma * scale + location, scale * np.sqrt(beta * (1 + nu) / (nu * alpha)))
    assert_allclose(found.mean(), want.mean())
    assert_allclose(found.quantile(0.9), want.ppf(0.9))
    assert_allclose(found.log_prob(y), want.logpdf(y))
    assert_allclose(found.aleatoric, 0.5 * np.log(2 * np.pi * np.e * scale**2 * beta / (alpha - 1)))
    assert_allclose(found.epistemic, -np.log(nu))


def test_wrong_regularisation_is_named():
    with pytest.raises(ValueError, match="regularisation: expected a number from 0, got -1"):
        quick("EvReg", "normal", regularisation=-1).fit(*line(20))
