"""cdf and icdf of scalar targets against mpmath, scipy and sums; far tails included."""

import math
from functools import partial

import mpmath as mp
import numpy as np
import pytest
import torch
from scipy import stats
from torch.testing import assert_close

from natpn import families as d
from natpn.families import negative_binomial
from natpn.families.normal import student_quantiles
from natpn.families.poisson import upper_gamma

Q = torch.tensor([1e-9, 1e-3, 0.05, 0.3, 0.5, 0.8, 0.99, 1 - 1e-6], dtype=torch.float64)


def double(x):
    return torch.tensor(x, dtype=torch.float64)


CONTINUOUS = {
    "t": (d.StudentT(double(1.0), double(2.0), double(3.0)), stats.t(3, 1, 2)),
    "cauchy": (d.StudentT(double(1.0), double(2.0), double(1.0)), stats.cauchy(1, 2)),
    "nearly normal": (d.StudentT(double(-1.0), double(0.5), double(1e12)), stats.norm(-1, 0.5)),
    "normal": (d.StudentT(double(-1.0), double(0.5), double(math.inf)), stats.norm(-1, 0.5)),
    "lognormal": (d.LogStudentT(double(0.3), double(0.5), double(math.inf)), stats.lognorm(0.5, scale=math.exp(0.3))),
    "lomax": (d.CompoundGamma(double(1.0), double(2.0), double(4.0)), stats.lomax(4, scale=8)),
    "beta prime": (d.CompoundGamma(double(2.5), double(2.0), double(1.2)), stats.betaprime(2.5, 1.2, scale=2.4)),
    "nearly gamma": (d.CompoundGamma(double(2.5), double(2.0), double(1e14)), stats.gamma(2.5, scale=2)),
    "gamma": (d.CompoundGamma(double(0.5), double(2.0), double(math.inf)), stats.gamma(0.5, scale=2)),
}
COUNTS = {
    "negative binomial": (d.NegativeBinomialDistribution(double(7.0), double(2.5)), stats.nbinom(2.5, 2.5 / 9.5)),
    "overdispersed": (d.NegativeBinomialDistribution(double(300.0), double(0.2)), stats.nbinom(0.2, 0.2 / 300.2)),
    "nearly poisson": (d.NegativeBinomialDistribution(double(7.0), double(1e13)), stats.poisson(7)),
    "poisson": (d.NegativeBinomialDistribution(double(0.3), double(math.inf)), stats.poisson(0.3)),
    "large poisson": (d.NegativeBinomialDistribution(double(1e8), double(math.inf)), stats.poisson(1e8)),
}


@pytest.mark.parametrize("name", CONTINUOUS)
def test_continuous_quantiles(name):
    ours, theirs = CONTINUOUS[name]
    y = ours.icdf(Q)
    assert_close(y, torch.from_numpy(theirs.ppf(Q.numpy())), rtol=1e-8, atol=1e-12)
    assert_close(ours.cdf(y), Q, rtol=1e-8, atol=1e-13)
    assert_close(ours.cdf(double([-math.inf, math.inf])), double([0.0, 1.0]))
    assert ours.icdf(double(1.0)).item() == math.inf
    assert ours.icdf(double(0.0)).item() == (
        -math.inf if isinstance(theirs.support()[0], float) and theirs.support()[0] < 0 else 0
    )


@pytest.mark.parametrize("name", COUNTS)
def test_count_quantiles(name):
    ours, theirs = COUNTS[name]
    # a hundred million counts are told apart to one in the far tail
    assert_close(ours.icdf(Q), torch.from_numpy(theirs.ppf(Q.numpy()).astype(float)), rtol=1e-8, atol=0)
    y = double([-1.0, 0.0, 0.7, 3.0, float(theirs.mean()), 2 * float(theirs.mean()), math.inf])
    assert_close(ours.cdf(y), torch.from_numpy(np.asarray(theirs.cdf(y.numpy()))), rtol=1e-9, atol=1e-13)
    assert ours.icdf(double(0.0)).item() == 0
    assert ours.icdf(double(1.0)).item() == math.inf


@pytest.mark.parametrize(
    ("a", "b", "r"), [(3.0, 4.0, 2.0), (0.1, 2.0, 1.0), (1e3, 5e2, 7.5), (1e6, 1e6, 50.0), (40.0, 1.1, 3.0)]
)
def test_beta_negative_binomial_cdf_is_the_sum(a, b, r):
    ours = d.BetaNegativeBinomial(double(a), double(b), double(r))
    total = ours.log_prob(torch.arange(5000, dtype=torch.float64)).exp().cumsum(0)
    at = torch.tensor([0, 1, 2, 10, 60, 400, 4999])
    assert_close(ours.cdf(at), total[at], rtol=1e-7, atol=1e-9)
    q = double([0.01, 0.3, 0.45, 0.8])
    expected = (total.unsqueeze(-1) < q).sum(0).double()
    inside = expected < 5000
    assert_close(ours.icdf(q)[inside], expected[inside])


def test_beta_negative_binomial_at_large_evidence_is_the_negative_binomial():
    ours = d.BetaNegativeBinomial(double(7e15), double(2e15), double(2.0))
    limit = d.NegativeBinomialDistribution(double(7.0), double(2.0))
    y = double([0.0, 3.0, 7.0, 40.0])
    assert_close(ours.cdf(y), limit.cdf(y), rtol=1e-9, atol=1e-12)
    assert_close(ours.icdf(Q), limit.icdf(Q))


def test_student_t_cdf_far_out_and_at_the_seam():
    mp.mp.dps = 40
    for df in (0.5, 1.0, 30.0, 1e6, 9.9e9, 1.01e10, 1e15):
        for z in (-30.0, -3.0, -0.1, 2.0) if df < 1e8 else (-3.0, -0.1, 2.0):
            x = mp.mpf(df) / (mp.mpf(df) + mp.mpf(z) ** 2)
            want = mp.betainc(mp.mpf(df) / 2, 0.5, 0, x, regularized=True) / 2 if df < 1e8 else mp.ncdf(z)
            got = d.StudentT(double(0.0), double(1.0), double(df)).cdf(double(z)).item()
            want = want if z < 0 or df >= 1e8 else 1 - want
            assert abs(got - want) <= 1e-8 * abs(want) + 1e-300, (df, z)


def gamma_density(a, s):
    """The density of Gamma(a, 1), s standard deviations from its centre, in units of a standard deviation."""
    t = a + s * mp.sqrt(a)
    return mp.exp((a - 1) * mp.log(t) - t - mp.loggamma(a) + mp.log(a) / 2)


def test_upper_gamma():
    """On both sides of the seam, by integration."""
    for a in (0.9e5, 1.1e5, 1e8):
        for z in (-8.0, -0.01, 0.0, 2.0, 9.0):
            x = a + z * math.sqrt(a)
            mp.mp.dps = 25
            want = mp.quad(partial(gamma_density, a), [mp.mpf(z) + k for k in range(0, 24, 3)])
            assert float(upper_gamma(np.array(a), np.array(x))) == pytest.approx(float(want), rel=1e-7), (a, z)


def test_classes():
    classes = d.CategoricalDistribution(double([[0.2, 0.5, 0.3], [1.0, 0.0, 0.0]]))
    assert classes.icdf(double([0.2, 0.9])).tolist() == [0, 0]
    assert classes.icdf(double([0.71, 1.0])).tolist() == [2, 0]
    assert_close(classes.cdf(double([1.0, -1.0])), double([0.7, 0.0]))
    assert classes.sample((4,)).dtype == torch.int64
    coin = d.BernoulliDistribution(double(0.25), double(0.75))
    assert_close(coin.mean, double(0.75))
    assert coin.icdf(double(0.25)).item() == 0
    assert coin.icdf(double(0.26)).item() == 1


def test_probabilities_are_checked():
    normal = CONTINUOUS["normal"][0]
    with pytest.raises(ValueError, match=r"expected probabilities from 0 to 1, got 1\.5"):
        normal.icdf(double(1.5))
    with pytest.raises(ValueError, match="expected probabilities"):
        normal.icdf(double(math.nan))
    with pytest.raises(ValueError, match="expected numbers, got nan"):
        normal.cdf(double(math.nan))


@pytest.mark.parametrize("rate", [1e-8, 1e-3, 0.5, 5.0, 40.0, 63.9, 64.1, 127.0, 1e3, 1e8])
def test_count_entropies(rate):
    poisson = d.NegativeBinomialDistribution(double(rate), double(math.inf)).entropy().item()
    assert poisson == pytest.approx(
        float(stats.poisson(rate).entropy()) if rate < 2e3 else 0.5 * math.log(2 * math.pi * math.e * rate), rel=1e-7
    )
    for size in (0.3, 2.0, 50.0, 1e4):
        y = torch.arange(200_000 if rate > 100 else 20_000, dtype=torch.float64)  # 60 lengths of the longest tail
        if rate > 1e4:
            continue
        ours = d.NegativeBinomialDistribution(double(rate), double(size))
        log_p = ours.log_prob(y)
        assert ours.entropy().item() == pytest.approx(-(log_p.exp() * log_p).sum().item(), rel=1e-6, abs=1e-9)


def test_quantiles_and_samples_agree():
    """20,000 seeded draws: the share below the median and the 90 % quantile, within five standard errors."""
    torch.manual_seed(3)
    for distribution, _ in [*CONTINUOUS.values(), *COUNTS.values()]:
        draws = distribution.sample((20_000,))
        for q in (0.5, 0.9):
            level = distribution.icdf(double(q))
            share = distribution.cdf(level).item()
            error = math.sqrt(share * (1 - share) / 20_000)
            assert abs((draws <= level).double().mean().item() - share) < 5 * error


def test_answers_come_in_the_precision_that_was_asked_for():
    t = d.StudentT(double(0.0), double(1.0), double(3.0), dtype=torch.float32)
    for value in (t.mean, t.variance, t.entropy(), t.log_prob(torch.tensor(1.0)), t.cdf(torch.tensor(1.0)), t.sample()):
        assert value.dtype == torch.float32
    assert d.StudentT(double(0.0), double(1.0), double(1.5)).variance.item() == math.inf
    assert d.LogStudentT(double(0.0), double(1.0), double(50.0)).mean.item() == math.inf


def test_vector_draws_have_the_stated_moments():
    """50,000 seeded draws, five standard errors of the mean and 5 % of the variance."""
    torch.manual_seed(1)
    factor = double([[1.0, 0.0], [0.7, 0.5]])
    cases = [
        d.MultivariateT(double([1.0, -2.0]), factor, double(8.0)),
        d.DirichletMultinomial(double([1.0, 2.0, 5.0]), double(9.0)),
        d.VonMisesFisherDistribution(double([3.0, 1.0]), double(2.0)),
        d.VonMisesFisherDistribution(double([3.0, 1.0, -2.0]), double(5.0)),
        d.VonMisesFisherDistribution(double([0.0, 0.0, 0.0]), double(5.0)),
        d.VonMisesFisherDistribution(double([0.0, 1.0]), double(1e6), known=True),
    ]
    for case in cases:
        draws = case.sample((50_000,))
        error = draws.std(0) / math.sqrt(50_000)
        assert bool(((draws.mean(0) - case.mean).abs() < 5 * error + 1e-12).all()), case
        assert_close(draws.var(0), case.variance, rtol=0.05, atol=1e-9)


def test_multinomial_entropy_with_rows_of_different_size():
    alpha = double([[1.0, 2.0, 0.5], [3.0, 1.0, 1.0], [1.0, 1.0, 1.0]])
    trials = double([0.0, 3.0, 300.0])
    entropy = d.DirichletMultinomial(alpha, trials).entropy()
    assert entropy[0].item() == pytest.approx(0.0, abs=1e-12)
    y = torch.cartesian_prod(*[torch.arange(4, dtype=torch.float64)] * 3)
    log_p = d.DirichletMultinomial(alpha[1], trials[1]).log_prob(y[y.sum(-1) == 3])
    assert entropy[1].item() == pytest.approx(-(log_p.exp() * log_p).sum().item(), rel=1e-10)
    # uniform over all compositions of 300 into 3 parts
    assert entropy[2].item() == pytest.approx(math.log(math.comb(302, 2)), rel=1e-10)


@pytest.mark.parametrize("kind", [d.StudentT, d.LogStudentT])
@pytest.mark.parametrize("levels", [[0.05, 0.95], [0.0, 1.0], [0.5, 0.5], [0.05, 0.9], [1e-20, 1e-18]])
def test_both_ends_of_an_interval_are_those_of_each_alone(kind, levels):
    df = torch.tensor([0.5, 3.0, 40.0, 1e9, 1e12, torch.inf], dtype=torch.float64)
    found = kind(torch.full_like(df, 1.5), torch.full_like(df, 2.0), df)
    together = found.icdf(torch.tensor(levels, dtype=torch.float64)[:, None])
    alone = torch.stack([found.icdf(torch.tensor(level, dtype=torch.float64)) for level in levels])
    assert_close(together, alone, rtol=1e-12, atol=0.0)


def test_sum_and_integral_meet(monkeypatch):
    """Counts that are summed one by one agree with those that are integrated."""
    lot = np.random.default_rng(0)
    a, b, size = (torch.from_numpy(lot.uniform(low, high, 4)) for low, high in ((1, 900), (3, 60), (0.5, 20)))
    distribution, y = d.BetaNegativeBinomial(a, b, size), torch.from_numpy(lot.integers(0, 600, 4).astype(float))
    summed = distribution.cdf(y)
    quantiles = distribution.icdf(torch.tensor([[0.05], [0.95]], dtype=torch.float64))
    monkeypatch.setattr(negative_binomial, "_FEW", 0)
    np.testing.assert_allclose(summed, distribution.cdf(y), rtol=1e-9)
    np.testing.assert_array_equal(quantiles, distribution.icdf(torch.tensor([[0.05], [0.95]], dtype=torch.float64)))


def test_the_tables_of_a_graph_are_the_quantiles_of_students_t():
    """To 1e-9 of each quantile, from df = 1/8 on, at any level; scipy is the oracle."""
    df = np.concatenate([np.exp2(np.linspace(-3, 20, 4001)), np.logspace(6, 12, 60), [1e100]])
    levels = [1e-12, 1e-6, 0.001, 0.05, 0.1, 0.25, 0.45, 0.499, 0.75, 0.9, 0.95, 1 - 1e-7]
    t = d.StudentT(torch.full((len(df),), 3.0).double(), torch.full((len(df),), 2.0).double(), torch.from_numpy(df))
    found = (student_quantiles(levels)(t).numpy() - 3.0) / 2.0
    exact = stats.t.ppf(levels, np.minimum(df, 1e15)[:, None])
    assert np.abs(found / exact - 1).max() < 1e-9
    ends = student_quantiles([0.0, 0.5, 1.0])(t).numpy()
    assert np.array_equal(ends, np.tile([-np.inf, 3.0, np.inf], (len(df), 1)))
    below = d.StudentT(double([0.0]), double([1.0]), double([0.01]))
    assert float(student_quantiles([0.9])(below)) == pytest.approx(stats.t.ppf(0.9, 1 / 8), rel=1e-9)
