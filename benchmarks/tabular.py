"""NatPN beside what one would pick instead, on tables: error, likelihood, intervals, detection and time.

    NATPN_DATA=... python benchmarks/tabular.py [--seeds 3] [--data NAME ...] [--models NAME ...] [--results FILE]

Splits: 20 % test by seed, as in `quality.py`; a model gets all other rows and holds out what it needs. Everybody runs
with defaults, the same for all data sets; what has no default is below, beside the model. Scores:

- RMSE or accuracy (%), the mean negative log-likelihood and, for numbers, the CRPS (of 200 quantiles) of test rows in
  the units of the data; probabilities are at least 2e-16, as in scikit-learn's `log_loss`;
- the share of test rows (%) in 90 % intervals, and the mean width of these;
- detection: areas (%) under the ROC and the precision-recall curve, in-distribution positive, of the log evidence of
  NatPN and of what the others have: minus the standard deviation, the interval's width or the entropy of the classes;
- seconds of the fit, and of a prediction with interval and OOD score of 1,000 rows.

A model that fails, as NGBoost does where its gradients overflow, is judged by the seeds where it does not. A result is
appended to FILE as one JSON line per run, and a run that is there is not repeated; `--seeds 0` prints what is there.
Other packages: pip install '.[benchmarks]'.
"""

import argparse
import datetime
import importlib.metadata
import importlib.util
import json
import platform
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from quality import load
from scipy import stats
from scipy.optimize import minimize_scalar
from sklearn import datasets
from sklearn.base import BaseEstimator, clone
from sklearn.compose import TransformedTargetRegressor
from sklearn.ensemble import (
    HistGradientBoostingClassifier,
    HistGradientBoostingRegressor,
    RandomForestClassifier,
    RandomForestRegressor,
)
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import KFold, cross_val_predict, train_test_split
from sklearn.neural_network import MLPClassifier, MLPRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from natpn import metrics
from natpn.estimators import NatPNClassifier, NatPNRegressor

Floats = NDArray[np.float64]

COVERAGE = 0.9
QUANTILES = (np.arange(200) + 0.5) / 200
TIMED_ROWS = 1000
# the data sets of the goal: best likelihood on 3 of 4, RMSE within 3 % of the best on 3 of 4
GOAL = ("concrete", "energy", "kin8nm", "bike")
NUMBERS = (*GOAL, "diabetes")
CLASSES = ("sensorless", "digits", "breast_cancer", "wine", "iris")
SHIPPED = {
    "diabetes": datasets.load_diabetes,
    "breast_cancer": datasets.load_breast_cancer,
    "wine": datasets.load_wine,
    "iris": datasets.load_iris,
}
IN_QUALITY = {"bike": "bike-normal", "digits": "digits-89"}


@dataclass(frozen=True)
class Table:
    """A data set, split."""

    X: Floats
    y: NDArray[Any]
    X_test: Floats
    y_test: NDArray[Any]
    unfamiliar: dict[str, Floats]


@dataclass(frozen=True)
class Numbers:
    """Predicted numbers, one a row; confidence is None where all rows have the same."""

    mean: Floats
    log_prob: Callable[[Floats], Floats]
    quantile: Callable[[Floats], Floats]
    interval: Floats
    confidence: Floats | None


@dataclass(frozen=True)
class Labels:
    """Predicted probabilities of classes, (rows, classes)."""

    probabilities: Floats
    confidence: Floats


Predictor = Callable[[Floats], Any]


def read(name: str, seed: int) -> Table:
    if name in SHIPPED:
        X, y = SHIPPED[name](return_X_y=True)
        X, X_test, y, y_test = train_test_split(X, y, test_size=0.2, random_state=seed)
        unfamiliar = {}
    else:
        task = load(IN_QUALITY.get(name, name), seed)
        X, y = (np.concatenate(parts) for parts in zip(task.train, task.validation, strict=True))
        X_test, y_test = task.test
        unfamiliar = {k: v for k, v in task.unfamiliar.items() if k != "oodom" and v.shape[1:] == X.shape[1:]}
    kind = float if name in NUMBERS else int
    return Table(X, y.astype(kind), X_test, y_test.astype(kind), unfamiliar)


def normal(mean: Floats, deviation: Floats | float, interval: Floats | None = None, constant: bool = False) -> Numbers:
    """Return a Normal prediction; if its deviation is constant, the interval's width says how sure it is."""
    law = stats.norm(mean, deviation)
    own = np.stack(law.interval(COVERAGE), 1)
    wide = deviation if not constant else None if interval is None else interval[:, 1] - interval[:, 0]
    return Numbers(
        mean,
        law.logpdf,
        lambda q: stats.norm.ppf(q, np.reshape(mean, (-1, 1)), np.reshape(deviation, (-1, 1))),
        own if interval is None else interval,
        None if wide is None else -np.asarray(wide),
    )


def labels(probabilities: Floats) -> Labels:
    return Labels(probabilities, -stats.entropy(probabilities, axis=1))


def out_of_fold_deviation(model: BaseEstimator, X: Floats, y: Floats, seed: int) -> float:
    """Return the standard deviation of residuals on rows that were held out, five times a fifth."""
    folds = KFold(5, shuffle=True, random_state=seed)
    return metrics.rmse(y, cross_val_predict(clone(model), X, y, cv=folds))


def natpn_numbers(X: Floats, y: Floats, seed: int, size: int = 1) -> Predictor:
    model = NatPNRegressor(ensemble_size=size, random_state=seed).fit(X, y)

    def predict(X: Floats) -> Numbers:
        found = model.predict_dist(X)
        return Numbers(found.mean(), found.log_prob, found.quantile, found.interval(COVERAGE), found.log_evidence)

    return predict


def natpn_labels(X: Floats, y: Floats, seed: int, size: int = 1) -> Predictor:
    model = NatPNClassifier(ensemble_size=size, random_state=seed).fit(X, y)

    def predict(X: Floats) -> Labels:
        found = model.predict_dist(X)
        return Labels(found.mean(), found.log_evidence)

    return predict


def five(fit: Callable[..., Predictor]) -> Callable[..., Predictor]:
    return lambda X, y, seed: fit(X, y, seed, size=5)


def boosting_numbers(X: Floats, y: Floats, seed: int) -> Predictor:
    """A constant deviation from out-of-fold residuals; the interval by two more models with quantile losses."""
    model = HistGradientBoostingRegressor(random_state=seed)
    deviation = out_of_fold_deviation(model, X, y, seed)
    model.fit(X, y)
    ends = [
        HistGradientBoostingRegressor(loss="quantile", quantile=q, random_state=seed).fit(X, y)
        for q in ((1 - COVERAGE) / 2, (1 + COVERAGE) / 2)
    ]
    return lambda X: normal(model.predict(X), deviation, np.stack([end.predict(X) for end in ends], 1), constant=True)


def boosting_labels(X: Floats, y: Floats, seed: int) -> Predictor:
    model = HistGradientBoostingClassifier(random_state=seed).fit(X, y)
    return lambda X: labels(model.predict_proba(X))


def ngboost_numbers(X: Floats, y: Floats, seed: int) -> Predictor:
    """Up to 2,000 trees rather than its 500, which are too few at its learning rate; stopped by 10 % of the rows."""
    from ngboost import NGBRegressor

    model = NGBRegressor(n_estimators=2000, early_stopping_rounds=50, verbose=False, random_state=seed).fit(X, y)

    def predict(X: Floats) -> Numbers:
        found = model.pred_dist(X, max_iter=model.best_val_loss_itr)
        return normal(found.loc, found.scale)

    return predict


def ngboost_labels(X: Floats, y: Floats, seed: int) -> Predictor:
    """As for numbers; beyond 10,000 rows 100 rounds at ten times the learning rate, each on a tenth of the rows."""
    from ngboost import NGBClassifier
    from ngboost.distns import k_categorical

    limits: dict[str, Any] = {"n_estimators": 2000}
    if len(X) > 10_000:
        limits = {"n_estimators": 100, "learning_rate": 0.1, "minibatch_frac": 0.1}
    model = NGBClassifier(
        Dist=k_categorical(int(y.max()) + 1), early_stopping_rounds=50, verbose=False, random_state=seed, **limits
    ).fit(X, y)
    return lambda X: labels(model.predict_proba(X, max_iter=model.best_val_loss_itr))


def forest_numbers(X: Floats, y: Floats, seed: int) -> Predictor:
    """Interval: cross-conformal (CV+, 5 folds). Deviation: the trees' spread, and a constant by out-of-bag rows."""
    from mapie.regression import CrossConformalRegressor

    forest = RandomForestRegressor(random_state=seed).fit(X, y)
    conformal = CrossConformalRegressor(clone(forest), confidence_level=COVERAGE, random_state=seed)
    conformal.fit_conformalize(X, y)
    trees = np.stack([tree.predict(X) for tree in forest.estimators_])
    for values, drawn in zip(trees, forest.estimators_samples_, strict=True):
        values[drawn] = np.nan
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # rows that every tree has seen
        residual, spread = (y - np.nanmean(trees, 0)) ** 2, np.nanvar(trees, 0)
    largest = float(np.nanmean(residual))
    rest = minimize_scalar(
        lambda c: np.nanmean(np.log(spread + c) + residual / (spread + c)), bounds=(1e-4 * largest, largest)
    ).x

    def predict(X: Floats) -> Numbers:
        spread = np.var([tree.predict(X) for tree in forest.estimators_], axis=0)
        return normal(forest.predict(X), np.sqrt(spread + rest), conformal.predict_interval(X)[1][:, :, 0])

    return predict


def forest_labels(X: Floats, y: Floats, seed: int) -> Predictor:
    model = RandomForestClassifier(random_state=seed).fit(X, y)
    return lambda X: labels(model.predict_proba(X))


def mlp_numbers(X: Floats, y: Floats, seed: int) -> Predictor:
    """Inputs and targets standardised, up to 1,000 epochs; a constant deviation from out-of-fold residuals."""
    network = MLPRegressor(max_iter=1000, random_state=seed)
    model = make_pipeline(StandardScaler(), TransformedTargetRegressor(network, transformer=StandardScaler()))
    deviation = out_of_fold_deviation(model, X, y, seed)
    model.fit(X, y)
    return lambda X: normal(model.predict(X), deviation, constant=True)


def mlp_labels(X: Floats, y: Floats, seed: int) -> Predictor:
    model = make_pipeline(StandardScaler(), MLPClassifier(max_iter=1000, random_state=seed)).fit(X, y)
    return lambda X: labels(model.predict_proba(X))


# name: (fit for numbers, fit for classes, the package it needs)
MODELS: dict[str, tuple[Callable[..., Predictor], Callable[..., Predictor], str | None]] = {
    "natpn": (natpn_numbers, natpn_labels, None),
    "natpn-5": (five(natpn_numbers), five(natpn_labels), None),
    "hist-gradient-boosting": (boosting_numbers, boosting_labels, None),
    "ngboost": (ngboost_numbers, ngboost_labels, "ngboost"),
    "random-forest-mapie": (forest_numbers, forest_labels, "mapie"),
    "mlp": (mlp_numbers, mlp_labels, None),
}
OURS = ("natpn", "natpn-5")


def score(found: Any, y: NDArray[Any]) -> dict[str, float]:
    if isinstance(found, Labels):
        p = np.clip(found.probabilities, np.finfo(float).eps, 1)
        return {
            "accuracy": metrics.accuracy(y, p),
            "nll": metrics.negative_log_likelihood(np.log(p[np.arange(len(y)), y])),
        }
    low, high = found.interval.T
    return {
        "rmse": metrics.rmse(y, found.mean),
        "nll": metrics.negative_log_likelihood(found.log_prob(y)),
        "crps": metrics.crps(y, found.quantile(QUANTILES)),
        "coverage": float(100 * np.mean((low <= y) & (y <= high))),
        "width": float(np.mean(high - low)),
    }


def run(name: str, model: str, seed: int) -> dict[str, Any]:
    table = read(name, seed)
    start = time.perf_counter()
    try:
        predict = MODELS[model][name in CLASSES](table.X, table.y, seed)
    except ValueError as problem:
        print(f"{model} fails on {name}, seed {seed}: {problem}")
        return {"data": name, "model": model, "seed": seed, "failed": str(problem)}
    fitted = time.perf_counter()
    predict(np.resize(table.X_test, (TIMED_ROWS, table.X.shape[1])))
    result = {"fit": fitted - start, "predict": time.perf_counter() - fitted}
    found = predict(table.X_test)
    result |= score(found, table.y_test)
    for other, X in table.unfamiliar.items():
        if found.confidence is not None:
            pr, roc = metrics.detection(found.confidence, predict(X).confidence)
            result |= {f"{other} ROC": roc, f"{other} PR": pr}
    return {"data": name, "model": model, "seed": seed, **result}


# score: (heading, what is best: 1 highest, -1 lowest, 0 nearest to the coverage)
COLUMNS = {
    "rmse": ("RMSE", -1),
    "accuracy": ("accuracy", 1),
    "nll": ("− log-likelihood", -1),
    "crps": ("CRPS", -1),
    "coverage": ("in 90 % interval", 0),
    "width": ("its width", None),
    "fit": ("fit, s", -1),
    "predict": ("1,000 rows, s", -1),
}


def complete(results: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the results of seeds that all models have which ran on the data set at all."""
    ran = {(r["data"], r["model"]) for r in results}
    done = {(r["data"], r["model"], r["seed"]) for r in results}
    return [r for r in results if all((name, m, r["seed"]) in done for name, m in ran if name == r["data"])]


def means(results: list[dict[str, Any]], name: str) -> dict[str, dict[str, float]]:
    """Return the mean over seeds of every score of every model."""
    found: dict[str, dict[str, float]] = {}
    for model in MODELS:
        rows = [r for r in results if r["data"] == name and r["model"] == model and "failed" not in r]
        if rows:
            keys = [k for k in rows[0] if k not in ("data", "model", "seed")]
            found[model] = {k: float(np.mean([r[k] for r in rows])) for k in keys}
    return found


def error(results: list[dict[str, Any]], name: str, model: str, key: str) -> str:
    values = [r[key] for r in results if r["data"] == name and r["model"] == model and "failed" not in r]
    return f" ± {np.std(values, ddof=1) / np.sqrt(len(values)):.2g}" if len(values) > 1 else ""


def print_data(results: list[dict[str, Any]], name: str) -> None:
    """Print the table of a data set."""
    found = means(results, name)
    first = next(iter(found.values()))
    areas = [k for k in first if k.endswith((" ROC", " PR"))]
    keys = [k for k in ("rmse", "accuracy", "nll", "crps", "coverage", "width") if k in first]
    keys += [*areas, "fit", "predict"]
    better = {k: COLUMNS[k][1] if k in COLUMNS else 1 for k in keys}
    best: dict[str, float] = {}
    for k, sign in better.items():
        values = [scores[k] for scores in found.values() if k in scores]
        if sign is not None:
            best[k] = min(values, key=lambda v: -sign * v if sign else abs(v - 100 * COVERAGE))
    seeds = len({r["seed"] for r in results if r["data"] == name})
    print(f"### {name}, {seeds} seed{'s' if seeds > 1 else ''}\n")
    print("| model | " + " | ".join(COLUMNS[k][0] if k in COLUMNS else k for k in keys) + " |")
    print("|---" * (len(keys) + 1) + "|")
    for model, scores in found.items():
        cells = []
        for k in keys:
            if k not in scores:
                cells.append("none")
                continue
            digits = ".1f" if k in areas or k == "coverage" else ".2g" if k in ("fit", "predict") else ".4g"
            text = f"{scores[k]:{digits}}"
            if k in best and text == f"{best[k]:{digits}}":
                text = f"**{text}**"
            cells.append(text + (error(results, name, model, k) if k in ("rmse", "accuracy", "nll") else ""))
        failed = sum(r["data"] == name and r["model"] == model and "failed" in r for r in results)
        print(f"| {model}" + f" ({failed} failed)" * bool(failed) + " | " + " | ".join(cells) + " |")
    print()


def print_summary(results: list[dict[str, Any]]) -> None:
    """Print how often NatPN is best, or near it, among the others, and every model's detection."""
    names = [n for n in (*NUMBERS, *CLASSES) if any(r["data"] == n for r in results)]
    found = {name: means(results, name) for name in names}
    print("### Summary\n")
    print("| | data | best likelihood | RMSE or accuracy within 3 % of the best | neither |\n|---|---|---|---|---|")
    for ours in OURS:
        for title, group in (("the goal's", GOAL), ("numbers", NUMBERS), ("classes", CLASSES)):
            likely, near, neither = [], [], []
            here = [n for n in group if ours in found.get(n, {})]
            for name in here:
                key, sign = ("accuracy", 1) if name in CLASSES else ("rmse", -1)
                others = [s for m, s in found[name].items() if m not in OURS]
                mine = found[name][ours]
                if not others:
                    continue
                top = max(sign * s[key] for s in others)
                is_likely = mine["nll"] < min(s["nll"] for s in others)
                is_near = sign * mine[key] >= top - 0.03 * abs(top)
                likely += [name] * is_likely
                near += [name] * is_near
                neither += [name] * (not is_likely and not is_near)
            cells = [f"{len(k)} of {len(here)}" + f" ({', '.join(k)})" * bool(k) for k in (likely, near, neither)]
            print(f"| {ours} | {title} | " + " | ".join(cells) + " |")
    pairs = [(n, k) for n in names for k in next(iter(found[n].values())) if k.endswith(" ROC")]
    if not pairs:
        return
    print("\nDetection, areas under the ROC curve (50 is chance):\n")
    models = [m for m in MODELS if any(m in found[n] for n in names)]
    print("| data → unfamiliar | " + " | ".join(models) + " |\n" + "|---" * (len(models) + 1) + "|")
    columns = [[found[n].get(m, {}).get(k) for n, k in pairs] for m in models]
    for (name, key), row in zip(pairs, zip(*columns, strict=True), strict=True):
        top = max(v for v in row if v is not None)
        cells = ["none" if v is None else f"**{v:.1f}**" if v == top else f"{v:.1f}" for v in row]
        print(f"| {name} → {key.removesuffix(' ROC')} | " + " | ".join(cells) + " |")
    for title, statistic in (("mean", np.mean), ("lowest", np.min)):
        known = [[v for v in column if v is not None] for column in columns]
        print(f"| {title} | " + " | ".join(f"{statistic(k):.1f}" if k else "none" for k in known) + " |")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--data", nargs="*", default=[*NUMBERS, *CLASSES], choices=[*NUMBERS, *CLASSES])
    parser.add_argument("--models", nargs="*", default=list(MODELS), choices=list(MODELS))
    parser.add_argument("--results", type=Path, default=Path("tabular.jsonl"))
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    warnings.simplefilter("ignore", ConvergenceWarning)
    versions = []
    for model in arguments.models.copy():
        package = MODELS[model][2]
        if package and importlib.util.find_spec(package) is None:
            print(f"{model} is left out: pip install '.[benchmarks]' installs {package}")
            arguments.models.remove(model)
        elif package:
            versions.append(package)
    results = (
        [json.loads(line) for line in arguments.results.read_text().splitlines()] if arguments.results.exists() else []
    )
    done = {(r["data"], r["model"], r["seed"]) for r in results}
    for seed in range(arguments.seeds):
        for name in arguments.data:
            for model in arguments.models:
                if (name, model, seed) not in done:
                    results.append(run(name, model, seed))
                    with arguments.results.open("a") as file:
                        file.write(json.dumps(results[-1]) + "\n")
    packages = ("natpn", "numpy", "scikit-learn", "torch", *versions)
    named = ", ".join(f"{package} {importlib.metadata.version(package)}" for package in packages)
    print(f"{datetime.date.today()}, Python {platform.python_version()}, {named}\n")
    results = complete([r for r in results if r["data"] in arguments.data and r["model"] in arguments.models])
    for name in arguments.data:
        if any(r["data"] == name for r in results):
            print_data(results, name)
    if results:
        print_summary(results)


if __name__ == "__main__":
    main()
