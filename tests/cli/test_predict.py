"""`natpn predict`: what comes out, for good input and bad."""

import io
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow.csv
import pyarrow.parquet
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import natpn
from cli.conftest import COLUMNS, refused, rows, run, write
from natpn.cli import formats


def frame_of(result):
    assert result.exit_code == 0, result.output
    return pd.read_csv(io.StringIO(result.stdout), keep_default_na=False)


def test_predictions_are_those_of_the_model_in_the_same_order(model, new):
    table = pd.read_csv(new, parse_dates=["built"])
    expected = natpn.load(model).predict_frame(table.drop(columns=["flat", "rent"]))
    pd.testing.assert_frame_equal(frame_of(run("predict", model, new)), expected)


def test_csv_and_parquet_files_and_pipes_say_the_same(model, new, tmp_path):
    typed = tmp_path / "new.parquet"
    pyarrow.parquet.write_table(pyarrow.csv.read_csv(new), typed)
    expected = frame_of(run("predict", model, new))
    pd.testing.assert_frame_equal(frame_of(run("predict", model, typed)), expected)
    for path in (new, typed):
        pd.testing.assert_frame_equal(frame_of(run("predict", model, "-", stdin=Path(path).read_bytes())), expected)
    for name in ("out.csv", "out.parquet"):
        assert run("predict", model, new, "--out", tmp_path / name).stdout == ""
    pd.testing.assert_frame_equal(pd.read_csv(tmp_path / "out.csv", keep_default_na=False), expected)
    pd.testing.assert_frame_equal(pd.read_parquet(tmp_path / "out.parquet"), expected)
    piped = run("predict", model, new, "--format", "parquet")
    pd.testing.assert_frame_equal(pd.read_parquet(io.BytesIO(piped.stdout_bytes)), expected)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["new.parquet", "out.csv", "out.parquet"]


def test_the_id_is_kept_as_it_was_written(model, tmp_path):
    table = rows(4, 0)
    for row, name in zip(table, ["007", 'say "a", b', "", "é\n"], strict=True):
        row[0] = name
    found = run("predict", model, write(tmp_path / "a.csv", table), "--id", "flat")
    assert found.exit_code == 0
    kept = pd.read_csv(io.StringIO(found.stdout), dtype=str, keep_default_na=False)
    assert kept.columns[0] == "flat"
    assert kept["flat"].tolist() == ["007", 'say "a", b', "", "é\n"]
    plain = run("predict", model, write(tmp_path / "a.csv", rows(1, 0)), "--id", "flat").stdout
    assert '"' not in plain


def test_an_id_may_be_a_feature_too(model, new):
    assert frame_of(run("predict", model, new, "--id", "area")).columns[0] == "area"


def test_coverage_widens_the_interval(model, new):
    narrow, wide = (frame_of(run("predict", model, new, "--coverage", c)) for c in (0.5, 0.95))
    assert (wide["lower"] < narrow["lower"]).all()
    assert "--coverage" in refused(run("predict", model, new, "--coverage", 1))


def test_fast_predictions_are_nearly_the_same(model, new):
    exact, fast = frame_of(run("predict", model, new)), frame_of(run("predict", model, new, "--fast"))
    assert (exact["prediction"] != fast["prediction"]).any()
    np.testing.assert_allclose(fast["prediction"], exact["prediction"], atol=1e-3 * exact["prediction"].std())


def test_types_are_those_of_training_whatever_the_first_rows_look_like(model, monkeypatch, tmp_path):
    table = rows(30, 0)
    for row in table[:15]:  # a first piece in which every column is a number, or empty
        row[1:5] = ["", "7", "1", ""]
    path = write(tmp_path / "a.csv", table)
    whole = frame_of(run("predict", model, path))
    monkeypatch.setattr(formats, "ROWS", 5)
    monkeypatch.setattr(formats, "BLOCK", 120)
    np.testing.assert_allclose(frame_of(run("predict", model, path))["prediction"], whole["prediction"])


def test_parquet_keeps_all_rows_in_large_groups(classes, tmp_path, monkeypatch):
    monkeypatch.setattr("natpn.cli.writing.GROUP", 6000)
    path = write(tmp_path / "a.csv", rows(100, 0) * 100)
    assert run("predict", classes, path, "--id", "flat", "--out", tmp_path / "out.parquet").exit_code == 0
    found = pyarrow.parquet.ParquetFile(tmp_path / "out.parquet")
    assert found.metadata.num_row_groups == 2
    assert found.read()["flat"].to_pylist() == [f"f{i}" for i in range(100)] * 100
    for place, field in enumerate(found.schema_arrow):  # texts repeat, numbers hardly
        has_dictionary = found.metadata.row_group(0).column(place).has_dictionary_page
        assert has_dictionary == pyarrow.types.is_string(field.type) or field.name == "novel"


def test_spaces_around_categories_count_in_parquet_alone(tmp_path):
    table = pyarrow.table({"x": [" a", "b "] * 20, "y": [1.5, 2.5] * 20})
    pyarrow.parquet.write_table(table, tmp_path / "a.parquet")
    pyarrow.csv.write_csv(table, tmp_path / "a.csv")
    for name in ("a.parquet", "a.csv"):
        options = ["--target", "y", "--max-epochs", 1, "--out", tmp_path / "m"]
        assert run("fit", tmp_path / name, *options).exit_code == 0
        levels = natpn.load(tmp_path / "m").inputs_.table.columns[0].levels
        assert levels == ([" a", "b "] if name == "a.parquet" else ["a", "b"])
        frame = frame_of(run("predict", tmp_path / "m", tmp_path / name))
        assert frame["prediction"].nunique() == 2


def test_classes_get_a_column_each(classes, new):
    columns = run("predict", classes, new).stdout.splitlines()[0].split(",")
    assert columns[:4] == ["prediction", "p_harbour", "p_hills", "p_old town"]


@pytest.mark.parametrize(
    ("column", "value", "sentence"),
    [
        ("area", "large", "line 4998, column 'area': 'large' is not a finite number"),
        ("area", "1e999", "line 4998, column 'area': '1e999'"),
        ("lift", "perhaps", "line 4998, column 'lift': 'perhaps' is no truth value"),
        ("built", "yesterday", "line 4998, column 'built': 'yesterday' is not a date"),
    ],
)
def test_a_value_that_does_not_fit_has_a_line(column, value, sentence, model, tmp_path):
    table = rows(10, 0) * 500
    table[4996] = [*table[4996]]
    table[4996][COLUMNS.index(column)] = value
    path = write(tmp_path / "a.csv", table)
    assert sentence in refused(run("predict", model, path, "--out", tmp_path / "out.csv"))
    assert [p.name for p in tmp_path.iterdir()] == ["a.csv"]


def test_columns_that_do_not_match(model, tmp_path):
    table = rows(3, 0)
    renamed = write(tmp_path / "a.csv", table, ["flat", "Area", *COLUMNS[2:]])
    assert "lacks the column 'area' that the model was fitted on; did you mean 'Area'?" in refused(
        run("predict", model, renamed)
    )
    fewer = write(tmp_path / "b.csv", [row[:2] for row in table], COLUMNS[:2])
    assert "lacks the columns 'district', 'lift', 'built'" in refused(run("predict", model, fewer))
    more = write(tmp_path / "c.csv", [[*row, "1", "2"] for row in table], [*COLUMNS, "floor", "the view"])
    sentence = refused(run("predict", model, more))
    assert "'floor', 'the view'" in sentence
    assert "--drop floor --drop 'the view'" in sentence
    assert run("predict", model, more, "--drop", "floor", "--drop", "the view").exit_code == 0
    assert run("predict", model, more, "--drop", "floor", "--id", "the view").exit_code == 0
    assert "needs it" in refused(run("predict", model, write(tmp_path / "d.csv", table), "--drop", "area"))
    assert "has no such column; did you mean 'flat'?" in refused(
        run("predict", model, tmp_path / "d.csv", "--id", "flt")
    )


def test_models_that_are_none(model, new, tmp_path):
    assert "none: no model there; expected a directory with" in refused(run("predict", tmp_path / "none", new))
    for place in (tmp_path, new):
        assert f"{place}: no model there; expected a directory with" in refused(run("predict", place, new))
    assert refused(run("predict", "none", new)).endswith("; name a directory that natpn fit wrote.\n")
    for name in ("config.json", "model.safetensors"):
        content = (Path(model) / name).read_bytes()
        (tmp_path / name).write_bytes(content[: len(content) // 2])
    assert "cut short" in refused(run("predict", tmp_path, new))
    (tmp_path / "config.json").write_bytes((Path(model) / "config.json").read_bytes())
    assert "cut short" in refused(run("predict", tmp_path, new))


def test_places_that_cannot_be_written(model, new, tmp_path):
    assert "/dev/full: the disk is full" in refused(run("predict", model, new, "--out", "/dev/full"))
    assert "is a directory" in refused(run("predict", model, new, "--out", tmp_path))
    assert "no such file or directory" in refused(run("predict", model, new, "--out", tmp_path / "a" / "b.csv"))


def test_a_failure_leaves_the_old_file(model, new, tmp_path):
    out = tmp_path / "out.csv"
    old = run("predict", model, new, "--id", "flat").stdout
    out.write_text(old)
    bad = write(tmp_path / "a.csv", [*rows(3, 0), ["f", "large", "hills", "true", "2000-01-01", "1"]])
    refused(run("predict", model, bad, "--out", out))
    assert out.read_text() == old
    assert run("predict", model, new, "--out", out).exit_code == 0
    assert out.read_text().startswith("prediction")


def test_a_file_of_another_form(model, new, tmp_path):
    content = Path(new).read_text()
    expected = run("predict", model, new).stdout
    forms = {
        "semicolons": content.replace(",", ";").encode(),
        "tabs": content.replace(",", "\t").encode(),
        "Windows": b"\xef\xbb\xbf" + content.replace("\n", "\r\n").encode(),
        "empty lines": content.replace("\n", "\n\n").encode(),
        "no end": content.rstrip("\n").encode(),
        "spaces": content.replace(",", " , ").encode(),
    }
    for name, form in forms.items():
        (tmp_path / "a.csv").write_bytes(form)
        assert run("predict", model, tmp_path / "a.csv").stdout == expected, name
    assert "no rows" in refused(run("predict", model, "-", stdin=content.split("\n")[0].encode()))


def mangle(content: bytes, kind: str, at: int, junk: bytes) -> bytes:
    at %= len(content)
    return {
        "insert": content[:at] + junk + content[at:],
        "overwrite": content[:at] + junk + content[at + len(junk) :],
        "cut": content[:at],
        "behead": content[at:],
        "separators": content.replace(b",", junk[:1] or b";"),
        "quotes": content.replace(b",", b'","', at % 7) + b'"' * (at % 3),
        "huge": content[:at] + b"x" * 70_000 + content[at:],
        "NUL": content[:at] + b"\x00" + content[at:],
        "BOM": b"\xef\xbb\xbf" + content[at // 2 :],
        "UTF-16": content.decode("latin-1").encode("utf-16"),
        "CR": content.replace(b"\n", b"\r"),
        "CRLF": content.replace(b"\n", b"\r\n"),
        "empty lines": content.replace(b"\n", b"\n" * (1 + at % 3)),
        "latin-1": content.replace(b"hills", "hügel".encode("latin-1")),
        "junk": junk,
        "Parquet": b"PAR1" + junk,
    }[kind]


KINDS = [
    *("insert", "overwrite", "cut", "behead", "separators", "quotes", "huge", "NUL", "BOM", "UTF-16", "CR", "CRLF"),
    *("empty lines", "latin-1", "junk", "Parquet"),
]


@pytest.mark.slow
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=120)
@given(
    kind=st.sampled_from(KINDS), at=st.integers(0, 5000), junk=st.binary(min_size=1, max_size=40), piped=st.booleans()
)
def test_mangled_files_never_end_in_a_traceback(kind, at, junk, piped, model, new, tmp_path):
    content = mangle(Path(new).read_bytes(), kind, at, junk)
    (tmp_path / "a.csv").write_bytes(content)
    out = tmp_path / "out.csv"
    out.unlink(missing_ok=True)
    result = run("predict", model, "-" if piped else tmp_path / "a.csv", "--out", out, stdin=content if piped else None)
    if result.exit_code == 0:
        assert out.exists()
    else:
        refused(result)
        assert [p.name for p in tmp_path.iterdir()] == ["a.csv"]
