"""Novelty and coverage with a guarantee: the rules against brute force, and the shares on data."""

import math

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer, load_diabetes, load_digits

from estimators.problems import CLASSIFIER, REGRESSOR, classes, numbers, quick, targets
from natpn import NatPNClassifier, NatPNRegressor
from natpn.model.calibration import Calibration


def simulated(rows, seed):
    """Heteroscedastic numbers."""
    generator = np.random.default_rng(seed)
    X = generator.uniform(-2, 2, size=(rows, 3))
    return X, np.sin(2 * X[:, 0]) + (0.1 + 0.3 * (X[:, 1] > 0)) * generator.standard_t(4, size=rows)


def counted(rows, seed):
    generator = np.random.default_rng(seed)
    X = generator.normal(size=(rows, 2))
    return X, generator.poisson(np.exp(0.5 + 0.7 * X[:, 0])).astype(float)


DATA = {
    "digits": lambda: (NatPNClassifier, load_digits(return_X_y=True)),
    "breast cancer": lambda: (NatPNClassifier, load_breast_cancer(return_X_y=True)),
    "diabetes": lambda: (NatPNRegressor, load_diabetes(return_X_y=True)),
    "simulated": lambda: (NatPNRegressor, simulated(1500, 0)),
    "counts": lambda: (NatPNRegressor, counted(1500, 0)),
}


def allowed(share, calibration, fresh):
    """A share of fresh rows that is surpassed once in 1,000 times: the rank and the rows are both drawn by lot.

    Given the calibration rows, the true share has a Beta distribution with a variance of share (1 − share) / (m + 2),
    and the share of fresh rows varies around it.
    """
    return share + 3.1 * math.sqrt(share * (1 - share) * (1 / (calibration + 2) + 1 / fresh))


@pytest.fixture(scope="module", params=DATA)
def fitted(request):
    kind, (X, y) = DATA[request.param]()
    order = np.random.default_rng(1).permutation(len(y))
    train, fresh = order[: len(y) // 2], order[len(y) // 2 :]
    options = {"family": "poisson"} if request.param == "counts" else {}
    model = kind(**options, calibrate="conformal", validation_fraction=0.5, max_epochs=4, random_state=0)
    return model.fit(X[train], y[train]), X[fresh], y[fresh]


def test_false_alarms_are_as_rare_as_promised(fitted):
    model, X, _ = fitted
    p = model.predict_dist(X).novelty_p
    for alpha in (0.05, 0.2):
        assert (p < alpha).mean() <= allowed(alpha, len(model.calibration_.log_evidence), len(X))


def test_the_p_values_are_nearly_uniform(fitted):
    """They promise a bound, and are not idle: about as many alarms are given as are allowed."""
    model, X, _ = fitted
    p = model.predict_dist(X).novelty_p
    assert (p < 0.5).mean() > 0.5 - (allowed(0.5, len(model.calibration_.log_evidence), len(X)) - 0.5) - 0.02


def test_strange_inputs_are_flagged(fitted):
    model, X, _ = fitted
    assert (model.predict_dist(X + 100 * X.std()).novelty_p < 0.05).mean() > 0.99


def test_intervals_and_sets_cover(fitted):
    model, X, y = fitted
    m = len(model.calibration_.scores)
    for coverage in (0.5, 0.8, 0.9):
        if isinstance(model, NatPNClassifier):
            inside = model.predict_set(X, coverage)[np.arange(len(y)), np.searchsorted(model.classes_, y)]
        else:
            low, high = model.predict_interval(X, coverage).T
            inside = (low <= y) & (y <= high)
        assert 1 - inside.mean() <= allowed(1 - coverage, m, len(y))


@pytest.mark.slow
def test_intervals_are_not_idly_wide():
    """Continuous targets are covered about as often as asked, not always."""
    (X, y), (fresh, truth) = simulated(1200, 2), simulated(1000, 3)
    model = NatPNRegressor(calibrate="conformal", validation_fraction=0.4, max_epochs=4, random_state=0).fit(X, y)
    low, high = model.predict_interval(fresh, 0.8).T
    share = ((low <= truth) & (truth <= high)).mean()
    assert abs(share - 0.8) <= allowed(0.2, len(model.calibration_.scores), 1000) - 0.2


@pytest.mark.slow
def test_false_alarms_without_conformal_calibration():
    """By default the rows of early stopping serve: the same bound within sampling error, on three data sets."""
    for name in ("digits", "breast cancer", "simulated"):
        kind, (X, y) = DATA[name]()
        order = np.random.default_rng(2).permutation(len(y))
        train, fresh = order[: len(y) // 2], order[len(y) // 2 :]
        model = kind(max_epochs=6, random_state=0).fit(X[train], y[train])
        p = model.predict_dist(X[fresh]).novelty_p
        assert (p < 0.05).mean() <= allowed(0.05, len(model.calibration_.log_evidence), len(fresh)), name


@pytest.mark.slow
def test_intervals_of_the_posterior_predictive_cover():
    (X, y), (fresh, truth) = simulated(1200, 4), simulated(1000, 5)
    model = NatPNRegressor(max_epochs=30, random_state=0).fit(X, y)
    low, high = model.predict_interval(fresh, 0.9).T
    assert ((low <= truth) & (truth <= high)).mean() > 0.85


@pytest.mark.parametrize("calibrate", [None, "conformal"])
def test_intervals_widen_as_familiarity_falls(calibrate):
    X, y = numbers(190)
    model = NatPNRegressor(calibrate=calibrate, validation_fraction=0.3, max_epochs=20, random_state=0).fit(X, y)
    steps = np.array([[0.0, 0], [4, 4], [8, 8], [1e3, 1e3]])
    distribution = model.predict_dist(steps)
    familiarity, width = distribution.familiarity, np.diff(distribution.interval(0.8), axis=1)[:, 0]
    assert (np.diff(familiarity) < 0).all()
    assert familiarity[0] > 0.9
    assert familiarity[-1] < 0.01
    # far away it is the width of the targets; on the way there, where network and prior differ, it may be more
    assert (width[1:] > 1.5 * width[0]).all()
    assert 0.7 * np.diff(np.quantile(y, [0.1, 0.9])) < width[-1] < 1.5 * np.diff(np.quantile(y, [0.1, 0.9]))


def test_p_values_against_brute_force():
    generator = np.random.default_rng(0)
    held_out = np.round(generator.normal(size=37), 1)  # with ties
    new = np.round(generator.normal(size=50), 1)
    calibration = Calibration.of(held_out, None)
    want = [(1 + sum(value <= one for value in held_out)) / 38 for one in new]
    assert_array_equal(calibration.novelty_p(new), want)
    assert calibration.novelty_p(np.array([-np.inf])) == 1 / 38
    assert calibration.novelty_p(np.array([np.inf])) == 1
    assert calibration.threshold(0.9) is None


@pytest.mark.parametrize("m", [1, 9, 10, 19, 99])
def test_thresholds_against_brute_force(m):
    """The smallest held-out score that at least a share of (m + 1) / m of coverage does not surpass."""
    scores = np.random.default_rng(m).normal(size=m)
    calibration = Calibration.of(np.zeros(m), scores)
    for coverage in (0.05, 0.5, 0.8, 0.9, 0.95, 0.99):
        enough = [s for s in scores if sum(scores <= s) >= coverage * (m + 1) - 1e-9]
        assert calibration.threshold(coverage) == (min(enough) if enough else math.inf)


def test_ranks_of_exchangeable_scores():
    """By simulation: coverage is at least as asked, and less than 1/(m + 1) above it."""
    generator = np.random.default_rng(0)
    m, coverage, runs = 19, 0.8, 4000
    draws = generator.normal(size=(runs, m + 1))
    covered = [Calibration.of(row[1:], row[1:]).threshold(coverage) >= row[0] for row in draws]
    alarms = [Calibration.of(row[1:], None).novelty_p(row[:1])[0] <= 0.2 for row in draws]
    error = 3.1 * math.sqrt(0.2 * 0.8 / runs)
    assert coverage - error <= np.mean(covered) <= coverage + 1 / (m + 1) + error
    assert np.mean(alarms) <= 0.2 + error


@pytest.mark.parametrize("name", ["normal", "poisson", "bernoulli"])
def test_a_target_with_the_threshold_as_its_score_is_in_the_interval(name):
    """Rows equal to a calibration row are covered if it is: ties and rounding do not matter."""
    X, y = targets(name, 60)
    model = clone(REGRESSOR).set_params(family=name, calibrate="conformal", validation_fraction=0.5).fit(X, y)
    distribution = model.predict_dist(X)
    scores = distribution.conformal_scores(y)
    for score in scores:
        object.__setattr__(model.calibration_, "scores", np.array([score] * 9))
        low, high = distribution.interval(0.5).T
        slack = 0 if name != "normal" else 1e-9
        covered = (low - slack <= y) & (y <= high + slack)
        assert covered[scores <= score].all()


def test_a_label_with_the_threshold_as_its_score_is_in_the_set():
    X, y = classes(60)
    model = clone(CLASSIFIER).set_params(calibrate="conformal", validation_fraction=0.5).fit(X, y)
    distribution = model.predict_dist(X)
    scores = distribution.conformal_scores(y)
    assert_allclose(scores, 1 - np.exp(distribution.log_prob(y)))
    index = np.searchsorted(model.classes_, y)
    for score in scores:
        object.__setattr__(model.calibration_, "scores", np.array([score] * 9))
        inside = distribution.prediction_set(0.5)
        assert inside[np.arange(60), index][scores <= score].all()
        assert inside.any(1).all()


def test_sets_without_calibration_are_the_most_probable_classes():
    X, y = classes(60)
    distribution = clone(CLASSIFIER).fit(X, y).predict_dist(X)
    p, inside = distribution.probabilities, distribution.prediction_set(0.9)
    assert ((p * inside).sum(1) >= 0.9 - 1e-12).all()
    for row, chosen in zip(p, inside, strict=True):
        assert row[chosen].min() >= row[~chosen].max(initial=0)
        assert row[chosen].sum() - row[chosen].min() < 0.9  # one less would not do


def test_too_few_rows_give_intervals_that_hold_everything():
    X, y = numbers(40)
    model = clone(REGRESSOR).set_params(calibrate="conformal").fit(X, y)
    assert len(model.calibration_.scores) == 4
    assert np.isinf(model.predict_interval(X, 0.9)).all()
    assert np.isfinite(model.predict_interval(X, 0.5)).all()


def test_validation_and_calibration_rows_are_apart():
    (X, y), (X_val, y_val) = numbers(60), numbers(41, seed=1)
    model = clone(REGRESSOR).set_params(calibrate="conformal").fit(X, y, X_val=X_val, y_val=y_val)
    assert len(model.calibration_.scores) == 20
    assert model.n_rows_ == 60


@pytest.mark.parametrize("coverage", [0, 1, 1.5, -0.1])
def test_coverage_is_a_share(coverage):
    X, _ = numbers(40)
    with pytest.raises(ValueError, match="coverage: expected a share between 0 and 1"):
        quick("normal").predict_interval(X, coverage)
    with pytest.raises(ValueError, match="coverage: expected a share between 0 and 1"):
        quick("categorical").predict_set(X, coverage)


def test_what_counts_as_seen_is_what_training_rows_had():
    """A level that calibration rows alone have is new in them, as it would be in a new row."""
    generator = np.random.default_rng(0)
    rows = 1200
    who = [f"no. {number}" for number in generator.zipf(1.6, size=rows)]
    frame = pd.DataFrame({"x": generator.normal(size=rows), "who": who})
    y = (frame["x"] > 0).to_numpy()
    model = NatPNClassifier(calibrate="conformal", ensemble_size=1, max_epochs=3, random_state=0)
    model.fit(frame[:800], y[:800])
    assert [column.n_rows for column in model.inputs_.table.columns] == [model.n_rows_] * 2 == [640] * 2
    alarms = (model.predict_dist(frame[800:]).novelty_p < 0.05).mean()
    assert alarms <= allowed(0.05, 80, 400)
