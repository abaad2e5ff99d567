"""Scores against independent definitions."""

import itertools

import numpy as np
import pytest
from scipy import integrate, stats
from sklearn.metrics import mean_squared_error

from natpn import metrics

RNG = np.random.default_rng(0)


def test_counts_are_inside_by_the_share_of_their_probability_that_is():
    rate = np.random.default_rng(0).gamma(0.5, 0.5, 20_000)
    y = np.random.default_rng(1).poisson(rate)
    cdf, below = stats.poisson.cdf(y, rate), stats.poisson.cdf(y - 1, rate)
    assert metrics.quantile_calibration(cdf, below) < 1 < 10 < metrics.quantile_calibration(cdf)
    drawn = below + (cdf - below) * np.random.default_rng(2).random(20_000)
    levels = np.arange(1, 20) / 20
    assert metrics.central_shares(cdf, below, levels) == pytest.approx(
        metrics.central_shares(drawn, None, levels), abs=0.015
    )
    wrong = stats.poisson.cdf(y, rate + 5), stats.poisson.cdf(y - 1, rate + 5)
    assert metrics.quantile_calibration(*wrong) > 20
    exact = np.random.default_rng(3).random(1000)  # of numbers that are no counts both are the same
    assert metrics.quantile_calibration(exact, exact) == metrics.quantile_calibration(exact) < 5


def test_class_scores():
    p, y = RNG.dirichlet(np.ones(4), 50), RNG.integers(4, size=50)
    norms = [np.sqrt(sum((p[i, c] - (c == y[i])) ** 2 for c in range(4))) for i in range(50)]
    assert metrics.brier_norm(y, p) == pytest.approx(100 * np.mean(norms))
    assert metrics.brier_score(y, p) == pytest.approx(np.mean(np.square(norms)))
    assert metrics.accuracy(y, p) == pytest.approx(
        100 * np.mean([max(range(4), key=p[i].__getitem__) == y[i] for i in range(50)])
    )
    assert metrics.brier_norm([0, 1], np.eye(2)) == 0


def test_confidence_that_is_off_by_a_known_amount():
    """Half of the rows are sure by 0.9 and right in 60 %, the others by 0.55 and right in 55 %."""
    right = np.array([1] * 60 + [0] * 40 + [1] * 55 + [0] * 45)
    assert metrics.expected_calibration_error(right, np.repeat([0.9, 0.55], 100)) == pytest.approx(100 * 0.5 * 0.3)
    assert metrics.expected_calibration_error([True, True], [1.0, 1.0]) == 0


def test_the_calibration_error_is_its_definition():
    sure, right = RNG.uniform(size=300), RNG.integers(2, size=300)
    edges = np.linspace(0, 1, 16)
    total = 0.0
    for low, high in itertools.pairwise(edges):
        rows = (sure >= low) & (sure < high)
        total += abs(right[rows].sum() - sure[rows].sum())
    assert metrics.expected_calibration_error(right, sure) == pytest.approx(100 * total / 300)


def test_errors_of_numbers():
    y, guess = RNG.normal(size=30), RNG.normal(size=30)
    assert metrics.rmse(y, guess) == pytest.approx(mean_squared_error(y, guess) ** 0.5)
    assert metrics.negative_log_likelihood(stats.norm.logpdf(y)) == pytest.approx(-stats.norm.logpdf(y).mean())


def test_calibration():
    """Uniform cdf values are calibrated; a predictive twice too wide has its known coverages."""
    assert metrics.quantile_calibration((np.arange(20_000) + 0.5) / 20_000) < 0.01
    y = stats.norm.ppf((np.arange(200_000) + 0.5) / 200_000)
    p = np.arange(1, 10) / 10
    coverage = 2 * stats.norm.cdf(2 * stats.norm.ppf((1 + p) / 2)) - 1
    expected = 100 * np.sqrt(np.mean((coverage - p) ** 2))
    assert metrics.quantile_calibration(stats.norm.cdf(y, scale=2)) == pytest.approx(expected, rel=1e-3)


def test_crps_is_its_definition():
    y, draws = RNG.normal(size=20), RNG.normal(size=(20, 7))
    expected = [
        np.abs(draws[i] - y[i]).mean() - 0.5 * np.abs(draws[i][:, None] - draws[i]).mean() for i in range(len(y))
    ]
    assert metrics.crps(y, draws) == pytest.approx(np.mean(expected))
    assert metrics.crps(y, y[:, None] - 3) == pytest.approx(3)


@pytest.mark.parametrize("law", [stats.norm(1, 2), stats.t(3), stats.gamma(2)], ids=["normal", "t", "gamma"])
def test_crps_of_quantiles(law):
    """∫ (F(x) − 1{x ≥ y})² dx, and the closed form of the Normal."""
    y, k = np.array([-2.0, 0.3, 5.0]), 2000
    draws = np.tile(law.ppf((np.arange(k) + 0.5) / k), (len(y), 1))
    integrals = [
        integrate.quad(lambda x: law.cdf(x) ** 2, -np.inf, target)[0]
        + integrate.quad(lambda x: law.sf(x) ** 2, target, np.inf)[0]
        for target in y
    ]
    assert metrics.crps(y, draws) == pytest.approx(np.mean(integrals), rel=1e-4)
    if law.dist.name == "norm":
        z = (y - 1) / 2
        closed = 2 * (z * (2 * stats.norm.cdf(z) - 1) + 2 * stats.norm.pdf(z) - 1 / np.sqrt(np.pi))
        assert metrics.crps(y, draws) == pytest.approx(closed.mean(), rel=1e-4)


def test_detection():
    inside, outside = RNG.normal(1, 1, 200), RNG.normal(0, 1, 300)
    pairs = np.mean((inside[:, None] > outside) + 0.5 * (inside[:, None] == outside))
    assert metrics.detection(inside, outside)[1] == pytest.approx(100 * pairs)
    order = np.argsort(-np.concatenate([inside, outside]))
    hit = np.concatenate([np.ones(200), np.zeros(300)])[order]
    precision = np.cumsum(hit) / np.arange(1, 501)
    assert metrics.detection(inside, outside)[0] == pytest.approx(100 * (precision * hit).sum() / 200)
    assert metrics.detection([1.0, 2.0], [-np.inf, np.nan]) == (100.0, 100.0)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: metrics.accuracy([0, 1], np.ones((3, 2))), r"\(rows, classes\)"),
        (lambda: metrics.brier_norm([0, 2], np.ones((2, 2)) / 2), "class indices from 0 to 1, got 0 to 2"),
        (lambda: metrics.rmse([1.0], [1.0, 2.0]), "same non-empty shape"),
        (lambda: metrics.quantile_calibration([0.5, 1.5]), "expected probabilities"),
        (lambda: metrics.crps([1.0, 2.0], [[1.0, 2.0]]), r"\(rows, draws\) with 2 rows as in y, got \(1, 2\)"),
        (lambda: metrics.detection([], [1.0]), "familiar: expected a non-empty vector"),
    ],
)
def test_bad_arrays(call, words):
    with pytest.raises(ValueError, match=words):
        call()


def test_average_confidence_change():
    """By hand: means of 1, 3 and of 2, 4, 6 have the ratio 1/2."""
    change = metrics.average_confidence_change(np.log([1.0, 3.0]), np.log([2.0, 4.0, 6.0]))
    assert change == pytest.approx(0.5)
    assert metrics.average_confidence_change([5.0, -np.inf], [5.0]) == pytest.approx(0.5)
    assert metrics.average_confidence_change([999.0], [1000.0]) == pytest.approx(np.exp(-1))  # e^1000 is not a float64
    assert metrics.average_confidence_change([1000.0], [990.0]) == pytest.approx(np.exp(10))


@pytest.mark.parametrize(("shifted", "clean"), [([np.nan], [0.0]), ([0.0], [-np.inf]), ([np.inf], [0.0]), ([], [0.0])])
def test_confidences_that_have_no_ratio(shifted, clean):
    with pytest.raises(ValueError, match=r"shifted"):
        metrics.average_confidence_change(shifted, clean)
