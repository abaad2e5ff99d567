"""What every kind of column states of itself agrees with what it does."""

import datetime
import json

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
import torch

from natpn.tabular import KINDS, TableTransform, read_table
from natpn.tabular.column_kinds import column_type
from natpn.tabular.moments import Standardiser
from tabular.tables import frames, mixed

TABLE = mixed() | {"nothing": [None] * 60, "zoned": [f"2024-0{1 + i % 9}-01T00:00:00Z" for i in range(60)]}
FRAME = frames(TABLE)["pandas"].assign(zoned=lambda frame: pd.to_datetime(frame["zoned"]))
COLUMNS = TableTransform().fit(FRAME).columns
JSON = {"string": str, "number": (int, float), "boolean": bool, "null": type(None)}

every = pytest.mark.parametrize("column", COLUMNS, ids=lambda column: column.name)


def test_every_kind_is_here():
    assert {column.kind for column in COLUMNS} == set(KINDS)
    assert all(name == kind.kind for name, kind in KINDS.items())
    with pytest.raises(ValueError, match="'clock'; known are 'number', 'boolean'"):
        column_type("clock")


@every
def test_the_usual_value_fits_its_schema_and_can_be_sent(column):
    assert "null" in column.schema["type"]
    usual = column.usual
    assert isinstance(usual, tuple(JSON[name] for name in column.schema["type"]))
    assert (usual is None) == (column.kind == "empty")
    if usual is not None:
        value = column.read_text(usual) if isinstance(usual, str) else column.read_json(usual)
        (cells,) = read_table(pd.DataFrame({column.name: pd.Series([value], dtype=object)})).columns()
        assert column.oddness(cells)[0] < 2
    with pytest.raises(ValueError, match=r"expected .*, got list\. Write"):
        column.read_json([1])


@every
def test_values_are_written_for_json_so_that_they_can_be_sent_back(column):
    (cells,) = read_table(FRAME[[column.name]]).columns()
    written = column.as_json(cells)
    assert len(written) == len(FRAME)
    assert json.loads(json.dumps(written)) == written
    back = [column.read_text(v) if isinstance(v, str) else v if v is None else column.read_json(v) for v in written]
    (again,) = read_table(pd.DataFrame({column.name: pd.Series(back, dtype=object)})).columns()
    assert column.oddness(again) == pytest.approx(column.oddness(cells), abs=1e-3)


@pytest.mark.parametrize(
    ("name", "values", "apart"),
    [
        ("built", [1900, 1950, 2015], False),
        ("yr_renovated", [0, 1950, 2015], False),
        ("yearID", [1871, 2020], False),
        ("zipcode", [98001, 98199], False),
        ("price", [75_000, 7_700_000], True),
        ("income_per_year", [0, 90_000], True),
        ("area", [1900.5, 2015.0], True),
    ],
)
def test_thousands_are_set_apart_unless_numbers_are_years_or_codes(name, values, apart):
    (column,) = TableTransform().fit(pd.DataFrame({name: values})).columns
    assert column.thousands is apart
    assert column.described["thousands"] is apart


@every
def test_types_of_arrow_hold_the_values_that_texts_stand_for(column):
    function, *arguments = column.arrow
    kind = getattr(pa, function)(*arguments)
    assert pa.array([None], kind).null_count == 1
    text = str(column.usual) if column.usual is not None else "x"
    value = column.read_text(text)
    assert column.arrow_of([value]) == column.arrow
    assert pa.array([value], kind).to_pylist() == [value]
    assert column.read_text("") is None


@every
def test_bounds_and_arithmetic_are_those_of_its_numbers_and_flags(column):
    assert set(column.bounds) <= set(range(column.n_numbers))
    arithmetic = column.arithmetic
    if arithmetic is not None:
        assert len(arithmetic.numbers) == column.n_numbers
        assert len(arithmetic.flags) == (column.n_flags if arithmetic.codes is None else 0)
        if arithmetic.codes is not None:
            assert arithmetic.codes.flags.shape == (len(arithmetic.codes.events), column.n_flags)


@every
def test_arithmetic_is_how_it_encodes(column):
    """By the value itself, by parts of it, or by the code of a text."""
    arithmetic, rows = column.arithmetic, 4
    x = np.array([np.nan, 0.0, 1.0, getattr(column, "minimum", 0.0)])
    numbers, flags = (np.zeros((rows, n), np.float32) for n in (column.n_numbers, column.n_flags))
    if arithmetic.codes is not None:
        texts = [None, "Rome", "Oslo", "Atlantis"]
        (cells,) = read_table(pd.DataFrame({column.name: texts})).columns()
        event = column.encode(cells, numbers, flags)
        places = [arithmetic.codes.of.get(text or "", arithmetic.codes.otherwise) for text in texts]
        assert np.array_equal(flags, arithmetic.codes.flags[places])
        assert np.array_equal(event, arithmetic.codes.events[places])
        return
    if arithmetic.parts is not None:
        instants = pd.Series(pd.to_datetime(x, unit="s"))
        frame = pd.DataFrame({column.name: instants if column.zone is None else instants.dt.tz_localize("UTC")})
        (cells,) = read_table(frame).columns()
        values = [part.numpy() for part in arithmetic.parts(torch.from_numpy(x))]
    else:
        (cells,) = read_table(x[:, None]).columns()
        values = [x] * column.n_numbers
    event = column.encode(cells, numbers, flags)
    for place, (moments, value) in enumerate(zip(arithmetic.numbers, values, strict=True)):
        expected = Standardiser([moments])(value[:, None], np.isnan(value)[:, None])[:, 0]
        assert numbers[:, place] == pytest.approx(expected, rel=1e-6, abs=1e-9)
    for place, (missing, one, otherwise) in enumerate(arithmetic.flags):
        assert flags[:3, place] == pytest.approx([missing, otherwise, one], rel=1e-6)
    changed = np.abs(x - arithmetic.constant) > arithmetic.tolerance
    assert np.array_equal(
        np.zeros(4, bool) if event is None else event < 0, changed | (np.isnan(x) & (not column.missing))
    )


def test_all_truth_values_are_numbers_too_but_a_text_among_them_is_named_by_what_it_is_beside():
    for values, words in [
        ([True] * 20 + ["x"], "truth values and texts"),
        ([True] * 20 + ["1"], "truth values and texts"),
        ([True] * 3 + ["1"], "numbers and texts"),
        ([True, 2] * 20 + ["x"], "numbers and texts"),
        ([datetime.date(2024, 1, 1)] * 20 + ["x"], "dates and texts"),
    ]:
        with pytest.raises(ValueError, match=f"the column holds {words}"):
            TableTransform().fit(pd.DataFrame({"c": pd.Series(values, dtype=object)}))
