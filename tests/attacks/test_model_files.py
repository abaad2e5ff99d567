"""Model files that were changed on purpose, with right checksums: refused in a sentence, at no cost."""

import contextlib
import hashlib
import json
import resource
import shutil
import struct
import time
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load as load_tensors
from safetensors.torch import save as save_tensors
from sklearn.base import clone

from attacks import mutations
from attacks.mutations import changed, sign
from attacks.served import MODEL
from attacks.steps import forked
from estimators.problems import CLASSIFIER, REGRESSOR, numbers, targets
from natpn import load

pytestmark = pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")

SECONDS = 3.0
MEGABYTES = 200.0


@pytest.fixture
def place(tmp_path):
    return Path(shutil.copytree(MODEL, tmp_path / "model"))


@pytest.fixture
def refused(place, tally):
    """Load the model, which has to fail soon, cheaply and with a sentence."""

    def check(message):
        before, start = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, time.monotonic()
        with pytest.raises(ValueError, match=message) as caught:
            load(place)
        assert time.monotonic() - start < SECONDS
        assert (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024 < MEGABYTES
        assert len(str(caught.value)) < 5_000
        tally(tried=1, refused=1)

    return check


def config_of(place):
    return json.loads((place / "config.json").read_text())


def put_tensors(place, content):
    """Write tensors, and their checksum."""
    (place / "model.safetensors").write_bytes(content)
    sign(place, config_of(place) | {"tensors_sha256": hashlib.sha256(content).hexdigest()})


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        (("parameters", "latent_dim"), 10**7, r"damaged.*latent_dim is 10000000.*decoder has shape \(2, 4\)"),
        (
            ("parameters", "ensemble_size"),
            10**6,
            r"damaged.*n_networks: expected a whole number from 1 to \d\d, got",
        ),
        (("parameters", "ensemble_size"), 5, "damaged.*n_networks is 5, but the tensors are of 1 members"),
        (("family", "parameters", "n_classes"), 10**8, "damaged.*2 labels for Categorical"),
        (("classes", "dtype"), "<U500000000", "damaged.*the type of classes: expected texts, numbers or booleans"),
        (("classes", "dtype"), "V1000000000", "damaged.*the type of classes"),
        (("n_rows",), 10**30, "damaged.*n_rows: expected a whole number"),
        (("parameters", "density"), "maf", "cannot be read.*its tensors are not those of the network"),
    ],
)
def test_sizes_are_compared_with_the_tensors_first(place, refused, path, value, message):
    sign(place, changed(config_of(place), path, value))
    refused(message)


def test_20000_levels(place, refused):
    config = config_of(place)
    column = config["inputs"]["columns"][1]
    column |= {"levels": [f"l{i}" for i in range(20_000)], "shares": [1 / 20_000] * 20_000, "n_levels": 20_000}
    sign(place, config)
    refused("'levels' has 20000 levels, but at most 64 are kept")


def test_5000_columns(place, refused):
    config = config_of(place)
    one = config["inputs"]["columns"][0]
    names = [f"c{i}" for i in range(5_000)]
    config |= {"feature_names_in": names, "n_features_in": 5_000}
    config["inputs"]["columns"] = [one | {"name": name} for name in names]
    sign(place, config)
    refused(r"sizes in config.json are far larger|its tensors are not those of the network")


def test_tensors_that_lend_their_size_to_a_larger_one(place, refused):
    """A decoder of 400 kB is a reason for a latent vector of 10⁵, but not for a covariance of 10¹⁰."""
    tensors = load_tensors((place / "model.safetensors").read_bytes())
    tensors["network.decoder.weight"] = torch.zeros(2, 50_000)
    put_tensors(place, save_tensors(tensors))
    sign(place, changed(config_of(place), ("parameters", "latent_dim"), 50_000))
    for density in ("auto", "gaussian_mixture", "maf", "spline", "radial"):
        sign(place, changed(config_of(place), ("parameters", "density"), density))
        refused(r"sizes in config.json are far larger|its tensors are not those of the network")


@pytest.mark.parametrize("brackets", ["[", '{"a":'])
@pytest.mark.parametrize("depth", [21, 900, 200_000])
def test_nested_brackets(place, refused, brackets, depth):
    text = (place / "config.json").read_text().rstrip()
    close = {"[": "]", '{"a":': "}"}[brackets]
    (place / "config.json").write_text(text[:-1] + f', "more": {brackets * depth}0{close * depth}}}')
    refused("config.json: it was cut short or is no JSON .it is nested more than 20 deep")


@pytest.mark.parametrize("number", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("name", ["network.decoder.weight", "network.prior_chi", "network.prior_log_n"])
def test_weights_are_finite(place, refused, name, number):
    tensors = load_tensors((place / "model.safetensors").read_bytes())
    tensors[name].view(-1)[-1] = number
    put_tensors(place, save_tensors(tensors))
    refused(f"damaged.*the tensor {name} has 1 numbers that are NaN or infinite")


def test_held_out_rows_are_sorted_numbers(place, refused):
    tensors = load_tensors((place / "model.safetensors").read_bytes())
    for name in ("calibration.log_evidence", "calibration.scores"):
        for change in (tensors[name].flip(0), tensors[name] * np.nan, tensors[name][None]):
            put_tensors(place, save_tensors(tensors | {name: change.contiguous()}))
            refused(f"damaged.*{name}")


def with_header(content, change):
    """Return the file with another header."""
    (length,) = struct.unpack("<Q", content[:8])
    header = json.loads(content[8 : 8 + length])
    changed_header = change(header)
    raw = changed_header if isinstance(changed_header, bytes) else json.dumps(changed_header).encode()
    return struct.pack("<Q", len(raw)) + raw + content[8 + length :]


def entry(**fields):
    return lambda header: header | {"network.decoder.weight": header["network.decoder.weight"] | fields}


@pytest.mark.parametrize(
    "change",
    [
        entry(data_offsets=[0, 10**15]),
        entry(data_offsets=[-4, 4]),
        entry(data_offsets=[32, 0]),
        entry(data_offsets=[0, 32]),
        entry(shape=[10**9, 10**9]),
        entry(shape=[2**40, 2**40]),
        entry(shape=[-1, -8]),
        entry(shape=[4, 2]),
        entry(shape=[8]),
        entry(shape=[]),
        entry(dtype="F99"),
        entry(dtype="I32"),
        entry(dtype="BF16"),
        entry(dtype=None),
        lambda header: {name: value for name, value in header.items() if name != "network.decoder.weight"},
        lambda header: header | {"network.more": header["network.decoder.weight"]},
        lambda header: [],
        lambda header: b"\xff" * 50,
        lambda header: b"[" * 100_000,
        lambda header: b"{}",
    ],
)
def test_headers_that_lie(place, refused, change):
    put_tensors(place, with_header((place / "model.safetensors").read_bytes(), change))
    refused("cannot be read|damaged")


@pytest.mark.parametrize("length", [0, 2**32, 2**63, 2**64 - 1])
def test_a_header_of_any_length(place, refused, length):
    content = (place / "model.safetensors").read_bytes()
    put_tensors(place, struct.pack("<Q", length) + content[8:])
    refused("cannot be read|damaged")


def fuzz(folder, extent, tally):
    """Change every field, in a process whose memory is watched: a copy of this one, which has imported torch."""
    told = folder / "told.jsonl"

    def mutate():
        with told.open("w") as file, contextlib.redirect_stdout(file):
            mutations.run(folder, extent)

    assert forked(mutate) == 0
    *lines, last = map(json.loads, told.read_text().splitlines())
    kinds = [line["kind"] for line in lines]
    assert [line for line in lines if line["kind"] == "wrong"] == []
    assert max(line["seconds"] for line in lines) < SECONDS
    assert last["megabytes"] < MEGABYTES
    assert kinds.count("refused") > kinds.count("answered") > 0
    tally(tried=len(lines), refused=kinds.count("refused"), answered=kinds.count("answered"))


@pytest.fixture(scope="module")
def fixture_folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("fuzz")
    shutil.copytree(MODEL, folder / "model")
    rows = json.loads((MODEL.parent / "predictions.json").read_text())["X"]
    (folder / "X.json").write_text(json.dumps(rows))
    return folder


def test_every_number_of_a_config(fixture_folder, tally):
    fuzz(fixture_folder, "quick", tally)


@pytest.mark.slow
def test_every_field_of_a_config(fixture_folder, tally):
    fuzz(fixture_folder, "all", tally)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["ensemble", "images", "multivariate_normal", "multinomial", "negative_binomial"])
def test_every_field_of_other_models(kind, tmp_path, tally):
    """Fields that the committed model has with the same type are tried there in every way, and here in one."""
    X, y = numbers(60) if kind in ("ensemble", "images") else targets(kind, 60)
    if kind == "images":
        X, y = np.random.default_rng(0).normal(size=(40, 1, 8, 8)).astype(np.float32), np.arange(40) % 2
        model = clone(CLASSIFIER)
    elif kind == "ensemble":
        model = clone(REGRESSOR).set_params(ensemble_size=2, density="maf", prior=([0.0, 1.0], 2.0), family="normal")
    else:
        model = clone(REGRESSOR).set_params(family=kind)
    model.fit(X, y).save(tmp_path / "model")
    (tmp_path / "X.json").write_text(json.dumps(np.asarray(X[:3]).tolist()))
    fuzz(tmp_path, str(MODEL / "config.json"), tally)
