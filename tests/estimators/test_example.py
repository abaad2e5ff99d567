"""The row of training that a model keeps: an ordinary one, as a client sends it, and only if it may be kept."""

import json

import numpy as np
import pandas as pd
import pytest

from natpn import NatPNRegressor, load
from natpn.families import get
from natpn.model.targets import Units


@pytest.fixture(scope="module")
def table():
    """Two kinds of rows whose medians, taken column by column, are of neither kind."""
    rng = np.random.default_rng(0)
    kind = rng.random(400) < 0.5
    small, large = rng.normal(10, 1, 400), rng.normal(50, 1, 400)
    X = pd.DataFrame(
        {
            "a": np.where(kind, small, large).round(2),
            "b": np.where(kind, large, small).round(2),
            "year": rng.integers(1950, 2020, 400),
            "colour": pd.Series(np.where(rng.random(400) < 0.7, "red", "blue"), dtype=object),
            "new": rng.random(400) < 0.3,
            "day": pd.Timestamp("2020-01-01") + pd.to_timedelta(rng.integers(0, 900, 400), unit="D"),
            "nothing": [None] * 400,
        }
    )
    return X, X["a"] + rng.normal(size=400)


@pytest.fixture(scope="module")
def model(table):
    return NatPNRegressor(max_epochs=2, random_state=0).fit(*table)


def test_it_is_a_row_of_training_and_not_a_column_of_medians(table, model):
    X, _ = table
    example = model.model_.example
    assert json.loads(json.dumps(example)) == example
    a, b, year, colour, new, day, nothing = example
    same = (X["a"] == a) & (X["b"] == b) & (X["year"] == year) & (X["colour"] == colour) & (X["new"] == new)
    assert (same & (X["day"] == pd.Timestamp(day))).sum() == 1
    assert nothing is None
    assert (a < 20) != (b < 20)  # medians would have both about 30
    odd = np.square(model.inputs_.table.oddness(X)).sum(0)
    assert odd[same][0] <= np.quantile(odd, 0.1)
    assert model.score_samples(X[same])[0] >= np.median(model.score_samples(X)) - 1


def test_columns_read_what_it_says(model):
    for column, value in zip(model.model_.inputs.columns, model.model_.example, strict=True):
        if value is not None:
            assert (column.read_text(value) if isinstance(value, str) else column.read_json(value)) is not None


def test_it_does_not_depend_on_the_order_of_rows(table, model):
    X, y = table
    other = NatPNRegressor(max_epochs=2, random_state=0).fit(X[::-1], y[::-1])
    assert other.model_.example == model.model_.example


def test_it_is_saved_unless_it_must_not_be(model, tmp_path):
    model.save(tmp_path / "with")
    assert load(tmp_path / "with").model_.example == model.model_.example
    model.save(tmp_path / "without", example=False)
    assert load(tmp_path / "without").model_.example is None
    assert model.model_.example is not None
    assert json.loads((tmp_path / "without" / "config.json").read_text())["example"] is None


def test_files_that_are_read_in_pieces_give_one_too(table, tmp_path):
    from natpn import data

    X, y = table
    for part in range(2):
        X[part::2].drop(columns="nothing").assign(y=y).to_parquet(tmp_path / f"{part}.parquet")
    files = data.parquet(str(tmp_path), memory=1)
    fitted = NatPNRegressor(max_epochs=1, random_state=0).fit(files, "y")
    a, b, *_ = fitted.model_.example
    assert ((X["a"] == a) & (X["b"] == b)).any()


def test_usual_targets_are_those_between_which_nine_of_ten_were():
    y = np.arange(1.0, 101)
    assert Units.of(get("normal"), y).usual == (5, 95)
    assert Units.of(get("gamma"), y, np.where(y == 100, 1e6, 1.0)).usual == (100, 100)
    vectors = np.random.default_rng(0).normal(size=(50, 2))
    assert Units.of(get("multivariate_normal", dimension=2), vectors).usual is None
    units = Units.of(get("poisson"), np.array([0.0, 0, 0, 7]))
    assert Units.from_config(get("poisson"), units.to_config()).usual == units.usual == (0, 7)
    assert Units.from_config(get("poisson"), {"location": [0.0], "scale": [1.0]}).usual is None
