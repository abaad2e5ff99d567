"""`natpn suggest`: the rows to label, with their names and numbers."""

import csv
import io
from pathlib import Path

import pytest

from cli.conftest import refused, rows, run, write


@pytest.fixture(scope="module")
def pool(place):
    strange = [[f"s{i}", str(300 + i), *rest] for i, (_, _, *rest) in enumerate(rows(30, 21))]
    return write(place / "pool.csv", rows(100, 20) + strange)


def read(text):
    return list(csv.DictReader(io.StringIO(text)))


def test_rows_with_names_and_numbers(model, pool, place):
    out = place / "label.csv"
    for _ in range(2):  # what natpn wrote is replaced
        done = run("suggest", model, pool, "-n", 10, "--id", "flat", "--out", out)
        assert (done.exit_code, done.output) == (0, ""), done.output
    found = read(out.read_text())
    names = [line.split(",")[0] for line in Path(pool).read_text().splitlines()[1:]]
    assert [row["flat"] for row in found] == [names[int(row["row"]) - 1] for row in found]
    assert sum(name.startswith("s") for name in (row["flat"] for row in found)) >= 6
    assert list(found[0]) == ["flat", "row", "teaches", "familiarity", "novelty_p"]


def test_standard_input_and_output(model, pool):
    done = run("suggest", model, "-", "--drop", "flat", stdin=Path(pool).read_bytes())
    assert done.exit_code == 0, done.output
    assert len(read(done.stdout)) == 20


def test_fewer_rows_than_asked_for(model, new):
    done = run("suggest", model, new, "-n", 60, "--drop", "flat")
    assert "has 50 rows, fewer than -n 60; all of them are ranked" in done.stderr
    assert len(read(done.stdout)) == 50


def test_wrong_options(model, new, place):
    assert "did you mean 'flat'?" in refused(run("suggest", model, new, "--id", "flats"))
    assert "-n" in refused(run("suggest", model, new, "-n", 0, "--drop", "flat"))
    before = Path(new).read_text()
    assert "new.csv" in refused(run("suggest", model, new, "--drop", "flat", "--out", new))
    other = write(place / "mine.csv", rows(3, 1))
    assert "mine.csv" in refused(run("suggest", model, new, "--drop", "flat", "--out", other))
    assert Path(new).read_text() == before
