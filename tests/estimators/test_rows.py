"""Rows: weights are copies, and their order does not matter."""

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone

from estimators.problems import CLASSIFIER, REGRESSOR, classes, numbers, targets
from natpn.estimators.rows import distinct_rows, split_rows, weighted_rows
from natpn.families import FAMILIES


@pytest.mark.parametrize("name", FAMILIES)
def test_shuffled_rows_give_bit_equal_predictions(name):
    X, y = targets(name, 60)
    model = clone(CLASSIFIER) if name == "categorical" else clone(REGRESSOR).set_params(family=name)
    order = np.random.default_rng(0).permutation(60)
    plain, shuffled = clone(model).fit(X, y), clone(model).fit(X[order], y[order])
    assert_array_equal(plain.predict(X), shuffled.predict(X))
    assert_array_equal(plain.score_samples(X), shuffled.score_samples(X))
    assert_array_equal(plain.predict_dist(X).novelty_p, shuffled.predict_dist(X).novelty_p)


def test_shuffled_rows_of_a_frame_with_categories_and_gaps():
    X, y = classes(80)
    frame = pd.DataFrame({"a": np.where(X[:, 1] > 1, np.nan, X[:, 1]), "b": np.where(X[:, 0] > 0, "x", "y")})
    order = np.random.default_rng(0).permutation(80)
    plain = clone(CLASSIFIER).fit(frame, y)
    shuffled = clone(CLASSIFIER).fit(frame.iloc[order], y[order])
    assert_array_equal(plain.predict_proba(frame), shuffled.predict_proba(frame))


@pytest.mark.parametrize("kind", ["classes", "numbers"])
def test_whole_weights_are_repetitions(kind):
    X, y = classes(60) if kind == "classes" else numbers(60)
    model = CLASSIFIER if kind == "classes" else REGRESSOR
    weight = np.random.default_rng(0).integers(0, 4, 60)
    weighted = clone(model).fit(X, y, sample_weight=weight)
    repeated = clone(model).fit(np.repeat(X, weight, axis=0), np.repeat(y, weight))
    assert_array_equal(weighted.predict(X), repeated.predict(X))
    assert_array_equal(weighted.score_samples(X), repeated.score_samples(X))


def test_other_weights_matter_by_their_ratio():
    X, y = numbers(80)
    weight = np.random.default_rng(0).uniform(0.5, 2, 80)
    one, ten = (clone(REGRESSOR).fit(X, y, sample_weight=f * weight) for f in (1, 10))
    assert_allclose(one.predict(X), ten.predict(X), rtol=1e-4, atol=1e-5)
    assert np.abs(one.predict(X) - clone(REGRESSOR).fit(X, y).predict(X)).max() > 1e-3


def test_a_heavy_row_draws_predictions_to_it():
    X = np.zeros((40, 1))
    y = np.arange(40) % 2.0
    heavy = clone(REGRESSOR).set_params(max_epochs=40).fit(X, y, sample_weight=np.where(y, 9.5, 0.5))
    assert heavy.predict([[0.0]])[0] > 0.75


def test_one_row_that_counts_is_refused():
    with pytest.raises(ValueError, match="at least 2 rows"):
        clone(REGRESSOR).fit(*numbers(40), sample_weight=np.eye(40)[0])


def test_rows_of_weight_zero_do_not_count():
    index, weight = weighted_rows(np.array([1.0, 500.0, 0.0]), 3)
    assert index.tolist() == [0, 1]
    assert_array_equal(weight, [1, 500])


@pytest.mark.parametrize(
    ("weight", "message"),
    [
        ([1, 2], r"sample_weight: expected one weight for each of 3 rows, got shape \(2,\)"),
        ([1, -1, 1], "sample_weight: expected finite numbers of at least 0, got -1.0 in row 1"),
        ([1, 1, np.nan], "sample_weight: expected finite numbers of at least 0, got nan in row 2"),
        ([0, 0, 0], "sample_weight: expected a weight above zero, got zero everywhere"),
    ],
)
def test_bad_weights(weight, message):
    with pytest.raises(ValueError, match=message):
        weighted_rows(weight, 3)


def test_copies_are_one_row_with_the_sum_of_their_weights():
    rows = np.array([[0], [1], [0], [0], [2], [2]], np.float32)
    y = np.array([5.0, 6, 5, 5, 7, 8])  # the last two have the same input and different targets
    index, weight = distinct_rows(rows, y, np.array([1.0, 2, 3, 0.5, 1, 1]))
    found = sorted(zip(rows[index, 0].tolist(), y[index].tolist(), weight.tolist(), strict=True))
    assert found == [(0, 5, 4.5), (1, 6, 2), (2, 7, 1), (2, 8, 1)]


def test_rows_that_only_look_alike_stay_apart():
    """Beside a very large value others are lost in a sum; they are compared one by one."""
    rows = np.array([[0, 0], [0, 1e-12], [1e20, 0]], np.float32)
    assert len(distinct_rows(rows, np.zeros(3), np.ones(3))[0]) == 3
    assert len(distinct_rows(np.zeros((3, 1), np.float32), np.array([0, 1e-10, 1e10]), np.ones(3))[0]) == 3


@pytest.mark.parametrize("n", [10, 5000])
def test_the_order_depends_on_content_alone(n):
    generator = np.random.default_rng(0)
    rows, y = generator.normal(size=(n, 3)).astype(np.float32), generator.normal(size=n)
    order = generator.permutation(n)
    assert_array_equal(
        rows[distinct_rows(rows, y, np.ones(n))[0]], rows[order][distinct_rows(rows[order], y[order], np.ones(n))[0]]
    )


@pytest.mark.parametrize("fraction", [0.1, 0.2, 0.5, 0.9])
@pytest.mark.parametrize("calibrate", [False, True])
def test_every_group_gives_its_share(fraction, calibrate):
    groups = np.repeat([0, 1, 2], [100, 40, 2])
    split = split_rows(groups, fraction, calibrate, seed=0)
    held_out = np.union1d(split.validation, split.calibration)
    assert_array_equal(np.sort(np.concatenate([split.train, held_out])), np.arange(142))
    share = np.bincount(groups[held_out], minlength=3) / [100, 40, 2]
    assert_allclose(share[:2], fraction, atol=0.02)
    assert set(groups[split.train]) == {0, 1} | ({2} if fraction < 0.75 else set())
    if calibrate:
        assert not set(split.validation) & set(split.calibration)
        assert abs(len(split.validation) - len(split.calibration)) <= 1
    else:
        assert_array_equal(split.validation, split.calibration)
    other = split_rows(groups, fraction, calibrate, seed=1)
    assert not np.array_equal(np.sort(split.train), np.sort(other.train))


def test_without_a_row_to_hold_out_validation_is_on_training_rows():
    split = split_rows(np.zeros(2, np.int64), 0.2, True, seed=0)
    assert split.train.tolist() == split.validation.tolist() == split.calibration.tolist() == [0, 1]
