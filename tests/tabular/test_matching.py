"""Columns of new data: matched by name if both have names, else by position."""

import pickle

import numpy as np
import pandas as pd
import polars as pl
import pytest

from natpn.tabular import ColumnsError, TableTransform

FRAME = pd.DataFrame({"age": [1.0, 2.0, 4.0], "city": ["a", "b", "a"], "income": [3.0, 1.0, 2.0]})
FITTED = TableTransform().fit(FRAME)


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
