"""One default for all data sets: its accuracy, calibration and detection beside the goals, and its time.

    NATPN_DATA=... python benchmarks/quality.py [--seeds 5] [--data NAME ...] [--scheme staged|paper]
                                                [--results FILE]

The seed splits off 20 % of the rows for test, and 20 % of the rest for validation. Columns of tables, channels of
images and Normal targets are standardised by the training rows; RMSE is in the units of the data. Detection is the area
under the precision-recall curve (ROC for digits and MNIST) of the log evidence, in %, with in-distribution rows as
positives. Each run is appended to FILE as one JSON line, and runs that are in FILE are not repeated.
"""

import argparse
import json
import os
import time
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.special import expit
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

from natpn import families, metrics
from natpn.network import NaturalPosteriorNetwork, default_network
from natpn.training import fit
from natpn_paper.datasets.base import Request
from natpn_paper.datasets.digits import idx_rows
from natpn_paper.datasets.uci_tables import bikes, regression_rows, sensorless_rows

Floats = NDArray[np.float64]

# name: {score: (goal, the paper's NatPN, whether higher is better)}
GOALS: dict[str, dict[str, tuple[float | None, float | None, bool]]] = {
    "digits-89": {"accuracy": (98.5, None, True), "brier": (2.5, None, False), "left-out ROC": (95, None, True)},
    "sensorless": {
        "accuracy": (99.6, 99.61, True),
        "brier": (0.75, 1.04, False),
        "left-out": (94, 79.5, True),
        "oodom": (100, 100.0, True),
        "familiarity left-out": (0.1, None, False),
        "familiarity test": (0.9, None, True),
    },
    "bike-normal": {
        "rmse": (46, 49.9, False),
        "calibration": (1.95, 1.95, False),
        "winter": (75, 55.0, True),
        "spring": (30, 23.3, True),
        "autumn": (28, 27.8, True),
        "oodom": (100, 100.0, True),
    },
    "bike-poisson": {
        "rmse": (47, 51.8, False),
        "calibration": (28, 31.0, False),
        "winter": (90, 85.2, True),
        "spring": (45, 37.0, True),
        "autumn": (42.7, 42.7, True),
        "oodom": (100, 100.0, True),
    },
    "concrete": {
        "rmse": (4.8, 5.83, False),
        "calibration": (3.0, 5.41, False),
        "energy": (100, 100.0, True),
        "kin8nm": (100, 100.0, True),
    },
    "kin8nm": {
        "rmse": (0.076, 0.08, False),
        "calibration": (2.0, 2.04, False),
        "energy": (100, 100.0, True),
        "concrete": (100, 100.0, True),
    },
}
# these were not looked at while the default was chosen
HELD_BACK = ("digits-01", "digits-35", "mnist-89", "mnist-01")
for _name in HELD_BACK:
    GOALS[_name] = dict.fromkeys(("accuracy", "brier", "left-out ROC"), (None, None, True))


@dataclass(frozen=True)
class Task:
    """A data set, split."""

    family: families.Family
    train: tuple[Floats, Floats]
    validation: tuple[Floats, Floats]
    test: tuple[Floats, Floats]
    unfamiliar: dict[str, Floats] = field(default_factory=dict)


def directory() -> Path:
    if "NATPN_DATA" not in os.environ:
        raise SystemExit("NATPN_DATA: set it to the directory that holds bike_sharing, mnist, sensorless_drive, …")
    return Path(os.environ["NATPN_DATA"])


def uci(name: str) -> tuple[Floats, Floats]:
    rows = regression_rows(name, Request())
    return rows.X, rows.y


def mnist() -> tuple[Floats, Floats]:
    """Return the first 1,000 training images of each class, and their labels."""
    rows = idx_rows("mnist", "train", Request())
    first = rows.only(np.concatenate([np.flatnonzero(rows.y == c)[:1000] for c in range(10)]))
    return first.X[:, None].astype(float), first.y.astype(float)


def bike() -> tuple[Floats, Floats, Floats]:
    """Return the inputs, the counts and the season of each hour."""
    values, season = bikes(Request())
    return values[:, :-1], values[:, -1], season


def load(name: str, seed: int) -> Task:
    """Return a data set, split by the seed."""
    unfamiliar: dict[str, Floats] = {}
    if name.startswith(("digits", "mnist")):
        source, pair = name.split("-")
        X, y = load_digits(return_X_y=True) if source == "digits" else mnist()
        out = np.isin(y, [int(c) for c in pair])
        unfamiliar["left-out"] = X[out]
        X, y = X[~out], np.unique(y[~out], return_inverse=True)[1].astype(float)
    elif name == "sensorless":
        rows = sensorless_rows(Request())
        unfamiliar["left-out"] = rows.X[rows.y >= 9]
        X, y = rows.X[rows.y < 9], rows.y[rows.y < 9].astype(float)
    elif name.startswith("bike"):
        X, y, season = bike()
        unfamiliar = {"winter": X[season == 4], "spring": X[season == 1], "autumn": X[season == 3]}
        X, y = X[season == 2], y[season == 2]
    else:
        X, y = uci(name)
        unfamiliar = {other: uci(other)[0] for other in ("energy", "concrete", "kin8nm") if other != name}
    X, X_test, y, y_test = train_test_split(X, y, test_size=0.2, random_state=seed)
    X, X_validation, y, y_validation = train_test_split(X, y, test_size=0.2, random_state=seed)
    unfamiliar["oodom"] = 255 * X_test
    if name in ("bike-normal", "concrete", "kin8nm"):
        family = families.get("normal")
    elif name == "bike-poisson":
        family = families.get("poisson")
    else:
        family = families.get("categorical", n_classes=int(y.max()) + 1)
    return Task(family, (X, y), (X_validation, y_validation), (X_test, y_test), unfamiliar)


class Standardised:
    """The standardisation of a data set by its training rows."""

    def __init__(self, task: Task) -> None:
        X, y = task.train
        axis = 0 if X.ndim == 2 else (0, 2, 3)  # columns of a table, channels of an image
        self.mean, spread = X.mean(axis, keepdims=True), X.std(axis, keepdims=True)
        self.scale = np.where(spread > 0, spread, 1.0)
        normal = isinstance(task.family, families.FAMILIES["normal"])
        self.y_mean, self.y_scale = (float(y.mean()), float(y.std())) if normal else (0.0, 1.0)

    def x(self, X: Floats) -> torch.Tensor:
        return torch.from_numpy((X - self.mean) / self.scale).float()

    def y(self, y: Floats) -> torch.Tensor:
        return torch.from_numpy((y - self.y_mean) / self.y_scale).float()


def train(task: Task, units: Standardised, seed: int, scheme: str) -> NaturalPosteriorNetwork:
    torch.manual_seed(seed)
    network = default_network(task.train[0].shape[1:], task.family, len(task.train[0]))
    data = [(units.x(X), units.y(y)) for X, y in (task.train, task.validation)]
    fit(network, *data, scheme=scheme, seed=seed)
    return network


@torch.no_grad()
def score(task: Task, units: Standardised, network: NaturalPosteriorNetwork) -> dict[str, float]:
    prediction = network(units.x(task.test[0]))
    predictive, y = prediction.posterior.predictive(), units.y(task.test[1])
    log_n = prediction.evidence.log_n.numpy()
    prior_log_n = float(network.prior.log_n)
    scores = {"nll": metrics.negative_log_likelihood(predictive.log_prob(y).numpy())}
    if isinstance(task.family, families.FAMILIES["categorical"]):
        scores |= {"accuracy": metrics.accuracy(y, predictive.mean), "brier": metrics.brier_norm(y, predictive.mean)}
    else:
        scores["rmse"] = units.y_scale * metrics.rmse(y, predictive.mean)
        scores["calibration"] = metrics.quantile_calibration(predictive.cdf(y).numpy())
    scores["familiarity test"] = float(np.median(expit(log_n.astype(float) - prior_log_n)))
    for name, X in task.unfamiliar.items():
        outside = network(units.x(X)).evidence.log_n.numpy()
        scores[name], scores[f"{name} ROC"] = metrics.detection(log_n, outside)
        scores[f"familiarity {name}"] = float(np.median(expit(outside.astype(float) - prior_log_n)))
    return scores


def run(name: str, seed: int, scheme: str) -> dict[str, object]:
    task = load(name, seed)
    units = Standardised(task)
    start = time.perf_counter()
    network = train(task, units, seed, scheme)
    seconds = time.perf_counter() - start
    return {"data": name, "seed": seed, "scheme": scheme, "seconds": seconds, **score(task, units, network)}


def table(results: list[dict[str, object]]) -> None:
    print("| data | score | ours (mean ± standard error) | goal | paper's NatPN | reached |\n|---|---|---|---|---|---|")
    for name, goals in GOALS.items():
        rows = [r for r in results if r["data"] == name]
        if not rows:
            continue
        for key, (goal, paper, higher) in goals.items():
            values = np.array([float(str(r[key])) for r in rows])
            error = values.std(ddof=1) / np.sqrt(len(values)) if len(values) > 1 else float("nan")
            mean = values.mean()
            reached = (
                ""
                if goal is None
                else ("yes" if (mean >= goal - 0.05 * (goal == 100) if higher else mean <= goal) else "no")
            )
            cells = [
                name,
                key,
                f"{mean:.4g} ± {error:.2g}",
                f"{'≥' if higher else '≤'} {goal}" if goal is not None else "",
                f"{paper or ''}",
                reached,
            ]
            print("| " + " | ".join(cells) + " |")
        seconds = np.mean([float(str(r["seconds"])) for r in rows])
        print(f"| {name} | seconds a fit, {len(rows)} seed(s) | {seconds:.1f} | | | |")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--data", nargs="*", default=list(GOALS), choices=list(GOALS))
    parser.add_argument("--scheme", default="staged", choices=("staged", "paper"))
    parser.add_argument("--results", type=Path, default=Path("quality.jsonl"))
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    results = (
        [json.loads(line) for line in arguments.results.read_text().splitlines()] if arguments.results.exists() else []
    )
    for seed in range(arguments.seeds):
        for name in arguments.data:
            done = {(r["data"], r["seed"], r["scheme"]) for r in results}
            if (name, seed, arguments.scheme) not in done:
                results.append(run(name, seed, arguments.scheme))
                with arguments.results.open("a") as file:
                    file.write(json.dumps(results[-1]) + "\n")
    table([r for r in results if r["scheme"] == arguments.scheme and r["data"] in arguments.data])


if __name__ == "__main__":
    main()
