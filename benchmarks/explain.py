"""How often the column that makes a row strange is named, and what that takes.

    NATPN_DATA=... python benchmarks/explain.py [--tables NAME ...] [--rows 2000] [--planted 100]

In ordinary test rows of real tables (see `arena.py`) one column is made strange:

- swapped: it gets its value from another test row, so that each value is ordinary; rows count if the model flags them
  then (`novelty_p` < 0.05) and did not before (> 0.2);
- scaled: a number is moved away from the mean to three times its range.

Named first, in % of these rows: by chance; the value that is the rarest alone; `explain`; and brute force, which puts
into each column the values of the eight training rows that are nearest in the other columns, and takes the column that
brings the row nearest: 8 predictions for each column. Then the share of rows whose evidence grows, and that are no
longer flagged, with the value that `explain` gives; and its CPU time a row, of 2,048, beside that of a prediction.
"""

import argparse
import time
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import torch
from arena import read
from numpy.typing import NDArray

from natpn import NatPNClassifier, NatPNRegressor

TABLES = ["king_county", "adult", "storms", "credit_scoring", "hotel_rates", "avocados"]
NEAREST = 8
WITHOUT = ["prediction", "familiarity", "novelty_p", "novel"]  # columns of a prediction, the reason left out


def main() -> None:
    """Print a line for each table and kind of strangeness."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tables", nargs="+", default=TABLES)
    parser.add_argument("--rows", type=int, default=2000)
    parser.add_argument("--planted", type=int, default=100)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    print("table            planted  rows  chance  rarest  explain  brute  rises  mended   predict  explain  ratio")
    for name in options.tables:
        table = read(name, 0, options.rows, 1000)
        kind = NatPNRegressor if table.is_numeric else NatPNClassifier
        model = kind(random_state=0).fit(table.train.X, table.train.y)
        for plant in (swapped, scaled):
            rows, columns = plant(model, table.test.X.reset_index(drop=True), options.planted)
            if len(rows):
                print(f"{name:<16} {plant.__name__:<8}", line(model, table.train.X, rows, columns), flush=True)


def swapped(model: Any, X: pd.DataFrame, wanted: int) -> tuple[pd.DataFrame, NDArray[np.intp]]:
    """Return rows with one value of another row, and which."""
    lot = np.random.default_rng(1)
    usable = [place for place, own in enumerate(model.inputs_.table.places) if own]
    n = 40 * wanted
    taken, donors, columns = lot.integers(0, len(X), n), lot.integers(0, len(X), n), lot.choice(usable, n)
    before = X.iloc[taken].reset_index(drop=True)
    after = before.copy()
    for place in usable:
        after.isetitem(
            place, after.iloc[:, place].where(columns != place, X.iloc[donors, place].reset_index(drop=True))
        )
    flagged = (model.predict_dist(after).novelty_p < 0.05) & (model.predict_dist(before).novelty_p > 0.2)
    chosen = np.flatnonzero(flagged)[:wanted]
    return after.iloc[chosen].reset_index(drop=True), columns[chosen]


def scaled(model: Any, X: pd.DataFrame, wanted: int) -> tuple[pd.DataFrame, NDArray[np.intp]]:
    """Return rows with one number far away, and which."""
    lot = np.random.default_rng(2)
    table = model.inputs_.table
    numbers = [place for place, column in enumerate(table.columns) if column.bounds]
    rows = X.iloc[lot.integers(0, len(X), wanted)].reset_index(drop=True)
    columns = lot.choice(numbers, wanted)
    for place in numbers:
        column = table.columns[place]
        values = rows.iloc[:, place].astype(float)
        rows.isetitem(place, values.where(columns != place, column.maximum + 3 * (column.maximum - column.minimum)))
    return rows, columns


def line(model: Any, train: pd.DataFrame, rows: pd.DataFrame, columns: NDArray[np.intp]) -> str:
    """Return what was measured on planted rows."""
    table = model.inputs_.table
    told = model.model_.explain(rows)
    names = table.feature_names
    rarest = np.array([names.index(name) for name in table.most_unusual(rows)])
    chance = 1 / sum(bool(own) for own in table.places)
    hits = [chance, *(float(np.mean(found == columns)) for found in (rarest, told.worst, brute(model, train, rows)))]
    mended = rows.astype(object)
    for row, (place, text) in enumerate(zip(told.worst, told.familiar, strict=True)):
        if text is not None:
            mended.iat[row, place] = table.columns[place].read_text(text) if text else None
    after = model.predict_dist(mended)
    rises = float(np.mean(after.log_evidence > model.score_samples(rows)))
    many = pd.concat([rows] * (2048 // len(rows) + 1), ignore_index=True).iloc[:2048]
    predict, explain = seconds(lambda: model.predict_columns(many, names=WITHOUT), lambda: model.model_.explain(many))
    shares = "  ".join(f"{100 * share:6.0f}" for share in (*hits, rises, 1 - after.novel.mean()))
    times = f"{1e6 * predict / 2048:6.0f} µs {1e6 * explain / 2048:6.0f} µs  {explain / predict:4.1f}"
    return f"{len(rows):4d}  {shares}  {times}"


@torch.no_grad()
def brute(model: Any, train: pd.DataFrame, rows: pd.DataFrame) -> NDArray[np.intp]:
    """Return the column that brings each row nearest, with values of the nearest training rows put in."""
    table, networks = model.inputs_.table, model.model_.members
    x, known = (torch.from_numpy(table.transform(X)).double() for X in (rows, train))

    def distance(x: torch.Tensor) -> NDArray[np.float64]:
        return torch.stack([m.budget.distance(m.log_density(x)) for m in networks]).mean(0).numpy()

    parts = table.take_apart(rows)
    found = np.full((len(x), len(table.columns)), np.inf)
    for place, own in enumerate(table.places):
        rest = [i for i in range(x.shape[1] - 1) if i not in own]
        nearest = torch.cdist(x[:, rest], known[:, rest]).topk(NEAREST, largest=False).indices
        without = torch.from_numpy(parts.events.without(np.full(len(x), place)))
        for number in range(NEAREST):
            changed = x.clone()
            changed[:, own] = known[nearest[:, number]][:, own]
            changed[:, -1] = without
            found[:, place] = np.minimum(found[:, place], distance(changed))
    return found.argmin(axis=1)


def seconds(*calls: Callable[[], Any]) -> list[float]:
    """Return the shortest of some CPU times of each call, which take turns."""
    times: list[list[float]] = [[] for _ in calls]
    for _ in range(7):
        for call, own in zip(calls, times, strict=True):
            start = time.process_time()
            call()
            own.append(time.process_time() - start)
    return [min(own) for own in times]


if __name__ == "__main__":
    main()
