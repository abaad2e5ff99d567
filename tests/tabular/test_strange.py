"""Rows of which several columns are strange."""

import numpy as np
import pandas as pd
import pytest

from natpn.tabular import TableTransform
from natpn.tabular.transform import combine_events
from tabular.events import events

NEVER = -np.log(102)


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
