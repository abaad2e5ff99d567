import numpy as np
import torch
from numpy.testing import assert_allclose

from paper.baselines.problems import clusters, counts, line, quick


def raw_outputs(model, X):
    """What each member of an ensemble says, (S, B, K)."""
    x = torch.from_numpy(model.inputs_.transform(X)).double()
    return np.stack([member(x).numpy() for member in model.network_.members])


def test_classes_vary_by_the_probability_of_the_winner():
    X, y = clusters(60)
    model = quick("Ensemble", "classes", ensemble_size=3).fit(X, y)
    members = np.exp(raw_outputs(model, X))
    members /= members.sum(-1, keepdims=True)
    mean = members.mean(0)
    found = model.predict_dist(X)
    assert_allclose(found.probabilities, mean, rtol=1e-9)
    assert_allclose(found.epistemic, members[:, np.arange(60), mean.argmax(1)].var(0), rtol=1e-9)
    assert_allclose(found.aleatoric, -(mean * np.log(mean)).sum(1), rtol=1e-9)


def test_numbers_vary_by_their_mean_in_the_users_units():
    X, y = line(60)
    model = quick("Ensemble", "normal", ensemble_size=3).fit(X, 100 * y + 7)
    raw = raw_outputs(model, X)
    scale, location = model.units_.scale[0], model.units_.location[0]
    mean, variance = raw[..., 0] * scale + location, (np.exp(raw[..., 1]) + 1e-6) * scale**2
    found = model.predict_dist(X)
    assert_allclose(found.mean(), mean.mean(0))
    assert_allclose(found.epistemic, mean.var(0), rtol=1e-6)
    assert_allclose(found.variance(), variance.mean(0) + mean.var(0))
    assert_allclose(found.aleatoric, 0.5 * np.log(2 * np.pi * np.e * variance.mean(0)))


def test_counts_vary_by_their_rate():
    X, y = counts(60)
    model = quick("Ensemble", "poisson", ensemble_size=3).fit(X, y)
    rates = np.exp(raw_outputs(model, X)[..., 0])
    found = model.predict_dist(X)
    assert_allclose(found.mean(), rates.mean(0))
    assert_allclose(found.epistemic, rates.var(0), rtol=1e-6)
