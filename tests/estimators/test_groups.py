"""Conformal intervals and sets by group: the rule against brute force, the shares on data, and what groups are."""

import math
import pickle

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_array_equal
from sklearn.base import clone

from estimators.problems import CLASSIFIER, REGRESSOR, classes, numbers
from natpn import NatPNClassifier, NatPNRegressor, load
from natpn.model.calibration import ENOUGH, Calibration
from natpn.model.groups import Groups

PLACES = Groups((0,), -5.0)


def keys(groups):
    """Keys of rows that have a number for their group; None stands for no group."""
    rows = [[0.0 if g is None else g, -9.0 if g is None else 0.0] for g in groups]
    return PLACES.keys(np.array(rows, np.float32))


def by_group(scores, groups):
    return Calibration.of(np.zeros(len(scores)), np.asarray(scores), PLACES, keys(groups))


def at(calibration, groups, coverage):
    return calibration.thresholds(coverage, calibration.numbers_of(keys(groups)), None)


def smallest(scores, coverage):
    """The smallest score that a share of (m + 1) / m of coverage does not surpass."""
    enough = [s for s in scores if (scores <= s).sum() >= coverage * (len(scores) + 1) - 1e-9]
    return min(enough, default=math.inf)


@pytest.mark.parametrize("coverage", [0.3, 0.8, 0.9, 0.95, 0.99])
def test_thresholds_against_brute_force(coverage):
    generator = np.random.default_rng(0)
    groups = np.array([0] * 30 + [1] * 120 + [2] * 12 + [3] * 11)
    scores = generator.normal(size=len(groups)) + groups
    order = generator.permutation(len(groups))
    calibration = by_group(scores[order], groups[order])
    least = max(ENOUGH, math.ceil(coverage / (1 - coverage) - 1e-9))
    small = np.isin(groups, [g for g in range(4) if (groups == g).sum() < least])
    if small.sum() < least:
        small[:] = True
    for group in (0, 1, 2, 3, 7, None):
        own = groups == group
        want = smallest(scores[own] if own.sum() >= least else scores[small], coverage)
        assert at(calibration, [group], coverage) == want, group
    together = at(calibration, [3, 1, None, 0], coverage)
    assert_array_equal(together, [at(calibration, [g], coverage)[0] for g in (3, 1, None, 0)])


def test_coverage_is_exact_in_every_group():
    """By simulation: in a group with m rows it is at least as asked, and less than 1/(m + 1) above it."""
    generator = np.random.default_rng(0)
    runs, coverage, sizes = 1000, 0.8, (24, 49)
    groups = np.repeat([0, 1], sizes)
    inside = np.zeros((runs, 2))
    for run in range(runs):
        scores = generator.exponential(size=len(groups)) * (1 + 9 * groups)
        new = generator.exponential(size=2) * [1, 10]
        inside[run] = new <= at(by_group(scores, groups), [0, 1], coverage)
    error = 3.3 * math.sqrt(coverage * (1 - coverage) / runs)
    for share, m in zip(inside.mean(0), sizes, strict=True):
        assert coverage - error <= share <= coverage + 1 / (m + 1) + error


def flats(rows, seed):
    """Numbers whose noise depends on a category, and a rare one."""
    generator = np.random.default_rng(seed)
    who = generator.choice(["old town", "hills", "harbour"], size=rows, p=[0.6, 0.3, 0.1])
    X = pd.DataFrame({"x": generator.normal(size=rows), "who": who, "year": generator.integers(2000, 2003, rows)})
    noise = X["who"].map({"old town": 0.1, "hills": 0.5, "harbour": 3.0}).to_numpy()
    return X, X["x"].to_numpy() + noise * generator.normal(size=rows)


@pytest.fixture(scope="module")
def grouped():
    X, y = flats(1000, 0)
    model = NatPNRegressor(calibrate="conformal", groups="who", validation_fraction=0.6, max_epochs=1, random_state=0)
    return model.fit(X, y)


def inside(model, X, y, coverage=0.9):
    low, high = model.predict_interval(X, coverage).T
    return (low <= y) & (y <= high)


def test_every_group_is_covered(grouped):
    """One epoch learns little of the noise: without groups a quiet group is covered always, and a loud one is not."""
    X, y = flats(4000, 1)
    found = inside(grouped, X, y)
    sizes = {who: (grouped.calibration_.keys == key).all(1).sum() for who, key in _keys(grouped, X).items()}
    assert sizes["old town"] > sizes["hills"] > sizes["harbour"] >= ENOUGH
    for who, m in sizes.items():
        own = found[X["who"] == who]
        allowed = 3.3 * math.sqrt(0.09 * (1 / (m + 2) + 1 / len(own)))
        assert 0.9 - allowed <= own.mean() <= 0.9 + 1 / (m + 1) + allowed, who
    plain = clone(grouped).set_params(groups=None).fit(*flats(1000, 0))
    loud = X["who"] == "harbour"
    assert inside(plain, X[loud], y[loud]).mean() < 0.8


def _keys(model, X):
    rows = model.inputs_.transform(X)
    return {who: model.calibration_.groups.keys(rows[X["who"] == who])[0] for who in X["who"].unique()}


def test_a_new_level_has_the_threshold_of_all_rows(grouped):
    X, _ = flats(3, 2)
    X["who"] = ["suburb", "old town", None]
    limits, all_rows = grouped.predict_dist(X).limits(0.9), grouped.calibration_.threshold(0.9)
    assert limits[0] == limits[2] == all_rows != limits[1]


def test_answers_do_not_depend_on_the_rows_beside(grouped):
    X, _ = flats(300, 3)
    together = grouped.predict_interval(X)
    assert np.ptp(grouped.predict_dist(X).limits(0.9)) > 0
    for row in range(5):
        np.testing.assert_allclose(grouped.predict_interval(X[row : row + 1])[0], together[row], rtol=1e-9)


def test_saved_and_pickled_models_keep_their_groups(grouped, tmp_path):
    X, _ = flats(50, 4)
    grouped.save(tmp_path / "model")
    for other in (load(tmp_path / "model"), pickle.loads(pickle.dumps(grouped))):
        assert other.groups == "who"
        assert_array_equal(other.predict_dist(X).limits(0.8), grouped.predict_dist(X).limits(0.8))
        assert_array_equal(other.predict_interval(X), grouped.predict_interval(X))


def test_the_report_counts_intervals_by_group(grouped):
    from natpn.report.facts import collect
    from natpn.report.scores import LEVELS, judge

    X, y = flats(500, 5)
    facts = collect(grouped.model_, judge(grouped, X, y))
    assert facts.inside[np.isclose(LEVELS, 0.9)] == inside(grouped, X, y).mean()


def test_sets_are_covered_in_every_group():
    generator = np.random.default_rng(0)
    X = np.stack([generator.normal(size=3000), generator.integers(0, 2, 3000)], 1)
    flipped = generator.random(3000) < np.where(X[:, 1] == 1, 0.4, 0.0)
    y = (X[:, 0] > 0) ^ flipped
    model = NatPNClassifier(calibrate="conformal", groups=1, validation_fraction=0.6, max_epochs=1, random_state=0)
    model.fit(X[:1000], y[:1000])
    held = model.predict_set(X[1000:], 0.8)[np.arange(2000), y[1000:].astype(int)]
    for group in (0, 1):
        own = held[X[1000:, 1] == group]
        assert own.mean() >= 0.8 - 3.3 * math.sqrt(0.16 * (1 / 140 + 1 / len(own)))


def test_a_number_is_a_group_for_each_value():
    X, y = flats(600, 6)
    model = clone(REGRESSOR).set_params(calibrate="conformal", groups="year", validation_fraction=0.6).fit(X, y)
    assert len(np.unique(model.calibration_.keys, axis=0)) == 3
    X.loc[:2, "year"] = [2000, 2001, 1990]
    limits = model.predict_dist(X[:3]).limits(0.9)
    assert len(set(limits)) == 3
    assert limits[2] == model.calibration_.threshold(0.9)


def test_groups_that_are_all_too_small_are_told():
    X, y = numbers(300)
    with pytest.warns(UserWarning, match="groups: the largest group of 0 has 1 calibration rows, fewer than 20"):
        model = clone(REGRESSOR).set_params(calibrate="conformal", groups=0).fit(X, y)
    assert (model.predict_dist(X).limits(0.9) == model.calibration_.threshold(0.9)).all()


@pytest.mark.parametrize(
    ("groups", "message"),
    [
        ("who?", "groups: expected the name of a column of X.*'who\\?'; did you mean 'who'"),
        (3, "groups: expected the name of a column of X, or its number from 0 to 2, got 3"),
        (True, "groups: expected the name"),
        (["who"], "groups: expected the name"),
    ],
)
def test_a_wrong_column_is_told_before_training(groups, message):
    X, y = flats(60, 0)
    with pytest.raises(ValueError, match=message):
        clone(REGRESSOR).set_params(calibrate="conformal", groups=groups).fit(X, y)


def test_groups_need_conformal_calibration_and_a_table():
    X, y = classes(60)
    with pytest.raises(ValueError, match='groups: expected calibrate="conformal" with it'):
        clone(CLASSIFIER).set_params(groups=0).fit(X, y)
    with pytest.raises(ValueError, match="groups: expected a column of a table"):
        clone(CLASSIFIER).set_params(groups=0, calibrate="conformal").fit(np.zeros((60, 1, 8, 8)), y)
