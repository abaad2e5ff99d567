"""`natpn fit`: what it decides, prints and leaves behind."""

import json
from pathlib import Path

import numpy as np
import pyarrow.csv
import pyarrow.parquet
import pytest

import natpn
from cli.conftest import COLUMNS, refused, rows, run, write
from natpn.estimators.loading import load_saved


def fit(path, out, *arguments, target="rent"):
    return run("fit", path, "--target", target, "--out", out, "--max-epochs", 1, *arguments)


def test_decimal_commas_and_names_are_no_classes(tmp_path):
    table = rows(60, 0)
    path = write(tmp_path / "a.csv", [[*row[:-1], row[-1].replace(".", ",")] for row in table])
    sentence = refused(fit(path, tmp_path / "m"))
    assert "line 2, column 'rent'" in sentence
    assert "has a decimal comma; write " in sentence
    path = write(tmp_path / "b.csv", table)
    sentence = refused(fit(path, tmp_path / "m", "--drop", "rent", target="flat"))
    assert "60 different texts in 60 rows, such as 'f0'" in sentence
    assert not (tmp_path / "m").exists()


def test_a_fit_tells_family_scores_and_place(train, tmp_path):
    result = fit(train, tmp_path / "m", "--drop", "flat", "--ensemble", 2, "--seed", 3)
    assert result.exit_code == 0, result.output
    assert "family Normal(), for numbers of either sign" in result.stdout
    assert "rmse" in result.stdout
    assert "held out by one network or another" in result.stdout
    assert "scores of single networks, on the rows that each held out" in result.stdout
    assert "(they are no later in 'built' than the others; score later rows with natpn evaluate)" in result.stdout
    assert f"model   {tmp_path / 'm'}" in result.stdout
    assert [p.name for p in tmp_path.iterdir()] == ["m"]
    model = natpn.load(tmp_path / "m")
    assert model.ensemble_size == 2
    assert [c.kind for c in model.inputs_.table.columns] == ["number", "category", "boolean", "date"]


def test_the_same_seed_gives_the_same_model_and_it_replaces_the_old_one(train, tmp_path):
    hashes = []
    for seed in (1, 1, 2):
        assert fit(train, tmp_path / "m", "--drop", "flat", "--seed", seed).exit_code == 0
        hashes.append(json.loads((tmp_path / "m" / "config.json").read_text())["tensors_sha256"])
    assert hashes[0] == hashes[1] != hashes[2]
    assert [p.name for p in tmp_path.iterdir()] == ["m"]


def test_the_unit_of_the_target_is_remembered(train, tmp_path):
    result = fit(train, tmp_path / "m", "--drop", "flat", "--unit", "€ a month")
    assert "target  rent: numbers in € a month, family" in result.stdout
    saved = load_saved(tmp_path / "m")
    assert (saved.target, saved.unit) == ("rent", "€ a month")
    assert saved.created == saved.table["created"]
    sentence = refused(fit(train, tmp_path / "n", "--drop", "flat", "--unit", "€", target="district"))
    assert "--unit €: 'district' holds classes, which have no unit; leave the option out." in sentence


@pytest.mark.parametrize(
    ("cells", "options", "family"),
    [
        (["yes", "no"], [], "Categorical"),
        (["true", "false"], [], "Categorical"),
        (["1", "0"], [], "Poisson"),
        (["1", "0"], ["--task", "classes"], "Categorical"),
        (["1", "0"], ["--family", "bernoulli"], "Bernoulli"),
        (["true", "false"], ["--family", "bernoulli"], "Bernoulli"),
        (["1.5", "2.5"], [], "Normal"),
        (["1.5", "2.5"], ["--task", "classes"], "Categorical"),
        (["1.5", "2.5"], ["--family", "gamma"], "Gamma"),
    ],
)
def test_the_target_and_the_options_decide_on_classes_or_numbers(cells, options, family, tmp_path):
    table = [[str(i % 7), cells[i % 2]] for i in range(40)]
    result = fit(write(tmp_path / "a.csv", table, ["x", "y"]), tmp_path / "m", *options, target="y")
    assert result.exit_code == 0, result.output
    assert f"family {family}" in result.stdout
    assert ("--task classes" in result.stderr) == (cells == ["1", "0"] and not options)
    assert run("evaluate", tmp_path / "m", tmp_path / "a.csv").exit_code == 0


def test_rows_without_a_target_are_left_out_and_said_to_be(tmp_path):
    table = [*rows(60, 0)[:50], *([*r[:5], ""] for r in rows(10, 1))]
    result = fit(write(tmp_path / "a.csv", table), tmp_path / "m", "--drop", "flat")
    assert result.exit_code == 0, result.output
    assert result.stderr == "note: 10 of 60 rows have no 'rent' and are left out\n"


def test_a_column_may_be_read_as_names(tmp_path):
    table = [["0" + str(i % 5), str(i % 5 + 0.5)] for i in range(40)]
    path = write(tmp_path / "a.csv", table, ["zip", "y"])
    assert fit(path, tmp_path / "m", "--category", "zip", target="y").exit_code == 0
    column = natpn.load(tmp_path / "m").inputs_.table.columns[0]
    assert column.kind == "category"
    assert sorted(column.levels) == ["00", "01", "02", "03", "04"]
    predictions = run("predict", tmp_path / "m", path)
    assert predictions.exit_code == 0
    assert ",true" not in predictions.stdout  # no level is new


def test_parquet_and_csv_give_the_same_model(train, tmp_path):
    pyarrow.parquet.write_table(pyarrow.csv.read_csv(train), tmp_path / "train.parquet")
    found = []
    for path in (train, tmp_path / "train.parquet"):
        assert fit(path, tmp_path / "m", "--drop", "flat").exit_code == 0
        model = natpn.load(tmp_path / "m")
        found.append(model.predict(pyarrow.csv.read_csv(train).drop_columns(["flat", "rent"])))
    np.testing.assert_allclose(found[0], found[1], rtol=1e-6)


def test_standard_input(train, tmp_path):
    result = run(
        "fit", "-", "--target", "rent", "--max-epochs", 1, "--out", tmp_path / "m", stdin=Path(train).read_bytes()
    )
    assert result.exit_code == 0, result.output


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (["--target", "Rent"], "did you mean 'rent'?"),
        (["--target", "elephant"], "it has 'flat', 'area'"),
        (["--target", "rent", "--drop", "distrikt"], "did you mean 'district'?"),
        (["--target", "rent", "--category", "distrikt"], "did you mean 'district'?"),
        (["--target", "rent", "--drop", "rent"], "it is the target"),
        (["--target", "built"], "it holds dates"),
        (["--target", "district", "--task", "numbers"], "line 2, column 'district'"),
        (["--target", "rent", "--family", "norml"], "--family = 'norml' is unknown"),
        (["--target", "rent", "--family", "multinomial"], "vectors"),
        (["--target", "rent", "--family", "normal", "--task", "classes"], "leave one of them out"),
        (["--target", "rent", "--family", "categorical", "--task", "numbers"], "leave one of them out"),
        (["--target", "rent", "--family", "poisson"], "line 2, column 'rent': Poisson() expected a count"),
        (["--target", "rent", "--drop", "flat", "--device", "abacus"], "device"),
        (["--target", "rent", "--ensemble", "0"], "--ensemble"),
        ([], "--target"),
    ],
)
def test_options_that_cannot_be_met(options, sentence, train, tmp_path):
    assert sentence in refused(run("fit", train, *options, "--out", tmp_path / "m"))
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("column", "value", "sentence"),
    [
        ("area", "large", "line 9, column 'area': 'large' is not a finite number"),
        ("area", "inf", "line 9, column 'area': 'inf' is not a finite number"),
        ("rent", "1.000,50", "line 9, column 'rent'"),
    ],
)
def test_a_text_among_numbers_is_a_mistake_with_a_line(column, value, sentence, tmp_path):
    table = rows(40, 0)
    table[7][COLUMNS.index(column)] = value
    assert sentence in refused(fit(write(tmp_path / "a.csv", table), tmp_path / "m"))


def test_lines_are_counted_as_an_editor_does(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text(
        "x,y,z\n" + "".join(f'{i},"{i}\n.5",4\n\n' for i in range(1, 3)) + "1,2,3\n" * 30 + "z,3,4\n" + "1,2,3\n" * 9
    )
    assert "line 38, column 'x': 'z'" in refused(fit(path, tmp_path / "m", "--drop", "y", target="z"))


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (b"", "is empty"),
        (b"\n\n", "no header"),
        (b"x,y\n", "no rows"),
        (b"x,y", "no rows"),
        (b"x,y\n1,\n2,\n", "has a 'y' in 0 of its rows"),
        (b"x,y\n1,2\n", "has a 'y' in 1 of its rows"),
        (b"y\n1\n2\n", "no columns to predict"),
        (b"y,x\na,1\na,2\n", "all rows have the same"),
        (b"x,x,y\n1,2,3\n", "more than one column of the name 'x'"),
        (b"x,y\n1,2\n1,2,3\n", "line 3: it has 3 cells and the header 2"),
        (b"x,y\n1,\xe9\n", "line 2: it is not UTF-8"),
        (b"\xe9,y\n1,2\n", "line 1: it is not UTF-8"),
        ("x,y\n1,2\n".encode("utf-16"), "UTF-16"),
        (b"\x7fELF\x00\x00\x00", "binary file"),
        (b"\x1f\x8b\x08\x00", "gzip"),
        (b"PAR1 and no more", "cut short"),
    ],
)
def test_files_that_are_no_tables(content, sentence, tmp_path):
    (tmp_path / "a.csv").write_bytes(content)
    assert sentence in refused(fit(tmp_path / "a.csv", tmp_path / "m", target="y"))
    assert [p.name for p in tmp_path.iterdir()] == ["a.csv"]


def test_files_that_are_not_there(tmp_path):
    assert "no such file" in refused(fit(tmp_path / "a.csv", tmp_path / "m"))
    (tmp_path / "b").mkdir()
    assert "b: there are no files; give a file, a directory" in refused(fit(tmp_path / "b", tmp_path / "m"))
    assert "choose another" in refused(fit(tmp_path / "b", tmp_path / "b" / "m"))


def test_parquet_that_is_damaged_or_holds_lists(tmp_path):
    table = pyarrow.table({"x": [[1], [2]], "y": [1.5, 2.5]})
    pyarrow.parquet.write_table(table, tmp_path / "a.parquet")
    assert "column 'x' holds list" in refused(fit(tmp_path / "a.parquet", tmp_path / "m", target="y"))
    content = (tmp_path / "a.parquet").read_bytes()
    (tmp_path / "a.parquet").write_bytes(content[: len(content) // 2])
    assert "cut short" in refused(fit(tmp_path / "a.parquet", tmp_path / "m", target="y"))
    (tmp_path / "a.parquet").write_bytes(content[4:])
    assert "not a Parquet file" in refused(fit(tmp_path / "a.parquet", tmp_path / "m", target="y"))


def test_places_that_cannot_be_written(train, tmp_path):
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "notes.txt").touch()
    assert "is not a model" in refused(fit(train, tmp_path / "other"))
    assert "is not a model" in refused(fit(train, tmp_path / "other" / "notes.txt"))
    assert "is a file" in refused(fit(train, tmp_path / "other" / "notes.txt" / "m"))
    assert "is not a model" in refused(fit(train, "/dev/full"))
    assert "Error: /proc/natpn" in refused(fit(train, "/proc/natpn/m"))


def test_a_disk_that_fills_up_leaves_nothing(train, tmp_path, monkeypatch):
    def full(number):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    assert "the disk is full" in refused(fit(train, tmp_path / "m", "--drop", "flat"))
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(("prior", "low", "high"), [("marginal", 0.8, 1.6), ("paper", 10, 1e6)])
def test_the_prior_is_what_a_far_row_gets(train, tmp_path, prior, low, high):
    """Widths of 90 % intervals far away, in ranges of the targets."""
    result = fit(train, tmp_path / "m", "--drop", "flat", "--prior", prior)
    assert result.exit_code == 0, result.output
    flat, _, *rest = rows(1, 0)[0]
    far = write(tmp_path / "far.csv", [[flat, "1e9", *rest]])
    assert run("predict", tmp_path / "m", far, "--out", tmp_path / "p.csv").exit_code == 0
    found = pyarrow.csv.read_csv(tmp_path / "p.csv").to_pylist()[0]
    ends = np.quantile([float(row[-1]) for row in rows(300, 0)], [0.05, 0.95])
    assert low < (found["upper"] - found["lower"]) / (ends[1] - ends[0]) < high
