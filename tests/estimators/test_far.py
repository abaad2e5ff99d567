"""What a user reads far from the data, on the way there, and of rows that are strange."""

import numpy as np
import pandas as pd
import pytest

from natpn import NatPNClassifier, NatPNRegressor

EPOCHS = 20


@pytest.fixture(scope="module")
def line():
    """A curve over [−2, 2], seen at 600 places."""
    lot = np.random.default_rng(0)
    x = lot.uniform(-2, 2, 600)
    y = 30 + 10 * np.sin(2 * x) + lot.normal(size=600)
    return NatPNRegressor(max_epochs=EPOCHS, random_state=0).fit(x[:, None], y), y


@pytest.mark.slow
def test_a_far_row_gets_the_interval_of_all_targets(line):
    model, y = line
    low, high = model.predict_interval(np.array([[1e9], [-1e9]]), 0.9).T
    np.testing.assert_allclose(low, y.mean() - 1.645 * y.std(), atol=0.3 * y.std())
    np.testing.assert_allclose(high, y.mean() + 1.645 * y.std(), atol=0.3 * y.std())
    np.testing.assert_allclose(model.predict(np.array([[1e9]])), y.mean(), atol=0.05 * y.std())


def test_there_is_no_cliff(line):
    """Out of the data familiarity stays between 0.1 and 0.9 over at least a tenth of their range."""
    model, _ = line
    out = np.linspace(2.05, 400, 20_000)
    familiarity = model.predict_dist(out[:, None]).familiarity
    assert (np.diff(familiarity) <= 1e-9).all()
    between = out[(familiarity > 0.1) & (familiarity < 0.9)]
    assert between.max() - between.min() >= 0.4
    assert familiarity[-1] < 0.1


@pytest.mark.parametrize("scale", [1.0, 30.0, 1e3, 1e8])
def test_a_row_is_answered_alone_as_among_many(line, scale):
    model, _ = line
    rows = scale * np.random.default_rng(2).uniform(-3, 3, (1000, 1))
    many = model.predict_dist(rows)
    alone = [model.predict_dist(row[None]) for row in rows[:40]]
    for name in ("mean", "interval"):
        one = np.concatenate([getattr(distribution, name)() for distribution in alone])
        np.testing.assert_allclose(one, getattr(many, name)()[:40], rtol=1e-9, atol=1e-9)
    log_evidence = np.concatenate([one.log_evidence for one in alone])
    np.testing.assert_allclose(many.log_evidence[:40], log_evidence, rtol=1e-9)


def test_ordinary_rows_are_the_datas(line):
    model, _ = line
    inside = model.predict_dist(np.random.default_rng(1).uniform(-2, 2, (1000, 1))).familiarity
    assert np.quantile(inside, 0.001) > 0.5
    assert np.median(inside) > 0.97


@pytest.mark.slow
def test_far_classes_are_as_frequent_as_in_training():
    lot = np.random.default_rng(0)
    X = lot.normal(size=(600, 2))
    y = np.where(X[:, 0] + 0.3 * lot.normal(size=600) > 1, "rare", "usual")
    model = NatPNClassifier(max_epochs=EPOCHS, random_state=0).fit(X, y)
    np.testing.assert_allclose(model.predict_proba([[1e9, 1e9]])[0, 0], (y == "rare").mean(), atol=0.02)


@pytest.fixture(scope="module")
def cars():
    lot = np.random.default_rng(0)
    frame = pd.DataFrame(
        {"brand": lot.choice(["a", "b", "c"], 800), "km": lot.uniform(0, 100, 800), "age": lot.uniform(0, 20, 800)}
    )
    y = 50 - 0.2 * frame["km"] - frame["age"] + frame["brand"].map({"a": 0, "b": 5, "c": 9}) + lot.normal(size=800)
    return NatPNRegressor(max_epochs=EPOCHS, random_state=0).fit(frame[:600], y[:600]), frame[600:]


@pytest.mark.parametrize(
    ("column", "value"), [("brand", "never seen"), ("brand", None), ("km", np.nan), ("km", 200.0), ("age", -20.0)]
)
def test_a_stranger_is_novel_and_less_familiar(cars, column, value):
    model, rows = cars
    ordinary, strange = model.predict_dist(rows), model.predict_dist(rows.assign(**{column: value}))
    assert (ordinary.novelty_p < 0.05).mean() < 0.12
    assert (strange.novelty_p < 0.05).mean() >= 0.95
    assert (strange.familiarity < ordinary.familiarity).all()


def test_several_strange_cells_count_more_than_one(cars):
    model, rows = cars
    one = model.predict_dist(rows.assign(km=np.nan)).familiarity
    all_three = model.predict_dist(rows.assign(km=np.nan, brand=None, age=np.nan)).familiarity
    assert (all_three < one).all()
    assert np.median(all_three) < 0.6
