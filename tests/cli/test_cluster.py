"""`natpn fit` and `natpn predict` with --ray, on a cluster of this machine that has two CPUs."""

import re
import sys

import numpy as np
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest

import natpn
from cli.conftest import refused, run
from cli.test_fit_files import torchrun

N = 1_200


@pytest.fixture(scope="module")
def rents(tmp_path_factory):
    """A directory of three files, four row groups each."""
    place = tmp_path_factory.mktemp("files") / "rents"
    place.mkdir()
    draw = np.random.default_rng(0)
    area, city = draw.uniform(30, 150, N), draw.choice(["Bern", "Basel"], N)
    rent = 300 + 9 * area + 200 * (city == "Bern") + draw.normal(0, 40, N)
    table = pa.table({"id": np.arange(N), "area": area, "city": city.tolist(), "rent": rent})
    for i in range(3):
        pq.write_table(table.slice(i * 400, 400), place / f"{i}.parquet", row_group_size=100)
    return place


FIT = ["--target", "rent", "--drop", "id", "--max-epochs", 1, "--ensemble", 1]


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_workers_of_a_cluster_do_what_processes_of_torchrun_do(rents, cluster, tmp_path, no_hang):
    result = run("fit", rents, *FIT, "--out", tmp_path / "ray", "--checkpoint", tmp_path / "run", "--ray", "auto")
    assert result.exit_code == 0, (result.stderr, result.exception)
    process = torchrun(2, "fit", rents, *FIT, "--out", tmp_path / "torch")
    said, complaint = process.communicate(timeout=200)
    assert process.returncode == 0, complaint
    assert result.stdout == said.replace(str(tmp_path / "torch"), str(tmp_path / "ray"))
    assert "city  category" in result.stdout
    assert "scores on the rows that were held out" in result.stdout
    rows = pq.read_table(rents / "0.parquet", columns=["area", "city"])
    one, two = (natpn.load(tmp_path / name).predict_frame(rows) for name in ("ray", "torch"))
    assert one.equals(two)
    assert (tmp_path / "run").exists()
    # What was the target, and what was left out, is known: the same files can be predicted and scored.
    assert run("evaluate", tmp_path / "ray", rents / "0.parquet").exit_code == 0

    result = run("predict", tmp_path / "ray", rents, "--out", tmp_path / "out", "--id", "id", "--coverage", 0.8,
                 "--columns", "prediction,upper", "--ray", "auto", "--jobs", 2)  # fmt: skip
    assert result.exit_code == 0, (result.stderr, result.exception)
    assert result.stdout == f"3 files with 1,200 rows predicted into {tmp_path / 'out'}.\n"
    found = ds.dataset(tmp_path / "out").to_table().sort_by("id")
    assert found.column_names == ["id", "prediction", "upper"]
    expected = natpn.load(tmp_path / "ray").predict_frame(pq.read_table(rents, columns=["area", "city"]), coverage=0.8)
    for name in ("prediction", "upper"):
        np.testing.assert_allclose(found[name].to_numpy(), expected[name].to_numpy(), rtol=1e-9)
    again = refused(run("predict", tmp_path / "ray", rents, "--out", tmp_path / "out", "--id", "id", "--ray", "auto"))
    assert "it is there already; choose another directory" in again


@pytest.mark.parametrize(
    ("data", "options", "message"),
    [
        ("rents", ["--device", "cuda"], "--device cuda: a cluster fits on CPUs; leave --device or --ray out."),
        ("rents", ["--na", "?"], "--ray: options that say how values are written are for one machine"),
        ("texts", [], "is a CSV file, and a cluster reads Parquet; convert it, or leave --ray out."),
        ("texts/a.csv", [], "is a CSV file, and a cluster reads Parquet"),
        ("-", [], "--ray: - is one table, and a cluster reads Parquet files; leave --ray out."),
        ("rents", ["--memory", "1MB"], "--memory 1MB: expected at least 64MB"),
        ("rents", ["--drop", "aera"], "--drop aera: .* has no such column"),
        ("rents", ["--ray", "localhost:9"], "address: expected that of a Ray cluster, got 'localhost:9', where none"),
        ("rents", ["--ray", "nonsense"], "address: expected that of a Ray cluster, got 'nonsense'"),
    ],
)
def test_fits_that_a_cluster_cannot_do(rents, tmp_path, monkeypatch, data, options, message):
    (rents.parent / "texts").mkdir(exist_ok=True)
    (rents.parent / "texts" / "a.csv").write_text("area,rent\n1,2\n")
    monkeypatch.chdir(rents.parent)
    monkeypatch.setattr("ray.is_initialized", lambda: False)  # a session of another test would be used as it is
    told = refused(run("fit", data, "--target", "rent", "--out", tmp_path / "m", "--ray", "auto", *options))
    assert re.search(message, told), told
    assert not (tmp_path / "m").exists()


def test_options_that_go_with_ray_or_without(model, flats_of_cluster, rents, tmp_path, monkeypatch):
    told = refused(run("fit", rents, "--target", "rent", "--out", tmp_path / "m", "--workers", 2))
    assert "--workers: it says how many processes a cluster runs; say --ray, too" in told
    shard = ["predict", model, flats_of_cluster, "--out", tmp_path / "out", "--ray", "auto", "--shard", "0/2"]
    assert "--shard: the cluster divides the rows itself" in refused(run(*shard))
    assert "--format csv" in refused(run(*shard[:-2], "--format", "csv"))
    assert "--out: many files are predicted into a directory" in refused(run(*shard[:3], "--ray", "auto"))
    monkeypatch.setenv("WORLD_SIZE", "2")
    assert "start the command without torchrun" in refused(run(*shard[:-2]))


@pytest.fixture
def flats_of_cluster(tmp_path):
    (tmp_path / "flats").mkdir()
    pq.write_table(pa.table({"area": [1.0]}), tmp_path / "flats" / "a.parquet")
    return tmp_path / "flats"


def test_without_ray_the_cure_is_told(model, rents, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    fit = ["fit", rents, "--target", "rent", "--out", tmp_path / "m", "--ray", "auto"]
    for command in (fit, ["predict", model, rents, "--out", tmp_path / "out", "--ray", "auto"]):
        assert "run: pip install '.[ray]'." in refused(run(*command))
