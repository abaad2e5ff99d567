"""`natpn explain`: files in, reasons out, by the rules of `natpn predict`."""

import io

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest

import natpn
from cli.conftest import refused, rows, run, write

TOLD = ["surprise", "column", "value", "familiar", "reason"]


@pytest.fixture
def strange(tmp_path):
    """Some flats, the last with a district that training never had, and one that is far too large."""
    table = rows(6, 3)
    table[4][1], table[5][2] = "5000", "atlantis"
    return write(tmp_path / "new.csv", table)


def test_reasons_are_those_of_the_model(model, strange, tmp_path):
    assert run("explain", model, strange, "--id", "flat", "--out", tmp_path / "out.csv").exit_code == 0
    found = pd.read_csv(tmp_path / "out.csv", keep_default_na=False)
    table = pd.read_csv(strange, parse_dates=["built"]).drop(columns=["flat", "rent"])
    expected = natpn.load(model).explain(table)
    assert list(found) == ["flat", *expected]
    assert list(expected)[:5] == TOLD
    np.testing.assert_allclose(found["surprise"], expected["surprise"])
    assert found["reason"].tolist()[4:] == expected["reason"].tolist()[4:]
    assert found["reason"][4].startswith("area 5000 is beyond ")
    assert found["reason"][5] == "district atlantis was never seen in training"


def test_some_columns_and_parquet(model, strange, tmp_path):
    out = tmp_path / "out.parquet"
    for _ in range(2):  # the second replaces what the first wrote
        assert run("explain", model, strange, "--columns", "reason,adds_area", "--out", out).exit_code == 0
    assert pq.read_schema(out).names == ["reason", "adds_area"]
    assert "did you mean" in refused(run("explain", model, strange, "--columns", "raeson")).lower()


def test_many_files_have_one_output_each(model, strange, tmp_path):
    folder = tmp_path / "in"
    folder.mkdir()
    frame = pd.read_csv(strange)
    frame.to_parquet(folder / "a.parquet")
    frame[:0].to_parquet(folder / "b.parquet")
    told = run("explain", model, folder, "--out", tmp_path / "out")
    assert told.exit_code == 0, told.output
    assert "explained into" in told.stdout
    assert pq.read_table(tmp_path / "out" / "b.parquet").num_rows == 0
    assert pq.read_table(tmp_path / "out" / "a.parquet")["reason"][5].as_py().startswith("district atlantis")
    again = run("explain", model, folder, "--out", tmp_path / "out")
    assert "2 files had been done before" in again.stdout


def test_only_what_is_ours_is_replaced(model, strange, tmp_path):
    mine = tmp_path / "mine.csv"
    mine.write_text("flat,value\n1,2\n")
    assert "is not a file of explanations that natpn wrote" in refused(run("explain", model, strange, "--out", mine))
    assert mine.read_text() == "flat,value\n1,2\n"


def test_predictions_of_an_earlier_version_are_replaced(model, strange, tmp_path):
    """They had no column `reason`."""
    old = tmp_path / "old.csv"
    frame = pd.read_csv(io.StringIO(run("predict", model, strange).stdout)).drop(columns=["reason"])
    frame.to_csv(old, index=False)
    assert run("predict", model, strange, "--out", old).exit_code == 0
    assert list(pd.read_csv(old))[-1] == "reason"


def test_a_formula_stays_a_text(model, tmp_path):
    table = rows(2, 3)
    table[0][2] = "=HYPERLINK(1)"
    said = run("explain", model, write(tmp_path / "new.csv", table), "--columns", "value,reason").stdout
    assert "'=HYPERLINK(1)" in said
    assert "\n=HYPERLINK" not in said
