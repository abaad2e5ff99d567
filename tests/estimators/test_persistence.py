"""Models on disk: bit-equal after loading, whole or not there, and errors that say what is wrong."""

import json
import shutil
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from torch import nn

from estimators.problems import CLASSIFIER, REGRESSOR, VECTORS, classes, numbers, targets
from natpn import NatPNClassifier, load
from natpn.densities import GaussianMixture
from natpn.families import FAMILIES
from natpn.model import files as placing
from natpn.network import default

FIXTURES = Path(__file__).parent / "data"


def assert_same(a, b, X):
    for n in (1, len(X)):
        assert_array_equal(a.predict(X[:n]), b.predict(X[:n]))
        first, second = a.predict_dist(X[:n]), b.predict_dist(X[:n])
        for name in ("familiarity", "epistemic", "aleatoric", "novelty_p", "log_evidence"):
            assert_array_equal(getattr(first, name), getattr(second, name))
        assert_array_equal(first.sample(2, random_state=0), second.sample(2, random_state=0))
    if hasattr(a, "classes_"):
        assert a.classes_.tolist() == b.classes_.tolist()
        assert_array_equal(a.predict_proba(X), b.predict_proba(X))
        assert_array_equal(a.predict_set(X), b.predict_set(X))
    elif a.predict(X).ndim == 1:
        assert_array_equal(a.predict_interval(X), b.predict_interval(X))


@pytest.fixture(scope="module")
def conformal():
    X, y = numbers(60)
    return clone(REGRESSOR).set_params(calibrate="conformal").fit(X, y), X


@pytest.fixture
def saved(conformal, tmp_path):
    model, X = conformal
    model.save(tmp_path / "model")
    return model, tmp_path / "model", X


@pytest.mark.parametrize("name", FAMILIES)
def test_predictions_after_loading_are_bit_equal(name, tmp_path):
    X, y = targets(name, 60)
    model = clone(CLASSIFIER) if name == "categorical" else clone(REGRESSOR).set_params(family=name)
    model.set_params(calibrate=None if name in VECTORS else "conformal").fit(X, y)
    model.save(tmp_path / "model")
    again = load(tmp_path / "model")
    assert type(again) is type(model)
    assert again.get_params() == model.get_params()
    assert again.family_ == model.family_
    assert_same(model, again, X)
    again.save(tmp_path / "again")
    for file in ("config.json", "model.safetensors"):
        assert (tmp_path / "again" / file).read_bytes() == (tmp_path / "model" / file).read_bytes()


@pytest.mark.parametrize(
    "options",
    [
        {"prior": ([1.0, 4.0], 3.0)},
        {"ensemble_size": 2},
        {"scheme": "paper"},
        {"density": "radial", "latent_dim": 2, "ensemble_size": 1},
        {"density": "spline", "budget": "normal", "latent_dim": 2, "ensemble_size": 1},
        {"random_state": np.random.RandomState(0)},
        {"latent_dim": np.int64(4), "validation_fraction": np.float64(0.3)},
        {"checkpoint_dir": Path("checkpoints")},
    ],
    ids=lambda options: " ".join(options),
)
def test_parameters_of_all_kinds(options, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    X, y = numbers(60)
    model = clone(REGRESSOR).set_params(**options).fit(X, y)
    model.save("model")
    assert_same(model, load("model"), X)


def test_a_prior_as_evidence_and_a_family_with_parameters(tmp_path):
    X, y = targets("gamma", 60)
    family = FAMILIES["gamma"](shape=3.0)
    model = clone(REGRESSOR).set_params(family=family, prior=family.prior(2.0, 0.3)).fit(X, y)
    model.save(tmp_path / "model")
    again = load(tmp_path / "model")
    assert again.family == family
    assert_same(model, again, X)


@pytest.mark.parametrize("labels", [[False, True], [-3, 4], [1.0, 2.0], ["no", "yes"], ["ä", "日本"]])
def test_labels_of_every_type(labels, tmp_path):
    X, y = classes(40)
    model = clone(CLASSIFIER).fit(X, np.array(labels)[(y == "low").astype(int)])
    model.save(tmp_path / "model")
    again = load(tmp_path / "model")
    assert again.classes_.dtype == model.classes_.dtype
    assert_same(model, again, X)


def test_a_frame_of_every_kind(tmp_path):
    X, y = classes(60)
    frame = pd.DataFrame({
        "number": np.where(X[:, 1] > 1, np.nan, X[:, 1]),
        "category": np.where(X[:, 0] > 0, "ä", "b"),
        "truth": X[:, 0] > 0.5,
        "date": pd.Timestamp("2024-01-01") + pd.to_timedelta(np.arange(60), unit="D"),
        "empty": np.full(60, np.nan),
    })  # fmt: skip
    model = clone(CLASSIFIER).fit(frame, y)
    model.save(tmp_path / "model")
    again = load(tmp_path / "model")
    assert again.feature_names_in_.tolist() == list(frame)
    assert_same(model, again, frame)
    pd.testing.assert_frame_equal(again.predict_frame(frame), model.predict_frame(frame))


def test_images(tmp_path):
    X = np.random.default_rng(0).normal(size=(40, 1, 8, 8)).astype(np.float32)
    y = np.arange(40) % 2
    model = clone(CLASSIFIER).fit(X, y)
    model.save(tmp_path / "model")
    assert_same(model, load(tmp_path / "model"), X)


def test_a_module_is_given_again(tmp_path):
    X, y = classes(40)
    model = clone(CLASSIFIER).set_params(encoder=nn.Linear(2, 16)).fit(X, y)
    model.save(tmp_path / "model")
    with pytest.raises(ValueError, match="an encoder of its own, a Linear: give it, as in load"):
        load(tmp_path / "model")
    assert_same(model, load(tmp_path / "model", encoder=nn.Linear(2, 16)), X)
    with pytest.raises(ValueError, match="the model cannot be read"):
        load(tmp_path / "model", encoder=nn.Linear(3, 16))


def test_a_density_that_was_given_cannot_be_saved(tmp_path):
    X, y = numbers(40)
    model = clone(REGRESSOR).set_params(density=GaussianMixture(18, 1)).fit(X, y)
    with pytest.raises(ValueError, match=r"density: .* name it instead"):
        model.save(tmp_path / "model")
    assert not list(tmp_path.iterdir())


def test_a_loaded_model_can_be_fitted_and_cloned(saved):
    model, place, X = saved
    again = load(place)
    y = numbers(60)[1]
    assert_array_equal(clone(again).fit(X, y).predict(X), model.predict(X))
    assert_array_equal(again.fit(X, y).predict(X), model.predict(X))


def test_two_files_and_nothing_that_can_run(saved):
    _, place, _ = saved
    assert sorted(path.name for path in place.iterdir()) == ["README.md", "config.json", "model.safetensors"]
    assert json.loads((place / "config.json").read_text())["schema"] == placing.SCHEMA
    assert not [path for path in place.parent.iterdir() if path != place]


def test_a_directory_without_a_model(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"no model there; expected a directory with config.json"):
        load(tmp_path / "nothing")
    with pytest.raises(FileNotFoundError, match="no model there"):
        load(tmp_path)


@pytest.mark.parametrize("share", [0, 0.3, 0.99])
@pytest.mark.parametrize("file", ["config.json", "model.safetensors"])
def test_a_file_that_was_cut_short(saved, file, share):
    _, place, _ = saved
    content = (place / file).read_bytes()
    (place / file).write_bytes(content[: int(share * len(content))])
    with pytest.raises(ValueError, match=f"{file}: it was cut short"):
        load(place)


def test_a_file_that_is_missing(saved):
    _, place, _ = saved
    (place / "model.safetensors").unlink()
    with pytest.raises(FileNotFoundError, match=r"model.safetensors is missing; copy the whole directory"):
        load(place)


def test_a_changed_file(saved):
    _, place, _ = saved
    config = place / "config.json"
    text = config.read_text()
    config.write_text(text.replace('"n_rows": 54', '"n_rows": 55'))
    with pytest.raises(ValueError, match=r"config.json: it was changed since it was written"):
        load(place)
    config.write_text(text)
    tensors = bytearray((place / "model.safetensors").read_bytes())
    tensors[-1] ^= 1
    (place / "model.safetensors").write_bytes(tensors)
    with pytest.raises(ValueError, match=r"model.safetensors: it was cut short or changed"):
        load(place)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"schema": 99, "natpn": "9.9"}, "written with schema 99 by natpn 9.9, and this natpn .* update natpn"),
        ({"class": "os.system"}, "The model is a 'os.system'; known are NatPNClassifier, NatPNRegressor"),
        ({"family": {"name": "unknown", "parameters": {}}}, "family = 'unknown' is unknown"),
        ({"family": []}, "the model cannot be read"),
        ({"inputs": {"kind": "unknown"}}, "the model cannot be read"),
        ({"units": None}, "the model cannot be read"),
        ({"tensors_sha256": None}, "cut short or changed"),
        ({"schema": "one"}, "not the description of a natpn model"),
    ],
)
def test_another_config_with_a_right_checksum(saved, change, message):
    _, place, _ = saved
    config = json.loads((place / "config.json").read_text()) | change
    del config["sha256"]
    config["sha256"] = placing.checksum(config)
    (place / "config.json").write_text(json.dumps(config))
    with pytest.raises(ValueError, match=message):
        load(place)


def test_a_model_is_replaced(saved):
    _, place, X = saved
    other = clone(REGRESSOR).set_params(random_state=5).fit(X, numbers(60)[1])
    other.save(place)
    assert_same(other, load(place), X)
    assert [path.name for path in place.parent.iterdir()] == ["model"]


@pytest.mark.parametrize("what", ["a file", "a directory", "a config of another program"])
def test_nothing_else_is_replaced(saved, tmp_path, what):
    model, _, _ = saved
    place = tmp_path / "mine"
    if what == "a file":
        place.write_text("mine")
    else:
        place.mkdir()
        (place / "notes.txt").write_text("mine")
        if what == "a config of another program":
            (place / "config.json").write_text("{}")
    with pytest.raises(ValueError, match=r"exists and is not a model.*choose another directory"):
        model.save(place)
    assert (place if what == "a file" else place / "notes.txt").read_text() == "mine"


@pytest.mark.parametrize("schema", ["schema_1", "schema_2", "schema_3"])
@pytest.mark.parametrize("again", [False, True])
def test_the_model_of_an_earlier_version_is_read(schema, again, tmp_path):
    """Models in `tests/estimators/data` were written by earlier versions; they answer as they did, also saved again."""
    assert sum(path.stat().st_size for path in (FIXTURES / schema / "model").iterdir()) < 400_000
    model = load(FIXTURES / schema / "model")
    if again:
        model.save(tmp_path / "model")
        model = load(tmp_path / "model")
    wanted = json.loads((FIXTURES / schema / "predictions.json").read_text())
    frame = pd.DataFrame(wanted["X"])
    assert model.predict(frame).tolist() == wanted["prediction"]
    assert_allclose(model.predict_proba(frame), wanted["probabilities"], rtol=1e-6, atol=1e-9)
    distribution = model.predict_dist(frame)
    assert_allclose(distribution.familiarity, wanted["familiarity"], rtol=1e-6, atol=1e-9)
    assert_allclose(distribution.novelty_p, wanted["novelty_p"], rtol=1e-6)
    assert model.predict_set(frame).tolist() == wanted["set"]


def test_the_number_of_knots_is_the_model_s_own(tmp_path, monkeypatch):
    """Earlier versions gave nine to every column, however many the rows."""
    X, y = numbers(60)
    model = clone(REGRESSOR).fit(X, y)
    model.save(tmp_path / "model")
    monkeypatch.setattr(default, "KNOTS", 12)
    assert clone(REGRESSOR).fit(X, y).predict(X).tolist() != model.predict(X).tolist()
    assert load(tmp_path / "model").predict(X).tolist() == model.predict(X).tolist()


def test_pictures_of_an_earlier_version_keep_their_network(tmp_path, monkeypatch):
    """Earlier versions had the paper's convolutions by default, and densities that did not see the texture."""
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(40, 1, 8, 8)).astype(np.float32), np.arange(40) % 2
    now = NatPNClassifier._build
    monkeypatch.setattr(NatPNClassifier, "_build", lambda *args: now(*args, texture=False))
    model = NatPNClassifier(encoder="image", max_epochs=1, random_state=0).fit(X, y).set_params(encoder="auto")
    model.save(tmp_path / "model")
    monkeypatch.undo()
    assert_same(load(tmp_path / "model"), model, X)


def write_fixture() -> None:
    """Write the fixture, for a new schema: in `tests`, `python -c` with an import of this function and its call."""
    torch.set_num_threads(1)
    generator = np.random.default_rng(0)
    number = generator.normal(size=120)
    frame = pd.DataFrame({
        "number": np.where(generator.random(120) < 0.1, np.nan, number),
        "colour": generator.choice(["red", "green", "blue"], 120),
        "truth": generator.random(120) < 0.5,
    })  # fmt: skip
    y = np.where((number > 0) ^ (frame["colour"] == "red"), "yes", "no")
    model = NatPNClassifier(latent_dim=4, ensemble_size=1, max_epochs=30, calibrate="conformal", random_state=0)
    model.fit(frame, y)
    place = FIXTURES / f"schema_{placing.SCHEMA}"
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir(parents=True)
    model.save(place / "model")
    rows = {
        "number": [0.3, -1.2, None, 0.5, 1e6],
        "colour": ["red", "green", "blue", "purple", "red"],
        "truth": [True, False, True, True, False],
    }
    new = pd.DataFrame(rows)
    distribution = model.predict_dist(new)
    found = {
        "X": rows,
        "prediction": model.predict(new).tolist(),
        "probabilities": model.predict_proba(new).tolist(),
        "familiarity": distribution.familiarity.tolist(),
        "novelty_p": distribution.novelty_p.tolist(),
        "set": model.predict_set(new).tolist(),
    }
    (place / "predictions.json").write_text(json.dumps(found, indent=1) + "\n")
