"""Directories with faults: one sentence names the file, nothing is half-written, and what is done stays."""

import os
import shutil
import subprocess
import sys
from contextlib import contextmanager

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import natpn
from cli.conftest import ENVIRONMENT, refused, run
from natpn.cli.predict import Worker
from natpn.estimators import streaming

N = 600


def table(n=N, seed=0):
    draw = np.random.default_rng(seed)
    area, city = draw.uniform(30, 150, n), draw.choice(["Bern", "Basel"], n)
    return pa.table({"area": area, "city": city.tolist(), "rent": 300 + 9 * area + draw.normal(0, 40, n)})


@pytest.fixture
def rents(tmp_path):
    place = tmp_path / "rents"
    place.mkdir()
    for i in range(3):
        pq.write_table(table(seed=i), place / f"{i}.parquet", row_group_size=200)
    return place


@pytest.fixture(scope="module")
def rent_model(tmp_path_factory):
    place, rows = tmp_path_factory.mktemp("models") / "rent", table()
    natpn.NatPNRegressor(random_state=0, max_epochs=1).fit(rows.drop(["rent"]), rows["rent"].to_numpy()).save(place)
    return place


@pytest.fixture(params=["pieces", "memory"])
def way(request, monkeypatch):
    """Read files in pieces, as if they were more than fits into memory, or at once."""
    monkeypatch.setattr("natpn.data.NUMBER_BYTES", 10**6 if request.param == "pieces" else 40)
    return request.param


@pytest.fixture
def pieces(monkeypatch):
    monkeypatch.setattr("natpn.data.NUMBER_BYTES", 10**6)


def fit(data, out, *options):
    return run("fit", data, "--target", "rent", "--out", out, "--max-epochs", 1, *options)


def cut(place):
    (place / "1.parquet").write_bytes((place / "1.parquet").read_bytes()[:-100])


def nothing(place):
    (place / "1.parquet").write_bytes(b"")


def one_less(place):
    pq.write_table(table().drop(["area"]), place / "1.parquet")


def another_type(place):
    pq.write_table(table().set_column(0, "area", [["many"] * N]), place / "1.parquet")


def damaged_inside(place):
    path = place / "1.parquet"
    content = bytearray(path.read_bytes())
    content[4:400] = b"\xff" * 396
    path.write_bytes(bytes(content))


@pytest.mark.parametrize(
    ("spoil", "sentence"),
    [
        (cut, "it cannot be read as Parquet"),
        (nothing, "it cannot be read as Parquet"),
        (one_less, "it lacks the column 'area' that"),
        (another_type, "the column 'area' is string, but double in"),
        (damaged_inside, "it cannot be read as Parquet"),
    ],
)
def test_a_spoiled_file_is_named(rent_model, rents, tmp_path, way, spoil, sentence):
    spoil(rents)
    told = refused(fit(rents, tmp_path / "model"))
    assert f"{rents}/1.parquet: {sentence}" in told
    told = refused(run("predict", rent_model, rents, "--drop", "rent", "--out", tmp_path / "out"))
    assert f"{rents}/1.parquet: {sentence}" in told
    written = sorted(str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*") if path.is_file())
    done = ["out/0.parquet"] if spoil is damaged_inside else []
    assert [name for name in written if not name.startswith("rents/")] == done


def test_what_only_looks_spoiled_is_read(rent_model, rents, tmp_path, way):
    pq.write_table(table(0), rents / "0.parquet")
    pq.write_table(table().select(["rent", "city", "area"]), rents / "1.parquet")  # another order
    late = table().set_column(1, "city", [["Genf"] * 300 + ["Bern"] * 300])
    blank = pa.table({"area": pa.nulls(200, pa.float64()), "city": pa.nulls(200, pa.string()), "rent": [900.0] * 200})
    without_target = table(200).set_column(2, "rent", pa.nulls(200, pa.float64()))
    pq.write_table(pa.concat_tables([blank, without_target, late]), rents / "2.parquet", row_group_size=200)
    result = fit(rents, tmp_path / "model")
    assert result.exit_code == 0, result.stderr
    assert "200 of 1,600 rows have no 'rent' and are left out" in result.stderr
    assert "city  category  3 values: " in result.stdout
    result = run("predict", tmp_path / "model", rents, "--out", tmp_path / "out")
    assert result.exit_code == 0, result.stderr
    found = [pq.read_table(tmp_path / "out" / f"{i}.parquet") for i in range(3)]
    assert list(map(len, found)) == [0, N, 1_000]
    assert not any(np.isnan(each["prediction"].to_numpy()).any() for each in found)


# A directory that changes.


def replaced(place):
    pq.write_table(table(seed=9), place / "1.parquet")
    os.utime(place / "1.parquet", (1, 1))


def gone(place):
    (place / "1.parquet").unlink()


def more(place):
    pq.write_table(table(seed=3), place / "3.parquet")


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (replaced, "the file changed while it was read; start again"),
        (gone, "the file is gone; start again"),
        (more, ""),
    ],
)
def test_a_directory_that_changes_between_passes_of_a_fit(rents, tmp_path, pieces, monkeypatch, change, sentence):
    encode = streaming.encode

    def later(*arguments):
        change(rents)
        return encode(*arguments)

    monkeypatch.setattr(streaming, "encode", later)
    result = fit(rents, tmp_path / "model")
    if sentence:
        assert f"{rents}/1.parquet: {sentence}" in refused(result)
    else:
        assert "3 files, 1,800 rows" in result.stdout
        assert "rows    1,800 to fit" in result.stdout
    assert (tmp_path / "model").exists() == (not sentence)


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (replaced, "the file changed while it was read; start again"),
        (gone, "the file is gone; start again"),
        (more, ""),
    ],
)
def test_a_directory_that_changes_between_predictions(rent_model, rents, tmp_path, monkeypatch, change, sentence):
    predict = Worker.predict

    def then(*arguments):
        found = predict(*arguments)
        if not (tmp_path / "changed").exists():
            (tmp_path / "changed").touch()
            change(rents)
        return found

    monkeypatch.setattr(Worker, "predict", then)
    command = ["predict", rent_model, rents, "--drop", "rent", "--out", tmp_path / "out"]
    result = run(*command)
    if sentence:
        assert f"{rents}/1.parquet: {sentence}" in refused(result)
        assert sorted(os.listdir(tmp_path / "out")) == ["0.parquet"]
    again = run(*command)
    done = 1 if sentence else 3
    assert f"{done} file{'s' * (done > 1)} had been done before." in again.stdout
    assert sorted(os.listdir(tmp_path / "out")) == sorted(os.listdir(rents))


# No room.


@contextmanager
def small_disk(place, size):
    """Mount a file system of a few bytes."""
    place.mkdir()
    mounted = os.geteuid() == 0 and shutil.which("mount")
    if not mounted or subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", place]).returncode:
        pytest.skip("needs the right to mount a file system")
    try:
        yield place
    finally:
        subprocess.run(["umount", "-l", place], check=True)


def test_no_room_for_the_model_or_the_predictions(rent_model, rents, tmp_path):
    with small_disk(tmp_path / "disk", "64k") as disk:
        told = refused(fit(rents, disk / "model"))
        assert f"{disk}/model: the disk is full; free some space or write elsewhere." in told
        assert os.listdir(disk) == []
        told = refused(run("predict", rent_model, rents, "--drop", "rent", "--out", disk / "out"))
        assert "parquet: the disk is full; free some space or write elsewhere." in told
        kept = sorted(os.listdir(disk / "out"))
        assert kept == [f"{i}.parquet" for i in range(len(kept))]
        assert all(len(pq.read_table(disk / "out" / name)) == N for name in kept)


def test_no_room_for_scratch_files(rents, tmp_path, pieces, monkeypatch):
    (tmp_path / "texts").mkdir()
    for i in range(3):
        table(2_000, i).to_pandas().to_csv(tmp_path / "texts" / f"{i}.csv", index=False)
    with small_disk(tmp_path / "disk", "16k") as disk:
        monkeypatch.setattr("tempfile.tempdir", str(disk))
        for data in (rents, tmp_path / "texts"):
            told = refused(fit(data, tmp_path / "model"))
            cure = "(TMPDIR names another place): the disk is full; free some space or write elsewhere."
            assert f"Error: scratch file in {disk} {cure}" in told
            assert os.listdir(disk) == []
            assert not (tmp_path / "model").exists()


def test_no_room_for_a_checkpoint_does_not_end_a_fit(rents, tmp_path, pieces):
    with small_disk(tmp_path / "disk", "64k") as disk:
        result = fit(rents, tmp_path / "model", "--checkpoint", disk / "run")
        assert result.exit_code == 0, result.stderr
        assert f"note: checkpoint_dir: {disk}/run" in result.stderr
        assert (tmp_path / "model").exists()


def test_scratch_files_go_with_a_command_that_fails(tmp_path):
    for name in ("texts", "scratch"):
        (tmp_path / name).mkdir()
    table().to_pandas().to_csv(tmp_path / "texts" / "0.csv", index=False)
    command = [sys.executable, "-m", "natpn", "fit", "texts", "--target", "rnt", "--out", "model"]
    environment = ENVIRONMENT | {"TMPDIR": str(tmp_path / "scratch")}
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert done.returncode == 2
    assert "did you mean 'rent'" in done.stderr
    assert os.listdir(tmp_path / "scratch") == []
