"""Files: they are valid, run in onnxruntime alone, and agree with the estimators; nothing half-written is left."""

import json
import os
import subprocess
import sys
from functools import cache

import numpy as np
import onnx
import onnxruntime
import pandas as pd
import pytest

from export.problems import ROWS, ask, assert_agree, fitted, questions, targets
from natpn import NatPNClassifier, NatPNRegressor
from natpn.densities import DENSITIES
from natpn.export import export_onnx, onnx_file
from natpn.export.graph_module import describe_outputs, left_out
from natpn.tabular import TableTransform

# An export takes seconds: every density, and every way to a prediction. `test_answers` has all families.
CASES = {
    "normal": ("gaussian_mixture", 1),
    "categorical": ("maf", 1),
    "exponential": ("spline", 1),
    "multivariate_normal": ("radial", 2),
}


@cache
def exported(family: str, directory: str) -> tuple[str, list[str]]:
    path = os.path.join(directory, f"{family}.onnx")
    return path, export_onnx(fitted(family, *CASES[family]), path)


@pytest.fixture(scope="module")
def directory(tmp_path_factory):
    return str(tmp_path_factory.mktemp("onnx"))


def run(path, rows):
    session = onnxruntime.InferenceSession(path)
    names = [output.name for output in session.get_outputs()]
    return dict(zip(names, session.run(None, {"X": rows}), strict=True))


def metadata(path):
    return {prop.key: prop.value for prop in onnx.load(path).metadata_props}


def test_every_density_is_exported():
    assert {density for density, _ in CASES.values()} == set(DENSITIES)


# An export takes ten seconds, and one is enough for a quick look.
@pytest.mark.parametrize(
    "family", [pytest.param(name, marks=[] if name == "normal" else [pytest.mark.slow]) for name in CASES]
)
def test_onnxruntime_agrees(family, directory):
    path, _ = exported(family, directory)
    onnx.checker.check_model(path, full_check=True)
    print(f"{family}: {os.path.getsize(path):,} bytes")
    for n in (1, 7, 300):
        assert_agree(run(path, questions(n)), fitted(family, *CASES[family]), questions(n))


def test_far_away_the_prior_speaks(directory):
    found = run(exported("normal", directory)[0], ROWS[:20] * 1e8)
    assert found["familiarity"].max() < 1e-6
    assert all(np.isfinite(found[name]).all() for name in ("prediction", "log_evidence", "epistemic", "chi", "n"))


@pytest.mark.slow
def test_the_metadata_says_what_everything_is(directory):
    path, sentences = exported("categorical", directory)
    found = metadata(path)
    assert json.loads(found["classes"]) == ["no", "yes"]
    assert json.loads(found["inputs"])["dtype"] == "float64"
    assert json.loads(found["left_out"]) == sentences == []
    assert json.loads(found["family"]) == {"name": "categorical", "parameters": {"n_classes": 2}}
    outputs = [output.name for output in onnx.load(path).graph.output]
    assert onnx.load(path).graph.input[0].type.tensor_type.shape.dim[0].dim_param == "rows"
    assert (
        list(json.loads(found["outputs"])) == outputs == list(describe_outputs(fitted("categorical", "maf", 1).model_))
    )


def test_what_is_left_out_is_said(directory):
    assert exported("normal", directory)[1] == []
    assert any("counts" in sentence for sentence in left_out(fitted("poisson").model_))


def test_a_file_names_no_path_of_this_machine(directory):
    with open(exported("normal", directory)[0], "rb") as file:
        assert b"site-packages" not in file.read()


def test_it_runs_without_torch_and_natpn(directory):
    code = (
        "import sys, numpy, onnxruntime; session = onnxruntime.InferenceSession(sys.argv[1]);"
        "print(session.run(['prediction'], {'X': numpy.zeros((2, 3))})[0].shape);"
        "assert not {'torch', 'natpn'} & set(sys.modules)"
    )
    arguments = [sys.executable, "-c", code, exported("normal", directory)[0]]
    assert subprocess.run(arguments, check=True, capture_output=True, text=True).stdout.strip() == "(2,)"


def test_a_table_whose_categories_are_known_by_hashes_is_taken_as_it_is_encoded(monkeypatch):
    monkeypatch.setattr("natpn.tabular.category.MAX_NAMED", 2)
    names = np.where(ROWS[:, 1] > 5, "red", "blue").astype(object)
    names[:5] = list("abcde")
    rows = pd.DataFrame({"x0": ROWS[:, 1], "x1": names})
    model = NatPNRegressor(latent_dim=4, max_epochs=2, random_state=0).fit(rows, targets("normal"))
    (sentence,) = onnx_file._about_columns(model.model_)
    assert "'x1' is a category" in sentence
    assert "5 columns" in sentence
    inputs = json.loads(onnx_file._metadata(model.model_, [sentence])["inputs"])
    assert inputs["feature_names"] == ["x0", "x1"]
    asked = pd.DataFrame({"x0": [*ROWS[:5, 1], 3.0], "x1": ["red", "blue"] * 2 + ["a", "green"]})
    encoded = TableTransform.from_config(inputs["transform"]).transform(asked).astype(float)
    assert_agree(ask(model, encoded), model, asked)


@pytest.mark.slow
def test_images_are_standardised_inside(tmp_path):
    images = np.random.default_rng(0).normal(size=(40, 1, 8, 8)) * 50 + 100
    labels = np.arange(40) % 2
    model = NatPNClassifier(latent_dim=4, max_epochs=1, random_state=0).fit(images, labels)
    export_onnx(model, tmp_path / "m.onnx")
    for asked in (images[:1], images, images * 1e3):
        found = run(tmp_path / "m.onnx", asked)
        assert np.allclose(found["prediction"], model.predict_proba(asked), atol=1e-4)
        gap = np.abs(found["log_evidence"] - model.score_samples(asked))
        assert (gap / (1 + np.abs(model.score_samples(asked)))).max() < 1e-4


def test_what_cannot_be_translated_is_said_and_leaves_nothing(tmp_path, monkeypatch):
    def fail(*arguments, **options):
        raise RuntimeError("no such operator\nand more")

    monkeypatch.setattr(onnx_file.torch.export, "export", fail)
    with pytest.raises(ValueError, match=r"encoder TabularEncoder and the density Surprise: no such operator$"):
        export_onnx(fitted("normal"), tmp_path / "m.onnx")
    assert not list(tmp_path.iterdir())


def test_a_place_that_cannot_be_written(tmp_path):
    with pytest.raises(FileNotFoundError, match="make it first"):
        export_onnx(fitted("normal"), tmp_path / "none" / "m.onnx")
    with pytest.raises(IsADirectoryError, match="name a file"):
        export_onnx(fitted("normal"), tmp_path)
    assert not list(tmp_path.iterdir())


@pytest.fixture
def empty_graph(monkeypatch):
    """Let exports be quick: of a graph without operators."""
    graph = onnx.helper.make_graph([], "empty", [], [])
    monkeypatch.setattr(onnx_file, "_translate", lambda answers: onnx.helper.make_model(graph))


def test_a_write_that_fails_leaves_the_old_file(tmp_path, monkeypatch, empty_graph):
    def fail(*arguments):
        raise OSError("No space left on device")

    export_onnx(fitted("normal"), tmp_path / "m.onnx")
    old = (tmp_path / "m.onnx").read_bytes()
    monkeypatch.setattr(onnx_file.os, "fsync", fail)
    with pytest.raises(OSError, match="No space"):
        export_onnx(fitted("exponential"), tmp_path / "m.onnx")
    assert [file.read_bytes() for file in tmp_path.iterdir()] == [old]


@pytest.mark.parametrize("content", [b"mine", onnx.helper.make_model(onnx.helper.make_graph([], "mine", [], []))])
def test_a_file_replaces_one_of_ours_and_no_other(content, tmp_path, monkeypatch, empty_graph):
    for _ in range(2):
        export_onnx(fitted("normal"), tmp_path / "m.onnx")
    mine = content if isinstance(content, bytes) else content.SerializeToString()
    (tmp_path / "m.onnx").write_bytes(mine)
    monkeypatch.setattr(onnx_file, "_translate", None)  # before the work
    with pytest.raises(ValueError, match=r"m.onnx: it exists and is not an ONNX file that natpn wrote; choose another"):
        export_onnx(fitted("normal"), tmp_path / "m.onnx")
    assert (tmp_path / "m.onnx").read_bytes() == mine


def test_missing_packages_are_named(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "onnxscript", None)
    with pytest.raises(ImportError, match=r"pip install '\.\[onnx\]'"):
        export_onnx(fitted("normal"), tmp_path / "m.onnx")
