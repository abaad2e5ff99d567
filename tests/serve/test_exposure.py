"""Models with exposures: a request has the column as it has features, and rows without it are refused."""

import numpy as np
import pandas as pd
import pytest
import torch

from natpn import NatPNRegressor
from natpn.serve import create_app
from serve.serving import client_of


@pytest.fixture(scope="module")
def model():
    lot = np.random.default_rng(0)
    frame = pd.DataFrame({"age": lot.integers(18, 80, 150), "years": lot.uniform(0.5, 5, 150)})
    return NatPNRegressor("poisson", max_epochs=2, random_state=0).fit(
        frame, lot.poisson(frame.years), exposure="years"
    )


@pytest.fixture(scope="module")
def client(model):
    with client_of(create_app(model)) as client:
        yield client


def test_a_row_has_an_exposure(client, model):
    rows = pd.DataFrame({"age": [30, 30, 60], "years": [1.0, 3.0, 0.5]})
    found = client.post("/predict", json={"rows": rows.to_dict("records")}).json()["rows"]
    assert [row["prediction"] for row in found] == pytest.approx(model.predict(rows))
    alone = client.post("/predict?curve=true", json={"age": 30, "years": 3}).json()
    assert alone["prediction"] == pytest.approx(3 * found[0]["prediction"])
    curve = client.post("/predict?curve=true", json={"age": 30, "years": 40}).json()["curve"]
    prior = model.model_.answer_without_evidence(np.array([40.0])).predictive
    assert curve["prior"] == pytest.approx(np.exp(prior.log_prob(torch.tensor(curve["x"])[:, None]).numpy()[:, 0]))
    text = client.post("/predict", content=rows.to_csv(index=False), headers={"content-type": "text/csv"})
    assert [row["prediction"] for row in text.json()["rows"]] == pytest.approx(model.predict(rows))


@pytest.mark.parametrize("years", [0, -1, None, "", "0", "x"])
def test_a_wrong_exposure_is_refused(client, years):
    answer = client.post("/predict", json={"rows": [{"age": 30, "years": 1}, {"age": 30, "years": years}]})
    assert answer.status_code == 422
    assert answer.json()["field"] == "years"
    assert "years" in answer.json()["error"]
    assert answer.json()["row"] == 1


def test_the_column_is_described(client):
    features = client.get("/model").json()["features"]
    assert [feature["name"] for feature in features] == ["age", "years"]
    assert features[1]["usual"] > 0
    schema = client.get("/openapi.json").text
    assert '"exclusiveMinimum":0' in schema.replace(" ", "")
    inputs = client.get("/v2/models/model").json()["inputs"]
    assert [tensor["name"] for tensor in inputs] == ["age", "years"]


def test_a_model_without_the_column_cannot_be_served():
    lot = np.random.default_rng(0)
    X, years = lot.normal(size=(60, 2)), lot.uniform(1, 3, 60)
    fitted = NatPNRegressor("poisson", max_epochs=1, random_state=0).fit(X, lot.poisson(years), exposure=years)
    with pytest.raises(ValueError, match="model: expected a column of exposures"):
        create_app(fitted)
