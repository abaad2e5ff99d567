"""`natpn predict` for directories: what comes out, what is kept when it is interrupted, and what is refused."""

import errno
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

import natpn
from cli.conftest import ENVIRONMENT, refused, rows, run, start, write


def table(n, seed, place):
    return pa.csv.read_csv(write(place / "made.csv", rows(n, seed)))


@pytest.fixture(scope="module")
def flats(tmp_path_factory):
    """A directory of five files, one without rows and one deeper."""
    place = tmp_path_factory.mktemp("many")
    (place / "flats" / "deep").mkdir(parents=True)
    for i, name in enumerate(["a.parquet", "b.parquet", "c.pq", "deep/a.parquet", "empty.parquet"]):
        made = table(0 if name.startswith("empty") else 30 + i, i, place)
        if not made.num_rows:
            made = table(1, 0, place).slice(0, 0)
        pq.write_table(made, place / "flats" / name, row_group_size=20)
    return place / "flats"


@pytest.fixture
def some(flats, tmp_path):
    """A copy that a test may spoil."""
    for path in flats.rglob("*.*"):
        copy = tmp_path / "flats" / path.relative_to(flats)
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.write_bytes(path.read_bytes())
    return tmp_path / "flats"


def names(place):
    return sorted(str(path.relative_to(place)) for path in place.rglob("*") if path.is_file())


def told(result):
    assert result.exit_code == 0, (result.output, result.exception)
    return result.stdout


def contents(place):
    return {name: pq.read_table(place / name) for name in names(place)}


def predict(model, data, out, *options):
    return run("predict", model, data, "--out", out, *options)


def test_each_file_has_its_predictions_under_the_same_name(model, flats, tmp_path):
    assert told(predict(model, flats, tmp_path / "out")) == (
        f"5 files with 126 rows predicted into {tmp_path / 'out'}.\n"
    )
    assert names(tmp_path / "out") == names(flats)
    for name in names(flats):
        given = pd.read_parquet(flats / name).drop(columns=["flat", "rent"])
        found = pd.read_parquet(tmp_path / "out" / name)
        assert len(found) == len(given)
        if len(given):
            pd.testing.assert_frame_equal(found, natpn.load(model).predict_frame(given))
    schemas = {tuple(zip(t.schema.names, t.schema.types, strict=True)) for t in contents(tmp_path / "out").values()}
    assert len(schemas) == 1


def test_globs_and_several_files(model, flats, tmp_path):
    told(predict(model, flats / "*.parquet", tmp_path / "glob"))
    assert names(tmp_path / "glob") == ["a.parquet", "b.parquet", "empty.parquet"]
    told(run("predict", model, flats / "deep" / "a.parquet", flats / "c.pq", "--out", tmp_path / "several"))
    assert names(tmp_path / "several") == ["c.pq", "deep/a.parquet"]
    told(predict(model, flats / "**" / "a.parquet", tmp_path / "deep"))
    assert names(tmp_path / "deep") == ["a.parquet", "deep/a.parquet"]


def test_outputs_may_lie_beside_files_that_are_named(model, some, monkeypatch):
    monkeypatch.chdir(some)
    told(run("predict", model, "a.parquet", "b.parquet", "--out", "out"))
    assert names(some / "out") == ["a.parquet", "b.parquet"]


def test_directories_of_hive_are_columns(model, flats, tmp_path):
    whole = pa.concat_tables([pq.read_table(flats / name) for name in ("a.parquet", "b.parquet")])
    for district in ("hills", "harbour"):
        place = tmp_path / "flats" / f"district={district}"
        place.mkdir(parents=True)
        own = whole.filter(pa.compute.equal(whole["district"], district))
        pq.write_table(own.drop(["district"]), place / "x.parquet")
    told(predict(model, tmp_path / "flats", tmp_path / "out", "--id", "district"))
    for district in ("hills", "harbour"):
        found = pd.read_parquet(tmp_path / "out" / f"district={district}" / "x.parquet", partitioning=None)
        own = whole.filter(pa.compute.equal(whole["district"], district)).to_pandas()
        assert set(found.pop("district")) == {district}
        pd.testing.assert_frame_equal(found, natpn.load(model).predict_frame(own.drop(columns=["flat", "rent"])))


def test_columns_and_id_choose_what_is_written(model, new, flats, tmp_path):
    told(predict(model, flats, tmp_path / "out", "--columns", "novel, prediction", "--id", "flat"))
    whole = natpn.load(model).predict_frame(pd.read_parquet(flats / "c.pq").drop(columns=["flat", "rent"]))
    found = pd.read_parquet(tmp_path / "out" / "c.pq")
    assert [*found] == ["flat", "novel", "prediction"]
    pd.testing.assert_frame_equal(found[["prediction", "novel"]], whole[["prediction", "novel"]])
    assert pq.read_schema(tmp_path / "out" / "empty.parquet").names == ["flat", "novel", "prediction"]
    for name in ("one.csv", "one.parquet"):
        for columns in ("lower,aleatoric", "lower,upper,epistemic"):  # the second replaces the first
            told(predict(model, new, tmp_path / name, "--columns", columns))
    assert (tmp_path / "one.csv").read_text().startswith("lower,upper,epistemic\n")
    one = run("predict", model, new, "--columns", "prediction")
    assert one.stdout.splitlines()[0] == "prediction"


def test_columns_that_are_left_out_are_not_calculated(model, new, monkeypatch):
    monkeypatch.setattr("natpn.model.answers.PredictiveDistribution.interval", None)
    assert run("predict", model, new, "--columns", "prediction,aleatoric").exit_code == 0
    assert run("predict", model, new, "--columns", "lower").exit_code != 0


def test_a_file_that_only_might_be_ours_stays(model, new, tmp_path):
    (tmp_path / "one.csv").write_text("id,prediction\n1,2\n")
    told = refused(predict(model, new, tmp_path / "one.csv", "--columns", "prediction"))
    assert "is not a file of predictions that natpn wrote" in told


def test_a_second_start_does_what_is_missing(model, some, tmp_path):
    out = tmp_path / "out"
    told(predict(model, some, out))
    before = contents(out)
    stamps = {name: (out / name).stat().st_mtime_ns for name in names(out)}
    (out / "b.parquet").unlink()
    pq.write_table(pq.read_table(out / "a.parquet").slice(1), out / "a.parquet")  # another number of rows
    again = told(predict(model, some, out))
    assert again == f"2 files with 61 rows predicted into {out}; 3 files had been done before.\n"
    assert contents(out) == before
    kept = [name for name in names(out) if (out / name).stat().st_mtime_ns == stamps[name]]
    assert kept == ["c.pq", "deep/a.parquet", "empty.parquet"]
    assert "0 files with 0 rows predicted" in told(predict(model, some, out))


@pytest.mark.parametrize(
    "options", [["--coverage", 0.5], ["--columns", "prediction,novel"], ["--id", "flat"], ["--fast"]]
)
def test_predictions_of_another_kind_are_made_again(model, flats, tmp_path, options):
    told(predict(model, flats / "[ab].parquet", tmp_path / "out"))
    assert told(predict(model, flats / "[ab].parquet", tmp_path / "out", *options)).startswith("2 files")


def test_inputs_and_models_that_changed_are_predicted_again(model, classes, some, tmp_path):
    told(predict(model, some, tmp_path / "out"))
    pq.write_table(table(30, 99, tmp_path), some / "a.parquet")
    assert told(predict(model, some, tmp_path / "out")).startswith("1 file with 30 rows")
    options = ["--drop", "flat", "--drop", "lift", "--drop", "built"]
    assert told(predict(classes, some, tmp_path / "out", *options)).startswith("5 files with 126 rows")


def test_shards_together_give_all_files(model, flats, tmp_path):
    told(predict(model, flats, tmp_path / "whole"))
    for i, count in ((0, 3), (1, 2)):
        assert told(predict(model, flats, tmp_path / "out", "--shard", f"{i}/2")).startswith(f"{count} files")
    assert contents(tmp_path / "out") == contents(tmp_path / "whole")
    assert told(predict(model, flats, tmp_path / "none", "--shard", "7/9")).startswith("0 files")


@pytest.mark.parametrize("shard", ["2/2", "-1/2", "0/0", "1", "a/b", "1/2/3"])
def test_shards_that_do_not_exist(model, flats, tmp_path, shard):
    sentence = refused(run("predict", model, flats, "--out", tmp_path / "out", f"--shard={shard}"))
    assert f"'--shard': expected i/n with 0 <= i < n, such as 0/4, got '{shard}'" in sentence


def cut(path):
    path.write_bytes(path.read_bytes()[:-100])


def without(path):
    pq.write_table(pq.read_table(path).drop(["area"]), path)


def another_type(path):
    made = pq.read_table(path)
    pq.write_table(made.set_column(made.column_names.index("district"), "district", [[1.5] * len(made)]), path)


@pytest.mark.parametrize(
    ("spoil", "sentence"),
    [
        (cut, "it cannot be read as Parquet"),
        (without, "it lacks the column 'area' that "),
        (another_type, "the column 'district' is double, but string in "),
    ],
)
def test_a_bad_file_is_named_before_anything_is_predicted(model, some, tmp_path, spoil, sentence):
    spoil(some / "b.parquet")
    found = refused(predict(model, some, tmp_path / "out"))
    assert f"{some / 'b.parquet'}: {sentence}" in found
    assert not (tmp_path / "out").exists()


def test_what_is_wrong_in_all_files_names_one(model, some, tmp_path):
    for name in names(some):
        without(some / name)
    found = refused(predict(model, some, tmp_path / "out"))
    assert f"{some / 'a.parquet'} lacks the column 'area' that the model was fitted on" in found


def test_a_category_of_numbers(model, some, tmp_path):
    for name in names(some):
        another_type(some / name)
    found = refused(predict(model, some, tmp_path / "out"))
    assert f"{some / 'a.parquet'}: the column 'district' is double, but in training it had names such as '" in found
    assert not list((tmp_path / "out").rglob("*.*"))


def test_what_was_finished_before_an_error_is_kept(model, some, tmp_path):
    made = pq.read_table(some / "b.parquet")
    area = made["area"].to_numpy().copy()
    area[25] = np.inf
    pq.write_table(made.set_column(made.column_names.index("area"), "area", [area]), some / "b.parquet")
    found = refused(predict(model, some, tmp_path / "out"))
    assert f"{some / 'b.parquet'}, row 26, column 'area'" in found
    assert names(tmp_path / "out") == ["a.parquet"]


def test_a_full_disk(model, some, tmp_path, monkeypatch):
    def full(number):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("natpn.outputs.os.fsync", full)
    found = refused(predict(model, some, tmp_path / "out"))
    assert f"{tmp_path / 'out' / 'a.parquet'}: the disk is full; free some space or write elsewhere" in found
    assert names(tmp_path / "out") == []


def test_places_that_would_damage_something(model, some, tmp_path):
    assert "it lies in" in refused(predict(model, some, some / "out"))
    assert "it lies in" in refused(predict(model, some / "**" / "*.parquet", some / "out"))
    assert "it holds" in refused(predict(model, some, tmp_path))
    assert "it is the same file or directory" in refused(predict(model, some, some))
    assert "it holds" in refused(predict(model, some / "*.parquet", some))
    (tmp_path / "file").touch()
    assert "it is a file, and many files are predicted into a directory" in refused(
        predict(model, some, tmp_path / "file")
    )
    assert "--out: many files are predicted into a directory; name one." in refused(run("predict", model, some))
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "b.parquet").write_text("mine")
    assert "b.parquet: it exists and is not a file of predictions" in refused(predict(model, some, tmp_path / "out"))
    assert names(tmp_path / "out") == ["b.parquet"]


def test_options_that_mean_nothing_there(model, new, flats, tmp_path):
    assert "--jobs" in refused(run("predict", model, new, "--jobs", 2))
    assert "--shard" in refused(run("predict", model, new, "--shard", "0/2"))
    assert "--format csv" in refused(predict(model, flats, tmp_path / "out", "--format", "csv"))
    sentence = refused(predict(model, flats, tmp_path / "out", "--columns", "predictions,novel"))
    assert "--columns = 'predictions' is unknown; choose one of 'prediction', 'lower', " in sentence
    assert "Did you mean 'prediction'?" in sentence
    assert "there are no files" in refused(predict(model, tmp_path / "*.parquet", tmp_path / "out"))


def test_missing_cells_are_told_once(model, some, tmp_path):
    for name in ("a.parquet", "b.parquet"):
        made = pq.read_table(some / name)
        texts = ["many", *map(str, made["area"].to_pylist()[1:])]
        pq.write_table(made.set_column(made.column_names.index("area"), "area", [texts]), some / name)
    result = predict(model, some / "[ab].parquet", tmp_path / "out", "--bad-cells", "missing")
    told(result)
    assert result.stderr == (
        "note: column 'area': 2 cells that are not of its kind are counted as missing, as 'many'\n"
    )


# Processes.


@pytest.fixture(scope="module")
def areas(tmp_path_factory):
    """Files of one column, for some seconds of work."""
    place = tmp_path_factory.mktemp("areas")
    for i in range(16):
        area = np.random.default_rng(i).uniform(30, 150, 10_000)
        pq.write_table(pa.table({"area": area, "rent": 10 * area}), place / f"{i:02}.parquet")
    return place


@pytest.fixture(scope="module")
def uninterrupted(classes, areas, tmp_path_factory):
    place = tmp_path_factory.mktemp("uninterrupted") / "out"
    told(predict(classes, areas, place))
    return contents(place)


def wait_for_outputs(process, out, number):
    deadline = time.monotonic() + 120
    while len(list(out.glob("[0-9]*.parquet"))) < number:
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < deadline
        time.sleep(0.01)


def workers(process):
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
    return [int(child) for child in children if b"spawn_main" in Path(f"/proc/{child}/cmdline").read_bytes()]


def are_gone(pids):
    deadline = time.monotonic() + 30
    while any(Path(f"/proc/{pid}/cmdline").exists() for pid in pids):
        if time.monotonic() > deadline:
            return False
        time.sleep(0.05)
    return True


@pytest.mark.slow
def test_a_killed_run_goes_on_where_it_was(classes, areas, uninterrupted, tmp_path):
    out = tmp_path / "out"
    process = start("predict", classes, areas, "--out", out)
    wait_for_outputs(process, out, 3)
    process.kill()
    process.communicate()
    kept = {path.name: path.stat().st_mtime_ns for path in out.glob("[0-9]*.parquet")}
    assert 3 <= len(kept) < 16
    assert f"; {len(kept)} files had been done before." in told(predict(classes, areas, out))
    assert {name: (out / name).stat().st_mtime_ns for name in kept} == kept
    assert contents(out) == uninterrupted  # and nothing half-written beside it


@pytest.mark.slow
def test_a_process_that_dies_names_its_file_and_ends_the_others(classes, areas, uninterrupted, tmp_path):
    out = tmp_path / "out"
    process = start("predict", classes, areas, "--out", out, "--jobs", 2)
    wait_for_outputs(process, out, 2)
    first, second = workers(process)
    os.kill(first, signal.SIGKILL)
    said, complaint = process.communicate(timeout=60)
    assert (process.returncode, said) == (2, b"")
    assert re.fullmatch(
        rf"Error: {areas}/\d\d\.parquet: the process that predicted it was ended by signal 9; start the same command "
        r"again to go on with what is left, with fewer --jobs if memory ran out\.\n",
        complaint.decode(),
    )
    assert are_gone([first, second])
    done = len(list(out.glob("[0-9]*.parquet")))
    process = start("predict", classes, areas, "--out", out, "--jobs", 2)
    said, complaint = process.communicate(timeout=120)
    assert (process.returncode, complaint) == (0, b"")
    assert said.decode().endswith(f"; {done} files had been done before.\n")
    assert contents(out) == uninterrupted


@pytest.mark.slow
@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGKILL, -9)])
def test_an_end_of_the_command_ends_its_processes(classes, areas, tmp_path, number, code):
    out = tmp_path / "out"
    process = start("predict", classes, areas, "--out", out, "--jobs", 2, start_new_session=True)
    wait_for_outputs(process, out, 2)
    pids = workers(process)
    assert len(pids) == 2
    if number == signal.SIGINT:
        os.killpg(process.pid, number)  # as the terminal does
    else:
        process.send_signal(number)
    said, complaint = process.communicate(timeout=60)
    assert (process.returncode, said, complaint) == (code, b"", b"")
    assert are_gone(pids)
    assert 2 <= len(contents(out)) < 16  # all of them whole, and nothing beside them


@pytest.mark.slow
def test_an_error_in_another_process_is_the_same_sentence(model, some, tmp_path):
    made = pq.read_table(some / "b.parquet")
    area = made["area"].to_numpy().copy()
    area[25] = np.inf
    pq.write_table(made.set_column(made.column_names.index("area"), "area", [area]), some / "b.parquet")
    sentences = [refused(predict(model, some, tmp_path / f"out{n}", "--jobs", n)) for n in (1, 2)]
    assert sentences[0] == sentences[1]
    assert f"{some / 'b.parquet'}, row 26, column 'area'" in sentences[0]


@pytest.mark.slow
def test_memory_does_not_grow_with_the_files(classes, tmp_path):
    for name, n_files, n_rows in (("small", 1, 100_000), ("large", 2, 400_000)):
        (tmp_path / name).mkdir()
        for i in range(n_files):
            area = np.random.default_rng(i).uniform(30, 150, n_rows)
            pq.write_table(
                pa.table({"area": area, "rent": area}), tmp_path / name / f"{i}.parquet", row_group_size=50_000
            )
    code = """
import re, sys
from natpn.cli import cli
def peak():
    return int(re.search(r"VmHWM:\\s+(\\d+) kB", open("/proc/self/status").read())[1]) // 1024
for name in ("small", "large"):
    try:
        cli.main(["predict", sys.argv[1], name, "--out", f"{name}.out"])
    except SystemExit as end:
        assert not end.code, end.code
    print(peak())
"""
    done = subprocess.run(
        [sys.executable, "-c", code, classes], cwd=tmp_path, env=ENVIRONMENT, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    _, small, _, large = done.stdout.split("\n")[:4]
    assert int(large) - int(small) < 45, done.stdout  # of more than 80 in and out
