"""The surprise of a row: numbers beyond everything in training are rare events, and strange columns add up."""

import numpy as np
import pandas as pd
import pytest

from natpn.tabular import TableTransform
from natpn.tabular.surprise import combine_events
from tabular.events import events

NEVER = -np.log(102)


@pytest.fixture
def fitted() -> TableTransform:
    lot = np.random.default_rng(0)
    a = lot.uniform(size=100)
    a[:2] = 0, 1
    return TableTransform().fit(pd.DataFrame({"a": a, "c": lot.choice(["x", "y"], 100), "b": 10 * a}))


def test_nothing_is_added_within_the_range(fitted: TableTransform) -> None:
    rows = pd.DataFrame({"a": [0.0, 0.5, 1.0], "c": ["x"] * 3, "b": [10.0, 5.0, 0.0]})
    np.testing.assert_array_equal(fitted.transform(rows)[:, -1], 0)


@pytest.mark.parametrize(("value", "beyond"), [(2.0, 1.0), (-1.0, 1.0), (1.1, 0.1), (1e300, np.inf)])
def test_a_number_beyond_is_rare_by_the_ranges_it_is_beyond(
    fitted: TableTransform, value: float, beyond: float
) -> None:
    surprise = fitted.transform(pd.DataFrame({"a": [value], "c": ["x"], "b": [5.0]}))[0, -1]
    share = min(beyond, 1e6) if beyond > 1 else beyond**2 / (beyond**2 + 0.25)
    assert events(surprise, fitted) == pytest.approx(-np.log(102) / 3 * share, rel=1e-4)


def test_the_farthest_of_several_columns_counts_wherever_it_stands(fitted: TableTransform) -> None:
    one = fitted.transform(pd.DataFrame({"a": [2.0], "c": ["x"], "b": [5.0]}))[0, -1]
    both = fitted.transform(pd.DataFrame({"a": [2.0], "c": ["x"], "b": [15.0]}))[0, -1]
    assert both == one


def test_tables_of_earlier_models_do_not_know_it(fitted: TableTransform) -> None:
    old = TableTransform.from_config(fitted.to_config() | {"version": 1})
    far = pd.DataFrame({"a": [2.0], "c": ["x"], "b": [5.0]})
    assert old.transform(far)[0, -1] == 0
    assert TableTransform.from_config(old.to_config()).transform(far)[0, -1] == 0  # nor when saved again
    assert TableTransform.from_config(fitted.to_config()).transform(far)[0, -1] < 0


def test_far_numbers_count_for_no_more_in_tables_of_earlier_models(fitted: TableTransform) -> None:
    old = TableTransform.from_config(fitted.to_config() | {"version": 2})
    near, far = old.transform(pd.DataFrame({"a": [101.0, 1e300], "c": "x", "b": 5.0}))[:, -1]
    assert near == pytest.approx(far, rel=1e-3) == pytest.approx(-np.log(102) / 3, rel=1e-3)
    near, far = fitted.transform(pd.DataFrame({"a": [2.0, 3.0], "c": "x", "b": 5.0}))[:, -1]
    assert far < 2 * near


def test_events_of_other_columns_are_added(fitted: TableTransform) -> None:
    one = fitted.transform(pd.DataFrame({"a": [2.0], "c": ["x"], "b": [5.0]}))[0, -1]
    other = fitted.transform(pd.DataFrame({"a": [0.5], "c": ["new"], "b": [5.0]}))[0, -1]
    together = fitted.transform(pd.DataFrame({"a": [2.0], "c": ["new"], "b": [5.0]}))[0, -1]
    one, other, together = (events(surprise, fitted) for surprise in (one, other, together))
    assert together == pytest.approx(one + other, rel=1e-6)
    assert other < one < 0


@pytest.mark.parametrize(("strange", "factor"), [(0, 1), (1, 4 / 3), (2, 2), (3, 4), (4, 100)])
def test_the_more_columns_are_strange_the_more_each_counts(strange, factor):
    found = combine_events(np.array([strange * NEVER]), NEVER, 4)
    np.testing.assert_allclose(found, strange * NEVER * factor)


@pytest.mark.parametrize("sums", [0.0, 0.3, 1.0, 2.9, 3.0, 3.3])
def test_it_can_be_undone(sums):
    transform = TableTransform().fit(np.arange(300.0).reshape(100, 3))
    assert events(combine_events(np.array([sums * NEVER]), NEVER, 3), transform) == pytest.approx(sums * NEVER)


def test_a_row_without_anything_known_is_as_far_as_can_be():
    frame = pd.DataFrame({"a": np.arange(100.0), "b": ["x", "y"] * 50})
    transform = TableTransform().fit(frame)
    one, all_missing = transform.transform(pd.DataFrame({"a": [50.0, np.nan], "b": ["z", None]}))[:, -1]
    assert one == pytest.approx(2 * NEVER)
    assert all_missing == pytest.approx(200 * NEVER)


def test_tables_of_earlier_models_add_events():
    transform = TableTransform().fit(pd.DataFrame({"a": np.arange(100.0), "b": ["x", "y"] * 50}))
    old = TableTransform.from_config(transform.to_config() | {"version": 2})
    rows = pd.DataFrame({"a": [np.nan], "b": ["z"]})
    assert old.transform(rows)[0, -1] == pytest.approx(2 * NEVER)
    assert TableTransform.from_config(old.to_config()).transform(rows)[0, -1] == pytest.approx(2 * NEVER)
