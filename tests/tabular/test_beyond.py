"""Numbers beyond everything in training count as rare events."""

import numpy as np
import pandas as pd
import pytest

from natpn.tabular import TableTransform
from tabular.events import events


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
