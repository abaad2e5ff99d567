import numpy as np
import torch
from numpy.testing import assert_allclose
from scipy import stats

from paper.baselines.problems import clusters, line, quick


def test_probabilities_are_the_softmax_of_the_network():
    X, y = clusters(60)
    model = quick("StandardNet", "classes").fit(X, y)
    logits = model.network_(torch.from_numpy(model.inputs_.transform(X)).double())
    assert_allclose(model.predict_proba(X), logits.softmax(-1))
    assert_allclose(model.predict_dist(X).aleatoric, torch.distributions.Categorical(logits=logits).entropy())


def test_numbers_are_normal_in_the_users_units():
    X, y = line(60)
    model = quick("StandardNet", "normal").fit(X, 1000 * y)
    found = model.predict_dist(X)
    want = stats.norm(found.mean(), found.std())
    assert_allclose(found.log_prob(1000 * y), want.logpdf(1000 * y))
    assert_allclose(found.quantile([0.1, 0.9]), np.stack([want.ppf(0.1), want.ppf(0.9)], 1))
    assert_allclose(found.entropy(), want.entropy())
    assert_allclose(found.aleatoric, want.entropy())


def test_training_starts_from_the_distribution_of_all_targets():
    X, y = line(200)
    model = quick("StandardNet", "normal", learning_rate=1e-12).fit(X, y)
    assert_allclose(model.network_.decoder.bias, [0.0, 0.0], atol=1e-3)
