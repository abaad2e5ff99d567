"""`natpn monitor`: alarms by exit code, in words and as JSON."""

import json

import pytest

from cli.conftest import refused, rows, run, write
from natpn.cli.monitor import RAISED


@pytest.fixture(scope="module")
def usual(place):
    return write(place / "usual.csv", rows(200, 7))


@pytest.fixture(scope="module")
def drifted(place):
    cells = rows(200, 8)
    strange = [[flat, str(10 * float(area)), *rest] for flat, area, *rest in rows(100, 9)]
    return write(place / "drifted.csv", cells + strange)


def test_rows_like_training_raise_no_alarm(model, usual):
    done = run("monitor", model, usual, "--drop", "flat")
    assert done.exit_code == 0, done.output
    assert "inputs   no alarm; the largest value was" in done.stdout
    assert "errors" not in done.stdout


def test_drift_has_its_line_and_an_exit_code(model, drifted):
    done = run("monitor", model, drifted, "--drop", "flat", "--target", "rent")
    assert done.exit_code == RAISED, done.output
    line = next(line for line in done.stdout.splitlines() if line.startswith("inputs"))
    number = int(line.split("after ")[1].split()[0])
    assert 200 < number < 300
    assert f"line {number + 1}" in line
    assert "\nerrors   " in done.stdout


def test_json(model, drifted):
    done = run("monitor", model, drifted, "--json", "--level", 0.001)
    found = json.loads(done.stdout)
    assert done.exit_code == RAISED
    assert found["raised"]
    assert found["novelty"]["level"] == 0.001
    assert "errors" not in found


def test_wrong_options(model, usual):
    assert "did you mean 'rent'?" in refused(run("monitor", model, usual, "--target", "rents"))
    assert "--level" in refused(run("monitor", model, usual, "--level", 1))
