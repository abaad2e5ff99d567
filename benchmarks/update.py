"""What a model learns from feedback: 200 labelled rows of another kind, beside a new fit with all rows and beside none.

python benchmarks/update.py                      # Bike's winter, as numbers and as counts, and tables of the arena
python benchmarks/update.py bike-normal adult --seeds 3

Scores are of other rows of that kind, and of ordinary rows. CRPS is in the units of the target, −log p is the mean
surprise of targets, `covered` the share inside 90 % intervals, `familiar` the mean familiarity, `novel` the share with
novelty_p below 0.05. Of classes, the error is the share of wrong labels, and in place of the CRPS is the Brier score.
Seconds are of the processor.
"""

import argparse
import copy
import time
from collections.abc import Callable, Iterator
from typing import Any

import arena
import numpy as np
import torch
from numpy.typing import NDArray
from quality import bike

from natpn import NatPNClassifier, NatPNRegressor

LESSONS, FRESH, TRAIN = 200, 2000, 3000
BIKE = {"bike-normal": "normal", "bike-poisson": "poisson", "bike-auto": "auto"}
DEFAULT = [*BIKE, "king_county", "home_runs", "mpls_stops", "fars"]


def table(name: str, seed: int) -> arena.Table:
    """Return a table with a shift; Bike is trained on the paper's summer, and its winter is the shift."""
    if name not in BIKE:
        return arena.read(name, seed, TRAIN, LESSONS + FRESH)
    X, y, season = bike()
    summer, winter = season == 2, season == 4
    chosen = summer | winter
    rows = arena.Part(X[chosen], y[chosen])
    return arena._split("count", rows, winter[chosen], seed, round(0.85 * summer.sum()), LESSONS + FRESH)


def scores(model: Any, part: arena.Part) -> list[float]:
    """Return error, CRPS, −log p, coverage, familiarity and the share of novel rows."""
    answer, y = model.predict_dist(part.X), part.y
    known = [-answer.log_prob(y).mean(), answer.familiarity.mean(), 100 * answer.novel.mean()]
    if hasattr(model, "classes_"):
        truth = y[:, None] == model.classes_
        p = answer.mean()
        inside = model.predict_set(part.X)[truth]
        error, score = 100 * (p.argmax(1) != truth.argmax(1)).mean(), np.square(p - truth).sum(1).mean()
    else:
        low, high = answer.interval(0.9).T
        inside = (low <= y) & (y <= high)
        error, score = np.sqrt(np.mean((answer.centre() - y) ** 2)), crps(answer, y)
    return [float(v) for v in (error, score, known[0], 100 * inside.mean(), *known[1:])]


def crps(answer: Any, y: NDArray[np.float64]) -> float:
    """Return twice the mean quantile loss over 99 levels."""
    levels = np.arange(1, 100) / 100
    gap = y[:, None] - answer.quantile(levels)
    return float(2 * np.maximum(levels * gap, (levels - 1) * gap).mean())


def compared(name: str, seed: int) -> Iterator[tuple[str, str, float, list[float]]]:
    """Yield what was done, the rows, the seconds that it took, and the scores."""
    made = table(name, seed)
    family = {"family": BIKE[name]} if name in BIKE else {}
    kind = NatPNRegressor if made.is_numeric else NatPNClassifier
    shifted = made.shifted
    if not made.is_numeric:
        shifted = shifted.first(np.flatnonzero(np.isin(shifted.y, made.train.y)))
    size = min(LESSONS, len(shifted) // 2)
    lessons, others = shifted.first(slice(size)), shifted.first(slice(size, None))
    both = arena.Part(joined(made.train.X, lessons.X), np.concatenate([made.train.y, lessons.y]))
    model, first = timed(lambda: kind(random_state=seed, **family).fit(made.train.X, made.train.y))
    models = {
        "nothing": (model, 0.0),
        "update": timed(lambda: copy.deepcopy(model).update(lessons.X, lessons.y)),
        "a new fit": timed(lambda: kind(random_state=seed, **family).fit(both.X, both.y)),
    }
    print(f"<!-- {name}, seed {seed}: {len(made.train)} rows in {first:.0f} s, {size} lessons -->", flush=True)
    for rows, part in (("shifted", others), ("ordinary", made.test)):
        for done, (fitted, seconds) in models.items():
            yield done, rows, seconds, scores(fitted, part)


def timed(function: Callable[[], Any]) -> tuple[Any, float]:
    """Return what a function returns, and the seconds that it took."""
    start = time.process_time()
    result = function()
    return result, time.process_time() - start


def joined(a: Any, b: Any) -> Any:
    if isinstance(a, np.ndarray):
        return np.concatenate([a, b])
    import pandas as pd

    return pd.concat([a, b], ignore_index=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tables", nargs="*", default=DEFAULT)
    parser.add_argument("--seeds", type=int, default=1)
    options = parser.parse_args()
    torch.set_num_threads(1)
    print("| table | rows | learned by | error | CRPS | −log p | covered | familiar | novel | seconds |")
    print("|---|---|---|---|---|---|---|---|---|---|", flush=True)
    for name in options.tables:
        found: dict[tuple[str, str], list[list[float]]] = {}
        for seed in range(options.seeds):
            for done, rows, seconds, values in compared(name, seed):
                found.setdefault((rows, done), []).append([*values, seconds])
        for (rows, done), several in found.items():
            error, score, surprise, covered, familiar, novel, seconds = np.mean(several, axis=0)
            print(
                f"| {name} | {rows} | {done} | {error:.4g} | {score:.4g} | {surprise:.3f} | {covered:.1f} % | "
                f"{familiar:.4f} | {novel:.1f} % | {seconds:.1f} |",
                flush=True,
            )


if __name__ == "__main__":
    main()
