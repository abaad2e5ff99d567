"""Fits and predictions on a cluster of this machine, which has two CPUs, and on Spark."""

import errno
import os
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest

import natpn.ray
from clusters import ROOT
from natpn import NatPNClassifier, NatPNRegressor, load
from natpn.data import parquet
from natpn.training import TrainingError


def table(n: int, seed: int = 0) -> pa.Table:
    draw = np.random.default_rng(seed)
    area, city = draw.uniform(30, 150, n), draw.choice(["Bern", "Basel", "Genf"], n)
    rent = 300 + 9 * area + 200 * (city == "Genf") + draw.normal(0, 40, n)
    return pa.table({"flat": np.arange(n), "city": city.tolist(), "area": area, "rent": rent})


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    place, rows = tmp_path_factory.mktemp("models") / "rent", table(300)
    NatPNRegressor(random_state=0, max_epochs=2).fit(rows.select(["area", "city"]), rows["rent"].to_numpy()).save(place)
    return str(place)


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """A large row group, and small ones."""
    place, rows = tmp_path_factory.mktemp("rows") / "rents", table(5_000, 1)
    place.mkdir()
    pq.write_table(rows.slice(0, 4_000), place / "large.parquet")
    pq.write_table(rows.slice(4_000), place / "small.parquet", row_group_size=90)
    return place


def check_equal(found: pa.Table, expected: pa.Table) -> None:
    """Few rows are answered by numpy and many by torch, which differ in the last bits."""
    pd.testing.assert_frame_equal(found.to_pandas(), expected.to_pandas(), rtol=1e-9)


# The scorer.


def test_a_scorer_answers_as_predict_frame_does(model):
    rows, estimator = table(50, 2), load(model)
    expected = estimator.predict_frame(rows.select(["area", "city"]), coverage=0.8)
    assert natpn.ray.Scorer(model, 0.8)(rows).equals(expected)
    assert natpn.ray.Scorer(estimator, 0.8)(rows).equals(expected)
    some = natpn.ray.Scorer(model, 0.8, columns=["upper", "novel"], keep=["flat", "area"])
    assert some(rows).column_names == ["flat", "area", "upper", "novel"]
    assert some(rows)["upper"].equals(expected["upper"])
    assert some(rows)["flat"].equals(rows["flat"])
    assert some(rows).schema == some.schema(rows.schema)


def test_a_batch_may_be_empty(model):
    score = natpn.ray.Scorer(model, keep=["flat"])
    assert score(table(0)).schema == score(table(1)).schema
    assert len(score(table(0))) == 0


def test_classes_are_scored():
    rows = table(200)
    dear = np.where(rows["rent"].to_numpy() > 1200, "yes", "no")
    estimator = NatPNClassifier(random_state=0, max_epochs=1).fit(rows.select(["area"]), dear)
    score = natpn.ray.Scorer(estimator)
    assert score(rows).equals(estimator.predict_frame(rows.select(["area"])))
    assert score(rows).schema == score.schema(rows.schema)


def test_record_batches_come_out_as_they_went_in(model):
    rows, score = table(50), natpn.ray.Scorer(model, keep=["flat"])
    found = list(score.batches(rows.to_batches(max_chunksize=20)))
    assert [len(batch) for batch in found] == [20, 20, 10]
    assert pa.Table.from_batches(found).equals(score(rows).combine_chunks())


def test_the_number_of_threads_stays(model):
    import torch

    torch.set_num_threads(2)
    try:
        natpn.ray.Scorer(model)(table(10))
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(1)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"columns": ["uper"]}, "columns = 'uper' is unknown.*Did you mean 'upper'"),
        ({"coverage": 90}, "coverage: expected a probability between 0 and 1, got 90"),
        ({"keep": ["upper"]}, "keep: a column of the predictions is called 'upper', too; rename yours"),
    ],
)
def test_wrong_settings(model, options, message):
    with pytest.raises(ValueError, match=message):
        natpn.ray.Scorer(model, **options)


def test_wrong_rows(model):
    with pytest.raises(ValueError, match="model: the rows lack the column 'city'; they have flat, area, rent"):
        natpn.ray.Scorer(model)(table(5).drop(["city"]))
    with pytest.raises(ValueError, match="keep: the rows lack the column 'flta'"):
        natpn.ray.Scorer(model, keep=["flta"])(table(5))
    rows = np.random.default_rng(0).normal(size=(30, 2))
    unnamed = NatPNRegressor(random_state=0, max_epochs=1).fit(rows, rows[:, 0])
    with pytest.raises(ValueError, match="model: it was fitted on an array, whose columns have no names"):
        natpn.ray.Scorer(unnamed)


# Blocks and CPUs.


@pytest.mark.parametrize("size", [1, 100, 700, 2_500, 10_000])
def test_blocks_have_all_rows_once_and_one_size(files, size):
    files = parquet(files)
    blocks = natpn.ray.Blocks(files, ["flat"], size)
    some = range(len(blocks)) if size > 1 else [0, 3_999, 4_000, 4_999]
    found = [pa.concat_tables(rows for _, rows in blocks.parts(number)) for number in some]
    assert {len(block) for block in found[:-1]} <= {size}
    assert len(blocks) == -(-5_000 // size)
    if size > 1:
        assert pa.concat_tables(found)["flat"].to_pylist() == list(range(5_000))
    else:
        assert [block["flat"].to_pylist() for block in found] == [[number] for number in some]


@pytest.mark.parametrize("cpus", [1.0, 2.0, 3.0, 64.0, 1_000.0])
@pytest.mark.parametrize("actors", [1, 2, 7, 64])
def test_actors_leave_a_cpu(cpus, actors):
    each, left = natpn.ray.shares(cpus, actors)
    assert each > 0
    assert actors * each + left <= cpus
    assert left >= min(1, cpus / 2)


# Ray.


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_two_actors_on_two_cpus_both_work_and_end(model, files, cluster, tmp_path, monkeypatch, no_hang):
    there, out = tmp_path / "there", tmp_path / "predictions"
    there.mkdir()

    class Telling(natpn.ray.BlockScorer):
        def __init__(self, *settings):
            super().__init__(*settings)
            (there / str(os.getpid())).touch()

        def __call__(self, batch):
            while len(list(there.iterdir())) < 2:  # the other actor may still be starting
                time.sleep(0.1)
            while batch["block"][0].as_py() > 5 and not list(out.parent.glob(".predictions.part/*.parquet")):
                time.sleep(0.1)  # large data would fill the memory until something is written
            for found in super().__call__(batch):
                yield found.append_column("process", pa.array([os.getpid()] * len(found)))

    monkeypatch.setattr(natpn.ray, "BlockScorer", Telling)
    natpn.ray.predict(model, files, out, actors=2, coverage=0.8, keep=["flat"])
    found = ds.dataset(out).to_table().sort_by("flat")
    assert len(set(found["process"].to_pylist())) == 2
    assert found["flat"].to_pylist() == list(range(5_000))
    expected = load(model).predict_frame(table(5_000, 1).select(["area", "city"]), coverage=0.8)
    check_equal(found.drop(["flat", "process"]), expected)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["predictions", "there"]
    with pytest.raises(ValueError, match="predictions: it is there already; choose another directory"):
        natpn.ray.predict(model, files, out)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_a_scorer_maps_batches_of_any_data_set(model, files, cluster, no_hang):
    rows = cluster.data.read_parquet(str(files)).map_batches(
        natpn.ray.Scorer,
        fn_constructor_args=[model],
        fn_constructor_kwargs={"columns": ["prediction"], "keep": ["flat"]},
        batch_size=1_000,
        batch_format="pyarrow",
        num_cpus=0.5,
        compute=cluster.data.ActorPoolStrategy(size=1),
    )
    found = pa.Table.from_pylist(rows.take_all()).sort_by("flat")
    expected = load(model).predict_frame(table(5_000, 1).select(["area", "city"]))
    check_equal(found.drop(["flat"]), expected.select(["prediction"]))


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_two_workers_fit_one_model(cluster, tmp_path, no_hang):
    rows, test = table(400).drop(["flat"]), table(500, 1)
    pq.write_table(rows, tmp_path / "rents.parquet", row_group_size=100)
    estimator = NatPNRegressor(random_state=0, max_epochs=10, batch_size=64, ensemble_size=1)
    model = natpn.ray.fit(estimator, tmp_path / "rents.parquet", "rent", tmp_path / "model")
    assert not hasattr(estimator, "model_")
    predicted = model.predict(test.select(["city", "area"]))
    np.testing.assert_array_equal(predicted, load(tmp_path / "model").predict(test.select(["city", "area"])))
    assert np.sqrt(np.mean((predicted - test["rent"].to_numpy()) ** 2)) < 90  # the noise is 40, the spread 330


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_errors_of_workers_are_told_in_a_sentence(model, cluster, tmp_path, no_hang):
    pq.write_table(pa.table({"area": [1.0] * 299 + [2.0], "rent": [1.0] * 299 + [-7.0]}), tmp_path / "rents.parquet")
    with pytest.raises(ValueError, match=r"^[^\n]*rents\.parquet: [^\n]*-7[^\n]*$"):
        natpn.ray.fit(NatPNRegressor(family="poisson"), tmp_path / "rents.parquet", "rent", tmp_path / "model")
    assert not (tmp_path / "model").exists()
    pq.write_table(pa.table({"area": ["many"] * 100, "city": ["Bern"] * 100}), tmp_path / "texts.parquet")
    with pytest.raises(ValueError, match=r"^[^\n]*texts\.parquet, column 'area': 'many'[^\n]*$"):
        natpn.ray.predict(model, tmp_path / "texts.parquet", tmp_path / "out", actors=1)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["rents.parquet", "texts.parquet"]


# What is said before any cluster is asked.


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"target": "rnt"}, "the files have no column 'rnt'; did you mean 'rent'"),
        ({"workers": 0}, "workers: expected at least 1, got 0"),
        ({"source": "nowhere"}, "nowhere: there are no files"),
    ],
)
def test_a_wrong_fit_starts_nothing(files, tmp_path, change, message):
    settings = {"source": files, "target": "rent", "out": tmp_path / "model"} | change
    with pytest.raises(ValueError, match=message):
        natpn.ray.fit(NatPNRegressor(), **settings)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"keep": ["flta"]}, "keep: the rows lack the column 'flta'"),
        ({"actors": 0}, "actors: expected at least 1, got 0"),
        ({"source": "nowhere"}, "nowhere: there are no files"),
    ],
)
def test_a_wrong_prediction_starts_nothing(model, files, tmp_path, change, message):
    settings = {"source": files, "out": tmp_path / "out"} | change
    with pytest.raises(ValueError, match=message):
        natpn.ray.predict(model, **settings)
    with pytest.raises(ValueError, match="which is read"):
        natpn.ray.predict(model, files, files / "large.parquet")


def test_without_ray_the_command_that_installs_it_is_told(model, files, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(ImportError, match=r"pip install '\.\[ray\]'"):
        natpn.ray.predict(model, files, tmp_path / "out")
    with pytest.raises(ImportError, match=r"pip install '\.\[ray\]'"):
        natpn.ray.fit(NatPNRegressor(), files, "rent", tmp_path / "model")


def test_errors_of_workers_lose_what_ray_says():
    def cause_of(*errors):
        failure = RuntimeError("Ray's")
        failure.worker_failures = dict(enumerate(errors))
        return natpn.ray._cause(failure)

    lost = ConnectionError("the other process is gone")
    for error in (ValueError("x: it is wrong\nand more of Ray"), TrainingError("x: it is wrong")):
        assert repr(cause_of(lost, error)) == "ValueError('x: it is wrong')"
    full = cause_of(lost, OSError(errno.ENOSPC, "full", "/scratch"))
    assert (full.errno, full.filename) == (errno.ENOSPC, "/scratch")
    for died in (type("ActorDiedError", (Exception,), {})(), RuntimeError("[gloo/tcp/pair.cc] Connection closed")):
        assert "workers: one of the processes died" in str(cause_of(lost, died))
    assert str(cause_of(lost)) == "Ray's"


def test_a_seed_is_drawn_for_all_workers():
    free = natpn.ray._for_workers(NatPNRegressor())
    assert isinstance(free.random_state, int)
    assert natpn.ray._for_workers(NatPNRegressor(random_state=3, checkpoint_dir="x")).random_state == 3
    assert Path(natpn.ray._for_workers(NatPNRegressor(checkpoint_dir="x")).checkpoint_dir) == Path("x").absolute()


# Spark.


@pytest.mark.slow
def test_spark_uses_the_same_scorer(model, files, tmp_path):
    pytest.importorskip("pyspark")
    if not any((Path(folder) / "java").exists() for folder in os.environ["PATH"].split(os.pathsep)):
        pytest.skip("Spark needs java")
    code = f"""
import natpn.ray
from pyspark.sql import SparkSession

spark = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false").getOrCreate()
scorer = natpn.ray.Scorer({model!r}, keep=["flat"])
scorer.spark(spark.read.parquet({str(files)!r})).write.parquet({str(tmp_path / "out")!r})
spark.stop()
"""
    subprocess.run([sys.executable, "-c", code], check=True, timeout=180, capture_output=True, env=os.environ | {
        "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT / "paper/src"), os.environ.get("PYTHONPATH", "")]),
        "PYSPARK_PYTHON": sys.executable,
    })  # fmt: skip
    found = ds.dataset(tmp_path / "out").to_table().sort_by("flat")
    expected = load(model).predict_frame(table(5_000, 1).select(["area", "city"]))
    check_equal(found.drop(["flat"]), expected)
