"""A kind of column that only this file knows goes all the way: one class, and one line in the registry."""

import datetime
import inspect
import json
import re
from dataclasses import dataclass

import numpy as np
import onnx
import pandas as pd
import pytest

import natpn
from cli.conftest import refused, run
from natpn import NatPNRegressor
from natpn.export import export_onnx
from natpn.serve import create_app
from natpn.tabular import KINDS, Column, TableTransform
from natpn.tabular.cells import map_distinct
from natpn.tabular.texts import PLAIN, is_mark, shown
from serve.serving import client_of

CLOCK = re.compile(r"([01]\d|2[0-3]):[0-5]\d")


@dataclass(frozen=True)
class ClockColumn(Column):
    """Times of day, as 14:30: the sine and the cosine of the hour, 0 where missing."""

    kind = "clock"
    words = ("time of day", "times of day")
    types = (datetime.time,)
    n_numbers = 2
    expected = "a time of day, such as 14:30"
    usual = "12:00"
    facts = "00:00 to 23:59"

    @classmethod
    def unlike(cls, texts, written=PLAIN, unit=""):
        return [text for text in texts if not CLOCK.fullmatch(text.strip())]

    @classmethod
    def parse(cls, text, written=PLAIN, unit=""):
        if is_mark(text):
            return None
        if not CLOCK.fullmatch(text.strip()):
            raise ValueError(f"{shown(text)} is no time of day")
        return datetime.time.fromisoformat(text.strip())

    @classmethod
    def arrow_of(cls, values):
        return ("time64", "us")

    @classmethod
    def fit(cls, name, cells):
        return cls(name, len(cells.values), np.isnan(hours(cells, name)).mean())

    def encode(self, cells, numbers, flags):
        angle = 2 * np.pi * hours(cells, self.name) / 24
        missing = np.isnan(angle)
        numbers[...] = np.nan_to_num(np.sqrt(2) * np.stack([np.sin(angle), np.cos(angle)], axis=1))
        self.flag_missing(missing, flags)
        return self.new_events(missing)

    def oddness(self, cells):
        return self.score_events(np.zeros(len(cells.values)), np.isnan(hours(cells, self.name)))


def hours(cells, name):
    found, codes = map_distinct(list(cells.values), name, lambda time: time.hour + time.minute / 60)
    return np.array([np.nan if hour is None else hour for hour in found])[codes]


@pytest.fixture(autouse=True)
def registered(monkeypatch):
    monkeypatch.setattr("natpn.tabular.column_kinds.KINDS", {"clock": ClockColumn} | KINDS)


def trips(n=200):
    rng = np.random.default_rng(0)
    minutes = rng.integers(0, 24 * 60, n)
    frame = pd.DataFrame({"km": rng.uniform(1, 30, n).round(1)})
    frame["start"] = [datetime.time(m // 60, m % 60) for m in minutes]
    frame.loc[::9, "start"] = None
    return frame, 5 + frame["km"] + 4 * np.sin(2 * np.pi * minutes / 1440) + 0.1 * rng.normal(size=n)


def as_texts(frame):
    return frame.assign(start=[time and f"{time:%H:%M}" for time in frame["start"]])


@pytest.fixture
def fitted():
    return NatPNRegressor(family="normal", ensemble_size=1, max_epochs=3, random_state=0).fit(*trips())


def test_the_class_is_short_and_no_other_test_sees_it():
    assert len(inspect.getsource(ClockColumn).splitlines() + inspect.getsource(hours).splitlines()) <= 60
    assert "clock" not in KINDS


def test_it_is_known_in_a_data_frame_and_encoded():
    frame, _ = trips()
    transform = TableTransform().fit(frame)
    assert [column.kind for column in transform.columns] == ["number", "clock"]
    assert transform.columns[1].missing == pytest.approx(23 / 200)
    six = transform.transform(pd.DataFrame({"km": [3.0], "start": [datetime.time(6)]}))[0]
    assert six[1:3] == pytest.approx([np.sqrt(2), 0], abs=1e-6)
    assert TableTransform().fit(as_texts(frame)).columns[1].kind == "category"  # as a frame's texts are


def test_a_model_predicts_saves_and_loads_with_it(fitted, tmp_path):
    frame, _ = trips()
    answers = fitted.predict_frame(frame)
    assert np.isfinite(answers["prediction"]).all()
    fitted.save(tmp_path / "model")
    loaded = natpn.load(tmp_path / "model")
    pd.testing.assert_frame_equal(loaded.predict_frame(frame), answers)
    assert loaded.inputs_.table.columns == fitted.inputs_.table.columns
    complete = NatPNRegressor(ensemble_size=1, max_epochs=1, random_state=0).fit(frame.dropna(), np.arange(177.0))
    unknown, known = complete.inputs_.table.transform(frame[:2])[:, -1]
    assert unknown < known == 0  # a first missing value is a surprise


def test_a_server_reads_and_describes_it(fitted):
    frame, _ = trips()
    expected = fitted.predict(frame[1:3])
    with client_of(create_app(fitted)) as client:
        feature = client.get("/model").json()["features"][1]
        assert (feature["name"], feature["kind"]) == ("start", "clock")
        assert feature["usual"] in {str(time) for time in frame["start"]}  # that of the row that the model keeps
        schema = client.get("/openapi.json").json()
        assert "A time of day, such as 14:30. null if it is not known." in json.dumps(schema)
        rows = json.loads(as_texts(frame[1:3]).to_json(orient="records"))
        answers = client.post("/predict", json={"rows": rows}).json()["rows"]
        assert [answer["prediction"] for answer in answers] == pytest.approx(expected, rel=1e-5)
        body = as_texts(frame[1:3]).to_csv(index=False)
        answers = client.post("/predict", content=body, headers={"Content-Type": "text/csv"}).json()["rows"]
        assert [answer["prediction"] for answer in answers] == pytest.approx(expected, rel=1e-5)
        assert client.post("/predict?curve=true", json={"km": 3, "start": None}).status_code == 200
        wrong = client.post("/predict", json={"km": 3, "start": "25:99"})
        assert wrong.status_code == 422
        assert "expected a time of day, such as 14:30, but '25:99' is no time of day" in wrong.json()["error"]
        assert (
            "expected a time of day, such as 14:30, got 7" in client.post("/predict", json={"km": 3, "start": 7}).text
        )


def test_the_command_line_takes_it_from_a_file_to_a_report(tmp_path):
    frame, y = trips()
    data, model, out = tmp_path / "trips.csv", tmp_path / "model", tmp_path / "answers.csv"
    as_texts(frame).assign(price=y).to_csv(data, index=False)
    result = run("fit", data, "--target", "price", "--ensemble", 1, "--max-epochs", 3, "--out", model)
    assert result.exit_code == 0, result.output
    assert re.search(r"start +time of day +00:00 to 23:59 +12 % missing", result.output)
    assert natpn.load(model).inputs_.table.columns[1].kind == "clock"
    assert run("predict", model, data, "--out", out).exit_code == 0
    assert np.allclose(pd.read_csv(out)["prediction"], natpn.load(model).predict(frame), rtol=1e-4)
    page = tmp_path / "report.html"
    assert run("report", model, data, "--out", page).exit_code == 0
    assert "00:00 to 23:59" in page.read_text()  # usually, where it is missing
    texts = as_texts(frame).assign(price=y)
    texts.loc[5, "start"] = "noon"
    texts.to_csv(data, index=False)
    for command in (
        ("fit", data, "--target", "price", "--out", tmp_path / "other"),
        ("predict", model, data, "--out", out),
    ):
        assert "line 7, column 'start': 'noon' is no time of day" in refused(run(*command))
    counted = run("predict", model, data, "--bad-cells", "missing", "--out", out)
    assert "1 cell that is not of its kind is counted as missing, as 'noon'" in counted.stderr


def test_the_export_says_that_a_graph_cannot_read_it(fitted, tmp_path, monkeypatch):
    # The graph is that of any encoded table, and takes long to make.
    monkeypatch.setattr("natpn.export.onnx_file._translate", lambda answers: onnx.ModelProto())
    sentences = export_onnx(fitted, tmp_path / "model.onnx")
    assert sentences[0].startswith("Column 'start' is a clock: a graph cannot read it")
    (inputs,) = [entry.value for entry in onnx.load(tmp_path / "model.onnx").metadata_props if entry.key == "inputs"]
    assert json.loads(inputs)["kind"] == "encoded table"
