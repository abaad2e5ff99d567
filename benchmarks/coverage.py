"""How often 90 % intervals cover and ordinary rows are flagged, by the number of rows, on problems with a known truth.

python benchmarks/coverage.py 20 50 100 200 --seeds 4       # shares of 3,000 fresh rows, means over seeds
python benchmarks/coverage.py 200 1000 --calibrate conformal --max-epochs 20
"""

import argparse
from collections.abc import Callable

import numpy as np
import torch
from numpy.typing import NDArray

from natpn import NatPNRegressor

Floats = NDArray[np.float64]
FRESH = 3000


def linear(n: int, rng: np.random.Generator) -> tuple[Floats, Floats]:
    X = rng.normal(size=(n, 5))
    return X, X @ np.array([1, 0.5, -0.5, 0.2, 0]) + 0.5 * rng.normal(size=n)


def noisy(n: int, rng: np.random.Generator) -> tuple[Floats, Floats]:
    X = rng.normal(size=(n, 5))
    return X, 0.3 * X[:, 0] + rng.normal(size=n)


def heteroscedastic(n: int, rng: np.random.Generator) -> tuple[Floats, Floats]:
    X = rng.uniform(-2, 2, size=(n, 3))
    return X, X[:, 0] + np.exp(0.6 * X[:, 1] - 0.7) * rng.normal(size=n)


def nonlinear(n: int, rng: np.random.Generator) -> tuple[Floats, Floats]:
    """Return Friedman's first problem."""
    X = rng.uniform(size=(n, 5))
    y = 10 * np.sin(np.pi * X[:, 0] * X[:, 1]) + 20 * (X[:, 2] - 0.5) ** 2 + 10 * X[:, 3] + 5 * X[:, 4]
    return X, y + rng.normal(size=n)


PROBLEMS: list[Callable[[int, np.random.Generator], tuple[Floats, Floats]]] = [
    linear,
    noisy,
    heteroscedastic,
    nonlinear,
]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("rows", type=int, nargs="+")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--calibrate", choices=["conformal"])
    parser.add_argument("--max-epochs", type=int)
    options = parser.parse_args()
    torch.set_num_threads(1)
    print("| rows | problem | 90 % intervals cover | novelty_p < 0.05 |\n|---|---|---|---|")
    for n in options.rows:
        for place, problem in enumerate(PROBLEMS):
            found = []
            for seed in range(options.seeds):
                X, y = problem(n + FRESH, np.random.default_rng([seed, n, place]))
                model = NatPNRegressor(
                    calibrate=options.calibrate, max_epochs=options.max_epochs, random_state=seed
                ).fit(X[:n], y[:n])
                answer = model.predict_dist(X[n:])
                low, high = answer.interval(0.9).T
                inside = (low <= y[n:]) & (y[n:] <= high)
                found.append((100 * inside.mean(), 100 * (answer.novelty_p < 0.05).mean()))
            cover, alarms = np.mean(found, axis=0)
            print(f"| {n} | {problem.__name__} | {cover:.1f} % | {alarms:.1f} % |", flush=True)


if __name__ == "__main__":
    main()
