"""How much predictions depend on columns, against a model whose dependence is known."""

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose

from estimators.problems import quick
from natpn import NatPNClassifier, NatPNRegressor
from natpn.model import importance


def table(rows: int, seed: int = 0) -> tuple[pd.DataFrame, np.ndarray]:
    """A target that depends on a number, less on a category, and not at all on the rest."""
    lot = np.random.default_rng(seed)
    frame = pd.DataFrame({
        "noise": lot.normal(size=rows),
        "number": lot.normal(size=rows),
        "same": np.full(rows, 3),
        "colour": lot.choice(["red", "green", None], rows),
    })  # fmt: skip
    return frame, 3 * frame["number"] + (frame["colour"] == "red") + 0.1 * lot.normal(size=rows)


@pytest.fixture(scope="module")
def model():
    return NatPNRegressor(max_epochs=15, random_state=0).fit(*table(300))


def test_columns_come_in_the_order_of_what_they_say(model):
    X, y = table(300, seed=1)
    found = model.importance(X, y).set_index("column")
    assert list(found.index[:2]) == ["number", "colour"]
    assert found.loc["number", "importance"] > 20 * found.loc["number", "error"] / 2
    assert abs(found.loc["noise", "importance"]) < 0.1 * found.loc["number", "importance"]
    assert found.loc["same"].tolist() == [0, 0]


def test_the_importance_is_that_of_shuffling_by_hand(model):
    """The CRPS of rows by definition, E|Y − y| − ½ E|Y − Y'|, over equally likely values."""
    X, y = table(120, seed=2)

    def losses(frame):
        values = model.predict_dist(frame).equally_likely()
        spread = np.abs(values[:, :, None] - values[:, None]).mean((1, 2))
        return np.abs(values - y.to_numpy()[:, None]).mean(1) - spread / 2

    generator = np.random.default_rng(0)
    orders = {name: generator.permutation(120) for name in X}
    found = model.importance(X, y).set_index("column")
    for name in X:
        shuffled = X.assign(**{name: X[name].to_numpy()[orders[name]]})
        worse = losses(shuffled) - losses(X)
        assert_allclose(found.loc[name, "importance"], worse.mean(), atol=0.01 * np.abs(worse).max() + 1e-9)
        assert_allclose(found.loc[name, "error"], worse.std(ddof=1) / np.sqrt(120), rtol=0.05, atol=1e-9)


def test_few_rows_of_a_wide_table_are_used():
    assert len(importance.chosen_rows(10_000, 5, 0)) == 1000
    assert len(importance.chosen_rows(10_000, 40, 0)) == 487
    assert len(importance.chosen_rows(10_000, 3000, 0)) == 100
    assert importance.chosen_rows(30, 3000, 0).tolist() == list(range(30))


def test_classes_and_arrays():
    X, _ = table(200)
    labels = np.where(X["number"] > 0, "up", "down")
    model = NatPNClassifier(max_epochs=5, random_state=0).fit(X[["noise", "number"]].to_numpy(), labels)
    assert model.importance(X[["noise", "number"]].to_numpy(), labels)["column"][0] == "x1"
    with pytest.raises(ValueError, match=r"y: expected a target for each of 200 rows, got 7: give as many"):
        model.importance(X[["noise", "number"]].to_numpy(), labels[:7])


def test_vectors():
    X = np.random.default_rng(0).normal(size=(50, 2))
    found = quick("multivariate_normal").importance(X, np.zeros((50, 3)))
    assert np.isfinite(found["importance"]).all()
