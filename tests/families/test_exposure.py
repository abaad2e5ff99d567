"""Counts with an exposure: exact for Poisson, in mean and variance for the negative binomial, refused by others."""

import mpmath as mp
import numpy as np
import pytest
import torch
from scipy import stats
from torch.testing import assert_close

from natpn import families
from natpn.families import FAMILIES, ExposedCounts, Family, NegativeBinomial, Poisson

_NEEDED = {"categorical": {"n_classes": 3}}
PAIRS = torch.tensor([[3.0, 2.0], [9.0, 4.0], [0.0, 0.25], [500.0, 130.0]], dtype=torch.float64)


def posterior(family: Family, chi: float, n: float, exposure: float):
    evidence = family.evidence(torch.tensor([chi], dtype=torch.float64), float(np.log(n)))
    return family.at_exposure(evidence, torch.tensor(exposure, dtype=torch.float64))


@pytest.mark.parametrize("exposure", [1e-6, 0.2, 1.0, 7.0, 1e6])
@pytest.mark.parametrize(("chi", "n"), [(0.5, 2.0), (30.0, 500.0)])
def test_a_poisson_count_is_negative_binomial_at_any_exposure(chi, n, exposure):
    found = posterior(Poisson(), chi, n, exposure).predictive()
    alpha, beta = n * chi, n  # of the Gamma
    y = torch.tensor([0.0, 1.0, float(round(chi * exposure)), float(round(2 * chi * exposure) + 3)])
    expected = stats.nbinom(alpha, beta / (beta + exposure)).logpmf(y.numpy())
    assert_close(found.log_prob(y), torch.from_numpy(expected), rtol=1e-8, atol=1e-8)


def test_observed_counts_add_to_the_gamma_as_bayes_says():
    """Against mpmath: ∏ Poisson(y | eλ) · Gamma(λ | α, β), integrated over λ."""
    family, prior = ExposedCounts(Poisson()), (1.5, 0.8)
    with torch.no_grad():
        start = family.evidence(torch.tensor([prior[0] / prior[1]], dtype=torch.float64), float(np.log(prior[1])))
        updated = start + family.observe(PAIRS).sum(0)
        found = family.posterior(updated).at(torch.tensor(3.0)).predictive().log_prob(torch.tensor(8.0))
    with mp.workdps(40):
        alpha = mp.mpf(prior[0]) + mp.fsum(PAIRS[:, 0].tolist())
        beta = mp.mpf(prior[1]) + mp.fsum(PAIRS[:, 1].tolist())
        y, e = 8, 3
        expected = (
            mp.loggamma(alpha + y)
            - mp.loggamma(alpha)
            - mp.loggamma(y + 1)
            + alpha * mp.log(beta / (beta + e))
            + y * mp.log(e / (beta + e))
        )
    assert float(found) == pytest.approx(float(expected), rel=1e-10)


@pytest.mark.parametrize("exposure", [0.01, 1.0, 1000.0])
@pytest.mark.parametrize(("r", "chi", "n"), [(2.0, 3.0, 20.0), (0.5, 1.0, 5.0), (100.0, 1.0, 0.5), (4.0, 0.1, 300.0)])
def test_over_dispersion_does_not_vanish_with_exposure(r, chi, n, exposure):
    """Against the mixture of NB(eμ, r) over μ ~ Gamma(nχ, n): the same mean and variance, and a cdf that is near."""
    found = posterior(NegativeBinomial(r), chi, n, exposure).predictive()
    mean, square = exposure * chi, exposure**2 * (chi**2 + chi / n)
    assert float(found.mean) == pytest.approx(mean, rel=1e-9)
    assert float(found.variance) == pytest.approx(mean + square * (1 + 1 / r) - mean**2, rel=1e-9)
    assert float(found.variance) > mean**2 / r
    rate = exposure * stats.gamma(n * chi, scale=1 / n).ppf((np.arange(5_000) + 0.5) / 5_000)
    y = np.array([0.0, np.floor(mean / 3), np.floor(mean), np.floor(3 * mean)])
    exact = [stats.nbinom.cdf(k, r, r / (r + rate)).mean() for k in y]
    assert_close(found.cdf(torch.from_numpy(y)), torch.tensor(exact, dtype=torch.float64), rtol=0, atol=0.04)


def test_a_large_size_is_poisson():
    one, other = (posterior(family, 3.0, 2.0, 50.0).predictive() for family in (NegativeBinomial(1e10), Poisson()))
    y = torch.tensor([0.0, 100.0, 400.0])
    assert_close(one.log_prob(y), other.log_prob(y), rtol=1e-6, atol=1e-6)


def test_the_marginal_has_the_variance_of_counts_over_their_exposures():
    generator = np.random.default_rng(0)
    e = np.exp(generator.uniform(-2, 2, 20_000))
    y = generator.poisson(e * 4 * generator.gamma(3, 1 / 3, 20_000) * generator.gamma(2, 1 / 2, 20_000))
    pairs = torch.from_numpy(np.stack([y, e], 1).astype(float))
    for family in (Poisson(), NegativeBinomial(3.0)):
        prior = ExposedCounts(family).marginal(pairs)
        variance = family.at_exposure(prior, torch.tensor(1.0)).predictive().variance
        assert float(variance) == pytest.approx(4 + 16 * (1 / 3 + 1 / 2 + 1 / 6), rel=0.1)


@pytest.mark.parametrize("family", [Poisson(), NegativeBinomial(None)], ids=repr)
def test_an_exposure_of_one_changes_nothing(family):
    exposed, y = ExposedCounts(family), torch.tensor([0.0, 2.0, 5.0, 40.0], dtype=torch.float64)
    pairs, weight = torch.stack([y, torch.ones(4)], 1), torch.tensor([1.0, 2.0, 1.0, 3.0])
    raw = torch.tensor([[0.1], [0.5], [2.0], [3.0]], dtype=torch.float64)
    evidence, chi = family.evidence(family.link(raw), 2.0), family.link(raw)
    assert_close(exposed.log_likelihood(raw, pairs), family.log_likelihood(raw, y))
    assert_close(exposed.marginal(pairs, weight).wide(), family.marginal(y, weight).wide())
    for method in ("surprise", "loss"):
        one, other = (getattr(f.posterior(evidence), method)(t, weight) for f, t in ((exposed, pairs), (family, y)))
        assert one == pytest.approx(other, rel=1e-12)
    assert_close(
        exposed.posterior(evidence).expected_log_likelihood(pairs),
        family.posterior(evidence).expected_log_likelihood(y),
    )
    assert exposed.noise_share(chi, pairs, weight.double()) == pytest.approx(
        family.noise_share(chi, y, weight.double()), rel=1e-9
    )
    assert exposed.refined(raw, pairs, weight) == ExposedCounts(family.refined(raw, y, weight))


def test_the_marginal_rate_is_that_of_all_exposure_together():
    prior = ExposedCounts(Poisson()).marginal(PAIRS)
    assert float(prior.chi) == pytest.approx(512 / 136.25, rel=1e-6)


def test_the_slope_of_training_is_that_of_the_offset():
    family, raw = ExposedCounts(Poisson()), torch.tensor([[0.3], [0.5], [-1.0], [1.2]], dtype=torch.float64)
    value, slope = family.training_slope(raw, PAIRS, torch.zeros(1), torch.ones(4, dtype=torch.float64))
    mean = PAIRS[:, 1] * raw[:, 0].exp()
    assert_close(slope[:, 0], mean - PAIRS[:, 0])
    assert_close(value, -torch.from_numpy(stats.poisson(mean.numpy()).logpmf(PAIRS[:, 0].numpy())))


@pytest.mark.parametrize("name", FAMILIES)
def test_every_family_takes_exposures_or_says_why_not(name):
    family = families.get(name, **FAMILIES[name].parameters(np.ones((4, 3))) | _NEEDED.get(name, {}))
    if family.no_exposure is None:
        chi = torch.ones(1, dtype=torch.float64)
        assert float(family.at_exposure(family.evidence(chi, 0.0), torch.tensor(2.0)).predictive().mean) == 2
        return
    with pytest.raises(ValueError, match=r"^exposure: expected none for .*; "):
        family.check_exposure()
    with pytest.raises(ValueError, match="exposure: expected none"):
        ExposedCounts(family)


@pytest.mark.parametrize("pair", [[1.5, 2.0], [1.0, 0.0], [1.0, -1.0], [1.0, float("inf")], [1.0, float("nan")]])
def test_a_pair_is_a_count_and_a_positive_number(pair):
    with pytest.raises(ValueError, match=r"expected a count .* with an exposure above 0"):
        ExposedCounts(Poisson()).observe(torch.tensor([pair]))
