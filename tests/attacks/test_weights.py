"""Weights and copies: they say how much a row counts, and never that it was seen before."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone

from estimators.problems import CLASSIFIER, REGRESSOR, classes, numbers
from natpn import NatPNRegressor

PROBLEMS = {"classes": (CLASSIFIER, classes), "numbers": (REGRESSOR, numbers)}


def answers(model, X):
    distribution = model.predict_dist(X)
    return np.column_stack([model.score_samples(X), distribution.novelty_p, distribution.log_prob(model.predict(X))])


@pytest.fixture(scope="module", params=PROBLEMS)
def plain(request):
    model, problem = PROBLEMS[request.param]
    X, y = problem(60)
    return clone(model).fit(X, y), X, y


@pytest.mark.parametrize("k", [2, 3, 1000, 0.25, 1e300, 1e-300])
def test_the_same_weight_everywhere_changes_nothing(plain, k):
    model, X, y = plain
    assert_array_equal(answers(clone(model).fit(X, y, sample_weight=np.full(60, k)), X), answers(model, X))


@pytest.mark.parametrize("k", [2, 3])
def test_every_row_repeated_changes_nothing(plain, k):
    model, X, y = plain
    assert_array_equal(answers(clone(model).fit(np.tile(X, (k, 1)), np.tile(y, k)), X), answers(model, X))


def test_a_weight_is_so_many_copies(plain):
    model, X, y = plain
    weight = np.random.default_rng(0).integers(0, 6, 60)
    weighted = clone(model).fit(X, y, sample_weight=weight)
    copies = clone(model).fit(np.repeat(X, weight, axis=0), np.repeat(y, weight))
    assert_array_equal(answers(weighted, X), answers(copies, X))
    assert np.abs(answers(weighted, X) - answers(model, X)).max() > 1e-3


@pytest.mark.parametrize("calibrate", [None, "conformal"])
@pytest.mark.parametrize("how", ["whole weights", "other weights", "copies"])
def test_no_row_is_on_both_sides(how, calibrate):
    X, y = numbers(100)
    weight = np.random.default_rng(0).integers(1, 6, 100)
    model = clone(REGRESSOR).set_params(calibrate=calibrate, ensemble_size=1)
    if how == "copies":
        data = model._prepare(np.repeat(X, weight, axis=0), np.repeat(y, weight), None, None, None, 0)
    else:
        data = model._prepare(X, y, weight if how == "whole weights" else weight + 0.5, None, None, 0)
    parts = [data.train[0], data.validation[0]] + ([data.x] if calibrate else [])
    rows = [{tuple(row) for row in part.tolist()} for part in parts]
    assert sum(map(len, rows)) == len(set.union(*rows)) == 100


@pytest.mark.slow
@pytest.mark.parametrize("how", ["weights", "copies"])
def test_weights_take_nothing_from_coverage(how):
    """With copies of training rows held out, 90 % intervals covered 27 %, and half of new rows were alarms."""
    generator = np.random.default_rng(0)
    X = generator.normal(size=(560, 4))
    y = X[:, 0] + generator.normal(size=560)
    weight = generator.integers(2, 5, 160)
    model = NatPNRegressor(max_epochs=150, random_state=0)
    if how == "weights":
        model.fit(X[:160], y[:160], sample_weight=weight)
    else:
        model.fit(np.repeat(X[:160], weight, axis=0), np.repeat(y[:160], weight))
    low, high = model.predict_interval(X[160:], 0.9).T
    assert 0.8 < ((low <= y[160:]) & (y[160:] <= high)).mean() < 0.99
    assert (model.predict_dist(X[160:]).novelty_p < 0.05).mean() < 0.15


@pytest.mark.parametrize("rows", [24, 400])
def test_a_table_of_few_values_is_not_torn_apart(rows):
    """Equal rows are then no copies: each cell has its share of every label, in training too."""
    generator = np.random.default_rng(1)
    X = np.arange(rows)[:, None] % 2 * 1.0
    y = generator.random(rows) < 0.25 + 0.5 * X[:, 0]
    data = clone(CLASSIFIER).set_params(ensemble_size=1)._prepare(X, y, None, None, None, 0)
    assert len(data.train[0]) + len(data.validation[0]) == rows
    for x in data.train[0][:, 0].unique():
        cell = data.train[0][:, 0] == x
        assert 0.1 < float(data.train[1][cell].mean()) < 0.9


def test_many_equal_rows_are_in_both_parts():
    X = np.repeat(np.arange(4.0), 50)[:, None]
    data = clone(REGRESSOR).set_params(ensemble_size=1)._prepare(X, X[:, 0] ** 2, None, None, None, 0)
    assert len(data.train[0][:, 0].unique()) == 4
    assert len(data.train[0]) == 160


def test_a_frequent_row_among_others_is_in_both_parts():
    X = np.append(np.zeros(100), np.arange(1.0, 201))[:, None]
    data = clone(REGRESSOR).set_params(ensemble_size=1)._prepare(X, np.sqrt(X[:, 0]), None, None, None, 0)
    assert len(data.train[0]) + len(data.validation[0]) == 300
    shares = [float((part[:, 0] == part[:, 0].min()).float().mean()) for part in (data.train[0], data.validation[0])]
    assert min(shares) > 0.15


def test_rows_of_a_rare_class_may_be_repeated():
    """A usual practice against imbalance; the copies stay together."""
    X = numbers(300)[0]
    rare = np.arange(300) < 15
    data = (
        clone(CLASSIFIER)
        .set_params(ensemble_size=1)
        ._prepare(
            np.repeat(X, np.where(rare, 15, 1), axis=0), np.repeat(rare, np.where(rare, 15, 1)), None, None, None, 0
        )
    )
    rows = [{tuple(row) for row in part.tolist()} for part in (data.train[0], data.validation[0])]
    assert sum(map(len, rows)) == len(set.union(*rows)) == 300
    assert float(data.train[2][data.train[1] == 1].sum() / data.train[2].sum()) == pytest.approx(0.44, abs=0.05)


@pytest.mark.parametrize(
    ("weight", "message"),
    [
        (-np.ones(40), "expected finite numbers of at least 0, got -1.0 in row 0: correct it"),
        (np.where(np.arange(40) == 7, np.nan, 1), "expected finite numbers of at least 0, got nan in row 7: correct"),
        (np.where(np.arange(40) == 7, np.inf, 1), "expected finite numbers of at least 0, got inf in row 7: correct"),
        (np.zeros(40), "expected a weight above zero, got zero everywhere: at least 2 rows"),
        (np.ones(39), r"expected one weight for each of 40 rows, got shape \(39,\): give one a row"),
        (np.ones((40, 2)), r"expected one weight for each of 40 rows, got shape \(40, 2\)"),
        (["a"] * 40, "expected numbers, got values that are none: give one weight a row"),
        ([1e15] + [1] * 39, "expected at least 2 rows that count, got all but a millionth of the weight in row 0"),
        ([1] * 39 + [1e200], "expected at least 2 rows that count, got all but a millionth of the weight in row 39"),
    ],
)
def test_bad_weights_are_named(weight, message):
    with pytest.raises(ValueError, match=f"^sample_weight: {message}"):
        clone(REGRESSOR).fit(*numbers(40), sample_weight=weight)


def test_heavy_rows_need_no_memory():
    X, y = numbers(40)
    weight = np.where(np.arange(40) % 2, 1e15, 1)
    heavy = clone(REGRESSOR).fit(X, y, sample_weight=weight)
    assert_allclose(heavy.units_.location, y[1::2].mean(), atol=0.3)
    assert np.isfinite(heavy.predict(X)).all()
