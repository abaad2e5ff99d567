"""Conformal intervals under a shift of inputs: the rule against brute force, by simulation, and on fits."""

import math
import pickle
import warnings

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from estimators.problems import quick
from natpn import NatPNClassifier, NatPNRegressor, load
from natpn.model.calibration import Calibration
from natpn.model.shift import Shift

MOVE = 1.0  # of the mean of a Normal, whose density ratio is then exp(MOVE x − MOVE²/2)


def known_shift(x):
    """The exact ratio of N(MOVE, 1) to N(0, 1) for calibration rows x."""
    one = np.ones(1)
    return Shift(np.exp(MOVE * x - MOVE**2 / 2), 0 * one, one, MOVE * one, -(MOVE**2) / 2)


def test_thresholds_against_brute_force():
    """The quantile of the weighted scores, with the weight of the new row at infinity."""
    generator = np.random.default_rng(0)
    x, scores = generator.normal(size=40), generator.exponential(size=40)
    shift = known_shift(x)
    order = np.argsort(scores)
    calibration = Calibration(np.zeros(40), scores[order], shift=known_shift(x[order]))
    new = generator.normal(size=(9, 1)).astype(np.float32)
    for coverage in (0.1, 0.5, 0.9, 0.97):
        found = calibration.thresholds(coverage, None, shift.weights_of(new))
        for row, threshold in zip(new[:, 0], found, strict=True):
            weight = math.exp(MOVE * row - MOVE**2 / 2)
            total = shift.weights.sum() + weight
            enough = [s for s in scores if shift.weights[scores <= s].sum() / total >= coverage - 1e-9]
            assert threshold == min(enough, default=math.inf)


def test_coverage_under_a_known_shift():
    """By simulation: the scores grow with x, so that shifted rows are covered too seldom without weights."""
    generator = np.random.default_rng(1)
    runs, m, coverage = 2000, 150, 0.8
    plain, weighted = [], []
    for _ in range(runs):
        x, new = generator.normal(size=m), generator.normal() + MOVE
        scores, score = np.exp(x) * generator.exponential(size=m), np.exp(new) * generator.exponential()
        order = np.argsort(scores)
        calibration = Calibration(np.zeros(m), scores[order], shift=known_shift(x[order]))
        weight = calibration.shift.weights_of(np.full((1, 1), new, np.float32))
        weighted.append(score <= calibration.thresholds(coverage, None, weight)[0])
        plain.append(score <= calibration.threshold(coverage))
    error = 3.3 * math.sqrt(coverage * (1 - coverage) / runs)
    assert np.mean(plain) < 0.65
    assert coverage - error <= np.mean(weighted) <= coverage + 0.05 + error


def test_the_ratio_is_found():
    """Close to the truth where there are rows, and in how many rows count."""
    generator = np.random.default_rng(2)
    known, target = generator.normal(size=(1500, 3)), generator.normal([MOVE, 0, 0], size=(1500, 3))
    shift = Shift.between(known.astype(np.float32), target.astype(np.float32))
    at = np.linspace(-1, 2, 7)
    rows = np.stack([at, 0 * at, 0 * at], 1).astype(np.float32)
    assert_allclose(np.log(shift.weights_of(rows)), MOVE * at - MOVE**2 / 2, atol=0.25)
    assert shift.effective_rows == pytest.approx(1500 / math.exp(MOVE**2), rel=0.25)
    assert_allclose(shift.weights, shift.weights_of(known.astype(np.float32)), rtol=0.3)  # cross-fitted


def test_without_a_shift_all_rows_count():
    generator = np.random.default_rng(3)
    known, target = generator.normal(size=(2, 400, 20)).astype(np.float32)
    shift = Shift.between(known, target)
    assert shift.effective_rows > 380
    assert_allclose(shift.weights_of(target), 1, atol=0.2)


def noisy(rows, seed, move=0.0):
    """Numbers whose noise grows with the first column, which a shift moves, and which a short fit does not learn."""
    generator = np.random.default_rng(seed)
    X = generator.normal([move, 0, 0], size=(rows, 3))
    return X, X[:, 1] + 0.3 * np.exp(0.6 * X[:, 0]) * generator.normal(size=rows)


@pytest.fixture(scope="module")
def fitted():
    model = NatPNRegressor("normal", calibrate="conformal", validation_fraction=0.6, max_epochs=1, random_state=0)
    return model.fit(*noisy(3000, 0))


def test_adapted_intervals_cover_shifted_rows(fitted):
    X, y = noisy(3000, 1, MOVE)
    adapted = fitted.adapt(X[:500])
    low, high = fitted.predict_interval(X[500:]).T
    before = ((low <= y[500:]) & (y[500:] <= high)).mean()
    low, high = adapted.predict_interval(X[500:]).T
    after = ((low <= y[500:]) & (y[500:] <= high)).mean()
    m = adapted.calibration_.effective_rows
    assert 150 < m < 500 < len(adapted.calibration_.scores)
    assert before < 0.84
    assert abs(after - 0.9) <= 3.3 * math.sqrt(0.09 * (1 / m + 1 / 2500))


def test_only_intervals_change(fitted):
    X, y = noisy(100, 2, MOVE)
    before, after = fitted.predict_dist(X), fitted.adapt(X).predict_dist(X)
    assert_array_equal(before.log_prob(y), after.log_prob(y))
    assert_array_equal(before.novelty_p, after.novelty_p)
    assert (after.limits(0.9) > before.limits(0.9)).mean() > 0.9
    assert fitted.calibration_.shift is None


def test_rows_without_likes_have_infinite_intervals(fitted):
    X, _ = noisy(200, 3, 40.0)
    with pytest.warns(UserWarning, match="X: the 900 calibration rows count as .* 100 % of them have an infinite"):
        adapted = fitted.adapt(X)
    assert np.isinf(adapted.predict_interval(X)).all()


def test_saved_and_pickled_models_keep_the_weights(fitted, tmp_path):
    X, _ = noisy(120, 4, MOVE)
    adapted = fitted.adapt(X)
    adapted.save(tmp_path / "model")
    for other in (load(tmp_path / "model"), pickle.loads(pickle.dumps(adapted))):
        assert_array_equal(other.predict_dist(X).limits(0.9), adapted.predict_dist(X).limits(0.9))
        assert other.calibration_.effective_rows == adapted.calibration_.effective_rows


def test_sets_of_shifted_rows():
    generator = np.random.default_rng(5)
    X = generator.normal(size=(4000, 2))
    X[1500:, 0] += MOVE
    y = (generator.random(4000) < 0.5) & (X[:, 0] > 0)  # a coin on one side, which shifted rows are on
    model = NatPNClassifier(calibrate="conformal", validation_fraction=0.6, max_epochs=1, random_state=0)
    model.fit(X[:1500], y[:1500])
    adapted = model.adapt(X[1500:2000])
    held = [m.predict_set(X[2000:], 0.8)[np.arange(2000), y[2000:].astype(int)].mean() for m in (model, adapted)]
    m = adapted.calibration_.effective_rows
    assert held[0] < 0.77
    assert held[1] >= 0.8 - 3.3 * math.sqrt(0.16 * (1 / m + 1 / 2000))


def test_groups_and_weights_together():
    X, y = noisy(1500, 6)
    X = np.column_stack([X, np.arange(1500) % 2])
    model = NatPNRegressor(
        "normal", calibrate="conformal", groups=3, validation_fraction=0.6, max_epochs=1, random_state=0
    ).fit(X, y)
    new = np.column_stack([noisy(300, 7, 0.5)[0], np.arange(300) % 2])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        limits = model.adapt(new).predict_dist(new).limits(0.8)
    assert not set(limits[::2]) & set(limits[1::2])


def test_a_model_without_calibration_rows_cannot_adapt(fitted):
    with pytest.raises(ValueError, match='X: expected a model with calibrate="conformal"'):
        quick("normal").adapt(np.zeros((30, 2)))
    with pytest.raises(ValueError, match="X: expected at least 2 target rows, got 1"):
        fitted.adapt(noisy(1, 8)[0])
