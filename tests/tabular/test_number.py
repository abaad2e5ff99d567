"""Numbers: standardised safely, missing values, constants, and what is not a number."""

import datetime
import math
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pandas as pd
import polars as pl
import pytest

from natpn.tabular import TableTransform
from natpn.tabular.moments import measure
from tabular.events import events
from tabular.tables import again


def column(values, **options):
    return TableTransform().fit(pd.DataFrame({"a": values}, **options))


def test_standardised():
    numbers = np.random.default_rng(0).normal(5, 3, 1000)
    result = column(numbers).transform(pd.DataFrame({"a": numbers}))
    np.testing.assert_allclose(result[:, 0], (numbers - numbers.mean()) / numbers.std(), rtol=1e-6)


@pytest.mark.parametrize("dtype", [np.int8, np.uint64, np.float16, np.float32, np.longdouble, bool])
def test_any_numeric_dtype(dtype):
    array = np.array([[0, 1], [1, 0], [1, 1]]).astype(dtype)
    expected = TableTransform().fit(array.astype(float)).transform(array.astype(float))
    np.testing.assert_allclose(TableTransform().fit(array).transform(array), expected, rtol=1e-6)


@pytest.mark.parametrize("size", [1e300, 1.7e308, 1e-300, 5e-324, 1.0])
def test_numbers_of_any_size(size):
    numbers = size * np.array([-1.0, 0.0, 1.0, 1.0])
    transform = TableTransform().fit(numbers[:, None])
    expected = (np.array([-1, 0, 1, 1]) - 0.25) / np.std([-1, 0, 1, 1])
    np.testing.assert_allclose(transform.transform(numbers[:, None])[:, 0], expected, rtol=1e-6)
    np.testing.assert_array_equal(again(transform).transform(numbers[:, None]), transform.transform(numbers[:, None]))
    summary = transform.columns[0].summary
    assert summary["mean"] == pytest.approx(size / 4, rel=1e-6)
    assert summary["deviation"] == pytest.approx(size * np.std([-1, 0, 1, 1]), rel=1e-6)


def test_far_numbers_are_cut():
    transform = TableTransform().fit([[0.0], [1.0]])
    np.testing.assert_array_equal(transform.transform([[1.7e308], [-1.7e308]])[:, 0], np.float32([1e30, -1e30]))


def test_tiny_variance_around_a_huge_mean():
    numbers = 1e9 + 1e-3 * np.random.default_rng(0).normal(size=2000)
    moments = measure(numbers)
    assert moments.deviation == pytest.approx(np.std(numbers - 1e9), rel=1e-6)
    z = TableTransform().fit(numbers[:, None]).transform(numbers[:, None])[:, 0]
    assert z.mean() == pytest.approx(0, abs=1e-3)
    assert z.std() == pytest.approx(1, rel=1e-3)


def test_missing_in_training_has_a_flag():
    transform = column([1.0, np.nan, 3.0, np.nan, np.nan])
    result = transform.transform(pd.DataFrame({"a": [3.0, np.nan]}))
    p = 3 / 5
    scale = math.sqrt(p * (1 - p))
    np.testing.assert_allclose(result, [[1, -p / scale, 0], [0, (1 - p) / scale, 0]], rtol=1e-6)


def test_a_constant_with_missing_values_keeps_the_flag():
    transform = column([2.0, np.nan, 2.0])
    assert (transform.n_numbers, transform.n_outputs) == (0, 2)
    result = transform.transform(pd.DataFrame({"a": [2.0, 2.5, np.nan]}))
    np.testing.assert_allclose(events(result[:, -1], transform), [0, -math.log(5), 0], rtol=1e-6)


def test_a_constant_is_the_same_in_float32():
    transform = TableTransform().fit(np.full((5, 1), 0.1))
    assert transform.transform(np.full((1, 1), 0.1, np.float32))[0, -1] == 0
    assert transform.transform(np.full((1, 1), 0.1001))[0, -1] < 0


@pytest.mark.parametrize(
    "values",
    [
        [1, 2.5, None],
        [Decimal("1"), Decimal("2.5"), None],
        [Fraction(1), Fraction(5, 2), float("nan")],
        [np.int8(1), np.float32(2.5), pd.NA],
        [True, 2.5, None],
        [datetime.timedelta(seconds=1), datetime.timedelta(seconds=2.5), pd.NaT],
        [np.timedelta64(1000, "ms"), np.timedelta64(2500, "ms"), np.timedelta64("NaT")],
        [datetime.time(0, 0, 1), datetime.time(0, 0, 2, 500_000), None],
    ],
)
def test_objects_that_are_numbers(values):
    array = np.empty((3, 1), object)
    array[:, 0] = values
    transform = TableTransform().fit(array)
    expected = TableTransform().fit([[1.0], [2.5], [None]])
    assert transform.columns == expected.columns
    np.testing.assert_array_equal(transform.transform(array), expected.transform([[1.0], [2.5], [None]]))


def test_texts_are_read_where_numbers_were():
    transform = column([1.0, 2.0, 3.0])
    result = transform.transform(pl.DataFrame({"a": ["2", "3.0", " 1e0", None]}))
    np.testing.assert_array_equal(result, transform.transform(pl.DataFrame({"a": [2.0, 3.0, 1.0, None]})))
    values = ["2"] * 20
    values[17] = "abc"
    with pytest.raises(ValueError, match="Column 'a', row 17: 'abc' is not a finite number; the column had only"):
        transform.transform(pl.DataFrame({"a": values}))
    with pytest.raises(ValueError, match="Column 'a' has dates, but it had numbers"):
        transform.transform(pl.DataFrame({"a": [datetime.date(2024, 1, 1)]}))
    with pytest.raises(ValueError, match=r"Column 'a', row 0: datetime.date\(2024, 1, 1\) is not a number"):
        transform.transform([[datetime.date(2024, 1, 1)]])


@pytest.mark.parametrize("infinite", [np.inf, -np.inf, 10**400])
def test_infinity_is_refused(infinite):
    transform = TableTransform().fit(np.arange(6.0).reshape(3, 2))
    table = np.zeros((5, 2), object)
    table[4, 1] = infinite
    message = "Column 'x1', row 4: the value is infinity or too large for float64"
    with pytest.raises(ValueError, match=message):
        transform.transform(table)
    if isinstance(infinite, float):
        with pytest.raises(ValueError, match=message):
            transform.transform(table.astype(float))
        with pytest.raises(ValueError, match=message):
            TableTransform().fit(table.astype(float))


def test_infinity_in_a_later_chunk_and_beside_nan():
    big = np.zeros((400_000, 2))
    big[7, 0], big[390_001, 1] = np.nan, np.inf
    transform = TableTransform().fit(np.arange(6.0).reshape(3, 2))
    with pytest.raises(ValueError, match="Column 'x1', row 390001: the value is infinity"):
        transform.transform(big)


def test_chunks_give_what_one_row_gives():
    big = np.random.default_rng(0).normal(size=(300_001, 2))
    big[::1000, 1] = np.nan
    transform = TableTransform().fit(big[:5000, :])
    big[262_144, 0] = np.nan  # the first missing value of its column
    result = transform.transform(big)
    # a number beyond the range of 5,000 rows is a third as rare
    assert np.flatnonzero(result[:, -1] < -6).tolist() == [262_144]
    rows = [0, 131_071, 131_072, 262_144, 300_000]
    np.testing.assert_array_equal(result[rows], transform.transform(big[rows]))


def test_summary():
    summary = column([1.0, 2.0, 3.0, 4.0, None]).columns[0].summary
    assert summary == {
        "minimum": 1.0,
        "maximum": 4.0,
        "mean": 2.5,
        "deviation": pytest.approx(math.sqrt(1.25)),
        "quantiles": {"5%": 1.0, "25%": 1.0, "50%": 2.0, "75%": 3.0, "95%": 4.0},
        "missing": 0.2,
        "whole": True,
    }
    assert not column([1.5, 2.0]).columns[0].summary["whole"]
    numbers = np.random.default_rng(0).normal(size=1000)
    expected = np.quantile(numbers, [0.05, 0.25, 0.5, 0.75, 0.95], method="inverted_cdf")
    assert column(numbers).columns[0].quantiles == expected.tolist()
