"""The card of a saved model: right for people and the hub, never in the place of a user's file, and ignored by load."""

import json
import os
import re

import numpy as np
import pandas as pd
import pytest
import yaml
from sklearn.base import clone

from estimators.problems import CLASSIFIER, REGRESSOR
from natpn import load
from natpn.estimators.saving import save

TABLE = pd.DataFrame(
    {
        "area": np.linspace(20.0, 90.0, 60),
        "a|b\n<script>": np.arange(60) % 2 == 0,
        "city": ["Bonn", "Oslo", None] * 20,
        "day": pd.date_range("2024-01-01", periods=60),
    }
)


@pytest.fixture(scope="module")
def model():
    return clone(REGRESSOR).set_params(max_epochs=1).fit(TABLE, 10 * TABLE["area"])


def parts(place):
    head, text = (place / "README.md").read_text().removeprefix("---\n").split("\n---\n", 1)
    return yaml.safe_load(head), text


def test_it_says_what_the_model_is(model, tmp_path):
    save(model, tmp_path / "m", {"target": "rent [€]", "unit": "EUR", "dropped": []})
    head, text = parts(tmp_path / "m")
    assert (head["library_name"], head["pipeline_tag"]) == ("natpn", "tabular-regression")
    assert "# Prediction of rent \\[€\\]" in text
    assert "a number, in EUR" in text
    assert "Training rows: 60" in text
    assert "| area | number | 20 to 90 | 0 % |" in text
    assert "| city | category | 2 values: Bonn, Oslo | 33 % |" in text
    assert "| a\\|b \\<script\\> | boolean | 50 % true | 0 % |" in text
    assert re.search(r"On \d+ rows that were held out .*\n\n- mean absolute error: [\d.e+]+\n- share inside", text)


def test_classes_and_images(tmp_path):
    images = np.random.default_rng(0).normal(size=(40, 1, 8, 8))
    labels = np.array(["cat", "dog"])[np.arange(40) % 2]
    clone(CLASSIFIER).set_params(max_epochs=1).fit(images, labels).save(tmp_path / "m")
    head, text = parts(tmp_path / "m")
    assert head["pipeline_tag"] == "image-classification"
    assert "one of several labels: cat, dog" in text
    assert "shape (1, 8, 8)" in text
    assert "accuracy: " in text


def test_it_says_nothing_of_rows_that_the_configuration_does_not(model, tmp_path):
    """But for scores, which a model that was loaded no longer knows: then every number is one of the configuration."""
    model.save(tmp_path / "m")
    load(tmp_path / "m").save(tmp_path / "again")
    _, text = parts(tmp_path / "again")
    assert "Not known" in text
    known = (tmp_path / "again" / "config.json").read_text()
    about = re.search(r"## Inputs\n\n(.*?)\n\n##", text, re.DOTALL)[1]
    for number in re.findall(r"\d+", re.sub(r"\d+ (%|values)|2024-\d\d-\d\d", "", about)):
        assert number in known, number


def test_the_same_model_has_the_same_card_and_loading_needs_none(model, tmp_path):
    for name in ("a", "b"):
        model.save(tmp_path / name)
    assert (tmp_path / "a" / "README.md").read_bytes() == (tmp_path / "b" / "README.md").read_bytes()
    (tmp_path / "a" / "README.md").unlink()
    (tmp_path / "b" / "README.md").write_bytes(b"\xff\x00")
    for name in ("a", "b"):
        assert np.array_equal(load(tmp_path / name).predict(TABLE), model.predict(TABLE))


def test_a_newer_card_takes_the_place_of_ours(model, tmp_path):
    save(model, tmp_path / "m", {"target": "rent", "dropped": []})
    os.chmod(tmp_path / "m" / "README.md", 0o640)
    save(model, tmp_path / "m", {"target": "price", "dropped": []})
    assert "Prediction of price" in parts(tmp_path / "m")[1]
    assert (tmp_path / "m" / "README.md").stat().st_mode & 0o777 == 0o640


@pytest.mark.parametrize("change", ["written", "edited", "link", "directory"])
def test_a_card_of_the_user_stays(change, model, tmp_path):
    place = tmp_path / "m"
    model.save(place)
    card = place / "README.md"
    if change == "edited":
        card.write_text(card.read_text() + "\nAsk Ada before you use it.\n")
    else:
        card.rename(tmp_path / "ours.md")
    if change == "written":
        card.write_text("mine")
    elif change == "link":
        card.symlink_to(tmp_path / "ours.md")
    elif change == "directory":
        card.mkdir()
    before = None if change == "directory" else card.read_bytes()
    save(model, place, {"target": "rent", "dropped": []})
    assert card.is_dir() if before is None else card.read_bytes() == before
    assert card.is_symlink() == (change == "link")
    assert sorted(os.listdir(place)) == ["README.md", "config.json", "model.safetensors"]
    assert json.loads((place / "config.json").read_text())["table"]["target"] == "rent"


def test_a_directory_with_a_card_alone_is_no_model(model, tmp_path):
    (tmp_path / "README.md").write_text("mine")
    with pytest.raises(ValueError, match=r"exists and is not a model, it holds 'README.md'"):
        model.save(tmp_path)
    assert os.listdir(tmp_path) == ["README.md"]


def test_scores_of_counts_are_at_their_exposures(tmp_path):
    """Counts that are the exposure, up to noise: without it, they would be off by hundreds."""
    draw = np.random.default_rng(0)
    X, years = draw.normal(size=(80, 1)), np.array([1.0, 1000.0])[np.arange(80) % 2]
    model = clone(REGRESSOR).set_params(max_epochs=3, family="poisson").fit(X, draw.poisson(years), exposure=years)
    model.save(tmp_path / "m")
    error = float(re.search(r"mean absolute error: ([\d.e+]+)", (tmp_path / "m" / "README.md").read_text())[1])
    assert error < 150
