"""A small clean table of homes, which tests make messy, and how it is fitted."""

import datetime
import random
from pathlib import Path

import natpn
from cli.conftest import run, write

N = 60
LOT = random.Random(0)
AREA = [round(LOT.uniform(30, 150), 1) for _ in range(N)]
KIND = [LOT.choice(["house", "flat", "loft"]) for _ in range(N)]
DAY = [datetime.date(2020, 1, 1) + datetime.timedelta(days=LOT.randrange(1400)) for _ in range(N)]
RENT = [round(1000 + 9 * area + LOT.gauss(0, 200), 2) for area in AREA]


def table(**columns: list[str]) -> dict[str, list[str]]:
    """A clean table, some of whose columns are replaced or added."""
    clean = {"area": list(map(str, AREA)), "kind": KIND, "built": list(map(str, DAY)), "rent": list(map(str, RENT))}
    return clean | columns


def saved(path: Path, columns: dict[str, list[str]]) -> str:
    return write(path, [list(row) for row in zip(*columns.values(), strict=True)], list(columns))


def fit(path, out, *options, target="rent"):
    return run("fit", path, "--target", target, "--out", out, "--max-epochs", 1, *options)


def done(result):
    assert result.exit_code == 0, result.output
    return result


def columns_of(out):
    return {column.name: column for column in natpn.load(out).inputs_.table.columns}


def kinds(out):
    return {name: column.kind for name, column in columns_of(out).items()}


def predictions(model, path, *options):
    lines = done(run("predict", model, path, *options)).stdout.splitlines()[1:]
    return [float(line.split(",")[0]) for line in lines]
