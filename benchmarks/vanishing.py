"""Does what a model says it does not know shrink with the number of rows, as what it really does not know does?

    NATPN_DATA=... python benchmarks/vanishing.py [--seeds 3] [--most 30000] [--figure docs/figures/vanishing.svg]
                                                  [--results FILE]

The default is fitted to 100, 300, 1,000 … rows of Friedman's first problem (five columns that matter, noise of standard
deviation 1, so the truth is known) and of `king_county` (house prices; targets are logarithms). Of 2,000 other rows:

- `evidence`: the median number of pseudo-observations of the posterior, those of the prior included; `epistemic` is
  minus its logarithm;
- `familiarity`: the median;
- `width`: the median width of 90 % intervals, in standard deviations of the target, and `covered`, how many they hold;
- `error`: the root mean squared error of the prediction, in standard deviations; for Friedman's problem `gap`, its
  distance from the true mean, and `excess`, how much wider intervals are than those of the known noise, in %;
- `far`: the median familiarity of rows at ten times the range (Friedman) or at the waterfront (houses).

Each fit is appended to FILE as one JSON line, and those that are in FILE are not repeated.
"""

import argparse
import json
from pathlib import Path
from typing import Any

import numpy as np
from arena import read
from sklearn.datasets import make_friedman1

from natpn import NatPNRegressor

SIZES = (100, 300, 1_000, 3_000, 10_000, 30_000)
TEST = 2_000
NOISE = 2 * 1.6449  # width of a 90 % interval of unit noise
Run = dict[str, Any]


def friedman(n: int, seed: int) -> tuple[Any, ...]:
    """Return rows, targets, test rows, targets, true means, and rows far away."""
    X, y = make_friedman1(n + TEST, n_features=5, noise=1.0, random_state=seed)
    _, mean = make_friedman1(n + TEST, n_features=5, noise=0.0, random_state=seed)
    return X[:n], y[:n], X[n:], y[n:], mean[n:], 10 * X[n:]


def houses(n: int, seed: int) -> tuple[Any, ...]:
    """Return the same of `king_county`, whose true means are not known."""
    table = read("king_county", seed, n, TEST)
    y, test = np.log(table.train.y), np.log(table.test.y)
    return table.train.X, y, table.test.X, test, None, table.shifted.X


DATA = {"friedman": friedman, "king_county": houses}


def run(name: str, n: int, seed: int) -> Run:
    """Fit, and measure."""
    X, y, X_test, y_test, mean, far = DATA[name](n, seed)
    model = NatPNRegressor("normal", random_state=seed).fit(X, y)
    found, scale = model.predict_dist(X_test), float(y_test.std())
    low, high = found.interval(0.9).T
    result = {
        "data": name,
        "rows": len(y),
        "seed": seed,
        "evidence": float(np.exp(-np.median(found.epistemic))),
        "epistemic": float(np.median(found.epistemic)),
        "familiarity": float(np.median(found.familiarity)),
        "width": float(np.median(high - low) / scale),
        "covered": float(100 * ((low <= y_test) & (y_test <= high)).mean()),
        "error": float(np.sqrt(np.mean((found.mean() - y_test) ** 2)) / scale),
        "far": float(np.median(model.predict_dist(far).familiarity)),
    }
    if mean is not None:
        result["gap"] = float(np.sqrt(np.mean((found.mean() - mean) ** 2)) / scale)
        result["excess"] = float(100 * (np.median(high - low) / NOISE - 1))
    return result


def means(runs: list[Run]) -> list[Run]:
    """Return the means over seeds, by data and number of rows."""
    keys = sorted({(r["data"], r["rows"]) for r in runs})
    groups = [[r for r in runs if (r["data"], r["rows"]) == key] for key in keys]
    return [{k: np.mean([r[k] for r in g]) if k != "data" else g[0][k] for k in g[0] if k != "seed"} for g in groups]


def table(rows: list[Run]) -> None:
    """Print Markdown."""
    columns = ("rows", "evidence", "epistemic", "familiarity", "far", "width", "covered", "error", "gap", "excess")
    forms = dict(zip(columns, (",.0f", ",.0f", ".2f", ".4f", ".4f", ".3f", ".1f", ".3f", ".3f", ".0f"), strict=True))
    for name in DATA:
        print(f"\n{name}\n\n| {' | '.join(columns)} |\n|{'---|' * len(columns)}")
        for row in (r for r in rows if r["data"] == name):
            print(f"| {' | '.join(format(row[c], forms[c]) if c in row else '' for c in columns)} |")


def draw(rows: list[Run], path: Path) -> None:
    """Draw what is said beside what is so."""
    import matplotlib as mpl

    mpl.use("Agg")
    mpl.rcParams["svg.hashsalt"] = "natpn"
    from matplotlib import pyplot as plt

    figure, axes = plt.subplots(1, 3, figsize=(11, 3.4), layout="constrained")
    known = [r for r in rows if r["data"] == "friedman"]
    n = [r["rows"] for r in known]
    axes[0].plot(n, [r["gap"] for r in known], "o-", color="#1f77b4", label="distance from the true mean")
    axes[0].plot(n, [r["excess"] / 100 for r in known], "s-", color="#d62728", label="excess width of 90 % intervals")
    axes[0].set(title="What is not known (Friedman)", yscale="log")
    for name, colour in (("friedman", "#1f77b4"), ("king_county", "#d62728")):
        some = [r for r in rows if r["data"] == name]
        axes[1].plot([r["rows"] for r in some], [r["width"] for r in some], "o-", color=colour, label=name)
        axes[2].plot([r["rows"] for r in some], [r["evidence"] for r in some], "o-", color=colour, label=name)
    counted = [known[0]["evidence"] * size / n[0] for size in n]
    axes[2].plot(n, counted, "--", color="#888888", lw=1, label="if it counted rows")
    axes[1].set(title="Width of 90 % intervals, in std of y", ylim=0)
    axes[2].set(title="Evidence: pseudo-observations a row", yscale="log", ylim=(1e3, 1e7))
    for axis in axes:
        axis.set(xscale="log", xlabel="training rows")
        axis.legend(frameon=False, fontsize=8)
        axis.spines[["top", "right"]].set_visible(False)
    figure.savefig(path, metadata={"Date": None})


def main() -> None:
    """Fit what is missing, print and draw."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--most", type=int, default=SIZES[-1])
    parser.add_argument("--figure", type=Path)
    parser.add_argument("--results", type=Path)
    options = parser.parse_args()
    runs: list[Run] = []
    if options.results and options.results.exists():
        runs = [json.loads(line) for line in options.results.read_text().splitlines()]
    for seed in range(options.seeds):
        for size in SIZES:
            for name in DATA:
                n = min(size, 15_000) if name == "king_county" else size  # of 21,450 houses off the waterfront
                if size > options.most or any((r["data"], r["rows"], r["seed"]) == (name, n, seed) for r in runs):
                    continue
                runs.append(run(name, n, seed))
                if options.results:
                    with options.results.open("a") as file:
                        file.write(json.dumps(runs[-1]) + "\n")
    found = means(runs)
    table(found)
    if options.figure:
        draw(found, options.figure)


if __name__ == "__main__":
    main()
