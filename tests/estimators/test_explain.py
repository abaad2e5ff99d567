"""Why rows are unfamiliar: what columns add, which is named, and that the value it is given makes the row familiar."""

import datetime
import json
from functools import cache
from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
import pytest
import torch
from numpy.testing import assert_allclose
from sklearn.base import clone

from estimators.problems import CLASSIFIER, REGRESSOR, classes, numbers, quick
from natpn import NatPNClassifier, NatPNRegressor, load

FIXTURES = Path(__file__).parent / "data"
TOLD = ["surprise", "column", "value", "familiar", "reason"]


def cars(rows: int, seed: int = 0) -> pd.DataFrame:
    """Used cars, whose mileage follows from their age, and a column that says nothing."""
    lot = np.random.default_rng(seed)
    year = lot.integers(2005, 2024, rows)
    return pd.DataFrame({
        "mileage": np.round(15_000 * (2024.5 - year) * lot.uniform(0.9, 1.1, rows)),
        "year": year,
        "fuel": lot.choice(["petrol", "diesel", "gas"], rows),
        "seen": pd.Timestamp("2024-01-01") + pd.to_timedelta(lot.integers(0, 200, rows), "D"),
        "doors": np.full(rows, 5),
        "colour": np.where(lot.random(rows) < 0.1, None, lot.choice(["red", "blue"], rows)),
    })  # fmt: skip


@cache
def garage() -> NatPNRegressor:
    frame = cars(500)
    return NatPNRegressor(max_epochs=6, random_state=0).fit(frame, 30_000 - frame["mileage"] / 10)


STRANGE = {
    "mileage 980,000 is beyond ": {"mileage": 980_000.0},
    "fuel hydrogen was never seen in training": {"fuel": "hydrogen"},
    "doors 3 is not 5, as it always was": {"doors": 3},
    "year is missing, and never was in training": {"year": None},
    "year 1950 is below 2005": {"year": 1950},
    "seen 2031-05-01 is after 2024-07-1": {"seen": pd.Timestamp("2031-05-01")},
}


@pytest.mark.parametrize("reason", STRANGE)
def test_what_training_never_had_is_named_in_words(reason):
    (column,) = STRANGE[reason]
    row = cars(1, seed=3).astype(object)
    row[column] = STRANGE[reason][column]
    found = garage().explain(row).iloc[0]
    assert found["reason"].startswith(reason)
    assert found["column"] == column
    assert found[f"adds_{column}"] == max(found[found.index.str.startswith("adds_")])


def test_a_combination_is_named_and_mended():
    """Each value is ordinary; together they are not: an old car that has hardly been driven, and a new one that has."""
    rows = cars(2, seed=1).assign(year=[2005, 2023], mileage=[30_000.0, 270_000.0])
    found = garage().explain(rows)
    assert garage().predict_frame(rows)["novel"].all()
    for reason, column in zip(found["reason"], found["column"], strict=True):
        assert column in ("mileage", "year")
        assert "does not go with the other columns; " in reason
    mended = rows.astype(object)
    for i, (column, value) in enumerate(zip(found["column"], found["familiar"], strict=True)):
        mended.loc[i, column] = float(value)
    assert (garage().predict_dist(mended).novelty_p > 0.05).all()


def test_columns_add_up_to_the_surprise():
    """The surprise is the mean over the networks of d = (c − log p)/u, here calculated in float64, one by one."""
    model, rows = garage(), pd.concat([cars(40, seed=5), cars(3, seed=6).assign(fuel="coal", mileage=[1.0, 5e5, 9e9])])
    found = model.explain(rows)
    adds = found[[name for name in found if name.startswith("adds_")]].to_numpy()
    x = torch.from_numpy(model.inputs_.transform(rows)).double()
    distances = [
        (member.budget.centre - member.density(member.features(x, member.represent(x)[0]))) / member.budget.unit
        for member in model.model_.members
    ]
    assert len(distances) == 2
    assert_allclose(found["surprise"], np.mean(distances, axis=0), rtol=1e-3, atol=1e-3)
    assert_allclose(adds.sum(1), found["surprise"], rtol=1e-12)
    assert (adds[found["surprise"] > 0] >= 0).all()


def test_what_training_never_had_belongs_to_its_column_exactly():
    """One event in a row adds what the network's weight of it is; the density does not see it."""
    model, row = garage(), cars(1, seed=3).assign(fuel="petrol")
    strange = row.assign(doors=4)
    known, found = model.explain(row).iloc[0], model.explain(strange).iloc[0]
    surprise = model.inputs_.transform(strange)[0, -1]
    unit = np.mean([float(m.density.weight / m.budget.unit) for m in model.model_.members])
    assert found["surprise"] - known["surprise"] == pytest.approx(-surprise * unit, rel=1e-3)
    assert found["adds_doors"] - known["adds_doors"] == pytest.approx(-surprise * unit, rel=1e-3)


def test_only_novel_rows_have_a_reason():
    model, rows = garage(), pd.concat([cars(200, seed=7), cars(2, seed=8).assign(fuel="coal")])
    frame, told = model.predict_frame(rows), model.explain(rows)
    assert list(frame)[-2:] == ["novel", "reason"]
    assert ((frame["reason"] != "") == frame["novel"]).all()
    assert (told["reason"] == frame["reason"]).all()
    assert 0 < frame["novel"].sum() < 40


def test_a_column_that_is_not_asked_for_costs_nothing(monkeypatch):
    model, rows = garage(), cars(3, seed=8).assign(fuel="coal")
    assert list(model.predict_columns(rows, names=["reason", "prediction"])) == ["reason", "prediction"]
    monkeypatch.setattr(type(model.model_), "explain", None)
    assert list(model.predict_columns(rows, names=["novel"])) == ["novel"]


def test_every_library_gets_its_own_frame_back():
    rows = cars(3, seed=2)
    wanted = garage().explain(rows)
    for frame in (pl.from_pandas(rows), pl.from_pandas(rows).to_arrow()):
        found = garage().explain(frame)
        assert type(found) is type(frame)
        assert list(np.asarray(found["reason"])) == list(wanted["reason"])
        assert_allclose(np.asarray(found["adds_year"]), wanted["adds_year"])
    assert list(wanted)[:5] == TOLD


def test_columns_without_names_are_numbered():
    found = quick(rows=300).explain(np.array([[0.1, 50.0]]))
    assert found["reason"][0].startswith("column 1 50 is beyond ")
    assert list(found)[5:] == ["adds_x0", "adds_x1"]


def test_answers_are_the_same_alone_and_among_others(monkeypatch):
    rows = cars(30, seed=9)
    whole = garage().explain(rows)
    monkeypatch.setattr("natpn.model.fitted.PIECE", 7)
    assert_allclose(garage().explain(rows)["surprise"], whole["surprise"], atol=1e-4)
    alone = garage().explain(rows.iloc[[4]])
    assert alone["column"].iloc[0] == whole["column"].iloc[4]
    assert alone["familiar"].iloc[0] == whole["familiar"].iloc[4]


def test_fast_and_saved_models_say_the_same(tmp_path):
    rows = cars(20, seed=4).assign(fuel="coal")
    wanted = garage().explain(rows)
    garage().save(tmp_path / "model")
    for model in (garage().fast(), load(tmp_path / "model"), garage().fast().fast()):
        pd.testing.assert_frame_equal(model.explain(rows), wanted, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("schema", ["schema_1", "schema_2", "schema_3"])
def test_models_of_earlier_versions_are_explained(schema):
    wanted = json.loads((FIXTURES / schema / "predictions.json").read_text())
    frame = pd.DataFrame(wanted["X"])
    found = load(FIXTURES / schema / "model").explain(frame)
    assert found["column"].tolist()[3:] == ["colour", "number"]
    assert np.isfinite(found["surprise"]).all()


@pytest.mark.parametrize(
    "options",
    [{"scheme": "paper"}, {"density": "radial"}, {"budget": "normal"}, {"ensemble_size": 1}, {"ensemble_size": 3}],
    ids=str,
)
def test_other_networks_are_explained(options):
    """Without a mixture over principal components, columns are chosen by how rare their values are."""
    X, y = numbers(240)
    model = clone(REGRESSOR).set_params(**options).fit(X, y)
    found = model.explain(np.array([[0.0, 40.0], [0.1, 0.0]]))
    assert found["column"][0] == "x1"
    assert found["surprise"][0] > found["surprise"][1]
    ordinary = model.explain(numbers(200, seed=1)[0])["surprise"]
    assert abs(np.median(ordinary)) < 0.5 * found["surprise"][0]


def test_classes_are_explained():
    X, y = classes(240)
    model = clone(CLASSIFIER).fit(pd.DataFrame(X, columns=["a", "b"]), y)
    found = model.explain(pd.DataFrame({"a": [90.0], "b": [0.0]}))
    assert found["reason"].iloc[0].startswith("a 90 is beyond ")


def test_pictures_are_refused():
    lot = np.random.default_rng(0)
    X = lot.normal(size=(40, 1, 8, 8)).astype(np.float32)
    model = NatPNClassifier(encoder="image", max_epochs=1, random_state=0).fit(X, np.arange(40) % 2)
    with pytest.raises(ValueError, match=r"only rows of tables are explained.*\(1, 8, 8\)"):
        model.explain(X)
    assert "reason" not in model.predict_frame(X)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("value", [1e300, -1.7e308, 5e-324, np.nan, 1e30])
def test_no_number_is_too_strange(value):
    row = cars(1, seed=3).assign(mileage=value)
    found = garage().explain(row)
    assert np.isfinite(found.select_dtypes("number")).all(axis=None)
    assert found["column"].iloc[0] == "mileage" or value == 5e-324


def test_a_wrong_cell_is_named_by_its_row(monkeypatch):
    monkeypatch.setattr("natpn.model.fitted.PIECE", 4)
    rows = cars(10).astype(object)
    rows.loc[6, "mileage"] = "far"
    with pytest.raises(ValueError, match=r"Column 'mileage', row 6"):
        garage().explain(rows)


def test_every_kind_of_column_is_explained():
    """Constant, empty, boolean and rare columns too: whatever a row holds, columns add up and values can be read."""
    lot = np.random.default_rng(0)
    frame = pd.DataFrame({
        "flag": lot.random(200) < 0.3,
        "name": [f"n{i}" for i in range(200)],
        "none": [None] * 200,
        "same": [datetime.datetime(2024, 1, 1)] * 200,
        "size": np.where(lot.random(200) < 0.5, np.nan, lot.exponential(size=200)),
    })  # fmt: skip
    model = clone(REGRESSOR).fit(frame, lot.normal(size=200))
    rows = frame.iloc[:4].astype(object)
    rows.loc[0, "none"], rows.loc[1, "same"], rows.loc[2, "size"] = "here", datetime.datetime(2025, 1, 1), 99.0
    rows.loc[3, "flag"] = None
    found = model.explain(rows)
    assert found["column"].tolist() == ["none", "same", "size", "flag"]
    assert found["familiar"].tolist()[:2] == ["", "2024-01-01"]
