"""Names, units and versions: what `GET /model` says of which model answers."""

import hashlib
import os
from datetime import UTC, datetime, timedelta
from importlib.metadata import version

import pytest

from natpn.estimators.loading import load_saved
from natpn.estimators.saving import save
from natpn.serve import Identity, create_app
from serve.serving import client_of

WRITTEN = {"decimal": ".", "thousands": "", "dates": "", "na": [], "encoding": "utf-8"}


@pytest.fixture
def place(regressor, tmp_path):
    save(regressor, tmp_path / "rent", {"target": "price", "unit": "€"})
    return tmp_path / "rent"


def test_the_model_is_described(place, regressor):
    saved = load_saved(place)
    with client_of(create_app(saved.estimator, identity=Identity.of(saved, place))) as client:
        about = client.get("/model").json()
        assert client.get("/v2/models/rent").status_code == 200
    assert about["target"] == {"name": "price", "unit": "€"}
    weights = hashlib.sha256((place / "model.safetensors").read_bytes()).hexdigest()
    model = about["model"]
    assert (model["name"], model["version"], model["natpn"]) == ("rent", weights[:12], version("natpn"))
    age = datetime.now(UTC) - datetime.fromisoformat(model["created"])
    assert timedelta(0) <= age < timedelta(minutes=10)


def test_a_model_in_memory_has_no_version(client):
    about = client.get("/model").json()
    assert about["target"] == {"name": None, "unit": None}
    assert about["model"] == {"name": "model", "version": None, "created": None, "natpn": None}


@pytest.mark.parametrize(
    ("table", "target", "unit"),
    [
        (None, None, None),
        ({}, None, None),
        ({"target": "price", "written": WRITTEN | {"units": {"price": "$"}}}, "price", "$"),
        ({"target": "price", "unit": "€", "written": WRITTEN | {"units": {"price": "$"}}}, "price", "€"),
        ({"target": ["price"], "unit": 7, "written": 3}, None, None),
        ({"target": "price", "unit": "", "written": {"units": [1]}}, "price", None),
    ],
)
def test_target_and_unit_are_those_of_the_table(regressor, tmp_path, table, target, unit):
    save(regressor, tmp_path / "m", table)
    found = Identity.of(load_saved(tmp_path / "m"), tmp_path / "m")
    assert (found.target, found.unit) == (target, unit)


def test_the_date_is_that_of_the_fit_or_else_of_the_files(regressor, tmp_path):
    save(regressor, tmp_path / "m", {"created": "2026-01-02T03:04:05+00:00"})
    assert load_saved(tmp_path / "m").created == "2026-01-02T03:04:05+00:00"
    save(regressor, tmp_path / "m")
    os.utime(tmp_path / "m" / "config.json", (0, 86_400))
    assert load_saved(tmp_path / "m").created == "1970-01-02T00:00:00+00:00"
