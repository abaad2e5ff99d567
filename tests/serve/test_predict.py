"""Answers are those of the model in process, whatever form the question has."""

import copy
import io
import math

import numpy as np
import pandas as pd
import pytest
from scipy.integrate import trapezoid

from natpn import NatPNClassifier, NatPNRegressor
from natpn.few_rows import MAX_ROWS
from natpn.serve import create_app
from serve.serving import client_of, flats, row


def frame_of(*rows):
    frame = pd.DataFrame(list(rows))
    return frame.assign(built=pd.to_datetime(frame["built"], format="ISO8601"), area=frame["area"].astype(float))


def agrees(answer, expected):
    for name, value in expected.items():
        if name == "reason":  # only where it is asked for
            continue
        got = answer["probabilities"][name[2:]] if name.startswith("p_") else answer[name]
        if isinstance(value, float):
            assert got is None if math.isinf(value) else got == pytest.approx(value, rel=1e-9, abs=1e-12), name
        else:
            assert got == value, name


def test_one_row(client, regressor):
    answer = client.post("/predict", json=row()).json()
    assert list(answer) == [
        "prediction", "lower", "upper", "aleatoric", "epistemic", "familiarity", "novelty_p", "novel"
    ]  # fmt: skip
    agrees(answer, regressor.predict_frame(frame_of(row())).to_dict("records")[0])


def test_many_rows_with_missing_values_and_unseen_levels(client, regressor):
    rows = [
        row(),
        row(area=None),
        row(district="airport"),
        row(area=1e6),
        row(built="2024-02-29T12:30:00"),
        row(rooms=2.5),
    ]
    answers = client.post("/predict", json={"rows": rows}).json()["rows"]
    expected = regressor.predict_frame(frame_of(*rows)).to_dict("records")
    for answer, right in zip(answers, expected, strict=True):
        agrees(answer, right)
    assert [answer["novel"] for answer in (answers[0], answers[1], answers[3])] == [False, False, True]
    assert answers[2]["familiarity"] < answers[0]["familiarity"]


def test_csv_in_any_order_of_columns(client, regressor):
    frame, _ = flats()
    text = frame[["built", "district", "area", "garden", "rooms"]].to_csv(index=False)
    answers = client.post(
        "/predict", content="\ufeff" + text, headers={"content-type": "text/csv; charset=utf-8"}
    ).json()
    expected = regressor.predict_frame(frame).to_dict("records")
    for answer, right in zip(answers["rows"], expected, strict=True):
        agrees(answer, right)


def test_classes(class_client, classifier):
    X = np.array([[0.1, 0.2, 0.3, 0.4], [50.0, 0, 0, 0]])
    answers = class_client.post(
        "/predict", json={"rows": [dict(zip(["x0", "x1", "x2", "x3"], x, strict=True)) for x in X.tolist()]}
    )
    for answer, right in zip(answers.json()["rows"], classifier.predict_frame(X).to_dict("records"), strict=True):
        agrees(answer, right)
        assert set(answer["probabilities"]) == {"low", "mid", "high"}
        assert "lower" not in answer


def test_infinite_bounds_are_null_and_nothing_is_nan():
    X = np.linspace(0, 1, 12)[:, None]
    model = NatPNRegressor(calibrate="conformal", max_epochs=2, random_state=0).fit(X, X[:, 0])
    assert np.isinf(model.predict_interval(X[:1])).all()
    with client_of(create_app(model)) as client:
        text = client.post("/predict", json={"x0": 0.5}).text
    assert '"lower":null,"upper":null' in text
    assert "NaN" not in text


@pytest.mark.parametrize("family", ["poisson", "bernoulli", "gamma", "multivariate_normal"])
def test_other_targets(family):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(80, 2))
    y = {"poisson": rng.poisson(3, 80), "bernoulli": X[:, 0] > 0, "gamma": np.exp(X[:, 0]), "multivariate_normal": X}
    model = NatPNRegressor(family, max_epochs=2, random_state=0).fit(X, y[family].astype(float))
    with client_of(create_app(model)) as client:
        answer = client.post("/predict?curve=true", json={"x0": 0.5, "x1": None}).json()
    if family == "multivariate_normal":
        assert answer["prediction"] == pytest.approx(model.predict([[0.5, np.nan]])[0].tolist())
        assert answer["curve"] is None
    else:
        assert answer["prediction"] == pytest.approx(model.predict([[0.5, np.nan]])[0])
        assert answer["curve"]["kind"] == ("density" if family == "gamma" else "probability")
        assert min(answer["curve"]["x"]) >= 0


def test_dates_with_a_zone():
    frame, rent = flats(100)
    frame = frame[["built"]].assign(built=frame["built"].dt.tz_localize("Europe/Berlin"))
    model = NatPNRegressor(max_epochs=2, random_state=0).fit(frame, rent)
    with client_of(create_app(model)) as client:
        expected = model.predict_frame(frame.iloc[:1]).to_dict("records")[0]
        agrees(client.post("/predict", json={"built": frame["built"][0].isoformat()}).json(), expected)
        wrong = client.post("/predict", json={"built": "2000-01-01"})
        feature = client.get("/model").json()["features"][0]
        assert client.post("/predict", json={"built": feature["usual"]}).status_code == 200
    assert wrong.status_code == 422
    assert "time zone" in wrong.json()["error"]


def test_categories_that_are_numbers_may_be_sent_as_numbers():
    frame = pd.DataFrame({"floor": pd.Categorical([1, 2, 3, 4] * 20)})
    model = NatPNClassifier(max_epochs=2, random_state=0).fit(frame, [0, 1] * 40)
    with client_of(create_app(model)) as client:
        assert client.post("/predict", json={"floor": 1}).json() == client.post("/predict", json={"floor": "1"}).json()
        assert client.post("/predict", json={"floor": 1}).json()["prediction"] == 0
        assert client.post("/predict", json={"floor": True}).status_code == 422


def test_curves_fall_back_to_the_prior(client, class_client):
    near, far = client.post("/predict?curve=true", json={"rows": [row(), row(area=1e6)]}).json()["rows"]
    for answer in (near, far):
        curve = answer["curve"]
        assert curve["kind"] == "density"
        assert len(curve["x"]) == len(curve["y"]) == len(curve["prior"]) > 100
        assert curve["x"] == sorted(curve["x"])
    assert max(near["curve"]["y"]) > 5 * max(near["curve"]["prior"])
    assert near["curve"]["x"][0] < near["lower"] < near["upper"] < near["curve"]["x"][-1]
    assert 0.9 < trapezoid(near["curve"]["y"], near["curve"]["x"]) < 1.01
    assert far["curve"]["y"] == pytest.approx(far["curve"]["prior"], rel=1e-6)
    assert far["most_unusual"] == "area"
    assert far["reason"].startswith("area ")
    bars = class_client.post("/predict?curve=true", json={"x0": 1e6, "x1": 0, "x2": 0, "x3": 0}).json()["curve"]
    assert bars["x"] == ["high", "low", "mid"]
    assert bars["y"] == pytest.approx(bars["prior"])


def test_images(painter):
    picture = np.random.default_rng(1).normal(size=(1, 8, 8))
    expected = painter.predict_frame(picture[None]).to_dict("records")[0]
    with client_of(create_app(painter)) as client:
        agrees(client.post("/predict", json=picture.tolist()).json(), expected)
        many = client.post("/predict?curve=true", json={"rows": [picture.tolist()] * 2}).json()["rows"]
        about = client.get("/model").json()
        bad = [
            client.post("/predict", json=picture[0].tolist()),
            client.post("/predict", json=[[["x"] * 8] * 8]),
            client.post("/predict", json={"rows": [[1, [2]]]}),
            client.post("/predict", json={"a": 1}),
            client.post("/predict", content="a\n1\n", headers={"content-type": "text/csv"}),
        ]
    assert many[1]["curve"]["kind"] == "classes"
    assert about["features"] is None
    assert about["shape"] == [1, 8, 8]
    assert [answer.status_code for answer in bad] == [422, 422, 422, 422, 415]
    assert "1 × 8 × 8" in bad[0].json()["error"]


def test_the_model_describes_itself(client, class_client):
    about = client.get("/model").json()
    kinds = {feature["name"]: feature["kind"] for feature in about["features"]}
    assert kinds == {"area": "number", "rooms": "number", "district": "category", "garden": "boolean", "built": "date"}
    assert set(about["features"][2]["levels"]) == {"old town", "harbour", "hills"}
    assert about["training"]["rows"] == 400
    assert about["family"] == "Normal()"
    usual = {feature["name"]: feature["usual"] for feature in about["features"]}
    assert not client.post("/predict", json=usual).json()["novel"]
    assert class_client.get("/model").json()["classes"] == ["high", "low", "mid"]


def test_a_large_request_is_answered_like_small_ones(client, regressor):
    frame, _ = flats()
    rows = frame.assign(built=frame["built"].dt.strftime("%Y-%m-%d"))
    text = io.StringIO()
    pd.concat([rows] * 13).to_csv(text, index=False)
    answers = client.post("/predict", content=text.getvalue(), headers={"content-type": "text/csv"}).json()["rows"]
    assert len(answers) == 5200
    agrees(answers[5100], regressor.predict_frame(frame.iloc[[300]]).to_dict("records")[0])


def test_intervals_of_another_coverage(client):
    narrow, usual = (client.post(f"/predict?coverage={c}", json=row()).json() for c in (0.5, 0.9))
    assert usual == client.post("/predict", json=row()).json()
    assert usual["lower"] < narrow["lower"] < narrow["upper"] < usual["upper"]
    drawn = client.post("/predict?coverage=0.5&curve=true", json=row()).json()
    assert (drawn["lower"], drawn["upper"]) == (narrow["lower"], narrow["upper"])
    for wrong in ("1", "0", "wide", "nan"):
        answer = client.post(f"/predict?coverage={wrong}", json=row())
        assert answer.status_code == 422
        assert answer.json()["field"] == "coverage"


def test_the_first_request_finds_all_prepared(regressor, monkeypatch):
    """What is calculated once is calculated before the server listens."""
    model = copy.copy(regressor.model_)
    model.__dict__.pop("_quick", None)
    sizes = []
    answers = type(model).answers
    monkeypatch.setattr(type(model), "answers", lambda self, X, *more: sizes.append(len(X)) or answers(self, X, *more))
    estimator = copy.copy(regressor)
    estimator.model_ = model
    create_app(estimator)
    assert "_quick" in model.__dict__
    assert min(sizes) == 1
    assert max(sizes) > MAX_ROWS  # which torch calculates


def test_explanations_are_those_of_the_model(client, regressor):
    rows = [row(), row(area=9e6)]
    plain = client.post("/predict", json={"rows": rows}).json()["rows"]
    found = client.post("/predict?explain=true", json={"rows": rows}).json()["rows"]
    told = regressor.explain(frame_of(*rows))
    for place, answer in enumerate(found):
        assert answer["surprise"] == pytest.approx(told["surprise"][place], abs=1e-3)
        assert answer["surprise"] == pytest.approx(sum(answer["adds"].values()), rel=1e-6)
        assert {name: answer[name] for name in plain[place]} == plain[place]
    assert found[1]["most_unusual"] == "area"
    assert found[1]["reason"].startswith("area 9,000,000 is beyond ")
    assert float(found[1]["familiar"]) < 9e6
    assert found[0]["reason"] == ""
    refused = client.post("/predict?explain=true&curve=true", json=row())
    assert (refused.status_code, refused.json()["field"]) == (422, "explain")
