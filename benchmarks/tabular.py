"""NatPN beside gradient boosting and forests, on real tables with categories, missing values, dates and counts.

    NATPN_DATA=... python benchmarks/tabular.py [--seeds 1] [--rows 3000] [--tables NAME ...] [--models NAME ...]
                                                [--results FILE]

Every model gets the same rows (see `arena.py`), one thread, and its defaults, except as its function below states.
Scores of ordinary test rows:

- numbers: RMSE and CRPS in standard deviations of the target, −log p of standardised targets, and the share of rows in
  90 % intervals;
- classes: log loss and the share of errors;
- CPU seconds of the fit.

Each run is appended to FILE as one JSON line, and runs that are in FILE are not repeated; `--seeds 0` prints the runs
in FILE. The last table says which goals are reached. The other models need pip install '.[benchmarks]'.
"""

import argparse
import importlib.util
import json
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from arena import Part, Table, read, tasks
from numpy.typing import NDArray
from scipy import stats
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor, RandomForestClassifier
from sklearn.model_selection import cross_val_predict
from sklearn.preprocessing import OrdinalEncoder

from natpn import NatPNClassifier, NatPNRegressor, metrics

Floats = NDArray[np.float64]
Run = dict[str, Any]
COVERAGE = 0.9
LEVELS = (np.arange(100) + 0.5) / 100
ENDS = (0.05, 0.25, 0.5, 0.75, 0.95)
HELD_OUT = 6  # every sixth row is held out for CatBoost's early stopping
RIVALS = ("catboost", "hist-gradient-boosting")


@dataclass(frozen=True)
class Numbers:
    """Predicted numbers, one a row.

    Attributes:
        mean: Their means.
        values: Equally likely values, (rows, K).
        log_prob: The log-probability of targets.
        interval: 90 % intervals, (rows, 2).
    """

    mean: Floats
    values: Floats
    log_prob: Callable[[Floats], Floats]
    interval: Floats


Answer = Numbers | Floats  # probabilities of the sorted classes
Predictor = Callable[[Any], Answer]


class Columns:
    """Turns tables into matrices: dates into days, other columns that are no numbers into codes, NaN if never seen."""

    def __init__(self, frame: pd.DataFrame) -> None:
        self.coded = [c for c in frame if not _is_number(frame[c]) and not _is_date(frame[c])]
        encoder = OrdinalEncoder(handle_unknown="use_encoded_value", unknown_value=np.nan, encoded_missing_value=np.nan)
        self.encoder = encoder.fit(_texts(frame[self.coded])) if self.coded else None
        few = {c for c in self.coded if frame[c].nunique() <= 255}
        self.categorical = [c in few for c in frame]

    def __call__(self, frame: pd.DataFrame) -> Floats:
        """Return the matrix of a table."""
        columns = {}
        for name in frame:
            if _is_date(frame[name]):
                days = (frame[name].dt.tz_localize(None) - pd.Timestamp("1970-01-01")).dt.total_seconds() / 86400
                columns[name] = days
            elif name not in self.coded:
                columns[name] = frame[name].astype(float)
        matrix = pd.DataFrame(columns, index=frame.index)
        if self.encoder is not None:
            matrix[self.coded] = self.encoder.transform(_texts(frame[self.coded]))
        return matrix[list(frame)].to_numpy(float)


def _is_date(cells: pd.Series) -> bool:
    return bool(pd.api.types.is_datetime64_any_dtype(cells))


def _is_number(cells: pd.Series) -> bool:
    return bool(pd.api.types.is_numeric_dtype(cells) and not pd.api.types.is_bool_dtype(cells))


def _texts(frame: pd.DataFrame) -> pd.DataFrame:
    return frame.astype(object).where(frame.notna(), "missing").astype(str)


def normal(mean: Floats, deviation: Floats | float) -> Numbers:
    """Return Normal predictions."""
    wide = np.maximum(np.broadcast_to(deviation, mean.shape), 1e-9)
    return Numbers(
        mean,
        mean[:, None] + wide[:, None] * stats.norm.ppf(LEVELS),
        lambda y: stats.norm.logpdf(y, mean, wide),
        mean[:, None] + wide[:, None] * stats.norm.ppf([0.05, 0.95]),
    )


def poisson(rate: Floats) -> Numbers:
    """Return Poisson predictions."""
    rate = np.maximum(rate, 1e-6)
    values = stats.poisson.ppf(LEVELS, rate[:, None])
    interval = stats.poisson.ppf([0.05, 0.95], rate[:, None])
    return Numbers(rate, values, lambda y: stats.poisson.logpmf(y, rate), interval)


def natpn(table: Table, seed: int, size: int | str = "auto", family: str = "auto") -> Predictor:
    """Fit the estimators with their defaults."""
    make: Any = partial(NatPNRegressor, family) if table.is_numeric else NatPNClassifier
    model = make(ensemble_size=size, random_state=seed).fit(table.train.X, table.train.y)
    if not table.is_numeric:
        return lambda X: model.predict_proba(X)

    def predict(X: Any) -> Numbers:
        found = model.predict_dist(X)
        mean = found.mean()
        mean = np.where(np.isfinite(mean), mean, found.median())
        return Numbers(mean, found.equally_likely(), found.log_prob, found.interval(COVERAGE))

    return predict


def five(table: Table, seed: int) -> Predictor:
    """Fit five networks."""
    return natpn(table, seed, 5)


def as_normal(table: Table, seed: int) -> Predictor:
    """Fit numbers by the Normal family, whatever their distribution."""
    return natpn(table, seed, family="normal")


def catboost(table: Table, seed: int) -> Predictor:
    """Up to 1,000 rounds, stopped after 50 without progress on a sixth of the rows; numbers by mean and variance."""
    from catboost import CatBoostClassifier, CatBoostRegressor

    columns = Columns(table.train.X)

    def frame(X: pd.DataFrame) -> pd.DataFrame:
        matrix = pd.DataFrame(columns(X), columns=list(X))
        matrix[columns.coded] = _texts(X[columns.coded]).to_numpy()
        return matrix

    X, y = frame(table.train.X), table.train.y
    options: dict[str, Any] = {
        "random_seed": seed,
        "verbose": False,
        "allow_writing_files": False,
        "thread_count": 1,
        "cat_features": columns.coded,
        "early_stopping_rounds": 50,
    }
    out = np.arange(len(y)) % HELD_OUT == 0
    if not table.is_numeric:
        model = CatBoostClassifier(**options).fit(X[~out], y[~out], eval_set=(X[out], y[out]))
        return lambda X: _sorted(model.predict_proba(frame(X)), model.classes_, y)
    if table.kind == "count":
        model = CatBoostRegressor(loss_function="Poisson", **options).fit(X[~out], y[~out], eval_set=(X[out], y[out]))
        return lambda X: poisson(model.predict(frame(X), prediction_type="Exponent"))
    mean, scale = y.mean(), y.std()
    z = (y - mean) / scale
    model = CatBoostRegressor(loss_function="RMSEWithUncertainty", **options)
    model.fit(X[~out], z[~out], eval_set=(X[out], z[out]))

    def predict(X: pd.DataFrame) -> Numbers:
        found = model.predict(frame(X))
        return normal(found[:, 0] * scale + mean, np.sqrt(np.maximum(found[:, 1], 1e-12)) * scale)

    return predict


def boosting(table: Table, seed: int) -> Predictor:
    """Numbers: a constant deviation from three folds for −log p, and five quantile losses for intervals and CRPS."""
    columns = Columns(table.train.X)
    X, y = columns(table.train.X), table.train.y
    options: dict[str, Any] = {"random_state": seed, "categorical_features": columns.categorical}
    if not table.is_numeric:
        model = HistGradientBoostingClassifier(**options).fit(X, y)
        return lambda X: model.predict_proba(columns(X))
    loss = "poisson" if table.kind == "count" else "squared_error"
    centre = HistGradientBoostingRegressor(loss=loss, **options).fit(X, y)
    quantiles = [HistGradientBoostingRegressor(loss="quantile", quantile=q, **options).fit(X, y) for q in ENDS]
    deviation = metrics.rmse(y, cross_val_predict(HistGradientBoostingRegressor(**options), X, y, cv=3))

    def predict(X: pd.DataFrame) -> Numbers:
        matrix = columns(X)
        mean = centre.predict(matrix)
        ends = np.sort(np.stack([model.predict(matrix) for model in quantiles], 1), 1)
        plain = poisson(mean) if table.kind == "count" else normal(mean, deviation)
        tails = [2 * ends[:, :1] - ends[:, 1:2], ends, 2 * ends[:, -1:] - ends[:, -2:-1]]
        values = np.stack([np.interp(LEVELS, (0, *ENDS, 1), row) for row in np.concatenate(tails, 1)])
        return Numbers(mean, plain.values if table.kind == "count" else values, plain.log_prob, ends[:, [0, -1]])

    return predict


def ngboost(table: Table, seed: int) -> Predictor:
    """Up to 1,000 trees at a learning rate of 0.03, stopped after 50 without progress; missing values are −999."""
    from ngboost import NGBClassifier, NGBRegressor
    from ngboost.distns import k_categorical

    columns = Columns(table.train.X)
    X = np.nan_to_num(columns(table.train.X), nan=-999)
    options: dict[str, Any] = {"n_estimators": 1000, "learning_rate": 0.03, "verbose": False, "random_state": seed}
    options["early_stopping_rounds"] = 50
    if not table.is_numeric:
        classes, index = np.unique(table.train.y, return_inverse=True)
        model = NGBClassifier(Dist=k_categorical(len(classes)), **options).fit(X, index)
        return lambda X: model.predict_proba(np.nan_to_num(columns(X), nan=-999))
    model = NGBRegressor(**options).fit(X, table.train.y)

    def predict(X: pd.DataFrame) -> Numbers:
        found = model.pred_dist(np.nan_to_num(columns(X), nan=-999))
        return normal(found.loc, found.scale)

    return predict


def forest(table: Table, seed: int) -> Predictor:
    """200 trees; numbers by the quantiles of their leaves, of at least three rows."""
    columns = Columns(table.train.X)
    X = np.nan_to_num(columns(table.train.X), nan=-999)
    if not table.is_numeric:
        model = RandomForestClassifier(200, random_state=seed).fit(X, table.train.y)
        return lambda X: model.predict_proba(np.nan_to_num(columns(X), nan=-999))
    from quantile_forest import RandomForestQuantileRegressor

    model = RandomForestQuantileRegressor(200, min_samples_leaf=3, random_state=seed).fit(X, table.train.y)
    least = 1e-3 * float(table.train.y.std())

    def predict(X: pd.DataFrame) -> Numbers:
        values = model.predict(np.nan_to_num(columns(X), nan=-999), quantiles=list(LEVELS))
        found = normal(values.mean(1), values.std(1) + least)
        return Numbers(found.mean, values, found.log_prob, values[:, [5, 94]])

    return predict


def _sorted(probabilities: Floats, classes: NDArray[Any], y: NDArray[Any]) -> Floats:
    """Return columns in the order of the sorted labels."""
    place = {str(label): i for i, label in enumerate(np.ravel(classes))}
    return probabilities[:, [place[str(label)] for label in np.unique(y)]]


# name: (fit, the package it needs)
MODELS: dict[str, tuple[Callable[[Table, int], Predictor], str | None]] = {
    "natpn": (natpn, None),
    "natpn-5": (five, None),
    "natpn-normal": (as_normal, None),
    "catboost": (catboost, "catboost"),
    "hist-gradient-boosting": (boosting, None),
    "ngboost": (ngboost, "ngboost"),
    "quantile-forest": (forest, "quantile_forest"),
}


def score(found: Answer, table: Table, part: Part) -> dict[str, float]:
    """Return the scores of an answer."""
    if not isinstance(found, Numbers):
        index = np.searchsorted(np.unique(table.train.y), part.y)
        p = np.clip(found, 1e-12, 1)
        return {
            "log loss": float(-np.log(p[np.arange(len(p)), index]).mean()),
            "error": float((p.argmax(1) != index).mean()),
        }
    scale = float(table.train.y.std())
    low, high = found.interval.T
    return {
        "rmse": metrics.rmse(part.y, found.mean) / scale,
        "crps": metrics.crps(part.y, found.values) / scale,
        "nll": metrics.negative_log_likelihood(found.log_prob(part.y)) - np.log(scale),
        "coverage": float(((low <= part.y) & (part.y <= high)).mean()),
    }


def run(name: str, model: str, seed: int, rows: int) -> Run:
    """Fit a model to a table, and score it."""
    table = read(name, seed, rows, 3000)
    result: Run = {"table": name, "kind": table.kind, "model": model, "seed": seed, "rows": rows}
    start = time.process_time()
    try:
        predict = MODELS[model][0](table, seed)
    except (ValueError, np.linalg.LinAlgError) as problem:
        return result | {"failed": str(problem)[:200]}
    result["seconds"] = time.process_time() - start
    return result | score(predict(table.test.X), table, table.test)


def means(results: list[Run], score: str) -> dict[tuple[str, int], dict[str, float]]:
    """Return {(table, rows): {model: the mean over seeds}}."""
    found: dict[tuple[str, int], dict[str, list[float]]] = {}
    for r in results:
        if score in r:
            found.setdefault((r["table"], r["rows"]), {}).setdefault(r["model"], []).append(r[score])
    return {key: {m: float(np.mean(v)) for m, v in models.items()} for key, models in found.items()}


def table_of(results: list[Run], score: str, form: str) -> None:
    """Print a score of every model on every table, the best in bold."""
    found = means(results, score)
    models = [m for m in MODELS if any(m in row for row in found.values())]
    if not found:
        return
    print(f"\n{score}\n\n| table | rows | " + " | ".join(models) + " |\n|---|---|" + "---|" * len(models))
    for (name, rows), row in found.items():
        best = min(row.values())
        cells = ["" if m not in row else format(row[m], form) for m in models]
        cells = [f"**{c}**" if m in row and row[m] == best else c for c, m in zip(cells, models, strict=True)]
        print(f"| {name} | {rows:,} | " + " | ".join(cells) + " |")


def against(results: list[Run], score: str, ours: str, counts: bool | None = None) -> tuple[list[float], list[int]]:
    """Return our score over the better rival's, and our rank among the three, table by table."""
    kinds = {r["table"]: r["kind"] for r in results}
    rows = [
        row
        for (name, _), row in means(results, score).items()
        if {ours, *RIVALS} <= set(row) and (counts is None or (kinds[name] == "count") == counts)
    ]
    ratios = [row[ours] / min(row[m] for m in RIVALS) for row in rows]
    return ratios, [1 + sum(row[m] < row[ours] for m in RIVALS) for row in rows]


def goals(results: list[Run]) -> None:
    """Print each goal with what was measured, for the default and for five networks."""
    print("\n| goal | natpn | natpn-5 |\n|---|---|---|")

    def line(goal: str, seen: Callable[[str], str]) -> None:
        print(f"| {goal} | {seen('natpn')} | {seen('natpn-5')} |")

    def ratios(score: str, ours: str) -> str:
        found = against(results, score, ours)[0]
        return f"{np.median(found):.3f} / {max(found):.2f} on {len(found)}" if found else ""

    def rank(score: str, ours: str) -> str:
        found = against(results, score, ours)[1]
        return f"{np.mean(found):.2f}" if found else ""

    def likelihood(ours: str) -> str:
        found = means([r for r in results if r["kind"] == "count"], "nll")
        wins = [row[ours] < row["catboost"] for row in found.values() if {ours, "catboost"} <= set(row)]
        return f"{sum(wins)} of {len(wins)}" if wins else ""

    def times(ours: str) -> str:
        found = means(results, "seconds")
        share = [row[ours] / row["catboost"] for row in found.values() if {ours, "catboost"} <= set(row)]
        return f"{np.median(share):.2f}" if share else ""

    line("numbers: mean rank in CRPS among three ≤ 1.6", lambda m: rank("crps", m))
    line("numbers: CRPS against the better of two, median ≤ .97 / worst ≤ 1.1", lambda m: ratios("crps", m))
    line("numbers: RMSE against the better of two, median ≤ 1 / worst ≤ 1.1", lambda m: ratios("rmse", m))
    line("classes: mean rank in log loss among three ≤ 1.5", lambda m: rank("log loss", m))
    line("classes: log loss against the better of two, median ≤ 1 / worst", lambda m: ratios("log loss", m))
    line("counts: −log p better than CatBoost's Poisson on all", likelihood)
    line("CPU time of a fit against CatBoost's, median ≤ 2", times)


def main() -> None:
    """Make the missing runs, and print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--rows", type=int, default=3000)
    parser.add_argument("--tables", nargs="*", default=list(tasks()))
    parser.add_argument("--models", nargs="*", default=[m for m in MODELS if m != "natpn-normal"], choices=list(MODELS))
    parser.add_argument("--results", type=Path, default=Path("tabular.jsonl"))
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    warnings.filterwarnings("ignore", category=UserWarning)
    lines = arguments.results.read_text().splitlines() if arguments.results.exists() else []
    results = [json.loads(line) for line in lines]
    done = {(r["table"], r["model"], r["seed"], r["rows"]) for r in results}
    for seed in range(arguments.seeds):
        for name in arguments.tables:
            for model in arguments.models:
                package = MODELS[model][1]
                if (name, model, seed, arguments.rows) in done:
                    continue
                if package is not None and importlib.util.find_spec(package) is None:
                    print(f"{model} is left out: pip install {package.replace('_', '-')}")
                    continue
                results.append(run(name, model, seed, arguments.rows))
                with arguments.results.open("a") as file:
                    file.write(json.dumps(results[-1]) + "\n")
    for score, form in (("crps", ".3f"), ("rmse", ".3f"), ("nll", ".2f"), ("log loss", ".3f"), ("seconds", ".1f")):
        table_of(results, score, form)
    goals(results)


if __name__ == "__main__":
    main()
