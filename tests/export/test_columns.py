"""Graphs that take a table by its columns: categories, dates and missing values are encoded inside, as the model does.

What the exported module says is compared with the estimator; one real table goes through onnxruntime.
"""

import json

import numpy as np
import onnx
import onnxruntime
import pandas as pd
import pytest
import torch

from export.problems import ask, assert_agree, feed, matrix
from natpn import NatPNClassifier, NatPNRegressor
from natpn.export import export_onnx
from natpn.export.column_inputs import input_names, take_columns
from natpn.export.graph_module import Columns, left_out, takes_columns
from natpn.tabular import KINDS, TableTransform
from tabular.tables import mixed

QUICK = {"latent_dim": 4, "max_epochs": 1, "ensemble_size": 1, "random_state": 0}


def every_kind() -> pd.DataFrame:
    table = pd.DataFrame({name: values for name, values in mixed(200).items() if name != "wait"})
    table["zoned"] = pd.date_range("2019-03-01", periods=200, freq="199h", tz="Europe/Berlin")
    table["once"] = pd.Timestamp("2024-02-29")
    table["always"] = "yes"
    table["name"] = [f"n{i}" for i in range(200)]  # each in one row
    table["empty"] = None
    return table


def strange(table: pd.DataFrame) -> pd.DataFrame:
    """Rows of a table, with something new in each column, one after the other."""
    rows = table.head(80).copy()
    rows["rooms"] = rows["rooms"].astype(float)
    for i, (name, value) in enumerate(
        {
            "age": 1e9,
            "rooms": np.nan,
            "smoker": None,
            "city": "Ulm",
            "day": pd.Timestamp("1931-05-05 13:14:15.5"),
            "same": 4.0,
            "zoned": pd.NaT,
            "once": pd.Timestamp("2024-03-01"),
            "always": None,
            "name": "n200",
            "empty": 1.0,
        }.items()
    ):
        rows.loc[2 * i, name] = value
    rows.loc[30, ["city", "always", "name"]] = "NA"
    rows.loc[31, ["rooms", "city", "always", "same"]] = [1e7, "x", "y", -1.0]
    return rows


@pytest.fixture(scope="module")
def model():
    table = every_kind()
    assert {column.kind for column in TableTransform().fit(table).columns} == set(KINDS)
    return NatPNRegressor("normal", calibrate="conformal", **QUICK).fit(table, 100 * table["rooms"])


def test_every_kind_of_column_is_encoded_as_the_table_is(model):
    table = model.model_.inputs.table
    rows = strange(every_kind())
    with torch.no_grad():
        found = Columns(table)(torch.from_numpy(matrix(model, rows))).numpy()
    expected = table.transform(rows)
    assert found == pytest.approx(expected, rel=1e-6, abs=1e-6)
    assert (expected[:, -1] < 0).sum() >= 9


def test_answers_agree_and_intervals_are_conformal(model):
    rows = strange(every_kind())
    assert_agree(ask(model, matrix(model, rows)), model, rows, 1e-7)
    frame = model.predict_frame(rows)
    assert ask(model, matrix(model, rows))["lower"] == pytest.approx(frame["lower"].to_numpy(), rel=1e-7)
    plain = model.predict_dist(rows).quantile([0.05])
    assert not np.allclose(plain[:, 0], frame["lower"])


def test_intervals_by_group_are_left_out_and_said():
    table = every_kind()
    options = QUICK | {"calibrate": "conformal", "groups": "city", "validation_fraction": 0.8}
    model = NatPNRegressor("normal", **options).fit(table, 100 * table["rooms"])
    found = ask(model, matrix(model, table.head(5)))
    assert "quantiles" in found
    assert "lower" not in found
    assert left_out(model.model_) == ["The conformal calibration of intervals is left out: ask the model for them."]


def test_columns_of_numbers_alone_are_still_a_matrix():
    X = np.random.default_rng(0).normal(size=(60, 2))
    model = NatPNRegressor("normal", **QUICK).fit(X, X[:, 0])
    assert not takes_columns(model.model_.inputs)


def test_names_that_are_taken_are_changed(model):
    columns = TableTransform().fit(pd.DataFrame({"n": ["a", "b"], "chi": [1.0, 2.0], "X": [1, 2], "": [1, 3]})).columns
    assert input_names(columns, ["n", "n_column", "prediction"]) == ["n_column_column", "chi", "X_column", "_column"]


def test_texts_are_looked_up_by_onnxruntime(model):
    """Without the network, whose translation takes long: the graph returns the matrix."""
    helper, columns = onnx.helper, model.model_.inputs.columns
    shape = ["rows", len(columns)]
    ends = [helper.make_tensor_value_info(name, onnx.TensorProto.DOUBLE, shape) for name in ("X", "Y")]
    graph = helper.make_graph([helper.make_node("Identity", ["X"], ["Y"])], "g", ends[:1], ends[1:])
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10)
    names = input_names(columns, ["Y"])
    take_columns(proto, columns, names)
    onnx.checker.check_model(proto, full_check=True)
    rows = strange(every_kind())
    session = onnxruntime.InferenceSession(proto.SerializeToString())
    (found,) = session.run(None, dict(zip(names, feed(model, rows).values(), strict=True)))
    assert np.array_equal(found, matrix(model, rows), equal_nan=True)


REAL = {
    "hotel_rates": ("avg_price_per_room", NatPNRegressor()),
    "adult": (None, NatPNClassifier()),
    "king_county": ("price", NatPNRegressor("lognormal")),
    "hypothyroid": (None, NatPNClassifier()),
}


def real(name: str, directory) -> tuple[pd.DataFrame, pd.Series]:
    tasks = {task["name"]: task for task in json.loads((directory / "arena" / "tasks.json").read_text())}
    table = pd.read_parquet(directory / "arena" / tasks[name]["file"])
    table = table.sample(1200, random_state=0).reset_index(drop=True).drop(columns=tasks[name]["drop"])
    table = table.dropna(subset=tasks[name]["target"])
    return table.drop(columns=tasks[name]["target"]), table[tasks[name]["target"]]


@pytest.mark.slow
@pytest.mark.parametrize("name", REAL)
def test_real_tables(name, real_data):
    X, y = real(name, real_data)
    model = REAL[name][1].set_params(**QUICK).fit(X.head(600), y.head(600))
    rows = X.tail(600)
    assert takes_columns(model.model_.inputs)
    assert_agree(ask(model, matrix(model, rows)), model, rows, 1e-6)


@pytest.mark.slow
def test_a_real_table_in_onnxruntime(real_data, tmp_path):
    X, y = real("hotel_rates", real_data)
    model = NatPNRegressor(**QUICK).fit(X.head(600), y.head(600))
    assert export_onnx(model, tmp_path / "m.onnx") == list(model.family_.graph.left_out)
    onnx.checker.check_model(tmp_path / "m.onnx", full_check=True)
    session = onnxruntime.InferenceSession(tmp_path / "m.onnx")
    rows = X.tail(300).reset_index(drop=True)
    text = next(c.name for c in model.model_.inputs.columns if c.kind == "category")
    rows.loc[:2, text] = ["never seen", None, "NA"]
    described = json.loads(session.get_modelmeta().custom_metadata_map["inputs"])
    given = feed(model, rows)
    found = session.run(None, {entry["input"]: given[entry["column"]] for entry in described["columns"]})
    assert_agree(dict(zip([o.name for o in session.get_outputs()], found, strict=True)), model, rows, 1e-6)
    frame = model.predict_frame(rows)
    for column in ("prediction", "lower", "upper", "familiarity", "epistemic"):
        assert dict(zip([o.name for o in session.get_outputs()], found, strict=True))[column] == pytest.approx(
            frame[column].to_numpy(), rel=1e-6
        )
