"""Networks of an ensemble hold out other rows each, so that every row is held out once."""

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone

from estimators.problems import CLASSIFIER, REGRESSOR, classes, numbers
from natpn import NatPNRegressor, load
from natpn.estimators.rows import fold_rows
from natpn.model.calibration import Calibration


@pytest.mark.parametrize(("members", "share"), [(2, 0.2), (5, 0.2), (8, 1 / 8)])
def test_every_group_is_divided_evenly_and_no_row_is_held_out_twice(members, share):
    groups = np.repeat([0, 1, 2], [1000, 400, 80])
    split = fold_rows(groups, members, 0.2, False, 0)
    assert_array_equal(split.train, np.arange(len(groups)))
    for group, size in enumerate([1000, 400, 80]):
        counts = np.bincount(split.folds[groups == group] + 1, minlength=members + 1)
        assert_allclose(counts[1:], share * size, atol=1)
        assert counts[0] == pytest.approx((1 - members * share) * size, abs=members)


@pytest.mark.parametrize(
    ("rows", "members", "share"), [(4000, 2, 0.1), (2000, 2, 1 / 7), (500, 2, 0.2), (4000, 5, 0.2)]
)
def test_a_few_networks_hold_out_less_of_many_rows(rows, members, share):
    split = fold_rows(np.zeros(rows, np.int64), members, 0.2, False, 0)
    assert np.allclose(np.bincount(split.folds[split.folds >= 0]) / rows, share, atol=0.002)
    assert (members < 5) or (split.folds >= 0).all()


def test_groups_of_one_row_are_spread_over_the_folds():
    split = fold_rows(np.arange(500), 5, 0.2, False, 0)
    assert np.bincount(split.folds).min() > 60


def test_rows_for_conformal_calibration_are_new_to_all():
    split = fold_rows(np.zeros(1000, np.int64), 5, 0.2, True, 0)
    assert len(split.calibration) == 100
    assert set(split.calibration).isdisjoint(split.train)
    assert_allclose(np.bincount(split.folds), 180, atol=1)


@pytest.fixture(scope="module")
def ensemble():
    X, y = numbers(190)
    return clone(REGRESSOR).set_params(ensemble_size=5, max_epochs=30).fit(X, y)


def test_all_rows_are_used_for_all_purposes(ensemble):
    assert_array_equal(np.sort(np.concatenate(ensemble.folds_)), np.arange(190))
    assert_array_equal(ensemble.held_out_, np.arange(190))
    assert ensemble.n_rows_ == 190
    assert len(ensemble.calibration_.log_evidence) == 190


def test_a_member_predicts_by_itself(ensemble, tmp_path):
    X, _ = numbers(50, 1)
    alone = [ensemble.member(i) for i in range(5)]
    # the ensemble weighs its members by their evidence, which differs between them far out
    assert_allclose(np.mean([member.predict(X) for member in alone], 0), ensemble.predict(X), atol=0.1)
    total = np.logaddexp.reduce([member.score_samples(X) for member in alone], 0)
    assert_allclose(ensemble.score_samples(X), total, rtol=1e-9)
    alone[1].save(tmp_path / "one")
    assert_array_equal(load(tmp_path / "one").predict(X), alone[1].predict(X))
    for i in (-1, 5):
        with pytest.raises(ValueError, match=f"i: expected the number of a network from 0 to 4, got {i}"):
            ensemble.member(i)
    with pytest.raises(ValueError, match="i: expected the number of a network"):
        alone[0].member(0)


def test_given_validation_rows_and_few_rows_are_for_all_members():
    X, y = numbers(60)
    model = clone(REGRESSOR).set_params(ensemble_size=3)
    assert model.fit(X, y, X_val=X[:10], y_val=y[:10]).folds_ == []
    assert model.fit(X[:5], y[:5]).folds_ == []
    assert len(model.fit(X[:6], y[:6]).folds_) == 3


def test_conformal_ensembles_keep_their_promise_by_rows_that_none_has_seen():
    X, y = classes(200)
    model = clone(CLASSIFIER).set_params(ensemble_size=2, calibrate="conformal").fit(X, y)
    assert len(model.calibration_.scores) == 20
    assert model.n_rows_ == 180


def test_evidence_of_known_rows_is_replaced_by_that_of_new_rows_of_the_same_rank():
    generator = np.random.default_rng(0)
    truth = generator.normal(size=4000)  # what the rows would be worth if they were new
    folds = np.arange(4000) % 5
    said = np.tile(truth, (5, 1))
    said[folds != np.arange(5)[:, None]] += 30  # known rows look far more familiar
    found = Calibration.of_folds(said, folds)
    levels = np.linspace(0.01, 0.99, 99)
    assert_allclose(np.quantile(found.log_evidence, levels), np.quantile(truth, levels) + np.log(5), atol=0.1)
    fresh = generator.normal(size=4000) + np.log(5)
    assert np.mean(found.novelty_p(fresh) < 0.05) == pytest.approx(0.05, abs=0.012)


def _frame(rows, generator):
    """Numbers, and a name that is new in about a tenth of the rows."""
    names = np.where(generator.random(rows) < 0.1, generator.integers(1e9, size=rows), generator.integers(3, size=rows))
    return pd.DataFrame({"a": generator.normal(size=rows), "name": names.astype(str)})


def test_names_that_occur_once_are_as_new_to_calibration_as_later_ones():
    generator = np.random.default_rng(0)
    train, test = _frame(500, generator), _frame(4000, generator)
    model = NatPNRegressor(ensemble_size=5, max_epochs=1, random_state=0).fit(train, train["a"])
    assert np.mean(model.predict_dist(test).novelty_p < 0.05) == pytest.approx(0.05, abs=0.025)


@pytest.mark.slow
@pytest.mark.parametrize("size", [2, 5])
def test_false_alarms_and_coverage_hold_on_new_rows(size):
    """In the mean of three problems of 190 rows; noise known from 38 held-out rows makes intervals a little wide."""
    fresh, truth = numbers(4000, 1)
    alarms, covered = [], []
    for seed in (10, 11, 12):
        model = NatPNRegressor(ensemble_size=size, max_epochs=40, random_state=0).fit(*numbers(190, seed))
        alarms.append(np.mean(model.predict_dist(fresh).novelty_p < 0.05))
        low, high = model.predict_interval(fresh).T
        covered.append(np.mean((low <= truth) & (truth <= high)))
    assert np.mean(alarms) == pytest.approx(0.05, abs=0.03)
    assert np.mean(covered) == pytest.approx(0.91, abs=0.03)


@pytest.mark.parametrize("seed", range(12))
def test_four_rows_are_enough_whichever_fold_they_fall_into(seed):
    X = np.repeat([[1.0, 3], [2, 1], [3, 3], [4, 1]], 4, axis=0)
    model = clone(CLASSIFIER).set_params(random_state=seed, max_epochs=1).fit(X, np.repeat([1, 2, 1, 2], 4))
    assert all(map(len, model.folds_))
    assert np.isfinite(model.predict_proba(X)).all()


def test_single_networks_raise_hardly_more_alarms_than_all_of_them():
    """By the evidence of all networks together, a third of all rows would be alarms."""
    fresh = numbers(4000, 1)[0]
    model = NatPNRegressor(max_epochs=20, random_state=0).fit(*numbers(400))
    for i in range(model.n_networks_):
        assert 0.01 < np.mean(model.member(i).predict_dist(fresh).novelty_p < 0.05) < 0.12
