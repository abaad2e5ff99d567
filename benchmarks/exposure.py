"""Murders in counties of 85 to 9 million people: population as an exposure, beside population as a feature.

python benchmarks/exposure.py --rows 2000 --seeds 3      # means over seeds, and their standard errors
python benchmarks/exposure.py --simulated                # known rates, exposures from 0.01 to 10, and others than these

Test rows are of ordinary counties; shifted ones have more than 2,000 people on a square mile, and none is trained on.
"""

import argparse
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pandas as pd
import torch
from arena import Part, read
from numpy.typing import NDArray

from natpn import NatPNRegressor
from natpn.metrics import crps

POPULATION = "popul"
SCORES = ("−log p", "CRPS", "RMSE", "bias of the mean in %", "90 % intervals cover in %")


@dataclass(frozen=True)
class Way:
    """A way to tell a model of the population: as features, and as an exposure or not."""

    features: Callable[[pd.Series], dict[str, pd.Series]]
    exposed: bool

    def arguments(self, part: Part) -> tuple[pd.DataFrame, dict[str, NDArray[np.float64]]]:
        """Return the features, and the exposure by name."""
        population = part.X[POPULATION].astype(float)
        X = part.X.drop(columns=POPULATION).assign(**self.features(population))
        return X, {"exposure": population.to_numpy()} if self.exposed else {}


WAYS = {
    "exposure": Way(lambda population: {}, True),
    "exposure, and the logarithm as a feature": Way(lambda population: {"log": np.log(population)}, True),
    "a feature": Way(lambda population: {"population": population}, False),
    "its logarithm as a feature": Way(lambda population: {"log": np.log(population)}, False),
}


def score(model: NatPNRegressor, way: Way, part: Part) -> list[float]:
    """Return the scores of a model on rows."""
    X, exposure = way.arguments(part)
    found, y = model.predict_dist(X, **exposure), part.y
    mean, (low, high) = found.mean(), found.interval(0.9).T
    return [
        float(-found.log_prob(y).mean()),
        float(crps(y, found.equally_likely())),
        float(np.sqrt(np.mean((mean - y) ** 2))),
        float(100 * (mean.sum() / y.sum() - 1)),
        float(100 * np.mean((y >= low) & (y <= high))),
    ]


def simulate(rows: int = 1000, n_test: int = 2000) -> None:
    """Print how often 90 % intervals cover at exposures within and beyond those of training, where rates are known."""
    exposures = (0.001, 0.1, 1.0, 10.0, 30.0, 100.0)
    print(
        "| rates | family | error of the rate in % | " + " | ".join(f"cover at {e:g}, in %" for e in exposures) + " |"
    )
    print("|---|---|---|" + "---|" * len(exposures))
    for name, shape in (("known from the features", None), ("vary by a Gamma of shape 4", 4.0)):
        lot = np.random.default_rng(1)
        X, fresh = lot.normal(size=(rows, 3)), lot.normal(size=(n_test, 3))
        years = np.exp(lot.uniform(np.log(0.01), np.log(10), rows))

        def counts(X: NDArray[np.float64], years: NDArray[np.float64] | float) -> NDArray[np.int64]:
            rate = np.exp(0.5 + 0.6 * X[:, 0] - 0.4 * X[:, 1])
            return lot.poisson(years * rate * (1 if shape is None else lot.gamma(shape, 1 / shape, len(X))))  # noqa: B023

        model = NatPNRegressor(random_state=0).fit(X, counts(X, years), exposure=years)
        found, truth = model.predict(fresh, exposure=1), np.exp(0.5 + 0.6 * fresh[:, 0] - 0.4 * fresh[:, 1])
        texts = [f"{100 * np.sqrt(np.mean(np.log(found / truth) ** 2)):.1f}"]
        for exposure in exposures:
            y, (low, high) = counts(fresh, exposure), model.predict_interval(fresh, exposure=exposure).T
            texts.append(f"{100 * np.mean((y >= low) & (y <= high)):.1f}")
        print(f"| {name} | {type(model.family_).__name__} | {' | '.join(texts)} |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=2000)
    parser.add_argument("--test-rows", type=int, default=4000)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--simulated", action="store_true")
    options = parser.parse_args()
    torch.set_num_threads(1)
    if options.simulated:
        simulate()
        return
    print("| rows | population | family | " + " | ".join(SCORES) + " |\n|---|---|---|" + "---|" * len(SCORES))
    for name, way in WAYS.items():
        scores: dict[str, list[list[float]]] = {"ordinary": [], "shifted": []}
        chosen = set()
        for seed in range(options.seeds):
            table = read("county_murders", seed, options.rows, options.test_rows)
            X, exposure = way.arguments(table.train)
            model = NatPNRegressor(random_state=seed).fit(X, table.train.y, **exposure)
            chosen.add(type(model.family_).__name__)
            scores["ordinary"].append(score(model, way, table.test))
            scores["shifted"].append(score(model, way, table.shifted))
        for rows, found in scores.items():
            mean, error = np.mean(found, 0), np.std(found, 0, ddof=1) / np.sqrt(len(found)) if len(found) > 1 else None
            texts = [f"{m:.3g}" + ("" if error is None else f" ± {error[i]:.2g}") for i, m in enumerate(mean)]
            print(f"| {rows} | {name} | {', '.join(sorted(chosen))} | {' | '.join(texts)} |", flush=True)


if __name__ == "__main__":
    main()
