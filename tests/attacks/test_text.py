"""The same text is read the same way by the command line, by the server and in a data frame."""

import csv
import io
import json
import math
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

import natpn
from cli.conftest import refused, run, write
from natpn.cli.cell_texts import convert
from natpn.cli.model_files import SavedModel, prepare_batch
from natpn.cli.reading import Reading, opened
from natpn.cli.training_rows import read_training
from natpn.cli.writing import Problem
from natpn.serve import create_app
from natpn.serve.request_rows import RequestError
from natpn.serve.table_rows import TableReader
from natpn.tabular import TableTransform
from serve.serving import client_of

COLUMNS = ["area", "country", "lift", "built", "seen", "nothing"]
KINDS = ["number", "category", "boolean", "date", "date", "empty"]
USUAL = ["80", "DE", "true", "1999-05-01", "2024-05-01T12:00:00Z", ""]


def training(n: int = 60) -> list[list[str]]:
    """Rows in which NA is a country, and a missing number, truth value and date."""
    cells = []
    for i in range(n):
        row = [f"{30 + i}.5", ["DE", "NA", "CD"][i % 3], ["true", "FALSE"][i % 2], f"19{50 + i % 50}-05-01"]
        row += [f"2024-05-{1 + i % 28:02}T10:00:00+02:00", ["", "NA"][i % 2], f"{100 + 3 * i}.25"]
        if i % 10 == 4:
            row[0] = row[2] = row[3] = ["NA", "null", "n/a"][i % 3]
        cells.append(row)
    return cells


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    return write(tmp_path_factory.mktemp("text") / "train.csv", training(), [*COLUMNS, "rent"])


@pytest.fixture(scope="module")
def saved(file):
    """What the command line makes of the file, without a network."""
    _, X, _ = read_training(file, Reading(), "rent")
    transform = TableTransform().fit(X)
    model = SimpleNamespace(columns=transform.columns)
    return SavedModel("model", SimpleNamespace(inputs_=SimpleNamespace(table=transform), model_=model), "rent")


def by_command_line(saved, row, place):
    path = place / "row.csv"
    with path.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file, lineterminator="\n", quoting=csv.QUOTE_ALL).writerows([COLUMNS, row])
    with opened(str(path)) as source:
        first, batch = next(iter(source.batches(COLUMNS)))
        table = prepare_batch(saved, COLUMNS, batch, source, first)
    return saved.table.transform(table)


def by_json(saved, row):
    body = json.dumps(dict(zip(COLUMNS, row, strict=True))).encode()
    rows, _ = TableReader(saved.table.columns, 10).json(body)
    return saved.table.transform(np.array(rows, dtype=object))


def by_csv_request(saved, row):
    text = io.StringIO(newline="")
    csv.writer(text).writerows([COLUMNS, row])
    rows = TableReader(saved.table.columns, 10).csv(text.getvalue().encode()).rows
    return saved.table.transform(np.array(rows, dtype=object))


def by_frame(saved, row):
    frame = pd.DataFrame([row], columns=COLUMNS, dtype=object)
    return saved.table.transform(frame)


def found(call, *arguments):
    try:
        return call(*arguments).tolist()
    except (Problem, RequestError, ValueError):
        return "error"


def test_training_reads_marks_by_the_kind_of_column(saved):
    assert [column.kind for column in saved.table.columns] == KINDS
    area, country, lift, built, _, _ = saved.table.columns
    assert sorted(country.levels) == ["CD", "DE", "NA"]
    assert country.missing == 0
    assert area.missing == lift.missing == built.missing == pytest.approx(0.1)


MARKS = ["", " ", "NA", " NA ", "na", "NaN", "nan", "null", "NULL", "None", "n/a", "N/A", "#N/A", "<NA>", "NaT"]
NUMBERS = ["80", " 80\t", "+80", "8e1", "80.", ".5", "-0", "1e-999", "007"]
NO_NUMBERS = [
    "1_000",
    "1,000",
    "9,171",
    "0x10",
    "1e999",
    "inf",
    "-Infinity",
    "١٢",
    "８０",
    "1 000",
    "12%",
    "--1",
    "1e",
    "-",
]
ODD = ["true", "True ", "FALSE", "0", "1", "yes", "2024-12-31", "2024-02-30", "9999-12-31", "0001-01-01", "20241231"]
ODD += [
    "2024-12-31T23:59:00+01:00",
    "2024-12-31 10:00",
    "0000-01-01",
    "DE",
    "DE ",
    "de",
    "\u00a0DE",
    "x\u2028y",
    "\x1f80",
]


@pytest.mark.parametrize("text", MARKS + NUMBERS + NO_NUMBERS + ODD)
@pytest.mark.parametrize("place", range(len(COLUMNS)), ids=COLUMNS)
def test_known_texts_are_the_same_everywhere(text, place, saved, tmp_path):
    row = [*USUAL]
    row[place] = text
    expected = found(by_command_line, saved, row, tmp_path)
    assert found(by_json, saved, row) == expected
    assert found(by_csv_request, saved, row) == expected
    assert found(by_frame, saved, row) == expected


@pytest.mark.parametrize("text", NO_NUMBERS)
def test_what_is_no_number_is_refused_and_what_is_missing_is_missing(text, saved):
    column = saved.table.columns[0]
    with pytest.raises(ValueError, match="is not a finite number"):
        column.read_text(text)
    assert [column.read_text(mark) for mark in MARKS] == [None] * len(MARKS)
    assert [column.read_text(number) for number in NUMBERS] == [80, 80, 80, 80, 80, 0.5, 0, 0, 7]


def test_a_mark_is_a_category_only_if_training_had_it():
    frame = pd.DataFrame({"c": ["DE", "FR", None] * 10})
    column = TableTransform().fit(frame).columns[0]
    assert column.read_text("NA") is None
    namibia = TableTransform().fit(pd.DataFrame({"c": ["DE", "NA"] * 10})).columns[0]
    assert namibia.read_text(" NA") == "NA"
    assert namibia.read_text("null") is None
    spaces = TableTransform().fit(pd.DataFrame({"c": [" a", "b"] * 10})).columns[0]
    assert (spaces.read_text(" a"), spaces.read_text("b "), spaces.read_text("a")) == (" a", "b", "a")


texts = st.one_of(
    st.sampled_from(MARKS + NUMBERS + NO_NUMBERS + ODD),
    st.floats(allow_nan=True, allow_infinity=True).map(str),
    st.integers().map(str),
    st.dates().map(str),
    st.datetimes().map(lambda moment: moment.isoformat()),
    st.from_regex(r"\A[ \t]?[+-]?[0-9_,. ]{1,8}([eE][+-]?[0-9]{1,3})?[ ]?\Z"),
    st.text(alphabet="0123456789.,eE+-_ nNaAul/xX:TZ١８\u00a0\u2003\ufeff", max_size=8),
    st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=6),
)


@pytest.mark.slow
@settings(max_examples=400, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(text=texts, place=st.integers(0, len(COLUMNS) - 1))
@example(text="\r", place=1)
def test_any_text_is_the_same_everywhere(text, place, saved, tmp_path):
    row = [*USUAL]
    row[place] = text
    expected = found(by_command_line, saved, row, tmp_path)
    assert found(by_json, saved, row) == expected
    assert found(by_csv_request, saved, row) == expected
    assert found(by_frame, saved, row) == expected


@settings(max_examples=150, deadline=None)
@given(cells=st.lists(texts, min_size=2, max_size=6))
def test_a_text_does_not_depend_on_its_neighbours(cells, saved, file):
    """The quick way for whole columns of plain numbers gives what the slow one does."""
    column = saved.table.columns[0]
    alone = [found(lambda t=t: pa.array([column.read_text(t)], pa.float64())) for t in cells]
    with opened(file) as source:
        together = found(lambda: convert(pa.array(cells), column, "area", source))
    assert together == ("error" if "error" in alone else [value for one in alone for value in one])
    with opened(file, Reading(bad_are_missing=True)) as source:
        missing = convert(pa.array(cells), column, "area", source).to_pylist()
    assert missing == [None if one == "error" else one[0] for one in alone]


def test_a_served_model_answers_as_the_command_line_does(file, tmp_path):
    assert run("fit", file, "--target", "rent", "--max-epochs", 1, "--out", tmp_path / "m").exit_code == 0
    rows = [USUAL, ["NA", "NA", "null", "n/a", "", "NA"], [" 80 ", "DE ", "TRUE", " 1999-05-01", USUAL[4], "new"]]
    path = write(tmp_path / "new.csv", rows, COLUMNS)
    told = run("predict", tmp_path / "m", path)
    assert told.exit_code == 0, told.output
    expected = [float(line.split(",")[0]) for line in told.stdout.splitlines()[1:]]
    assert all(map(math.isfinite, expected))
    with client_of(create_app(natpn.load(tmp_path / "m"))) as client:
        body = {"rows": [dict(zip(COLUMNS, row, strict=True)) for row in rows]}
        by_json = client.post("/predict", json=body).json()["rows"]
        text = (tmp_path / "new.csv").read_text()
        by_csv = client.post("/predict", content=text, headers={"content-type": "text/csv"}).json()["rows"]
        wrong = client.post("/predict", json=dict(zip(COLUMNS, ["1_000", *USUAL[1:]], strict=True)))
    assert [row["prediction"] for row in by_json] == pytest.approx(expected, rel=1e-6)
    assert by_csv == by_json
    assert "'1_000' is not a finite number" in wrong.json()["error"]
    path = write(tmp_path / "bad.csv", [["1_000", *USUAL[1:]]], COLUMNS)
    assert "line 2, column 'area': '1_000' is not a finite number" in refused(run("predict", tmp_path / "m", path))
