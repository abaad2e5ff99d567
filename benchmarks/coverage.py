"""How often 90 % intervals cover and ordinary rows are flagged, on problems with a known truth and on real tables.

python benchmarks/coverage.py 20 50 100 200 --seeds 4       # shares of 3,000 fresh rows, means over seeds
python benchmarks/coverage.py 200 1000 --calibrate conformal --max-epochs 20
NATPN_DATA=... python benchmarks/coverage.py 2000 --tables --max-epochs 20    # by group, and of shifted rows

For tables, the coverage of 90 % intervals and sets, and how wide they are: the mean width of finite intervals, as a
multiple of that without groups or weights, or the mean number of classes. Of each group of a column, with and without
`groups`; of shifted rows, with and without `adapt`. Shifted rows are those of the table (`tasks.json`), which are
unlike training, or "tilted": ordinary rows of the test, drawn by weights that grow along their first component.
"""

import argparse
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from arena import Part, Table, read
from numpy.typing import NDArray

from natpn import NatPNClassifier, NatPNRegressor

Floats = NDArray[np.float64]
FRESH = 3000
COVERAGE = 0.9
TABLES = {  # a column whose values are groups
    "hotel_rates": "reserved_room_type",
    "storms": "month",
    "nmes1988": "health",
    "home_runs": "lgID",
    "adult": "relationship",
    "telco_churn": "InternetService",
}


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


def simulated(rows: list[int], seeds: int, calibrate: str | None, max_epochs: int | None) -> None:
    print("| rows | problem | 90 % intervals cover | novelty_p < 0.05 |\n|---|---|---|---|")
    for n in rows:
        for place, problem in enumerate(PROBLEMS):
            found = []
            for seed in range(seeds):
                X, y = problem(n + FRESH, np.random.default_rng([seed, n, place]))
                model = NatPNRegressor(calibrate=calibrate, max_epochs=max_epochs, random_state=seed).fit(X[:n], y[:n])
                answer = model.predict_dist(X[n:])
                low, high = answer.interval(COVERAGE).T
                inside = (low <= y[n:]) & (y[n:] <= high)
                found.append((100 * inside.mean(), 100 * (answer.novelty_p < 0.05).mean()))
            cover, alarms = np.mean(found, axis=0)
            print(f"| {n} | {problem.__name__} | {cover:.1f} % | {alarms:.1f} % |", flush=True)


def held(model: Any, rows: Part) -> tuple[NDArray[np.bool_], Floats]:
    """Return whether each target is in its interval or set, and how wide that is."""
    if isinstance(model, NatPNClassifier):
        sets = model.predict_set(rows.X, COVERAGE)
        return sets[np.arange(len(rows)), np.searchsorted(model.classes_, rows.y)], sets.sum(1).astype(float)
    low, high = model.predict_interval(rows.X, COVERAGE).T
    return (low <= rows.y) & (rows.y <= high), high - low


def tilted(table: Table, seed: int) -> Part:
    """Return ordinary rows, drawn with weights exp(z), z their standardised first principal component of ranks."""
    numbers = table.test.X.select_dtypes("number").rank(pct=True).fillna(0.5).to_numpy()
    centred = numbers - numbers.mean(0)
    z = centred @ np.linalg.svd(centred, full_matrices=False)[2][0]
    weight = np.exp(1.5 * z / z.std())
    drawn = np.random.default_rng(seed).choice(len(z), len(z) // 2, p=weight / weight.sum())
    return table.test.first(drawn)


def widths(model: Any, found: Floats, before: Floats) -> str:
    if isinstance(model, NatPNClassifier):
        return f"{found.mean():.2f} classes"
    finite = np.isfinite(found)
    endless = f", {100 * (~finite).mean():.0f} % infinite" if not finite.all() else ""
    return f"× {found[finite].mean() / before.mean():.2f}{endless}" if finite.any() else "infinite"


def real(names: list[str], rows: int, seeds: int, max_epochs: int | None) -> None:
    print("| table | rows of | n | covered | width | covered by group / weighted | width | effective rows |")
    print("|---|---|---|---|---|---|---|---|")
    for name in names:
        lines: dict[str, list[list[Any]]] = {}
        for seed in range(seeds):
            table, group = read(name, seed, rows, 3000), TABLES[name]
            kind = NatPNRegressor if table.is_numeric else NatPNClassifier
            how = {"calibrate": "conformal", "validation_fraction": 0.4, "max_epochs": max_epochs, "random_state": seed}
            model = kind(groups=group, **how)
            model.fit(table.train.X, table.train.y)
            plain = kind(**how).fit(table.train.X, table.train.y)
            inside, before = held(plain, table.test)
            lines.setdefault("all", []).append([inside, before, *held(model, table.test), np.nan])
            values = table.test.X[group].astype(str)
            for value in values.value_counts().index[:4]:
                own = table.test.first(np.flatnonzero(values == value))
                line = [*held(plain, own), *held(model, own), np.nan]
                lines.setdefault(f"{group} = {value}", []).append(line)
            known = (
                table.shifted
                if table.is_numeric
                else table.shifted.first(np.flatnonzero(np.isin(table.shifted.y, plain.classes_)))
            )
            for what, part in (("tilted", tilted(table, seed)), ("shifted", known)):
                if len(part) < 50:
                    continue
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    adapted = plain.adapt(part.X)
                line = [*held(plain, part), *held(adapted, part), adapted.calibration_.effective_rows]
                lines.setdefault(what, []).append(line)
        for what, found in lines.items():
            inside, before, after, width = (np.concatenate([line[i] for line in found]) for i in range(4))
            effective = np.mean([line[4] for line in found])
            counted = f"{effective:.0f} of {len(plain.calibration_.scores)}" if np.isfinite(effective) else ""
            print(
                f"| {name} | {what} | {len(inside)} | {100 * inside.mean():.1f} % | {widths(plain, before, before)} | "
                f"{100 * after.mean():.1f} % | {widths(plain, width, before)} | {counted} |",
                flush=True,
            )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("rows", type=int, nargs="+")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--calibrate", choices=["conformal"])
    parser.add_argument("--max-epochs", type=int)
    parser.add_argument("--tables", nargs="*", choices=list(TABLES), help="Real tables; all if none is named.")
    options = parser.parse_args()
    torch.set_num_threads(1)
    if options.tables is None:
        simulated(options.rows, options.seeds, options.calibrate, options.max_epochs)
    else:
        for n in options.rows:
            real(options.tables or list(TABLES), n, options.seeds, options.max_epochs)


if __name__ == "__main__":
    main()
