import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose
from scipy import integrate, optimize, stats

from natpn.distributions import Categorical, NegativeBinomial, StudentT
from natpn_paper.baselines.mixtures import mixture

LOC, SCALE = np.array([[0.0, 5.0], [1.0, -7.0], [3.0, 5.5]]), np.array([[1.0, 0.3], [0.2, 2.0], [2.0, 0.1]])
RATE = np.array([[0.3, 200.0], [4.0, 250.0], [9.0, 5.0]])
LEVELS = np.array([0.01, 0.1, 0.5, 0.77, 0.999])


def normals():
    return mixture(StudentT(torch.tensor(LOC), torch.tensor(SCALE), torch.full((3, 2), torch.inf).double()))


def poissons():
    return mixture(NegativeBinomial(torch.tensor(RATE), torch.full((3, 2), torch.inf).double()))


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
        mixture(Categorical(torch.full((2, 3), 1 / 3)))
