"""One small model for all tests, and a way to run commands in this process."""

import csv
import os
import random
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from natpn.cli import cli

ROOT = Path(__file__).parents[2]
SOURCES = os.pathsep.join([str(ROOT / "src"), str(ROOT / "paper" / "src")])
COLUMNS = ["flat", "area", "district", "lift", "built", "rent"]
ENVIRONMENT = os.environ | {"PYTHONPATH": SOURCES, "OMP_NUM_THREADS": "1"}


def rows(n: int, seed: int) -> list[list[str]]:
    lot = random.Random(seed)
    made = []
    for i in range(n):
        area, district = round(lot.uniform(30, 150), 1), lot.choice(["old town", "harbour", "hills"])
        rent = 200.5 + 9 * area + 150 * (district == "hills") + lot.gauss(0, 15)
        built = f"{lot.randint(1950, 2020)}-0{lot.randint(1, 9)}-{lot.randint(10, 28)}"
        made.append([f"f{i}", str(area), district, lot.choice(["true", "false"]), built, f"{rent:.2f}"])
    return made


def write(path: Path, cells: list[list[str]], header: list[str] = COLUMNS) -> str:
    with path.open("w", newline="") as file:
        csv.writer(file, lineterminator="\n").writerows([header, *cells])
    return str(path)


def run(*arguments: object, stdin: bytes | None = None) -> Result:
    return CliRunner().invoke(cli, [str(a) for a in arguments], input=stdin)


def refused(result: Result) -> str:
    """Return the sentence of a command that ended as it should for bad input."""
    assert result.exit_code == 2, (result.exit_code, result.output, result.exception)
    assert result.stderr.startswith("Error: ")
    assert result.stderr.count("\n") == 1, result.stderr
    assert "Traceback" not in result.output
    return result.stderr


def start(*arguments: object, module: str = "natpn", **options: object) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", module, *map(str, arguments)]
    return subprocess.Popen(command, env=ENVIRONMENT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, **options)


@pytest.fixture(scope="session")
def place(tmp_path_factory):
    return tmp_path_factory.mktemp("cli")


@pytest.fixture(scope="session")
def train(place):
    return write(place / "train.csv", rows(300, 0))


@pytest.fixture(scope="session")
def new(place):
    return write(place / "new.csv", rows(50, 1))


@pytest.fixture(scope="session")
def model(place, train):
    result = run("fit", train, "--target", "rent", "--drop", "flat", "--out", place / "model", "--max-epochs", 2)
    assert result.exit_code == 0, result.output
    return str(place / "model")


@pytest.fixture(scope="session")
def classes(place, train):
    """A model of classes from one column of numbers."""
    arguments = ["--target", "district", "--drop", "flat", "--drop", "lift", "--drop", "built", "--max-epochs", 1]
    result = run("fit", train, *arguments, "--out", place / "classes")
    assert result.exit_code == 0, result.output
    return str(place / "classes")


@pytest.fixture(scope="session")
def clean(tmp_path_factory):
    """A clean table and a model of it, which a fit has nothing to say about."""
    from cli.homes import done, fit, kinds, saved, table

    place = tmp_path_factory.mktemp("clean")
    path = saved(place / "a.csv", table())
    result = done(fit(path, place / "m"))
    assert result.stderr == ""
    assert kinds(place / "m") == {"area": "number", "kind": "category", "built": "date"}
    return path, str(place / "m")
