"""Fits and scoring of more and more rows: wall time, rows a second, peak memory and score, in memory and from disk.

    NATPN_DATA=... python benchmarks/scale.py [fit] [score] [--rows 100000 1000000] [--ways memory files two]
        [--data flights | lineitem] [--place DIRECTORY] [--out scale.jsonl]

`flights` are the 3,000,000 flights of the arena; beyond that they are repeated, with noise on the numbers. `lineitem`
is made by `tpchgen-cli` (pip install tpchgen-cli). Both are written as Parquet files below the directory once. Each
measurement is a process of its own with one thread and prints a line of JSON: `memory` reads all rows and fits them,
`files` reads them in pieces, `two` does so in two processes by torchrun. Memory is the peak above that of the process
with everything imported. The score is the CRPS on 20,000 rows that were never trained on. Run nothing else at the same
time.
"""

import argparse
import json
import os
import resource
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

TEST = 20_000
FILE = 1_000_000  # rows of a file, in row groups of a fifth
TARGETS = {"flights": "delay", "lineitem": "l_extendedprice"}


def directory(place: Path, data: str, rows: int) -> Path:
    """Return a directory with so many rows, made if it is not there."""
    found = place / f"{data}-{rows}"
    if (found / "_SUCCESS").exists():
        return found
    found.mkdir(parents=True, exist_ok=True)
    left = rows
    for number, table in enumerate(source(place, data, rows + TEST)):
        if number == 0:
            pq.write_table(table.slice(0, TEST), place / f"{data}-test.parquet")
            table = table.slice(TEST)
        if left:
            table = table.slice(0, left)
            pq.write_table(table, found / f"part-{number:04}.parquet", row_group_size=FILE // 5)
            left -= len(table)
    (found / "_SUCCESS").touch()
    return found


def source(place: Path, data: str, rows: int) -> Any:
    """Yield tables of at most `FILE` rows in a random order."""
    rng = np.random.default_rng(0)
    if data == "flights":
        whole = pq.read_table(Path(os.environ["NATPN_DATA"]) / "arena" / "tables" / "flights_3m.parquet")
        done = 0
        while done < rows:
            order = rng.permutation(len(whole))
            for start in range(0, len(whole), FILE):
                part = whole.take(pa.array(order[start : start + FILE]))
                if done >= len(whole):  # a copy: numbers differ a little, or copies would be one row
                    moved = pc.add(part["distance"], pa.array(rng.integers(-20, 20, len(part))))
                    part = part.set_column(part.column_names.index("distance"), "distance", moved)
                yield part
                done += len(part)
                if done >= rows:
                    return
    else:
        scale = max(1, -(-rows // 6_000_000))
        made = place / f"tpch-{scale}"
        if not made.exists():
            command = ["tpchgen-cli", "parquet", "-s", str(scale), "--tables", "lineitem"]
            subprocess.run([*command, "--output-dir", str(made)], check=True)
        dropped = ["l_comment", "l_orderkey"]
        for batch in pq.ParquetFile(made / "lineitem.parquet").iter_batches(FILE):
            table = pa.table(batch).drop_columns(dropped)
            plain = {"decimal128(15, 2)": pa.float64(), "string_view": pa.string()}
            kinds = [plain.get(str(f.type), f.type) for f in table.schema]
            table = table.cast(pa.schema([f.with_type(kind) for f, kind in zip(table.schema, kinds, strict=True)]))
            yield table.take(pa.array(rng.permutation(len(table))))


def peak() -> float:
    """Return the largest memory that this process has had, in MB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def used_by_others() -> float:
    """Return the CPU seconds of all processes that this one has started and that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def fit_one(way: str, place: str, target: str, test: str, model: str) -> None:
    """Fit in this process, and print what it took."""
    import torch

    from natpn import NatPNRegressor, parallel
    from natpn.data import parquet
    from natpn.report.scores import scores

    torch.set_num_threads(1)
    estimator = NatPNRegressor(random_state=0)
    estimator.fit(np.random.default_rng(0).normal(size=(50, 1)), np.arange(50.0))  # everything is imported
    files = parquet(place)
    if way != "memory" and files.fits:
        files = replace(files, memory=files.needed - 1)  # else they would be read at once
    before, start, used = peak(), time.perf_counter(), time.process_time()
    if way == "memory":
        table = pq.read_table(place)
        estimator.fit(table.drop([target]), table[target].to_numpy())
    else:
        estimator.fit(files, target)
    seconds, cpu, memory = time.perf_counter() - start, time.process_time() - used, peak() - before
    if parallel.rank():
        return
    parallel.stop()
    estimator.save(model)
    rows = pq.read_table(test)
    found = scores(estimator, rows.drop([target]), rows[target].to_numpy())
    about = {
        "way": way,
        "rows": files.n_rows,
        "seconds": seconds,
        "cpu": cpu,
        "rows_per_second": files.n_rows / seconds,
    }
    print(json.dumps(about | {"peak_mb": memory} | {name: found[name] for name in ("crps", "rmse", "coverage_90")}))


def score_all(place: Path, rows: int) -> None:
    """Time the scoring of a directory with 20 numeric columns: one process, two, and two actors of Ray."""
    import shutil

    from natpn import NatPNRegressor

    columns, inputs, model = [f"x{i}" for i in range(20)], place / f"numbers-{rows}", place / "numbers-model"
    rng = np.random.default_rng(0)
    if not (inputs / "_SUCCESS").exists():
        inputs.mkdir(parents=True, exist_ok=True)
        for number in range(8):
            table = pa.table({name: rng.normal(size=rows // 8) for name in columns})
            pq.write_table(table, inputs / f"{number}.parquet", row_group_size=rows // 16)
        (inputs / "_SUCCESS").touch()
    if not model.exists():
        train = {name: rng.normal(size=3_000) for name in columns}
        NatPNRegressor(random_state=0).fit(pa.table(train), sum(train.values()) + rng.normal(size=3_000)).save(model)
    natpn = [sys.executable, "-m", "natpn", "predict", str(model), str(inputs)]
    ways = {
        "one process": [*natpn, "--jobs", "1"],
        "two processes": [*natpn, "--jobs", "2"],
        "one process, --fast": [*natpn, "--jobs", "1", "--fast"],
        "two processes, --fast": [*natpn, "--jobs", "2", "--fast"],
        "two actors of Ray": [*natpn, "--ray", "local", "--jobs", "2"],
    }
    for name, command in ways.items():
        out = place / "scored"
        shutil.rmtree(out, ignore_errors=True)
        start, used = time.perf_counter(), used_by_others()
        subprocess.run([*command, "--out", str(out)], check=True, env=os.environ | {"OMP_NUM_THREADS": "1"})
        seconds, cpu = time.perf_counter() - start, used_by_others() - used
        found = {"seconds": seconds, "cpu": cpu, "rows_per_second": rows / seconds, "rows_per_cpu_second": rows / cpu}
        print(json.dumps({"way": name, "rows": rows} | found), flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", default=["fit", "score"])
    parser.add_argument("--rows", type=int, nargs="+", default=[100_000, 1_000_000])
    parser.add_argument("--ways", nargs="+", default=["memory", "files", "two"], choices=["memory", "files", "two"])
    parser.add_argument("--data", default="flights", choices=list(TARGETS))
    parser.add_argument("--place", type=Path, default=Path("/tmp/natpn-scale"))
    parser.add_argument("--out", type=Path, help="Append the lines to this file too.")
    parser.add_argument("--one", nargs=5, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        fit_one(*options.one)
        return
    for rows in options.rows if "fit" in options.parts else []:
        made = directory(options.place, options.data, rows)
        for way in options.ways:
            rest = [way, made, TARGETS[options.data], options.place / f"{options.data}-test.parquet"]
            own = [__file__, "--one", *map(str, rest), str(options.place / "model")]
            start = [sys.executable, *(["-m", "torch.distributed.run", "--nproc-per-node=2"] if way == "two" else [])]
            done = subprocess.run([*start, *own], env=os.environ | {"OMP_NUM_THREADS": "1"}, stdout=subprocess.PIPE)
            line = done.stdout.decode().strip().splitlines()[-1:] or [f"{way} {rows}: failed"]
            print(line[0], flush=True)
            if options.out:
                with options.out.open("a") as file:
                    file.write(json.dumps({"data": options.data} | json.loads(line[0])) + "\n")
    if "score" in options.parts:
        score_all(options.place, max(options.rows))


if __name__ == "__main__":
    main()
