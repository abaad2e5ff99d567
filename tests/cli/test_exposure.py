"""`natpn fit --exposure`: every command then takes the column from the file, and says where it is wrong."""

import csv
import io
import random

import pytest

from cli.conftest import refused, run, write

HEADER = ["policy", "age", "city", "years", "claims"]


def policies(n: int, seed: int) -> list[list[str]]:
    lot = random.Random(seed)
    made = []
    for i in range(n):
        age, city, time = lot.randint(18, 80), lot.choice(["Bern", "Basel"]), round(lot.uniform(0.1, 8), 2)
        count = sum(lot.random() < 0.02 * (1 + (city == "Bern")) for _ in range(int(20 * time)))
        made.append([f"p{i}", str(age), city, str(time), str(count)])
    return made


@pytest.fixture(scope="module")
def claims(place):
    out = place / "claims"
    arguments = ("--target", "claims", "--exposure", "years", "--drop", "policy", "--out", out, "--max-epochs", 3)
    done = run("fit", write(place / "claims.csv", policies(120, 0), HEADER), *arguments)
    assert done.exit_code == 0, done.output
    assert "\nexposure  years: " in done.stdout
    assert "; 2 columns" in done.stdout
    return str(out)


def predictions(done) -> list[float]:
    assert done.exit_code == 0, done.output
    return [float(row["prediction"]) for row in csv.DictReader(io.StringIO(done.stdout))]


def test_counts_grow_with_the_column_of_the_file(claims, place):
    found = []
    for years in ("2", "4"):
        cells = [[*cells[:3], years, cells[4]] for cells in policies(20, 5)]
        found.append(predictions(run("predict", claims, write(place / f"{years}.csv", cells, HEADER))))
    once, twice = found
    assert twice == pytest.approx([2 * count for count in once], rel=1e-9)


def test_other_commands_know_the_column(claims, place):
    test = write(place / "more.csv", policies(60, 3), HEADER)
    assert "60 rows" in run("evaluate", claims, test).stdout
    done = run("monitor", claims, test, "--target", "claims")
    assert done.exit_code in (0, 3), done.output
    assert "errors" in done.stdout
    assert run("report", claims, test, "--out", place / "claims.html").exit_code == 0


@pytest.mark.parametrize(("cell", "words"), [("0", "got 0"), ("", "got none"), ("-2", "got -2")])
def test_a_wrong_cell_is_named(claims, place, cell, words):
    cells = policies(5, 4)
    cells[3][3] = cell
    bad = write(place / "bad.csv", cells, HEADER)
    for command in ("predict", "evaluate"):
        error = refused(run(command, claims, bad))
        assert "bad.csv, line 5, column 'years': " in error
        assert words in error


def test_a_missing_column_is_named(claims, place):
    typo = write(place / "typo.csv", policies(5, 4), ["policy", "age", "city", "yaers", "claims"])
    error = refused(run("predict", claims, typo))
    assert "typo.csv lacks the column 'years', the exposure of each row; did you mean 'yaers'?" in error


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--target", "claims", "--exposure", "yeers"], "--exposure yeers: .* no such column; did you mean 'years'"),
        (["--target", "claims", "--exposure", "claims"], "--exposure claims: it is the target"),
        (["--target", "claims", "--exposure", "years", "--drop", "years"], "--drop years: it is the exposure"),
        (["--target", "claims", "--exposure", "city"], "--exposure city: expected numbers above 0, got values such as"),
        (["--target", "city", "--exposure", "years"], "--exposure years: 'city' holds classes, and only counts have"),
        (
            ["--target", "claims", "--exposure", "years", "--family", "normal"],
            r"exposure: expected none for Normal\(\)",
        ),
    ],
)
def test_wrong_options(claims, place, options, words):
    with pytest.raises(AssertionError, match=words):
        raise AssertionError(refused(run("fit", place / "claims.csv", *options, "--out", place / "none")))


def test_a_wrong_cell_of_the_fit_is_named(place):
    cells = policies(60, 1)
    cells[7][3] = "0"
    bad = write(place / "zero.csv", cells, HEADER)
    error = refused(run("fit", bad, "--target", "claims", "--exposure", "years", "--out", place / "none"))
    assert "zero.csv, line 9, column 'years': expected a finite number above 0, the exposure, got 0" in error
