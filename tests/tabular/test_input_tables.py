"""What may be a table, what is said of what may not, and how columns are matched: by name, else by position."""

import pickle

import narwhals.stable.v1 as nw
import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse

from natpn.tabular import ColumnsError, TableTransform, read_table
from tabular.tables import frames, mixed

FRAME = pd.DataFrame({"age": [1.0, 2.0, 4.0], "city": ["a", "b", "a"], "income": [3.0, 1.0, 2.0]})
FITTED = TableTransform().fit(FRAME)


@pytest.mark.parametrize(
    ("X", "message"),
    [
        (scipy.sparse.csr_matrix(np.eye(2)), r"sparse matrix, but dense data is required. Use X.toarray\(\)"),
        (scipy.sparse.coo_array(np.eye(2)), "sparse"),
        (np.ones(3), r"Expected 2D array, got 1D array instead: X has shape \(3,\).*Reshape your data"),
        ([1, 2, 3], "Reshape your data"),
        (pd.Series([1.0]), "Reshape your data"),
        (pl.Series([1.0]), "Reshape your data"),
        (np.ones((2, 2, 2)), "got 3D array"),
        (5.0, "got 0D array"),
        (np.ones((0, 3)), r"Found array with 0 sample\(s\) \(shape=\(0, 3\)\) while a minimum of 1 is required"),
        (np.ones((3, 0)), r"0 feature\(s\) \(shape=\(3, 0\)\) while a minimum of 1 is required"),
        (pl.DataFrame({"a": []}), r"0 sample\(s\)"),
        (pd.DataFrame(), r"0 feature\(s\)"),
        (np.ones((2, 2), complex), "Complex data not supported"),
        ([{"a": 1}, {"a": 2}], r"dicts for rows.*pandas.DataFrame\(X\)"),
        ({"a": [1]}, "is a dict, or has dicts for rows"),
        ([[1, 2], [3]], "rows of different lengths: 1 and 2"),
        (pl.LazyFrame({"a": [1]}), r"lazy frame.*X.collect\(\)"),
        (pd.DataFrame(np.ones((2, 2)), columns=["a", "a"]), "columns of the same name"),
        (pd.DataFrame(np.ones((2, 2)), columns=["a", 1]), "column names that are texts and others such as 1"),
        (np.zeros(2, [("a", float)])[:, None], "has the dtype"),
    ],
)
def test_what_is_no_table(X, message):
    with pytest.raises(ValueError, match=message):
        TableTransform().fit(X)


def test_names():
    assert read_table(np.ones((2, 2))).names is None
    assert read_table(pd.DataFrame(np.ones((2, 2)))).names is None
    assert read_table(pd.DataFrame({"a": [1], "b": [2]})).names == ["a", "b"]
    assert TableTransform().fit(np.ones((2, 2))).feature_names == ["x0", "x1"]


def test_frames_with_numbered_columns_are_like_arrays():
    array = np.arange(6.0).reshape(3, 2)
    transform = TableTransform().fit(pd.DataFrame(array))
    assert not transform.named
    np.testing.assert_array_equal(transform.transform(pd.DataFrame(array)), transform.transform(array))


def test_what_is_like_an_array():
    class Wrapped:
        def __array__(self, dtype=None, copy=None):
            return np.arange(6.0).reshape(3, 2)

    expected = TableTransform().fit(np.arange(6.0).reshape(3, 2)).columns
    for X in (Wrapped(), [[0, 1], [2, 3], [4, 5]], [np.array([0.0, 1]), np.array([2, 3]), np.array([4, 5])]):
        assert TableTransform().fit(X).columns == expected
    assert TableTransform().fit(((0, 1), (2, 3), (4, 5))).columns == expected


def test_masked_values_are_missing():
    X = np.ma.masked_array(np.arange(6.0).reshape(3, 2), mask=[[0, 0], [0, 1], [0, 0]])
    column = TableTransform().fit(X).columns[1]
    assert (column.missing, column.maximum, column.summary["mean"]) == (pytest.approx(1 / 3), 5, 3)


def test_numbers_and_texts_of_pandas_are_read_without_narwhals(monkeypatch):
    """For a row or two narwhals would take longer than all the rest of a prediction."""
    frame = pd.DataFrame({"a": [1.5, 2.5], "b": ["x", None], "c": [1, 2], "d": pd.to_datetime(["2024-01-01"] * 2)})
    frame["e"] = pd.array(["x", pd.NA], dtype="string")
    expected = [cells.values for cells in read_table(nw.from_native(frame)).columns()]
    monkeypatch.setattr("natpn.tabular.input_tables.nw.from_native", None)
    table = read_table(frame)
    assert table.names == ["a", "b", "c", "d", "e"]
    for place, (cells, values) in enumerate(zip(table.columns(), expected, strict=True)):
        assert [*map(str, cells.values)] == [*map(str, values)]
        assert [*map(str, table.values(place))] == [*map(str, frame.iloc[:, place].tolist())]


def test_blocks_of_numbers_are_the_same_in_parts(monkeypatch):
    """Numbers side by side are encoded at once where there are few rows, and one by one where there are many."""
    draw = np.random.default_rng(0)
    frame = pd.DataFrame(draw.normal(size=(50, 5)), columns=list("abcde"))
    frame["c"] = 1.0
    frame.loc[:5, "b"] = np.nan
    transform = TableTransform().fit(frame)
    frame.loc[7, "c"], frame.loc[8, "d"] = 2.0, np.nan
    whole = transform.transform(frame)
    monkeypatch.setattr("natpn.tabular.number.CHUNK", 100)
    np.testing.assert_array_equal(transform.transform(frame), whole)
    assert (whole[7:9, -1] < 0).all()


def test_another_order_is_put_right():
    expected = FITTED.transform(FRAME)
    np.testing.assert_array_equal(FITTED.transform(FRAME[["income", "age", "city"]]), expected)
    assert FITTED.match_columns(["income", "age", "city"], 3) == [1, 2, 0]
    assert FITTED.match_columns(list(FRAME), 3) is None
    far = FRAME.assign(income=99.0)[["income", "age", "city"]]
    assert FITTED.most_unusual(far) == ["income"] * 3


def test_absent_columns_are_named():
    renamed = FRAME.rename(columns={"income": "incme"})
    with pytest.raises(ValueError, match=r"X lacks columns .*: 'income'. Did you mean 'incme' for 'income'\?"):
        FITTED.transform(renamed)
    with pytest.raises(ValueError, match=r"X lacks columns .*: 'city', 'income'. Add them"):
        FITTED.transform(FRAME[["age"]])


def test_extra_columns_are_named():
    with pytest.raises(ValueError, match=r"training did not have: 'target'. Drop them, or fit again with them"):
        FITTED.transform(FRAME.assign(target=1))
    many = FRAME.assign(**{f"extra {i}": 0 for i in range(15)})
    with pytest.raises(ValueError, match=r"'extra 9' and 5 more"):
        FITTED.transform(many)


def test_arrays_are_matched_by_position():
    np.testing.assert_array_equal(FITTED.transform(FRAME.to_numpy(object)), FITTED.transform(FRAME))
    with pytest.raises(ValueError, match=r"X has 2 features, but training had 3: 'age', 'city'"):
        FITTED.transform(np.ones((1, 2)))
    plain = TableTransform().fit(np.arange(6.0).reshape(3, 2))
    frame = pl.DataFrame({"q": [0.0, 2.0], "p": [1.0, 3.0]})
    np.testing.assert_array_equal(plain.transform(frame), plain.transform(np.array([[0.0, 1.0], [2.0, 3.0]])))


def test_the_error_is_a_value_that_others_can_word():
    with pytest.raises(ColumnsError) as caught:
        FITTED.transform(FRAME.rename(columns={"income": "incme"}))
    found = pickle.loads(pickle.dumps(caught.value))
    assert (found.fitted, found.n_columns, found.absent, found.extra) == (list(FRAME), 3, ["income"], ["incme"])
    with pytest.raises(ColumnsError) as caught:
        FITTED.match_columns(None, 2)
    assert (caught.value.n_columns, caught.value.absent, caught.value.extra) == (2, [], [])


@pytest.mark.parametrize("kind", frames(mixed()))
def test_a_table_is_read_once_and_its_rows_are_taken(kind):
    X = frames(mixed())[kind]
    rows, others = np.arange(0, 60, 3), np.arange(20, 60)
    again = pd.DataFrame(mixed())
    expected = TableTransform().fit(X)
    table = read_table(X).keep()
    assert read_table(table) is table
    found = TableTransform().fit(table)
    assert found.to_config() == expected.to_config()
    np.testing.assert_array_equal(found.transform(table), expected.transform(X))
    assert table.take(rows).shape == (20, 7)
    np.testing.assert_array_equal(found.transform(table.take(rows)), expected.transform(X)[rows])
    assert found.most_unusual(table.take(rows)) == [expected.most_unusual(X)[row] for row in rows]
    if kind == "pandas":
        seen = TableTransform().fit(again.iloc[rows])
        assert TableTransform().fit(table.take(rows)).to_config() == seen.to_config()
        wanted = seen.as_rare_as(expected).transform(again.iloc[others])[:, -1]
        np.testing.assert_array_equal(found.surprise_unseen(table.take(others), table.take(rows)), wanted)


def test_rows_of_an_array_of_numbers_are_taken():
    X = np.random.default_rng(0).normal(size=(50, 3))
    table, fitted = read_table(X), TableTransform().fit(X[:30])
    np.testing.assert_array_equal(fitted.transform(table.take(np.arange(30, 50))), fitted.transform(X[30:]))
    assert table.take(np.arange(5)).matrix.shape == (5, 3)
