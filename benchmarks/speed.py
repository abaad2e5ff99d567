"""The time of fits and predictions on one thread, in units of one 2048 × 2048 float32 matmul in the same run.

    NATPN_DATA=... python benchmarks/speed.py [fit] [ensemble] [predict] [growth] [row] [stream] [bulk] [cpu]

Without names, all parts run. Ratios are of medians within one run; run nothing else at the same time.
"""

import resource
import statistics
import sys
import time
from collections.abc import Callable

import numpy as np
import pandas as pd
import pyarrow as pa
import torch
from quality import Standardised, load, run

from natpn import NatPNRegressor, encoders, families
from natpn.network import NaturalPosteriorEnsemble, NaturalPosteriorNetwork, default_network
from natpn.training import fit


def median(task: Callable[[], object], repeats: int = 15) -> float:
    task()
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        task()
        times.append(time.perf_counter() - start)
    return statistics.median(times)


def unit() -> float:
    a = torch.randn(2048, 2048)
    return median(lambda: a @ a)


def fits() -> None:
    """Time a default fit on Sensorless Drive; the published code takes 695 units."""
    before = unit()
    result = run("sensorless", 0, "staged")
    seconds = float(str(result["seconds"]))
    one = (before + unit()) / 2
    print(f"fit on Sensorless: {seconds:.1f} s = {seconds / one:.0f} units (goal ≤ 110)")
    print(f"  accuracy {result['accuracy']:.2f}")


def ensembles() -> None:
    """Time five members at once against one, on Bike-Normal."""
    task = load("bike-normal", 0)
    units = Standardised(task)
    data = [(units.x(X), units.y(y)) for X, y in (task.train, task.validation)]
    seconds = {}
    for size in (1, 5):
        torch.manual_seed(0)
        members = [default_network(11, task.family, len(task.train[0])) for _ in range(size)]
        start = time.perf_counter()
        fit(members[0] if size == 1 else NaturalPosteriorEnsemble(members), *data, seed=0)
        seconds[size] = time.perf_counter() - start
    print(f"fit of 5 members at once: {seconds[5] / seconds[1]:.2f} times one ({seconds[1]:.1f} s; goal ≤ 2)")


@torch.no_grad()
def cost(network: NaturalPosteriorNetwork, x: torch.Tensor, repeats: int) -> tuple[float, float]:
    """Return the median seconds of the bare encoder, and of posterior, mean and evidence."""
    network.eval()

    def predict() -> None:
        prediction = network(x)
        _ = prediction.posterior.predictive().mean, prediction.evidence.log_n

    return median(lambda: network.encoder(x), repeats), median(predict, repeats)


def predictions() -> None:
    """Time the whole prediction against the bare encoder: for tables at batch 4096, and for images of CIFAR's size."""
    classes = families.get("categorical", n_classes=10)
    tabular = default_network(48, classes, n_rows=35_000)
    tabular.encoder.fit_knots(torch.randn(1000, 48))  # type: ignore[operator, union-attr]
    image = NaturalPosteriorNetwork(encoders.get("image", shape=(3, 32, 32)), classes, "radial")
    for name, network, x, goal in (
        ("tabular, batch 4096", tabular, torch.randn(4096, 48), 1.5),
        ("CIFAR-size, batch 128", image, torch.randn(128, 3, 32, 32), 1.02),
    ):
        bare, whole = cost(network, x, 9)
        print(f"prediction, {name}: {1e3 * whole:.1f} ms, {whole / bare:.2f} times the bare encoder (goal ≤ {goal})")


def growth() -> None:
    """Measure time and peak memory of a prediction as rows, features, classes and the latent size grow."""

    def line(what: str, value: int, features: int, classes: int, latent: int, rows: int) -> None:
        network = default_network(features, families.get("categorical", n_classes=classes), 35_000, latent).eval()
        x = torch.randn(min(rows, 4096), features)
        chunks = -(-rows // len(x))
        with torch.no_grad():
            seconds = median(lambda: [network(x).evidence.log_n for _ in range(chunks)], 3 if chunks < 100 else 1)
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        print(f"  {what} {value:>8}: {1e6 * seconds / rows:7.2f} µs a row, peak {peak:5.0f} MB")

    print("growth of the default network (48 features, 10 classes, latent 16, 4096 rows), evidence only:")
    for rows in (10**3, 10**4, 10**5, 10**6):
        line("rows", rows, 48, 10, 16, rows)
    for features in (4, 16, 64, 256):
        line("features", features, features, 10, 16, 4096)
    for classes in (2, 10, 100, 1000):
        line("classes", classes, 48, classes, 16, 4096)
    for latent in (4, 16, 64):
        line("latent", latent, 48, 10, latent, 4096)


def estimator(columns: int = 20, rows: int = 2000) -> NatPNRegressor:
    """Return a default regressor with the mixture components of 2,000 rows; its accuracy does not matter."""
    X = np.random.default_rng(0).normal(size=(rows, columns))
    return NatPNRegressor(max_epochs=2, random_state=0).fit(X, X[:, 0] + np.sin(3 * X[:, 1]))


def single_row() -> None:
    """Time the prediction of one row of a numpy array."""
    model, X = estimator(), np.zeros((1, 20))
    print(f"predict, 1 row × 20: {1e3 * median(lambda: model.predict(X), 500):.2f} ms (goal ≤ 1)")
    print(f"predict_dist, 1 row × 20: {1e3 * median(lambda: model.predict_dist(X), 500):.2f} ms")


def stream() -> None:
    """Measure time, and memory beyond the input, of the prediction of a million rows."""
    model = estimator()
    X = np.random.default_rng(1).normal(size=(10**6, 20))
    model.predict(X[:5000])
    before, start = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, time.perf_counter()
    model.predict(X)
    seconds = time.perf_counter() - start
    above = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024
    print(f"predict, 1,000,000 rows × 20: {seconds:.1f} s, {above:.0f} MB above the input (goal < 500)")


def bulk() -> None:
    """Measure rows per CPU second of `predict_frame`, all columns and the prediction alone."""
    X = np.random.default_rng(0).normal(size=(203_000, 20))
    rows = pa.table(list(X.T.copy()), names=[f"x{i}" for i in range(20)])
    y = X[:3000, 0] + np.sin(3 * X[:3000, 1])
    model = NatPNRegressor(max_epochs=2, random_state=0).fit(rows.slice(0, 3000), y)
    new = rows.slice(3000)
    tasks = {
        "predict_frame": lambda: model.predict_frame(new),
        "predict_dist(…).columns(0.9, ['prediction'])": lambda: model.predict_dist(new).columns(0.9, ["prediction"]),
    }
    for name, task in tasks.items():
        print(f"{name}, 200,000 rows × 20: {200_000 / least(task, 3):,.0f} rows per CPU second (goal ≥ 250,000)")


def least(task: Callable[[], object], repeats: int) -> float:
    """Return the CPU seconds of a task, the best of many."""
    times = []
    for _ in range(repeats):
        start = time.process_time()
        task()
        times.append(time.process_time() - start)
    return min(times)


def mixed(rows: int) -> tuple[pd.DataFrame, np.ndarray]:
    """Return a table of nine columns: numbers, some of them missing, categories, a date and a truth value."""
    draw = np.random.default_rng(0)
    table = pd.DataFrame({f"x{i}": draw.normal(size=rows) for i in range(4)})
    table.loc[draw.random(rows) < 0.1, "x3"] = np.nan
    table["date"] = pd.Timestamp("2024-01-01") + pd.to_timedelta(draw.integers(0, 10**7, rows), unit="s")
    table["flag"] = draw.random(rows) < 0.3
    for name, levels in (("few", 5), ("some", 30), ("many", 200)):
        table[name] = np.char.add("level ", draw.integers(0, levels, rows).astype(str)).astype(object)
    return table, table["x0"].to_numpy() + np.sin(3 * table["x1"].to_numpy()) + 0.3 * draw.normal(size=rows)


def cpu() -> None:
    """Measure CPU seconds of default fits, and CPU milliseconds of one row of a data frame, the best of many."""
    for rows in (300, 1000, 10_000, 100_000):
        X, y = mixed(rows)
        model = NatPNRegressor(random_state=0)
        print(f"fit, {rows:>7} rows × 9: {least(lambda m=model, X=X, y=y: m.fit(X, y), 2):5.1f} s of CPU")
    X, y = mixed(1000)
    model = NatPNRegressor(max_epochs=2, random_state=0).fit(X, y)
    for name in ("predict", "predict_frame"):
        method = getattr(model, name)
        print(f"{name}, 1 row × 9: {1e3 * least(lambda m=method: m(X[:1]), 300):.2f} ms of CPU")


PARTS = {
    "fit": fits,
    "ensemble": ensembles,
    "predict": predictions,
    "growth": growth,
    "row": single_row,
    "stream": stream,
    "bulk": bulk,
    "cpu": cpu,
}


def main() -> None:
    torch.set_num_threads(1)
    torch.manual_seed(0)
    unknown = [name for name in sys.argv[1:] if name not in PARTS]
    if unknown:
        raise SystemExit(f"{unknown[0]!r} is not one of {', '.join(PARTS)}")
    print(f"unit: {1e3 * unit():.0f} ms")
    for name in sys.argv[1:] or PARTS:
        PARTS[name]()


if __name__ == "__main__":
    main()
