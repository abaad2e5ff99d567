"""Categories: levels, rare and unseen ones, missing values, and equality by text."""

import datetime
import math
import time
from decimal import Decimal

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from natpn.tabular import TableTransform
from tabular.events import events
from tabular.tables import again


def fit(values):
    return TableTransform().fit(pl.DataFrame({"c": values}, strict=False))


def flags(transform, values):
    return transform.transform([[v] for v in values])


def standardised(indicator, share):
    return (np.array(indicator) - share) / math.sqrt(share * (1 - share))


def test_one_hot():
    values = ["a"] * 5 + ["b"] * 3 + ["c"] * 2
    result = flags(fit(values), ["a", "b", "c"])
    expected = [standardised([1, 0, 0], 0.5), standardised([0, 1, 0], 0.3), standardised([0, 0, 1], 0.2), np.zeros(3)]
    np.testing.assert_allclose(result, np.stack(expected, axis=1), rtol=1e-6)


def test_two_levels_are_one_column():
    for values, other in ((["a"] * 3 + ["b"] * 2, "b"), (["a"] * 3 + [None] * 2, None)):
        transform = fit(values)
        assert transform.n_outputs == 2
        np.testing.assert_allclose(flags(transform, ["a", other])[:, 0], standardised([0, 1], 0.4), rtol=1e-6)


def test_rare_and_unseen_levels_share_a_column():
    transform = fit(["a"] * 5 + ["b"] * 3 + ["r", "s"])
    assert transform.columns[0].levels == ["a", "b"]
    assert transform.n_outputs == 4
    result = flags(transform, ["r", "s", "t", None])
    np.testing.assert_array_equal(result[0], result[1])
    np.testing.assert_array_equal(result[0, :-1], result[2, :-1])
    np.testing.assert_allclose(result[0, 2], standardised(1, 0.2), rtol=1e-6)
    np.testing.assert_array_equal(result[3, :-1], flags(transform, ["a"])[0, :-1])  # as the most frequent level
    np.testing.assert_allclose(events(result[:, -1], transform), [0, 0, math.log(3 / 12), math.log(1 / 12)], rtol=1e-6)


def test_one_level_and_rare_ones_are_two_columns():
    assert fit(["a"] * 5 + ["r", "s"]).n_outputs == 3


def test_levels_need_a_share_and_are_at_most_64():
    transform = fit(["a"] * 5000 + ["b"] * 5 + ["c"] * 6)
    assert transform.columns[0].levels == ["a", "c"]
    transform = fit([f"level {i // 10}" for i in range(1000)])
    assert len(transform.columns[0].levels) == 64
    assert transform.n_outputs == 66


def test_missing_is_a_level_if_training_had_it():
    transform = fit(["a"] * 3 + ["b"] * 2 + [None])
    assert transform.n_outputs == 4
    assert flags(transform, [None, np.nan, pd.NA])[:, -1].tolist() == [0, 0, 0]
    np.testing.assert_allclose(flags(transform, [None, "a"])[:, 2], standardised([1, 0], 1 / 6), rtol=1e-6)
    # unseen, and nothing stands for it: encoded as the most frequent level
    usual, unseen = flags(transform, ["a", "x"])
    np.testing.assert_array_equal(unseen[:-1], usual[:-1])
    assert events(unseen[-1], transform) == pytest.approx(math.log(1 / 8))


def test_good_turing():
    closed, identifiers = fit(["a", "b"] * 50), fit([f"id {i}" for i in range(100)])
    assert events(flags(closed, ["new"])[0, -1], closed) == pytest.approx(math.log(1 / 102))
    assert events(flags(identifiers, ["new"])[0, -1], identifiers) == pytest.approx(math.log(101 / 102), rel=1e-5)
    assert identifiers.n_outputs == 2


def test_identifiers_have_no_column_and_are_usual():
    for n in range(2, 60):  # their shares do not always add up to one exactly
        transform = fit([f"id {i}" for i in range(n)])
        assert (transform.n_outputs, transform.columns[0].rare_share) == (2, 1.0)
    frame = pd.DataFrame({"id": [f"id {i}" for i in range(50)], "n": np.linspace(-1, 1, 50)})
    assert TableTransform().fit(frame).most_unusual(frame.iloc[:3]) == ["n"] * 3


def test_constant():
    transform = fit(["a"])
    found = events(flags(transform, ["a", "b", None])[:, -1], transform)
    np.testing.assert_allclose(found, [0, -math.log(3), -math.log(3)], rtol=1e-6)


def test_ten_thousand_levels():
    rng = np.random.default_rng(0)
    values = np.array([f"item {i}" for i in range(10_000)])[rng.integers(0, 10_000, 200_000)]
    frame = pd.DataFrame({"c": values, "n": np.arange(200_000.0)})
    start = time.perf_counter()
    transform = TableTransform().fit(frame)
    result = transform.transform(frame)
    assert time.perf_counter() - start < 10  # a second, on a machine with nothing else to do
    assert (result[:, -1] == 0).all()
    column = transform.columns[0]
    assert column.rare == []
    assert column.rare_hashes
    new = pd.DataFrame({"c": ["item 3", "item 10000", "", "item"], "n": 0.0})
    loaded = again(transform)
    for either in (transform, loaded):
        surprise = either.transform(new)[:, -1]
        known = math.log((column.n_singletons + 1) / 200_002)
        np.testing.assert_allclose(events(surprise[1:], either), known, rtol=1e-6)
        assert surprise[0] == 0
    np.testing.assert_array_equal(loaded.transform(frame[:1000]), result[:1000])


def test_levels_are_equal_by_their_text():
    transform = fit(["1", "2", "3", "1", "2", "3", "True", "True", "False", "False"])
    expected = flags(transform, ["1", "2", "True"])
    for one, two in ((1, 2), (1.0, 2.0), (np.int8(1), np.float32(2)), (Decimal("1.0"), Decimal(2)), (b"1", "2")):
        np.testing.assert_array_equal(flags(transform, [one, two, True]), expected)
        np.testing.assert_array_equal(flags(transform, [one, np.True_]), expected[[0, 2]])
        np.testing.assert_array_equal(flags(transform, [one, two]), expected[:2])
    for numbers in (np.array([[1], [2]]), np.array([[1.0], [2.0]]), np.array([["1"], ["2"]])):
        np.testing.assert_array_equal(transform.transform(numbers), expected[:2])
    np.testing.assert_array_equal(transform.transform(np.array([[True]])), expected[2:])
    np.testing.assert_array_equal(transform.transform(pl.DataFrame({"c": [True, None]}))[:1], expected[2:])


def test_mixed_objects_are_categories():
    transform = TableTransform().fit(np.array([[1], ["a"], [1.0], ["a"], [0.5], [0.5]], object))
    assert transform.columns[0].levels == ["0.5", "1", "a"]


def test_numeric_texts_stay_categories():
    assert fit(["1", "2", "1", "2"]).columns[0].kind == "category"


def test_dates_agree_with_their_iso_text():
    day = datetime.datetime(2024, 5, 1)
    transform = fit(["2024-05-01", "2024-05-01T12:30:00", "2024-05-01", "2024-05-01T12:30:00"])
    times = [day, datetime.datetime(2024, 5, 1, 12, 30), None]
    expected = flags(transform, ["2024-05-01", "2024-05-01T12:30:00", None])
    np.testing.assert_array_equal(flags(transform, times), expected)
    np.testing.assert_array_equal(transform.transform(pl.DataFrame({"c": times})), expected)


def test_categoricals_of_every_library():
    values = ["u", "v", None, "v", "u", "u"]
    expected = fit(values)
    for frame in (
        pd.DataFrame({"c": pd.Categorical(values)}),
        pd.DataFrame({"c": pd.array(values, dtype="string")}),
        pl.DataFrame({"c": pl.Series(values, dtype=pl.Categorical)}),
        pl.DataFrame({"c": pl.Series(values, dtype=pl.Enum(["v", "u", "w"]))}),
        pa.table({"c": pa.array(values).dictionary_encode()}),
    ):
        transform = TableTransform().fit(frame)
        assert transform.columns == expected.columns
        np.testing.assert_array_equal(transform.transform(frame), flags(expected, values))
    numbers = TableTransform().fit(pd.DataFrame({"c": pd.Categorical([1, 2, 1, 2])}))
    assert numbers.columns[0].levels == ["1", "2"]
    intervals = TableTransform().fit(pd.DataFrame({"c": pd.cut([1.0, 2.0, 3.0, 4.0], 2)}))
    assert intervals.columns[0].levels == ["(0.997, 2.5]", "(2.5, 4.0]"]


@pytest.mark.parametrize(
    "cell", [{"a": 1}, [1], (1, [2]), {1}, 1j, object(), np.ones(2)], ids=lambda c: type(c).__name__
)
def test_containers_are_refused(cell):
    table = np.empty((3, 2), object)
    table[:, 0] = [1, 2, 3]
    table[:, 1] = ["a", "b", "c"]
    numbers = TableTransform().fit(np.arange(6.0).reshape(3, 2))
    texts = TableTransform().fit(table)
    table[1, 1] = cell
    for call in (TableTransform().fit, texts.transform, numbers.transform):
        table[[0, 2], 1] = [1, 2] if call == numbers.transform else ["a", "b"]
        with pytest.raises(TypeError, match=r"Column 'x1', row 1: argument must be .* string.* number"):
            call(table)


def test_lists_in_a_frame_are_refused():
    with pytest.raises(TypeError, match=r"Column 'c', row 0: argument must be a string or a number, not 'list'"):
        TableTransform().fit(pl.DataFrame({"c": [[1], [2]]}))


def test_summary():
    summary = fit(["a"] * 4 + ["b"] * 2 + ["r", None, None, None]).columns[0].summary
    assert summary == {"levels": {"a": 0.4, "b": 0.2}, "n_levels": 3, "rare": 0.1, "missing": 0.3}
