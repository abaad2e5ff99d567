"""`POST /feedback`: the served model learns, and requests are answered by the old model or the new one, whole."""

import copy
import threading

import numpy as np
import pytest

from natpn import load
from natpn.serve import create_app
from serve.serving import client_of, row

CASTLE = {"district": "castle"}


def lessons(n=40, **changes):
    rng = np.random.default_rng(1)
    rows = [row(area=float(area), **(CASTLE | changes)) for area in rng.uniform(30, 150, n)]
    return {"rows": rows, "targets": [30 * r["area"] for r in rows]}


@pytest.fixture
def learner(regressor):
    with client_of(create_app(copy.deepcopy(regressor), learn=True)) as client:
        yield client


def test_the_served_model_learns(learner, regressor):
    asked = row(area=80, **CASTLE)
    before = learner.post("/predict", json=asked).json()
    done = learner.post("/feedback", json=lessons())
    assert done.status_code == 200, done.text
    assert done.json() == {"learned": 40, "total": 40, "saved": False}
    after = learner.post("/predict", json=asked).json()
    assert before["novel"]
    assert abs(after["prediction"] - 2400) < abs(before["prediction"] - 2400) / 2
    assert after["familiarity"] > before["familiarity"]
    assert learner.get("/model").json()["training"]["learned_rows"] == 40
    assert regressor.model_.memory is None  # the model that was given stays
    assert 'path="/feedback",status="200"} 1' in learner.get("/metrics").text


def test_it_has_to_be_switched_on(client):
    assert client.post("/feedback", json=lessons(1)).status_code == 404
    assert "/feedback" not in client.get("/openapi.json").json()["paths"]


def test_the_token_is_asked_for(regressor):
    app = create_app(copy.deepcopy(regressor), token="secret", learn=True)
    with client_of(app) as client:
        assert client.post("/feedback", json=lessons(1)).status_code == 401
        allowed = client.post("/feedback", json=lessons(1), headers={"authorization": "Bearer secret"})
        assert allowed.status_code == 200


@pytest.mark.parametrize(
    ("body", "status", "words"),
    [
        ({"rows": [row()]}, 422, "Expected {"),
        ({"rows": [row()], "targets": []}, 422, "one target for each of 1 rows, got 0"),
        ({"rows": [row()], "targets": [None]}, 422, "expected the truth"),
        ({"rows": [row()], "targets": ["dear"]}, 422, "y"),
        ({"rows": [row(area="large")], "targets": [1]}, 422, "area"),
        ({"rows": [{"area": 3}], "targets": [1]}, 422, "Missing features"),
        ({"rows": [], "targets": []}, 200, '"learned":0'),
    ],
)
def test_bad_bodies_are_refused_and_the_model_stays(learner, body, status, words):
    before = learner.post("/predict", json=row()).json()
    found = learner.post("/feedback", json=body)
    assert found.status_code == status, found.text
    assert words in found.text
    assert learner.post("/predict", json=row()).json() == before


def test_bodies_have_limits(regressor):
    app = create_app(copy.deepcopy(regressor), learn=True, max_rows=3, max_body=2000)
    with client_of(app) as client:
        assert client.post("/feedback", json=lessons(4)).status_code == 413
        assert client.post("/feedback", json=lessons(40)).status_code == 413
        assert client.post("/feedback", content=b"a,b", headers={"content-type": "text/csv"}).status_code == 415


def test_it_is_saved_where_that_is_said_or_has_not_learned(regressor, tmp_path):
    places = [tmp_path / "kept"]
    app = create_app(copy.deepcopy(regressor), learn=True, keep=lambda model: model.save(places[0]))
    with client_of(app) as client:
        assert client.post("/feedback", json=lessons(5)).json()["saved"]
        assert load(tmp_path / "kept").model_.memory.n_rows == 5
        (tmp_path / "mine").mkdir()
        (tmp_path / "mine" / "notes.txt").write_text("mine")
        places[0] = tmp_path / "mine"
        refused = client.post("/feedback", json=lessons(5))
        assert refused.status_code == 500
        assert "cannot be saved, and has not learned" in refused.text
        assert client.get("/model").json()["training"]["learned_rows"] == 5


def test_what_cannot_learn_is_refused_at_the_start(regressor, painter):
    with pytest.raises(ValueError, match="update: expected a model of a table"):
        create_app(painter, learn=True)
    with pytest.raises(ValueError, match="learn: expected one worker"):
        create_app(regressor, learn=True, workers=2)


@pytest.mark.slow
def test_requests_are_answered_by_one_model_or_the_next_while_it_learns(regressor):
    asked = [row(area=80, **CASTLE), row(area=100)]
    found, stop = [], threading.Event()
    with client_of(create_app(copy.deepcopy(regressor), learn=True)) as client:

        def ask():
            while not stop.is_set():
                answers = client.post("/predict", json={"rows": asked}).json()["rows"]
                found.append(tuple(answer["prediction"] for answer in answers))

        askers = [threading.Thread(target=ask) for _ in range(4)]
        teachers = [
            threading.Thread(target=lambda: client.post("/feedback", json=lessons(10)).raise_for_status())
            for _ in range(3)
        ]
        for thread in (*askers, *teachers):
            thread.start()
        for thread in teachers:
            thread.join()
        stop.set()
        for thread in askers:
            thread.join()
        assert client.get("/model").json()["training"]["learned_rows"] == 30
        model = copy.deepcopy(regressor)
        whole = set()
        for _ in range(4):
            whole.add(tuple(round(float(v), 6) for v in model.predict(_frame(asked))))
            model.update(_frame(lessons(10)["rows"]), lessons(10)["targets"])
    assert {tuple(round(v, 6) for v in pair) for pair in found} <= whole
    assert len(found) > 10


def _frame(rows):
    import pandas as pd

    frame = pd.DataFrame(rows)
    return frame.assign(built=pd.to_datetime(frame["built"]))
