"""Sampling models: what they say of their members, and the mixtures that they predict."""

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose
from scipy import integrate, optimize, stats

from natpn.families import CategoricalDistribution, NegativeBinomialDistribution, StudentT
from natpn_paper.baselines.members import mixture
from paper.baselines.problems import clusters, counts, line, quick

LOC, SCALE = np.array([[0.0, 5.0], [1.0, -7.0], [3.0, 5.5]]), np.array([[1.0, 0.3], [0.2, 2.0], [2.0, 0.1]])
RATE = np.array([[0.3, 200.0], [4.0, 250.0], [9.0, 5.0]])
LEVELS = np.array([0.01, 0.1, 0.5, 0.77, 0.999])


def normals():
    return mixture(StudentT(torch.tensor(LOC), torch.tensor(SCALE), torch.full((3, 2), torch.inf).double()))


def poissons():
    return mixture(NegativeBinomialDistribution(torch.tensor(RATE), torch.full((3, 2), torch.inf).double()))


def test_moments():
    for found, mean, variance in ((normals(), LOC, SCALE**2), (poissons(), RATE, RATE)):
        want = mean.mean(0)
        assert_allclose(found.mean, want)
        assert_allclose(found.variance, (variance + mean**2).mean(0) - want**2)


def test_densities_are_averaged():
    y = np.array([[0.5, 3.0], [2.0, -1.0]])
    assert_allclose(normals().log_prob(torch.tensor(y)).exp(), stats.norm.pdf(y[:, None], LOC, SCALE).mean(1))
    assert_allclose(normals().cdf(torch.tensor(y)), stats.norm.cdf(y[:, None], LOC, SCALE).mean(1))
    assert_allclose(normals().cdf(torch.tensor(0.5)), stats.norm.cdf(0.5, LOC, SCALE).mean(0))
    k = np.array([3.0, 210.0])
    assert_allclose(poissons().log_prob(torch.tensor(k)).exp(), stats.poisson.pmf(k, RATE).mean(0))
    assert_allclose(poissons().cdf(torch.tensor(k)), stats.poisson.cdf(k, RATE).mean(0))


def test_quantiles_of_normals_are_roots():
    found = normals().icdf(torch.tensor(LEVELS)[:, None])
    for i, q in enumerate(LEVELS):
        for j in range(2):
            members = stats.norm(LOC[:, j], SCALE[:, j])
            root = optimize.brentq(lambda y, m=members, q=q: m.cdf(y).mean() - q, -50, 50, xtol=1e-13)
            assert float(found[i, j]) == pytest.approx(root, rel=1e-9, abs=1e-9)


def test_quantiles_of_counts_are_the_smallest_that_reach_the_level():
    found = poissons().icdf(torch.tensor(LEVELS)[:, None]).numpy()
    table = stats.poisson.cdf(np.arange(1000)[:, None, None], RATE).mean(1)
    want = (table[None] < LEVELS[:, None, None]).sum(1)
    assert_allclose(found, want)


def test_the_ends():
    assert normals().icdf(torch.tensor(0.0)).tolist() == [-np.inf, -np.inf]
    assert normals().icdf(torch.tensor(1.0)).tolist() == [np.inf, np.inf]
    assert poissons().icdf(torch.tensor(0.0)).tolist() == [0.0, 0.0]
    assert poissons().icdf(torch.tensor(1.0)).tolist() == [np.inf, np.inf]


def test_entropies_against_integrals_and_sums():
    for j in range(2):

        def integrand(y, j=j):
            p = stats.norm.pdf(y, LOC[:, j], SCALE[:, j]).mean()
            return -p * np.log(p) if p > 0 else 0.0

        want = integrate.quad(integrand, -25, 25, points=LOC[:, j], limit=400)[0]
        assert float(normals().entropy()[j]) == pytest.approx(want, abs=0.02)
    p = stats.poisson.pmf(np.arange(1000)[:, None, None], RATE).mean(1)
    assert_allclose(poissons().entropy(), -np.where(p > 0, p * np.log(np.where(p > 0, p, 1)), 0).sum(0), atol=1e-6)


def test_a_mixture_of_one_is_its_member():
    member = StudentT(torch.tensor(LOC), torch.tensor(SCALE), torch.full((3, 2), torch.inf).double())
    one = mixture(StudentT(member.loc[None], member.scale[None], member.df[None]))
    q = torch.tensor(LEVELS)[:, None, None]
    y = member.loc + 1
    for found, want in ((one.icdf(q), member.icdf(q)), (one.cdf(y), member.cdf(y)), (one.entropy(), member.entropy())):
        assert_allclose(found, want, rtol=1e-9)
    assert_allclose(one.log_prob(y), member.log_prob(y), rtol=1e-9)


def test_samples_have_the_moments():
    for found in (normals(), poissons()):
        drawn = found.sample((100_000,)).double()
        assert_allclose(drawn.mean(0), found.mean, atol=5 * float(found.variance.max() / 100_000) ** 0.5)
        assert_allclose(drawn.var(0), found.variance, rtol=0.03)


def test_other_members_are_refused():
    with pytest.raises(ValueError, match="members: expected Normal distributions or counts, got Categorical"):
        mixture(CategoricalDistribution(torch.full((2, 3), 1 / 3)))


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
