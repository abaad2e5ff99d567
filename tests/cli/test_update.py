"""`natpn update`: a model that learned from a file, in another place or in its own."""

import json
import shutil

import numpy as np
import pytest

from cli.conftest import refused, rows, run, write
from natpn import load
from natpn.model.files import find


def palaces(n: int, seed: int) -> list[list[str]]:
    """Flats of another kind, in a district that training never had."""
    return [
        [flat, str(round(3 * float(area), 1)), "castle", lift, built, f"{30 * float(area):.2f}"]
        for flat, area, _, lift, built, _ in rows(n, seed)
    ]


@pytest.fixture(scope="module")
def lessons(place):
    return write(place / "palaces.csv", palaces(120, 3))


@pytest.fixture
def copied(model, tmp_path):
    shutil.copytree(model, tmp_path / "copy")
    return tmp_path / "copy"


def test_a_model_learns_in_another_place(model, lessons, tmp_path):
    before = (find(model) / "config.json").read_bytes()
    done = run("update", model, lessons, "--out", tmp_path / "new")
    assert done.exit_code == 0, done.output
    assert "learned 120 rows, 120 since the fit; 100.0 % were flagged as novel before" in done.stdout
    assert (find(model) / "config.json").read_bytes() == before
    others = write(tmp_path / "others.csv", palaces(80, 4))
    novel = [json.loads(run("monitor", m, others, "--json").stdout)["novel_rows"] for m in (model, tmp_path / "new")]
    assert novel[0] == 80
    assert novel[1] < 30
    found = run("predict", tmp_path / "new", others, "--id", "flat", "--out", tmp_path / "answers.csv")
    assert found.exit_code == 0, found.output


def test_a_model_learns_in_place_and_again(copied, lessons, tmp_path):
    assert run("update", copied, lessons, "--in-place").exit_code == 0
    done = run("update", copied, write(tmp_path / "more.csv", palaces(30, 5)), "--in-place")
    assert "learned 30 rows, 150 since the fit" in done.stdout
    assert load(copied).model_.memory.n_rows == 150


def test_where_it_goes_has_to_be_said(model, lessons, tmp_path):
    assert "either --out and a directory, or --in-place" in refused(run("update", model, lessons))
    both = run("update", model, lessons, "--in-place", "--out", tmp_path / "new")
    assert "either --out and a directory, or --in-place" in refused(both)
    assert "same file or directory" in refused(run("update", model, lessons, "--out", model))
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "notes.txt").write_text("mine")
    assert "is not a model" in refused(run("update", model, lessons, "--out", tmp_path / "mine"))


def test_bad_files_are_refused_and_the_model_stays(copied, model, tmp_path):
    before = (copied / "config.json").read_bytes(), (copied / "model.safetensors").read_bytes()
    cells = palaces(20, 3)
    renamed = write(tmp_path / "renamed.csv", cells, ["flat", "areas", "district", "lift", "built", "rent"])
    assert "area" in refused(run("update", copied, renamed, "--in-place"))
    wrong = write(tmp_path / "wrong.csv", [[*row[:5], "cheap"] for row in cells])
    assert "rent" in refused(run("update", copied, wrong, "--in-place"))
    empty = write(tmp_path / "empty.csv", [[*row[:5], ""] for row in cells])
    assert "no row with a 'rent'" in refused(run("update", copied, empty, "--in-place"))
    assert "did you mean 'rent'?" in refused(run("update", copied, renamed, "--in-place", "--target", "rents"))
    assert "no model" in refused(run("update", tmp_path / "none", renamed, "--in-place"))
    assert (copied / "config.json").read_bytes() == before[0]
    assert (copied / "model.safetensors").read_bytes() == before[1]


def test_labels_that_training_never_had_are_refused(classes, tmp_path):
    path = write(tmp_path / "new.csv", palaces(20, 3))
    assert "the label 'castle' was not in training" in refused(run("update", classes, path, "--out", tmp_path / "new"))
    usual = write(tmp_path / "usual.csv", rows(20, 3))
    assert run("update", classes, usual, "--out", tmp_path / "new").exit_code == 0
    assert np.isfinite(load(tmp_path / "new").model_.memory.log_evidence).all()


def test_an_update_that_is_cut_off_leaves_the_model(copied, lessons, monkeypatch):
    before = (copied / "config.json").read_bytes()

    def cut(*args, **kwargs):
        raise KeyboardInterrupt

    monkeypatch.setattr("natpn.model.files.replacing", cut)
    assert run("update", copied, lessons, "--in-place").exit_code == 130
    assert (copied / "config.json").read_bytes() == before
    assert load(copied).model_.memory is None
