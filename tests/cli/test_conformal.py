"""`natpn fit --calibrate conformal --groups` and `natpn predict --shifted-to`."""

import csv
import io

import pytest

from cli.conftest import refused, rows, run, write
from natpn import load


@pytest.fixture(scope="module")
def grouped(place, train):
    arguments = ["--target", "rent", "--drop", "flat", "--max-epochs", 1, "--out", place / "grouped"]
    done = run("fit", train, *arguments, "--calibrate", "conformal", "--groups", "district")
    assert done.exit_code == 0, done.output
    assert "the largest group of 'district' has" in done.stderr  # 30 calibration rows for three districts
    return str(place / "grouped")


def widths(done):
    assert done.exit_code == 0, done.output
    return [float(row["upper"]) - float(row["lower"]) for row in csv.DictReader(io.StringIO(done.stdout))]


def test_the_model_knows_its_groups(grouped):
    model = load(grouped)
    assert (model.calibrate, model.groups) == ("conformal", "district")
    assert len(model.calibration_.scores) == 30


def test_intervals_for_shifted_rows(grouped, new, place):
    large = write(place / "large.csv", [[f, str(float(a) / 4 + 115), *rest] for f, a, *rest in rows(80, 3)])
    plain = widths(run("predict", grouped, large, "--id", "flat"))
    done = run("predict", grouped, large, "--id", "flat", "--shifted-to", large)
    assert "note: the 30 calibration rows count as" in done.stderr
    assert done.stderr.count("\n") == 1
    assert widths(done) != plain
    assert len(plain) == 80


def test_wrong_options(grouped, model, classes, train, new, place):
    fit = ["fit", train, "--target", "rent", "--drop", "flat", "--out", place / "none"]
    conformal = ["--calibrate", "conformal", "--groups"]
    assert "say --calibrate conformal, too" in refused(run(*fit, "--groups", "district"))
    assert "did you mean 'district'?" in refused(run(*fit, *conformal, "District"))
    assert "name one to predict from" in refused(run(*fit, *conformal, "rent"))
    assert "fit it with --calibrate conformal" in refused(run("predict", model, new, "--shifted-to", new))
    assert "cannot be read twice" in refused(run("predict", grouped, "-", "--shifted-to", "-"))
    assert "no such file" in refused(run("predict", grouped, new, "--shifted-to", place / "nowhere.csv"))
    many = refused(run("predict", grouped, place, "--shifted-to", new, "--out", place / "many"))
    assert "it is for one file" in many


def test_classes_have_no_intervals(place, train, new):
    arguments = ["--target", "lift", "--drop", "flat", "--max-epochs", 1, "--out", place / "sets"]
    assert run("fit", train, *arguments, "--calibrate", "conformal").exit_code == 0
    assert "model.adapt(X).predict_set(X)" in refused(run("predict", place / "sets", new, "--shifted-to", new))
