"""Learning curves: rows to label chosen by `model.suggest` beside rows at random.

    NATPN_DATA=... python benchmarks/suggest.py [--tables NAME ...] [--seeds 4] [--max-epochs 30] [--share 0.5]

Each run starts from 150 labelled rows and adds 30 four times, of a pool of 1,500. In the pools of bike and telco_churn
a share of the rows is of a kind that the first rows lack, winter and contracts of two years; so are half of the rows
that scores are taken of. The rows of king_county and satimage are all alike. Scores are the CRPS of numbers and the log
loss of classes, lower is better, in means over seeds. The gain is the mean over seeds and steps of the logarithm of the
ratio, with its standard error over seeds.
"""

import argparse
import warnings
from typing import Any

import numpy as np
import pandas as pd
import torch
from arena import Part, read
from numpy.typing import NDArray

from natpn import NatPNClassifier, NatPNRegressor
from natpn.metrics import crps

TABLES = {"king_county": False, "bike": True, "satimage": False, "telco_churn": True}
START, STEP, STEPS, POOL, TEST = 150, 30, 4, 1500, 1500


def joined(*parts: Part) -> Part:
    inputs = [part.X for part in parts]
    X = pd.concat(inputs, ignore_index=True) if isinstance(inputs[0], pd.DataFrame) else np.concatenate(inputs)
    return Part(X, np.concatenate([part.y for part in parts]))


def rows(name: str, seed: int, share: float) -> tuple[bool, Part, Part, Part]:
    """Return whether targets are numbers, the labelled rows, the pool, and the rows that scores are taken of."""
    table = read(name, seed, START + POOL, TEST)
    labelled, pool = table.train.first(np.arange(START)), table.train.first(np.arange(START, len(table.train)))
    test = table.test
    if TABLES[name]:
        half = min(len(table.shifted) // 2, POOL // 2)
        n_shifted = min(half, int(share * POOL))
        ordinary = pool.first(np.arange(min(len(pool), POOL - n_shifted)))
        pool = joined(ordinary, table.shifted.first(np.arange(n_shifted)))
        later = table.shifted.first(np.arange(half, 2 * half))
        test = joined(test.first(np.arange(min(len(test), half))), later)
    if not table.is_numeric:
        pool, test = (part.first(np.flatnonzero(np.isin(part.y, labelled.y))) for part in (pool, test))
    return table.is_numeric, labelled, pool, test


def score(model: Any, test: Part) -> float:
    answers = model.predict_dist(test.X)
    if isinstance(model, NatPNClassifier):
        return float(-answers.log_prob(test.y).mean())
    return crps(test.y, answers.equally_likely())


def curve(name: str, seed: int, by_model: bool, max_epochs: int, share: float) -> list[float]:
    numeric, labelled, pool, test = rows(name, seed, share)
    lot, found = np.random.default_rng([seed, 1]), []
    kind = NatPNRegressor if numeric else NatPNClassifier
    for step in range(STEPS + 1):
        model = kind(max_epochs=max_epochs, random_state=seed).fit(labelled.X, labelled.y)
        found.append(score(model, test))
        if step < STEPS:
            chosen: NDArray[Any] = model.suggest(pool.X, STEP) if by_model else lot.permutation(len(pool))[:STEP]
            labelled = joined(labelled, pool.first(chosen))
            pool = pool.first(np.delete(np.arange(len(pool)), chosen))
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tables", nargs="+", choices=list(TABLES), default=list(TABLES))
    parser.add_argument("--seeds", type=int, default=4)
    parser.add_argument("--max-epochs", type=int, default=30)
    parser.add_argument("--share", type=float, default=0.5, help="Of the pool that is of another kind.")
    options = parser.parse_args()
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    sizes = [START + STEP * step for step in range(STEPS + 1)]
    print(f"| table | chosen | {' | '.join(map(str, sizes))} | gain |\n|---|---|{'---:|' * (STEPS + 2)}")
    for name in options.tables:
        how = options.max_epochs, options.share
        scores = np.array(
            [[curve(name, seed, by_model, *how) for by_model in (False, True)] for seed in range(options.seeds)]
        )
        ratio = np.log(scores[:, 1, 1:] / scores[:, 0, 1:]).mean(1)
        error = ratio.std(ddof=1) / np.sqrt(len(ratio)) if len(ratio) > 1 else np.nan
        for place, words in enumerate(("at random", "by `suggest`")):
            values = " | ".join(f"{value:.4g}" for value in scores[:, place].mean(0))
            gain = f"{100 * ratio.mean():+.1f} ± {100 * error:.1f} %" if place else ""
            print(f"| {name} | {words} | {values} | {gain} |", flush=True)


if __name__ == "__main__":
    main()
