"""No column changes its kind in silence, and every type of column is read or refused by name."""

import datetime
import decimal
import time

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet
import pytest

import natpn
from cli.conftest import refused, run, write
from natpn.cli.reading import Reading
from natpn.cli.training_rows import read_training
from natpn.tabular import TableTransform
from natpn.tabular.column_kinds import kind_of_texts
from natpn.tabular.texts import number_of_text

N = 100
DAYS = [f"20{i // 4:02}-0{1 + i % 9}-1{i % 10}" for i in range(N)]
PLAIN = [f"{i}.5" for i in range(N)]


def column_of(cells, tmp_path, *arguments):
    """Fit one column of a CSV file, and return it as the model knows it, or the sentence of the refusal."""
    path = write(tmp_path / "a.csv", [[cell, f"{i}.25"] for i, cell in enumerate(cells)], ["x", "y"])
    result = run("fit", path, "--target", "y", "--max-epochs", 1, "--out", tmp_path / "m", *arguments)
    if result.exit_code:
        return refused(result)
    return natpn.load(tmp_path / "m").inputs_.table.columns[0], result


BAD = {
    "an impossible date": (DAYS, {57: "2023-02-30"}, "date"),
    "dashes for numbers": (PLAIN, dict.fromkeys(range(3, N, 8), "-"), "number"),
    "question marks for dates": (DAYS, dict.fromkeys(range(3, N, 4), "?"), "date"),
    "a name among numbers": (PLAIN, {57: "large"}, "number"),
    "errors of a spreadsheet": (PLAIN, dict.fromkeys(range(3, N, 3), "#DIV/0!"), "number"),
    "another truth": (["true", "False"] * (N // 2), {57: "perhaps"}, "boolean"),
    "a time zone": (DAYS, {57: "2023-02-03T10:00:00Z"}, "date"),
    "a number beyond float64": (PLAIN, {57: "1e999"}, "number"),
}


@pytest.mark.parametrize("case", BAD)
def test_a_bad_cell_is_refused_or_counted_as_missing(case, tmp_path):
    cells, wrong, kind = BAD[case]
    cells = [wrong.get(i, cell) for i, cell in enumerate(cells)]
    first = min(wrong)
    sentence = column_of(cells, tmp_path)
    assert f"line {first + 2}, column 'x': {wrong[first]!r}" in sentence
    for cure in ("correct it", "leave it empty", "--bad-cells missing", "--category x"):
        assert cure in sentence
    column, result = column_of(cells, tmp_path, "--bad-cells", "missing")
    assert column.kind == kind
    assert column.missing == pytest.approx(len(wrong) / N, abs=0.05)
    plural = "cell that is" if len(wrong) == 1 else "cells that are"
    assert f"note: column 'x': {len(wrong)} {plural} not of its kind" in result.stderr
    assert column_of(cells, tmp_path, "--category", "x")[0].kind == "category"


def test_bad_cells_of_new_rows(tmp_path):
    column_of(PLAIN, tmp_path)
    path = write(tmp_path / "b.csv", [["-", "1"], ["2", "2"], ["2", "?"]], ["x", "y"])
    assert "say --bad-cells missing" in refused(run("predict", tmp_path / "m", path))
    result = run("predict", tmp_path / "m", path, "--bad-cells", "missing")
    assert result.exit_code == 0
    assert result.stderr == "note: column 'x': 1 cell that is not of its kind is counted as missing, as '-'\n"
    scored = run("evaluate", tmp_path / "m", path, "--bad-cells", "missing")
    assert scored.exit_code == 0, scored.output
    assert "1 of 3 rows have no 'y'" in scored.stderr


def test_texts_stay_categories():
    assert kind_of_texts({"12": 80, "12a": 20}) == ("category", [])
    assert kind_of_texts({"NA": 3, "": 2}) == ("empty", [])
    assert kind_of_texts({"-": 3}) == ("category", [])
    assert kind_of_texts({"0": 3, "1": 2, "NA": 7}) == ("number", [])
    assert kind_of_texts({"true": 3, "0": 2}) == ("boolean", [])
    assert kind_of_texts({"yes": 3, "no": 2, "-": 1}) == ("category", [])


@pytest.mark.parametrize("texts", [["9,171", "12,000"], ["9,171", "88"], ["1 234", "1 235"], ["1.234.567", "2"]])
def test_thousands_are_never_taken_for_decimals(texts, tmp_path):
    sentence = column_of(texts * 20, tmp_path)
    assert "thousands" in sentence
    assert "9.171" not in sentence
    with pytest.raises(ValueError, match="thousands") as caught:
        number_of_text("9,171")
    assert "9.171" not in str(caught.value)
    frame = pd.DataFrame({"x": ["9,171"] + ["12"] * 20})
    with pytest.raises(ValueError, match="thousands") as caught:
        TableTransform().fit(frame)
    assert "9.171" not in str(caught.value)


def test_sure_decimal_commas_are_told_how_to_write(tmp_path):
    sentence = column_of(["9,171", "9,17"] * 20, tmp_path)
    assert "line 3, column 'x': '9,17' has a decimal comma; write 9.17" in sentence


# Data frames.


@pytest.mark.parametrize(
    ("values", "row"),
    [
        ([*PLAIN[:-1], "-"], N - 1),
        (["?" if i % 8 == 3 else text for i, text in enumerate(PLAIN)], 3),
        ([1.5] * 99 + ["-"], 99),
        ([1, "2"] * 20, 1),
        ([pd.Timestamp("2020-01-01")] * 30 + ["2020-02-30"], 30),
        ([True, False] * 20 + ["perhaps"], 40),
    ],
)
@pytest.mark.parametrize("library", [pd.DataFrame, lambda table: np.array(table["x"], dtype=object)[:, None]])
def test_objects_that_are_nearly_of_one_kind_are_refused(values, row, library):
    table = library({"x": np.array(values, dtype=object)})
    with pytest.raises(ValueError, match=rf"Column 'x0?', row {row}: .*make it missing.*astype\('category'\)"):
        TableTransform().fit(table)


def test_what_a_frame_says_is_believed():
    def kind(values):
        return TableTransform().fit(pd.DataFrame({"x": values})).columns[0].kind

    assert kind(pd.Categorical([*PLAIN[:-1], "-"])) == "category"
    assert kind(np.array([1.5, "NA", 2.5, None], dtype=object)) == "number"
    assert kind(np.array(["12", "13"] * 9, dtype=object)) == "category"
    assert kind(np.array(["a", 1, 2] * 9, dtype=object)) == "category"


@pytest.mark.parametrize(("texts", "cure"), [(PLAIN, "pandas.to_numeric"), (DAYS, "pandas.to_datetime")])
def test_many_texts_that_are_numbers_or_dates_warn(texts, cure):
    with pytest.warns(UserWarning, match=f"Column 'x' holds texts that are .* {cure}"):
        TableTransform().fit(pd.DataFrame({"x": texts}))


def test_texts_of_parquet_that_are_nearly_numbers(tmp_path):
    table = pa.table({"x": [*PLAIN[:-1], "-"], "z": PLAIN, "y": np.arange(N) / 4})
    pyarrow.parquet.write_table(table, tmp_path / "a.parquet")
    options = ["fit", tmp_path / "a.parquet", "--target", "y", "--max-epochs", 1, "--out", tmp_path / "m"]
    assert f"row {N}, column 'x': '-' is not a finite number" in refused(run(*options))
    result = run(*options, "--bad-cells", "missing")
    assert result.exit_code == 0, result.output
    kinds = [column.kind for column in natpn.load(tmp_path / "m").inputs_.table.columns]
    assert kinds == ["number", "category"]  # z is one of texts, as its type says


# What a fit prints.


def test_a_fit_prints_the_kind_of_each_column(tmp_path):
    header = ["area", "city", "lift", "built", "nothing", *(f"n{i}" for i in range(20)), "y"]
    rows = []
    for i in range(N):
        rows.append([PLAIN[i] if i % 4 else "NA", "abc"[i % 3], ["true", "false"][i % 2], DAYS[i], "", *PLAIN[:20]])
        rows[-1] = [*rows[-1], f"{i}.25"]
    result = run(
        "fit", write(tmp_path / "a.csv", rows, header), "--target", "y", "--max-epochs", 1, "--out", tmp_path / "m"
    )
    lines = [" ".join(line.split()) for line in result.stdout.splitlines()]
    assert any(line.startswith("area number ") and line.endswith(" 25 % missing") for line in lines)
    assert "city category 3 values: a, b, c" in lines
    assert "lift truth value 50 % true" in lines
    assert any(line.startswith(f"built date {DAYS[0]} to ") for line in lines)
    assert "nothing empty no value" in lines
    assert any(line.startswith("n19 number ") for line in lines)


# Types of columns.

HOURS = [datetime.datetime(2000, 1, 1) + datetime.timedelta(hours=i) for i in range(40)]
ENDS = [datetime.datetime(1, 1, 1), datetime.datetime(9999, 12, 31, 23, 59, 59)] * 20
TYPES = {
    "string_view": (pa.array(["a", "b"] * 20, pa.string_view()), "category"),
    "large_string": (pa.array(["a", "b"] * 20, pa.large_string()), "category"),
    "binary": (pa.array([b"a", b"b"] * 20), None),
    "binary_view": (pa.array([b"a", b"b"] * 20, pa.binary_view()), None),
    "large_binary": (pa.array([b"a", b"b"] * 20, pa.large_binary()), None),
    "list": (pa.array([[1], [2]] * 20), None),
    "struct": (pa.array([{"a": 1}, {"a": 2}] * 20), None),
    "decimal": (pa.array([decimal.Decimal(i) for i in range(40)]), "number"),
    "time": (pa.array([moment.time() for moment in HOURS]), "number"),
    "duration": (pa.array([moment - HOURS[0] for moment in HOURS]), "number"),
    "the ends of the calendar": (pa.array([moment.date() for moment in ENDS]), "date"),
    "its last seconds": (pa.array(ENDS, pa.timestamp("us")), "date"),
    "its last seconds in UTC": (pa.array(ENDS, pa.timestamp("us", "UTC")), "date"),
    "large whole numbers with gaps": (pa.array([2**60 + i if i % 3 else None for i in range(40)]), "number"),
}


@pytest.mark.parametrize("name", TYPES)
def test_types_of_parquet(name, tmp_path):
    values, kind = TYPES[name]
    pyarrow.parquet.write_table(pa.table({"x": values, "y": np.arange(40) / 4}), tmp_path / "a.parquet")
    result = run("fit", tmp_path / "a.parquet", "--target", "y", "--max-epochs", 1, "--out", tmp_path / "m")
    if kind is None:
        assert f"column 'x' holds {str(values.type)[:4]}" in refused(result)
        return
    assert result.exit_code == 0, result.output
    assert natpn.load(tmp_path / "m").inputs_.table.columns[0].kind == kind
    assert run("predict", tmp_path / "m", tmp_path / "a.parquet").exit_code == 0


@pytest.mark.parametrize("zone", ["", "Z", "-12:00"])
def test_the_ends_of_the_calendar_in_a_csv_file(zone, tmp_path):
    column, _ = column_of([f"{moment.isoformat()}{zone}" for moment in ENDS], tmp_path)
    assert column.kind == "date"
    assert run("predict", tmp_path / "m", tmp_path / "a.csv").exit_code == 0


def test_integers_of_128_bits():
    for values in ([1, 2, 3], [1, None, 3], [2**100, 1, -5]):
        transform = TableTransform().fit(pl.DataFrame({"x": pl.Series(values, dtype=pl.Int128)}))
        assert transform.columns[0].kind == "number"
        assert transform.columns[0].maximum == float(max(v for v in values if v))


# Wide tables. The bounds are on the time of this process, and several times what is needed.


def test_many_columns_are_encoded_in_proportion_to_their_number():
    rng = np.random.default_rng(0)
    frame = pa.table({f"c{i}": rng.normal(size=30) for i in range(3000)})
    start = time.process_time()
    result = TableTransform().fit(frame).transform(frame)
    assert time.process_time() - start < 12  # 2 s; 40 s when each column was looked for among all
    assert result.shape == (30, 3001)


def test_many_columns_of_a_file_are_read_in_proportion_to_their_number(tmp_path):
    header = [f"c{i}" for i in range(20_000)]
    path = write(tmp_path / "a.csv", [["1.5"] * 20_000, ["2.5"] * 20_000], header)
    start = time.process_time()
    _, X, _ = read_training(path, Reading(), "c0")
    assert X.num_columns == 19_999
    assert time.process_time() - start < 7  # 2 s; 10 s when each name was counted among all


def test_components_of_few_wide_rows_are_those_of_the_columns():
    import torch

    from natpn.network import PrincipalComponents

    rows = torch.randn(12, 60, generator=torch.Generator().manual_seed(0)) * torch.linspace(0.5, 1.5, 60)
    found = PrincipalComponents(60, 16).fit(rows).components
    centred = (rows - rows.mean(0)).double()
    _, vectors = torch.linalg.eigh(centred.T @ centred)
    expected = vectors.flip(-1)[:, :11]
    overlap = (expected * found[:, :11].double()).sum(0).abs()
    torch.testing.assert_close(overlap, torch.ones(11, dtype=torch.float64), rtol=1e-5, atol=1e-5)
    assert not found[:, 11:].any()
