"""`natpn fit` on directories: files, patterns and several processes; runs that end half-way; errors."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import natpn
from cli.conftest import refused, run
from natpn.cli.fit import bytes_of
from natpn.cli.writing import Problem

N = 4_000


@pytest.fixture(scope="module")
def rents(tmp_path_factory):
    """A directory of three files, five row groups each."""
    place = tmp_path_factory.mktemp("files") / "rents"
    place.mkdir()
    draw = np.random.default_rng(0)
    area, city = draw.uniform(30, 150, N), draw.choice(["Bern", "Basel"], N)
    rent = 300 + 9 * area + 200 * (city == "Bern") + draw.normal(0, 40, N)
    table = pa.table({"id": np.arange(N), "area": area, "city": city.tolist(), "rent": rent})
    for i in range(3):
        pq.write_table(table.slice(i * 1400, 1400), place / f"{i}.parquet", row_group_size=280)
    return place


@pytest.fixture(autouse=True)
def large_cells(monkeypatch):
    """Let files be read in pieces, as if they were more than fits into memory."""
    monkeypatch.setattr("natpn.data.NUMBER_BYTES", 10**6)


def fit(data, out, *options):
    return run("fit", *([data] if isinstance(data, os.PathLike | str) else data), "--target", "rent", "--out", out,
               "--drop", "id", "--max-epochs", 2, *options)  # fmt: skip


def test_a_directory_is_fitted_and_its_model_used(rents, tmp_path):
    result = fit(rents, tmp_path / "model")
    assert result.exit_code == 0, result.stderr
    assert "3 files, 4,000 rows, 2 columns beside 'rent'" in result.stdout
    assert "city  category" in result.stdout
    assert "scores of single networks, on the rows that each held out" in result.stdout
    found = json.loads(run("evaluate", tmp_path / "model", rents / "0.parquet", "--json").stdout)
    assert found["rmse"] < 60
    assert 80 < found["coverage_90"] < 98


def test_files_that_fit_into_memory_give_the_model_of_their_table(rents, tmp_path, monkeypatch):
    monkeypatch.setattr("natpn.data.NUMBER_BYTES", 40)
    pq.write_table(pq.read_table(rents), tmp_path / "one.parquet")
    for data, model in ((rents, "many"), (tmp_path / "one.parquet", "one")):
        assert fit(data, tmp_path / model, "--max-epochs", 1).exit_code == 0
    row = pa.table({"area": [80.0], "city": ["Bern"]})
    one, many = (natpn.load(tmp_path / name).predict(row)[0] for name in ("one", "many"))
    assert one == many


def test_patterns_lists_and_csv_files(rents, tmp_path):
    assert fit(f"{rents}/[01].parquet", tmp_path / "a").exit_code == 0
    assert fit([rents / "2.parquet", rents / "1.parquet"], tmp_path / "b").exit_code == 0
    (tmp_path / "texts").mkdir()
    for i in range(3):
        pq.read_table(rents / f"{i}.parquet").to_pandas().to_csv(tmp_path / "texts" / f"{i}.csv", index=False)
    assert "3 files, 4,000 rows" in fit(tmp_path / "texts", tmp_path / "c").stdout


def test_one_file_that_is_larger_than_memory_is_read_in_pieces(rents, tmp_path, monkeypatch):
    monkeypatch.setattr("natpn.data.NUMBER_BYTES", 10_000)
    pq.write_table(pq.read_table(rents), tmp_path / "big.parquet")
    small, large = (
        fit(tmp_path / "big.parquet", tmp_path / m, "--memory", m, "--max-epochs", 1) for m in ("64MB", "2GB")
    )
    assert "1 files, 4,000 rows" in small.stdout
    assert "files, " not in large.stdout


def test_a_class_and_a_number_as_a_name(rents, tmp_path):
    result = run("fit", rents, "--target", "city", "--out", tmp_path / "model", "--category", "id", "--max-epochs", 1)
    assert "target  city: 2 classes" in result.stdout
    kinds = [column.kind for column in natpn.load(tmp_path / "model").inputs_.table.columns]
    assert kinds == ["category", "number", "number"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--target", "rnt"], "--target rnt: .* has no such column; did you mean 'rent'"),
        (["--drop", "aera"], "--drop aera: .* has no such column; did you mean 'area'"),
        (["--decimal", ","], "Options that say how values are written are for single files"),
        (["--memory", "much"], "--memory much: expected a size such as 2GB"),
        (["--memory", "1MB"], "--memory 1MB: expected at least 64MB"),
        (["--target", "city", "--task", "numbers"], "--target city: expected numbers, got string"),
    ],
)
def test_wrong_options(rents, tmp_path, options, message):
    arguments = options if "--target" in options else ["--target", "rent", *options]
    assert re.search(message, refused(run("fit", rents, *arguments, "--out", tmp_path / "model")))
    assert not (tmp_path / "model").exists()


def test_a_truncated_file_among_others_is_named_and_nothing_is_written(rents, tmp_path):
    for i in range(3):
        (tmp_path / f"{i}.parquet").write_bytes((rents / f"{i}.parquet").read_bytes())
    (tmp_path / "1.parquet").write_bytes((rents / "1.parquet").read_bytes()[:-100])
    said = refused(run("fit", tmp_path / "*.parquet", "--target", "rent", "--out", tmp_path / "model"))
    assert re.search(r"1\.parquet: it cannot be read as Parquet", said)
    assert not (tmp_path / "model").exists()


def test_sizes():
    assert [bytes_of(text) for text in ("2GB", "1.5g", "500MB", "64MiB")] == [2**31, 3 * 2**29, 500 * 2**20, 2**26]
    with pytest.raises(Problem):
        bytes_of("")


def torchrun(n: int, *arguments) -> subprocess.Popen:
    script = str(Path(__file__).with_name("pieces.py"))
    command = [sys.executable, "-m", "torch.distributed.run", f"--nproc-per-node={n}", "--standalone", script]
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    return subprocess.Popen([*command, *map(str, arguments)], text=True, env=environment, **pipes)


@pytest.mark.slow
def test_two_processes_fit_what_one_does(rents, tmp_path):
    arguments = ["fit", rents, "--target", "rent", "--drop", "id", "--max-epochs", 8]
    for n in (1, 2):
        process = torchrun(n, *arguments, "--out", tmp_path / str(n))
        out, err = process.communicate(timeout=240)
        assert process.returncode == 0, err
        assert out.count("\nmodel   ") == 1
    test = pq.read_table(rents / "0.parquet")
    one, two = (natpn.load(tmp_path / str(n)) for n in (1, 2))
    assert one.inputs_.to_config() == two.inputs_.to_config()
    left, right = (model.predict(test.select(["area", "city"])) for model in (one, two))
    assert np.abs(left - right).mean() < 15
    assert len(one.calibration_.log_evidence) == len(two.calibration_.log_evidence)


@pytest.mark.slow
def test_a_process_that_dies_ends_the_others_and_the_run_goes_on_with_another_number(rents, tmp_path):
    arguments = [
        "fit",
        rents,
        "--target",
        "rent",
        "--drop",
        "id",
        "--max-epochs",
        400,
        "--checkpoint",
        tmp_path / "run",
    ]
    process = torchrun(2, *arguments, "--out", tmp_path / "model")
    waited = time.monotonic()
    while not (tmp_path / "run" / "training.pt").exists():
        assert time.monotonic() - waited < 200
        assert process.poll() is None, process.communicate()[1]
        time.sleep(0.2)
    time.sleep(1)
    children = subprocess.run(["pgrep", "-P", str(process.pid)], capture_output=True, text=True).stdout.split()
    os.kill(int(children[-1]), signal.SIGKILL)
    started = time.monotonic()
    process.communicate(timeout=90)
    assert process.returncode != 0
    assert time.monotonic() - started < 60
    assert not (tmp_path / "model").exists()
    again = run(
        "fit", *arguments[1:-4], "--max-epochs", 400, "--checkpoint", tmp_path / "run", "--out", tmp_path / "model"
    )
    assert again.exit_code == 0, again.stderr
    history = natpn.load(tmp_path / "model").history_
    assert history[-1]["epoch"] > 0
