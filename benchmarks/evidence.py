"""What evidence is worth: one fitted model with the evidence it found, with unlimited evidence, and with none.

    NATPN_DATA=... python benchmarks/evidence.py [--seeds 1] [--tables NAME ...] [--ensemble N] [--rows 3000]
                                                 [--left-out component|cluster|category|column] [--results FILE]

A model with defaults is fitted to at most 3,000 rows of every table. `n` is the evidence it found; `∞` is the same
network with n → ∞, without the prior; `0` is its prior, the marginal of the training targets. Ordinary rows and, where
the table has some, shifted rows (see `arena.py`) are scored separately:

- the loss: CRPS in standard deviations of the target, log loss for classes; −log p of standardised targets; the share
  of rows inside 90 % intervals, and their width. A count at the end of an interval is inside it at random, as often as
  makes the coverage of a right distribution exactly 90 %;
- the share of ordinary rows with a familiarity below ½, and the mean width over the median width;
- detection of shifted rows: the area under the ROC curve of the evidence (%);
- strangers: ordinary rows in which one cell is replaced, in each column in turn, by a category that was never seen, by
  a missing value where there was none, and by the largest number plus the range: the share with `novelty_p` < 0.05.

With `--left-out` the shifted rows are a group of ordinary rows that is left out of training, and strangers are not
tried. Each run is appended to FILE as one JSON line, and runs that are in FILE are not repeated; `--seeds 0` prints the
runs in FILE. The last table says which goals are reached.
"""

import argparse
import json
import pickle
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from arena import GROUPS, OF_PAPER, Part, Table, leave_out, read, tasks
from numpy.typing import NDArray

from natpn import NatPNClassifier, NatPNRegressor, metrics
from natpn.network import GradualBudget
from natpn_paper.baselines import StandardNetClassifier

Floats = NDArray[np.float64]
Run = dict[str, Any]
COVERAGE = 0.9
STRANGERS = 200  # rows a column
LEAST_SHIFTED = 20


def with_level(model: Any, log_n: float) -> Any:
    """Return the model with the same evidence for every row."""
    other = pickle.loads(pickle.dumps(model))
    for part in other.network_.modules():
        if isinstance(part, GradualBudget):
            part.set(float(part.centre), float(part.unit), log_n, 1e30)
            part.power.fill_(0.0)
            part.rise.fill_(0.0)
    return pickle.loads(pickle.dumps(other))


def scores(model: Any, part: Part, scale: float) -> dict[str, Any]:
    """Return the scores of a model on rows."""
    found = model.predict_dist(part.X)
    if not hasattr(found, "quantile") or hasattr(found, "probabilities"):
        known = np.isin(part.y, found.classes)
        if not known.any():
            return {"novel": float((found.novelty_p < 0.05).mean())}
        index = np.searchsorted(found.classes, part.y[known])
        p = found.probabilities[known]
        loss = float(-np.log(np.clip(p[np.arange(len(p)), index], 1e-12, 1)).mean())
        return {
            "loss": loss,
            "nll": loss,
            "error": float((p.argmax(1) != index).mean()),
            "brier": 100 * metrics.brier_score(index, p),
            "novel": float((found.novelty_p < 0.05).mean()),
        }
    interval = found.interval(COVERAGE)
    place = found.cdf(part.y)
    if found.predictive.target.discrete:  # a random place within the probability of the count
        below = found.cdf(part.y - 1)
        place = below + np.random.default_rng(0).random(len(part)) * (place - below)
    width = (interval[:, 1] - interval[:, 0]) / scale
    mean = found.mean()
    return {
        "loss": metrics.crps(part.y, found.equally_likely()) / scale,
        "nll": metrics.negative_log_likelihood(found.log_prob(part.y)) - np.log(scale),
        "rmse": metrics.rmse(part.y, np.where(np.isfinite(mean), mean, found.median())) / scale,
        "bias": float(mean.mean() / part.y.mean() - 1) if np.isfinite(mean).all() else None,
        "coverage": float((np.abs(place - 0.5) <= COVERAGE / 2).mean()),
        "width": float(np.median(width)),
        "mean width": float(width.mean()),
        "novel": float((found.novelty_p < 0.05).mean()),
    }


def strangers(model: Any, table: Table) -> dict[str, float]:
    """Return the share of rows with one strange cell that are flagged as novel, the mean over columns."""
    frame, train = table.test.X, table.train.X
    if not isinstance(frame, pd.DataFrame):
        if frame.ndim != 2:
            return {}
        frame, train = pd.DataFrame(frame), pd.DataFrame(train)
    frame = frame.head(STRANGERS)
    shares: dict[str, list[float]] = {"category": [], "missing": [], "number": []}

    def add(kind: str, column: Any, value: Any) -> None:
        other = frame.copy()
        other[column] = value
        X = other if isinstance(table.test.X, pd.DataFrame) else other.to_numpy()
        shares[kind].append(float((model.predict_dist(X).novelty_p < 0.05).mean()))

    for column in train.columns:
        cells = train[column]
        if not cells.isna().any() and not pd.api.types.is_bool_dtype(cells):
            add("missing", column, pd.NaT if pd.api.types.is_datetime64_any_dtype(cells) else np.nan)
        if pd.api.types.is_numeric_dtype(cells) and not pd.api.types.is_bool_dtype(cells):
            if cells.max() > cells.min():
                add("number", column, 2 * float(cells.max()) - float(cells.min()))
        elif isinstance(cells.dropna().iloc[0], str):
            add("category", column, "never seen before")
    return {kind: float(np.mean(values)) for kind, values in shares.items() if values}


def run(name: str, seed: int, rows: int, size: int | None, group: str | None = None) -> Run | None:
    """Fit a model to a table, and score it; None if the table has no such group to leave out."""
    table = read(name, seed, 2000 if name == "mnist" else rows + (rows // 2 if group else 0), 3000)
    if group:
        made = leave_out(table, group, seed, rows, 1500)
        if made is None:
            return None
        table = made
    make: Callable[..., Any] = NatPNRegressor if table.is_numeric else NatPNClassifier
    start = time.process_time()
    model = make(random_state=seed, ensemble_size=size or "auto").fit(table.train.X, table.train.y)
    result: Run = {"table": name, "kind": table.kind, "seed": seed, "size": model.n_networks_, "rows": len(table.train)}
    result["seconds"] = time.process_time() - start
    result["family"] = str(model.family_)
    scale = float(table.train.y.std()) if table.is_numeric else 1.0
    models = {"n": model, "inf": with_level(model, 50.0), "0": with_level(model, -50.0)}
    ordinary = model.predict_dist(table.test.X)
    result["low"] = float((ordinary.familiarity < 0.5).mean())
    result["familiarity"] = float(np.median(ordinary.familiarity))
    result["ordinary"] = {key: scores(each, table.test, scale) for key, each in models.items()}
    if len(table.shifted) >= LEAST_SHIFTED:
        outside = model.predict_dist(table.shifted.X)
        result["detection"] = metrics.detection(ordinary.log_evidence, outside.log_evidence)[1]
        result["shifted familiarity"] = float(np.median(outside.familiarity))
        result["shifted"] = {key: scores(each, table.shifted, scale) for key, each in models.items()}
    result["strangers"] = {} if group else strangers(model, table)
    if isinstance(table.train.X, np.ndarray) and table.train.X.ndim > 2:
        plain = StandardNetClassifier(max_epochs=20, random_state=seed).fit(table.train.X, table.train.y)
        p = plain.predict_proba(table.test.X)
        result["plain brier"] = 100 * metrics.brier_score(np.searchsorted(plain.classes_, table.test.y), p)
    return result


def _cell(value: float | None, form: str = ".3f") -> str:
    return "" if value is None else format(value, form)


def table_of(results: list[Run], part: str) -> None:
    """Print the scores of ordinary or of shifted rows."""
    print(f"\n{part.capitalize()} rows\n")
    head = "table | family | loss, n | loss, ∞ | loss, 0 | −log p, n | −log p, ∞ | −log p, 0 | "
    head += "covered, n | covered, ∞ | width, n | width, 0 | "
    head += "familiarity < ½ | mean/median width | bias" if part == "ordinary" else "familiarity | flagged | ROC"
    print(f"| {head} |\n|" + "---|" * (head.count("|") + 1))
    for r in results:
        if part not in r:
            continue
        s = r[part]
        cells = [r["table"], r["family"].split("(")[0]]
        cells += [_cell(s[k].get(score)) for score in ("loss", "nll") for k in ("n", "inf", "0")]
        cells += [_cell(s[k].get("coverage"), ".1%") for k in ("n", "inf")]
        cells += [_cell(s[k].get("width"), ".2f") for k in ("n", "0")]
        if part == "ordinary":
            ratio = s["n"]["mean width"] / s["n"]["width"] if s["n"].get("width") else None
            cells += [_cell(r["low"], ".2%"), _cell(ratio, ".2f"), _cell(s["n"].get("bias"), "+.1%")]
        else:
            cells += [_cell(r["shifted familiarity"]), _cell(s["n"]["novel"], ".0%"), _cell(r["detection"], ".1f")]
        print("| " + " | ".join(cells) + " |")


def table_of_strangers(results: list[Run]) -> None:
    """Print how many strangers are flagged."""
    print("\n| table | never-seen category | first missing value | one range beyond | false alarms |")
    print("|---|---|---|---|---|")
    for r in results:
        cells = [_cell(r["strangers"].get(kind), ".0%") for kind in ("category", "missing", "number")]
        print(f"| {r['table']} | " + " | ".join(cells) + f" | {r['ordinary']['n']['novel']:.1%} |")


def goals(results: list[Run]) -> None:
    """Print each goal with what was measured."""
    ordinary = [r["ordinary"] for r in results]
    ratios = {r["table"]: r["ordinary"]["n"]["loss"] / r["ordinary"]["inf"]["loss"] for r in results}
    better = sum(s["n"]["nll"] < s["inf"]["nll"] for s in ordinary)
    print("\n| goal | measured |\n|---|---|")

    def line(goal: str, seen: str) -> None:
        print(f"| {goal} | {seen} |")

    def worst(values: dict[str, float], form: str, n: int = 3) -> str:
        top = sorted(values.items(), key=lambda item: -item[1])[:n]
        return ", ".join(f"{name} {format(value, form)}" for name, value in top)

    line("ordinary loss ≤ 1.01 times that of n = ∞ on every table", worst(ratios, ".3f"))
    line("ordinary −log p better than n = ∞ on ⅔", f"{better} of {len(ordinary)}")
    line("ordinary rows with familiarity < ½: ≤ .1 %", worst({r["table"]: r["low"] for r in results}, ".2%"))
    moved = [r for r in results if "loss" in r.get("shifted", {}).get("n", {})]
    if moved:
        ratio = {
            r["table"]: r["shifted"]["n"]["loss"] / min(r["shifted"]["inf"]["loss"], r["shifted"]["0"]["loss"])
            for r in moved
        }
        close = sum(value <= 1.05 for value in ratio.values())
        line("shifted loss ≤ 1.05 times the better of ∞ and 0 on 90 %", f"{close} of {len(ratio)}")
        line("shifted loss never above 1.25 times", worst(ratio, ".3f"))
        wins = sum(r["shifted"]["n"]["nll"] <= min(r["shifted"][k]["nll"] for k in ("inf", "0")) for r in moved)
        line("shifted −log p better than both on 8 of 10", f"{wins} of {len(moved)}")
        numbers = [r for r in moved if "coverage" in r["shifted"]["n"]]
        covered = np.mean([r["shifted"]["n"]["coverage"] for r in numbers])
        narrow = sum(r["shifted"]["n"]["width"] <= r["shifted"]["0"]["width"] for r in numbers)
        line("shifted coverage ≥ 82 %, mean", f"{covered:.1%}")
        line("shifted median width ≤ that of the marginal", f"{narrow} of {len(numbers)}")
    kept = {
        r["table"]: r["ordinary"]["n"]["coverage"]
        for r in results
        if "coverage" in r["ordinary"]["n"] and r["rows"] >= 1000
    }
    apart = {name: abs(value - 0.9) for name, value in kept.items()}
    inside = sum(value <= 0.03 for value in apart.values())
    ends = sorted(apart, key=lambda name: -apart[name])[:3]
    line("ordinary coverage 87–93 %", f"{inside} of {len(kept)}; " + ", ".join(f"{n} {kept[n]:.1%}" for n in ends))
    for kind, word in (
        ("category", "never-seen category"),
        ("missing", "first missing value"),
        ("number", "one range beyond"),
    ):
        share = {r["table"]: r["strangers"][kind] for r in results if kind in r["strangers"]}
        if share:
            low = sorted(share.items(), key=lambda item: item[1])[:3]
            text = ", ".join(f"{name} {value:.0%}" for name, value in low)
            line(f"{word} flagged ≥ 95 %", f"{np.mean(list(share.values())):.1%} in the mean; lowest {text}")
    line("false alarms 5 %", f"{np.mean([s['n']['novel'] for s in ordinary]):.1%} in the mean")
    counts = {r["table"]: r["ordinary"]["n"]["bias"] for r in results if r["kind"] == "count"}
    bias = {name: abs(value) for name, value in counts.items() if value is not None}  # a log-normal has no mean
    if bias:
        line("counts: mean prediction within 3 %", worst(bias, ".1%", 4))
    for r in results:
        if "plain brier" in r:
            times = r["ordinary"]["n"]["brier"] / r["plain brier"]
            line(f"{r['table']}: Brier score ≤ 1.05 times a plain network's", f"{times:.2f} times")
            seen = f"{r['shifted familiarity']:.3f}, of test images {r['familiarity']:.3f}"
            line(f"{r['table']}: median familiarity of unseen classes ≤ ½, of test images ≥ .9", seen)
    found = [r["detection"] for r in results if "detection" in r]
    if found:
        line("detection, mean ROC", f"{np.mean(found):.1f} over {len(found)}")


def main() -> None:
    """Make the missing runs, and print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--tables", nargs="*", default=[*tasks(), *OF_PAPER])
    parser.add_argument("--ensemble", type=int, help="the number of networks; by default the estimators' choice")
    parser.add_argument("--rows", type=int, default=3000)
    parser.add_argument("--left-out", choices=GROUPS)
    parser.add_argument("--results", type=Path, default=Path("evidence.jsonl"))
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    results = (
        [json.loads(line) for line in arguments.results.read_text().splitlines()] if arguments.results.exists() else []
    )
    done = {(r["table"], r["seed"]) for r in results}
    for seed in range(arguments.seeds):
        for name in arguments.tables:
            if (name, seed) not in done:
                found = run(name, seed, arguments.rows, arguments.ensemble, arguments.left_out)
                if found is None:
                    continue
                results.append(found)
                with arguments.results.open("a") as file:
                    file.write(json.dumps(found) + "\n")
    shown = [r for r in results if r["table"] in arguments.tables]
    table_of(shown, "ordinary")
    table_of(shown, "shifted")
    if not arguments.left_out:
        table_of_strangers(shown)
    goals(shown)


if __name__ == "__main__":
    main()
