"""Truth values: one 0/1 column, standardised."""

import datetime
import math

import numpy as np
import pandas as pd
import polars as pl
import pytest

from natpn.tabular import TableTransform
from tabular.events import events


def test_standardised():
    transform = TableTransform().fit(pl.DataFrame({"a": [True, False, False, False]}))
    result = transform.transform(pl.DataFrame({"a": [True, False, None]}))
    scale = math.sqrt(0.25 * 0.75)
    np.testing.assert_allclose(result[:, 0], [0.75 / scale, -0.25 / scale, -0.25 / scale], rtol=1e-6)
    np.testing.assert_allclose(events(result[:, -1], transform), [0, 0, -math.log(6)], rtol=1e-6)
    assert transform.n_numbers == 0
    assert transform.columns[0].summary == {"true": 0.25, "missing": 0.0}


@pytest.mark.parametrize("values", [[1, 0], [1.0, 0.0], ["true", "False"], ["1", "0"], [np.True_, np.False_]])
def test_other_spellings(values):
    transform = TableTransform().fit(pd.DataFrame({"a": [True, False, np.nan]}))
    expected = transform.transform(pd.DataFrame({"a": [True, False]}))
    np.testing.assert_array_equal(transform.transform(pd.DataFrame({"a": values})), expected)


@pytest.mark.parametrize(("value", "shown"), [(2, "2"), ("maybe", "'maybe'"), (0.5, "0.5")])
def test_no_truth_value(value, shown):
    transform = TableTransform().fit(pd.DataFrame({"a": [True, False]}))
    with pytest.raises(ValueError, match=f"Column 'a', row 1: {shown} is no truth value"):
        transform.transform([[True], [value]])
    with pytest.raises(ValueError, match=f"Column 'a', row 0: {shown} is no truth value"):
        transform.transform(pl.DataFrame({"a": [value]}))
    with pytest.raises(ValueError, match="Column 'a' has dates, but it had truth values"):
        transform.transform(pl.DataFrame({"a": [datetime.date(2024, 1, 1)]}))


def test_constant():
    transform = TableTransform().fit(pl.DataFrame({"a": [True, True, None], "b": [False] * 3}))
    assert transform.n_outputs == 2
    result = transform.transform(pl.DataFrame({"a": [True, False, None], "b": [False, False, True]}))
    np.testing.assert_allclose(events(result[:, -1], transform), [0, -math.log(5), -math.log(5)], rtol=1e-6)
    assert transform.most_unusual(pl.DataFrame({"a": [False, None], "b": [False, True]})) == ["a", "b"]
