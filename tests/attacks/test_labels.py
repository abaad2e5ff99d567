"""Labels stay what they are: none is merged with another on its way through files and models."""

import io

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet
import pytest

import natpn
from cli.conftest import refused, run, write
from estimators.problems import CLASSIFIER, REGRESSOR
from natpn.estimators.arrays import read_targets
from natpn.model.answers import encode_labels

LARGE = 2**53


def fit(path, out, *arguments):
    return run("fit", path, "--target", "y", "--max-epochs", 1, "--out", out, *arguments)


@pytest.mark.parametrize(
    ("labels", "classes"),
    [
        (["010", "10", "7"], ["010", "10", "7"]),
        (["1", "1.0", "+1"], ["+1", "1", "1.0"]),
        (["9007199254740992", "9007199254740993"], [LARGE, LARGE + 1]),
        (["12345678901234567890", "12345678901234567891"], ["12345678901234567890", "12345678901234567891"]),
        (["3", "10", " 10"], [3, 10]),
        (["0", "1", "NA", ""], [0, 1]),
        (["True", "false", "null"], [False, True]),
        (["yes", "no", "NA", ""], ["NA", "no", "yes"]),
        (["true", "1", "false"], ["1", "false", "true"]),
    ],
    ids=str,
)
def test_labels_of_a_csv_file_come_back_as_they_were(labels, classes, tmp_path):
    cells = [[str(i % 11), labels[i % len(labels)]] for i in range(60)]
    path = write(tmp_path / "a.csv", cells, ["x", "y"])
    result = fit(path, tmp_path / "m", "--task", "classes")
    assert result.exit_code == 0, result.output
    assert natpn.load(tmp_path / "m").classes_.tolist() == classes
    assert ("'NA' in 15 rows" in result.stderr) == ("NA" in classes)
    told = run("predict", tmp_path / "m", path)
    frame = pd.read_csv(io.StringIO(told.stdout), dtype=str, keep_default_na=False)
    shown = [str(c).lower() if isinstance(c, bool) else str(c) for c in classes]
    assert set(frame["prediction"]) <= set(shown)
    assert [name for name in frame if name.startswith("p_")] == [f"p_{c}" for c in classes]
    scored = run("evaluate", tmp_path / "m", path)
    assert scored.exit_code == 0, scored.output
    n_missing = sum(label not in map(str, classes) and label in ("", "NA", "null") for label in labels)
    assert scored.stdout.startswith(f"{60 - 60 // len(labels) * n_missing} rows")


def test_a_label_that_only_looks_like_one_of_training_is_not_it(tmp_path):
    path = write(tmp_path / "a.csv", [[str(i % 7), ["10", "7"][i % 2]] for i in range(40)], ["x", "y"])
    assert fit(path, tmp_path / "m", "--task", "classes").exit_code == 0
    other = write(tmp_path / "b.csv", [["1", "10"], ["2", "010"]], ["x", "y"])
    assert "line 3, column 'y': the label '010' was not in training" in refused(run("evaluate", tmp_path / "m", other))


@pytest.mark.parametrize(
    "values",
    [
        pa.array([LARGE, LARGE + 1] * 20),
        pa.array([2**63, 2**63 + 1] * 20, pa.uint64()),
        pa.array(["010", "10"] * 20, pa.string_view()),
        pa.array(["010", "10"] * 20, pa.large_string()),
        pa.array(["010", "10"] * 20).dictionary_encode(),
    ],
    ids=lambda values: str(values.type)[:20],
)
def test_labels_of_parquet(values, tmp_path):
    table = pa.table({"x": np.arange(40) % 7, "y": values})
    pyarrow.parquet.write_table(table, tmp_path / "a.parquet")
    result = fit(tmp_path / "a.parquet", tmp_path / "m", "--task", "classes")
    assert result.exit_code == 0, result.output
    model = natpn.load(tmp_path / "m")
    assert [str(label) for label in model.classes_.tolist()] == sorted({str(v) for v in values.to_pylist()})
    assert run("evaluate", tmp_path / "m", tmp_path / "a.parquet").exit_code == 0


@pytest.mark.parametrize(
    "labels",
    [
        np.array([LARGE, LARGE + 1]),
        [2**63, 2**63 + 1],
        np.array([2**63, 2**63 + 1], np.uint64),
        pd.Series([LARGE, LARGE + 1], dtype="Int64"),
        pd.Series([2**63, 2**63 + 1], dtype="UInt64"),
        pl.Series([LARGE, LARGE + 1], dtype=pl.Int128),
        pa.array([LARGE, LARGE + 1]),
        pa.array(["010", "10"], pa.string_view()),
        ["010", "10"],
    ],
    ids=lambda labels: f"{type(labels).__module__}.{type(labels).__name__} {getattr(labels, 'dtype', '')}",
)
def test_labels_of_the_interface_are_never_merged(labels):
    y = read_targets(labels)
    assert len(np.unique(y)) == 2
    X = np.linspace(-1, 1, 40)[:, None]
    model = natpn.NatPNClassifier(**CLASSIFIER.get_params()).fit(X, np.tile(y, 20))
    assert [str(label) for label in model.classes_.tolist()] == sorted(map(str, y.tolist()))
    assert set(model.predict(X).tolist()) <= set(y.tolist())


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        ([2**70, 2**70 + 1], "at most 64 bits, got 1180591620717411303425; make the labels texts"),
        ([2**63, -1], "at most 64 bits"),
        (np.array([2**70, 1], dtype=object), "at most 64 bits"),
        (pl.Series([2**70, 1], dtype=pl.Int128), "at most 64 bits"),
        ([1, "1"], "labels of the types int, str"),
    ],
    ids=["128 bits", "of both signs", "objects", "polars", "texts and numbers"],
)
def test_labels_that_no_array_holds_are_refused(labels, message):
    y = labels * 20 if isinstance(labels, list) else labels
    X = np.zeros((len(y), 1))
    with pytest.raises(ValueError, match=message):
        natpn.NatPNClassifier().fit(X, y)


def test_labels_are_found_exactly():
    classes = np.array([LARGE, LARGE + 1])
    for y in (np.array([LARGE + 1], np.uint64), np.array([LARGE + 1], dtype=object)):
        assert encode_labels(y, classes).tolist() == [1]
    with pytest.raises(ValueError, match="the label 'a' was not in training"):
        encode_labels(np.array(["a"]), classes)


@pytest.mark.parametrize(
    "y",
    [["low", "high"] * 10, np.array(["1.5", "2"] * 10), pd.Series(["a", "b"] * 10)],
    ids=["list", "numpy", "pandas"],
)
def test_texts_as_targets_of_a_regressor_name_the_classifier(y):
    with pytest.raises(ValueError, match=r"y: expected numbers, got texts such as '.*use NatPNClassifier"):
        natpn.NatPNRegressor(**REGRESSOR.get_params()).fit(np.arange(20.0)[:, None], y)


def test_texts_as_numbers_on_the_command_line_name_the_task(tmp_path):
    path = write(tmp_path / "a.csv", [[str(i), ["low", "high"][i % 2]] for i in range(20)], ["x", "y"])
    sentence = refused(fit(path, tmp_path / "m", "--task", "numbers"))
    assert "line 2, column 'y': 'low' is not a finite number" in sentence
    assert "say --task classes" in sentence
