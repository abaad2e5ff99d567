"""Models in MLflow: logged, loaded and served, they answer as `predict_frame` does; nothing in them can run code."""

import json
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone

import natpn.mlflow
from estimators.problems import CLASSIFIER, REGRESSOR
from serve.serving import client_of
from tabular.tables import mixed

TABLE = pd.DataFrame({name: values for name, values in mixed().items() if name != "wait"})
TABLE["code"] = np.arange(len(TABLE)) % 3
TABLE["code"] = TABLE["code"].astype("category")
TABLE["size"] = np.linspace(0.5, 7, len(TABLE))
TARGET = TABLE["size"] + TABLE["rooms"]


def new_rows() -> pd.DataFrame:
    """Rows as they were, with new categories, and with missing values where training had none."""
    rows = TABLE.iloc[:12].copy().reset_index(drop=True)
    rows.loc[1, "city"] = "Ulm"
    rows["rooms"] = rows["rooms"].astype(float)
    rows.loc[2, "rooms"] = np.nan
    rows.loc[3, "size"] = 1e6
    return rows


@pytest.fixture(scope="module")
def mlflow():
    return natpn.mlflow._import_mlflow()


@pytest.fixture(scope="module")
def model():
    return clone(REGRESSOR).set_params(max_epochs=1).fit(TABLE, TARGET)


@pytest.fixture(scope="module")
def logged(model, tmp_path_factory, mlflow):
    place = tmp_path_factory.mktemp("mlflow")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")  # the small package has no database
        mlflow.set_tracking_uri((place / "store").as_uri())
        with mlflow.start_run():
            yield natpn.mlflow.log_model(model, name="rent", metadata={"owner": "flats"})
    mlflow.set_tracking_uri(None)


@pytest.fixture(scope="module")
def function(logged, mlflow):
    return mlflow.pyfunc.load_model(logged.model_uri)


def test_it_is_loaded_as_an_estimator(model, logged):
    again = natpn.mlflow.load_model(logged.model_uri)
    assert type(again) is type(model)
    pd.testing.assert_frame_equal(again.predict_frame(new_rows()), model.predict_frame(new_rows()))


def test_as_a_function_it_answers_as_predict_frame(model, function):
    rows = new_rows().sample(frac=1, random_state=0, axis=1)  # columns in any order
    pd.testing.assert_frame_equal(function.predict(rows), model.predict_frame(new_rows()))
    narrow = function.predict(rows, params={"coverage": 0.5})
    pd.testing.assert_frame_equal(narrow, model.predict_frame(new_rows(), 0.5))


def test_the_signature_is_the_schema(function, model):
    schema = function.metadata.get_input_schema()
    assert {spec.name: str(spec.type) for spec in schema} == {
        "age": "DataType.double",
        "rooms": "Any",
        "smoker": "Any",
        "city": "DataType.string",
        "day": "DataType.datetime",
        "same": "Any",
        "code": "Any",
        "size": "DataType.double",
    }
    assert all(spec.required for spec in schema)
    outputs = function.metadata.get_output_schema()
    assert outputs.input_names() == model.predict_frame(new_rows()).columns.tolist()
    assert outputs.input_dict()["novel"].type.name == "boolean"
    assert [(spec.name, spec.default) for spec in function.metadata.get_params_schema()] == [("coverage", 0.9)]


def test_values_may_be_missing_but_a_misspelt_column_is_not_taken_for_missing(model, function, mlflow):
    rows = new_rows()
    absent = rows.assign(age=np.nan, city=None, day=pd.NaT)
    pd.testing.assert_frame_equal(function.predict(absent), model.predict_frame(absent))
    with pytest.raises(mlflow.exceptions.MlflowException, match=r"missing inputs \['age'\]"):
        function.predict(rows.rename(columns={"age": "aeg"}))


def test_errors_of_the_model_come_through(function):
    with pytest.raises(ValueError, match=r"Column 'rooms', row 1: 'two'"):
        function.predict(new_rows().assign(rooms=[1, "two", *[3] * 10]))
    with pytest.raises(ValueError, match="coverage: expected a share between 0 and 1"):
        function.predict(new_rows(), params={"coverage": 2.0})


def test_nothing_in_it_can_run_code(logged, mlflow):
    place = mlflow.artifacts.download_artifacts(logged.model_uri)
    found = {path.name for path in Path(place).rglob("*") if path.is_file()}
    assert not [name for name in found if name.endswith((".pkl", ".pickle", ".pt", ".py"))]
    assert {"MLmodel", "requirements.txt", "config.json", "model.safetensors"} <= found
    assert logged.metadata == {"owner": "flats"}


def test_requirements_are_said_without_a_search(logged, mlflow):
    lines = Path(mlflow.artifacts.download_artifacts(logged.model_uri), "requirements.txt").read_text().split()
    assert [line.partition("==")[0] for line in lines if "mlflow" not in line] == list(natpn.mlflow._PINNED)
    assert not any("+" in line for line in lines)


def test_it_is_served(model, function, mlflow):
    """By MLflow's own app, in this process, behind a socket."""
    from mlflow.pyfunc import scoring_server

    rows = new_rows()
    body = json.loads(rows.to_json(orient="split", date_format="iso", index=False))
    expected = model.predict_frame(rows, 0.5)
    with client_of(scoring_server.init(function)) as client:
        assert client.get("/ping").status_code == 200
        done = client.post("/invocations", json={"dataframe_split": body, "params": {"coverage": 0.5}})
        assert done.status_code == 200, done.text
        served = pd.DataFrame(done.json()["predictions"])
        pd.testing.assert_frame_equal(served, expected, check_dtype=False)
        records = json.loads(rows.to_json(orient="records", date_format="iso"))
        again = client.post("/invocations", json={"dataframe_records": records})
        assert pd.DataFrame(again.json()["predictions"])["prediction"].tolist() == expected["prediction"].tolist()
        wrong = client.post("/invocations", json={"dataframe_records": [{**records[0], "rooms": "two"}]})
        assert wrong.status_code == 400
        assert "'two'" in wrong.text


@pytest.mark.parametrize("labels", [["no", "yes"], [3, 7]])
def test_classes_have_their_probabilities(labels, tmp_path, mlflow):
    model = clone(CLASSIFIER).set_params(max_epochs=1).fit(TABLE[["size", "city"]], np.array(labels)[TABLE.index % 2])
    natpn.mlflow.save_model(model, tmp_path / "m", input_example=TABLE[["size", "city"]].head(2))
    function = mlflow.pyfunc.load_model(str(tmp_path / "m"))
    rows = TABLE[["size", "city"]].head(5)
    pd.testing.assert_frame_equal(function.predict(rows), model.predict_frame(rows))
    names = function.metadata.get_output_schema().input_names()
    assert names[:3] == ["prediction", f"p_{labels[0]}", f"p_{labels[1]}"]
    assert natpn.mlflow.load_model(str(tmp_path / "m")).classes_.tolist() == labels


def test_arrays_and_images_are_tensors(tmp_path, mlflow):
    images = np.random.default_rng(0).normal(size=(40, 1, 8, 8))
    model = clone(CLASSIFIER).set_params(max_epochs=1).fit(images, np.arange(40) % 2)
    natpn.mlflow.save_model(model, tmp_path / "images")
    function = mlflow.pyfunc.load_model(str(tmp_path / "images"))
    pd.testing.assert_frame_equal(function.predict(images[:3]), model.predict_frame(images[:3]))
    X = images[:, 0, 0]
    model = clone(REGRESSOR).set_params(max_epochs=1).fit(X, X[:, 0])
    natpn.mlflow.save_model(model, tmp_path / "arrays")
    function = mlflow.pyfunc.load_model(str(tmp_path / "arrays"))
    pd.testing.assert_frame_equal(function.predict(X[:3]), model.predict_frame(X[:3]))
    assert function.metadata.get_input_schema().inputs[0].shape == (-1, 8)


def test_exposures_are_a_column(tmp_path, mlflow):
    X, years = TABLE[["size"]], pd.Series(np.arange(len(TABLE)) % 3 + 1)
    counts = np.random.default_rng(0).poisson(2 * years)
    model = clone(REGRESSOR).set_params(max_epochs=1).fit(X.assign(years=years), counts, exposure="years")
    natpn.mlflow.save_model(model, tmp_path / "m")
    function = mlflow.pyfunc.load_model(str(tmp_path / "m"))
    pd.testing.assert_frame_equal(function.predict(X.assign(years=5)), model.predict_frame(X, exposure=5.0))
    card = (tmp_path / "m" / "data" / "natpn-model" / "README.md").read_text()
    assert "the column years, or `exposure=`" in card
    with pytest.raises(ValueError, match="expected a column of exposures"):
        natpn.mlflow.save_model(model.fit(X, counts, exposure=years), tmp_path / "other")
    assert not (tmp_path / "other").exists()


def test_what_cannot_be_logged_is_said(model, tmp_path, monkeypatch, mlflow):
    with pytest.raises(ValueError, match="not fitted"):
        natpn.mlflow.save_model(clone(REGRESSOR), tmp_path / "m")
    odd = clone(REGRESSOR).set_params(encoder=object())
    odd.model_ = model.model_
    with pytest.raises(ValueError, match="whose code is not saved"):
        natpn.mlflow.log_model(odd)
    assert not list(tmp_path.iterdir())
    monkeypatch.setitem(sys.modules, "mlflow.pyfunc", None)
    with pytest.raises(ImportError, match=r"pip install '\.\[mlflow\]'"):
        natpn.mlflow.save_model(model, tmp_path / "m")


def test_a_model_of_others_is_refused(tmp_path, mlflow):
    class Doubled(mlflow.pyfunc.PythonModel):
        def predict(self, model_input: list[float]) -> list[float]:
            return [2 * value for value in model_input]

    mlflow.pyfunc.save_model(str(tmp_path / "other"), python_model=Doubled(), pip_requirements=["numpy"])
    with pytest.raises(ValueError, match=r"expected a model that natpn.mlflow wrote, got one of python_function"):
        natpn.mlflow.load_model(str(tmp_path / "other"))
