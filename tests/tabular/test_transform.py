"""The whole transform: libraries agree, rows are independent, JSON keeps every bit."""

import json
import math
import pickle
import subprocess
import sys

import hypothesis.extra.numpy as arrays
import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from natpn.tabular import TableTransform
from tabular.events import events
from tabular.tables import again, frames, mixed

FRAMES = frames(mixed())
REFERENCE = TableTransform().fit(FRAMES["polars"])


def test_kinds_and_layout():
    assert [column.kind for column in REFERENCE.columns] == [
        *("number", "number", "boolean", "category", "date", "number", "number")
    ]
    assert REFERENCE.feature_names == list(mixed())
    assert REFERENCE.named
    result = REFERENCE.transform(FRAMES["polars"])
    # age, rooms, wait and 5 parts of the day, no months in 92 days; then missing age, smoker with missing,
    # 3 cities with missing, missing day
    assert (REFERENCE.n_numbers, REFERENCE.n_outputs) == (8, 8 + 1 + 2 + 4 + 1 + 1)
    assert result.shape == (60, REFERENCE.n_outputs)
    assert result.dtype == np.float32
    assert (result[:, -1] == 0).all()
    flags = result[:, REFERENCE.n_numbers : -1]
    # smoker, the second of them, is standardised over its known values
    assert all(len(np.unique(flag)) == 2 + (place == 1) for place, flag in enumerate(flags.T))
    np.testing.assert_allclose(np.delete(flags, 1, axis=1).mean(0), 0, atol=1e-6)
    np.testing.assert_allclose(np.delete(flags, 1, axis=1).std(0), 1, rtol=1e-6)


@pytest.mark.parametrize("library", FRAMES)
def test_libraries_give_the_same_matrix(library):
    expected = REFERENCE.transform(FRAMES["polars"])
    np.testing.assert_array_equal(REFERENCE.transform(FRAMES[library]), expected)
    fitted = TableTransform().fit(FRAMES[library])
    np.testing.assert_array_equal(fitted.transform(FRAMES[library]), expected)
    assert fitted.named == (library not in ("numpy", "rows"))
    assert [c.summary for c in fitted.columns] == [c.summary for c in REFERENCE.columns]


@pytest.mark.parametrize("library", FRAMES)
def test_rows_are_independent(library):
    expected = REFERENCE.transform(FRAMES["polars"])
    for row in (0, 3, 4):
        part = FRAMES[library][row : row + 1]
        np.testing.assert_array_equal(REFERENCE.transform(part), expected[row : row + 1])


def test_json_keeps_every_bit():
    table = FRAMES["pandas"]
    loaded = again(REFERENCE)
    np.testing.assert_array_equal(loaded.transform(table), REFERENCE.transform(table))
    assert loaded.columns == REFERENCE.columns
    assert (loaded.named, loaded.n_numbers, loaded.n_outputs) == (True, REFERENCE.n_numbers, REFERENCE.n_outputs)
    assert json.dumps(loaded.to_config()) == json.dumps(REFERENCE.to_config())
    assert loaded.most_unusual(table) == REFERENCE.most_unusual(table)
    json.dumps([column.summary for column in loaded.columns], allow_nan=False)


def test_pickle_keeps_every_bit():
    table = FRAMES["pandas"]
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(REFERENCE)).transform(table), REFERENCE.transform(table))


def test_surprise_adds_up_over_columns():
    table = {"a": [1.0, 2, 3, 4], "b": [5, 5, 5, 5], "c": ["u", "u", "v", "v"], "d": [None] * 4, "e": [True, False] * 2}
    transform = TableTransform().fit(pl.DataFrame(table, strict=False))
    usual = {"a": 1.0, "b": 5, "c": "u", "d": None, "e": True}
    never = math.log(1 / 6)
    for change, count in [
        ({}, 0),
        ({"a": None}, 1),
        ({"b": 6}, 1),
        ({"c": "w"}, 1),
        ({"c": None}, 1),
        ({"d": "anything"}, 1),
        ({"d": 2.5}, 1),
        ({"e": None}, 1),
        ({"a": None, "b": None, "c": "w", "d": 0, "e": None}, 5),
    ]:
        result = transform.transform(pl.DataFrame([usual | change]))
        assert events(result[0, -1], transform) == pytest.approx(count * never, rel=1e-6), change
        expected = transform.transform(pl.DataFrame([usual]))[0]
        # The mean of the numbers; of categories the most frequent, here the first; of truth values the usual.
        for name, place, instead in (("a", 0, 0.0), ("e", 2, -1.0)):
            if name in change:
                expected[place] = instead
        np.testing.assert_array_equal(result[0, :-1], expected[:-1])


@pytest.mark.parametrize("missing", [None, np.nan, pd.NA, pd.NaT, np.datetime64("NaT")])
@pytest.mark.parametrize("name", [name for name in mixed() if name not in ("rooms", "wait", "same")])
def test_a_whole_column_may_be_missing(name, missing):
    frame = pd.DataFrame(mixed()).iloc[:2]
    expected = REFERENCE.transform(frame.assign(**{name: None}))
    np.testing.assert_array_equal(REFERENCE.transform(frame.assign(**{name: missing})), expected)
    assert (expected[:, -1] == 0).all()


def test_without_any_output_a_column_of_zeros_is_kept():
    for table in (np.ones((4, 2)), np.full((4, 1), np.nan), [["id"], ["id"]]):
        transform = TableTransform().fit(table)
        assert (transform.n_numbers, transform.n_outputs) == (1, 2)
        np.testing.assert_array_equal(transform.transform(table), np.zeros((len(table), 2)))
        np.testing.assert_array_equal(again(transform).transform(table), np.zeros((len(table), 2)))
    transform = TableTransform().fit(np.ones((4, 2)))
    np.testing.assert_allclose(transform.transform([[1.0, 2.0]]), [[0, -2 * math.log(6)]], rtol=1e-6)


def test_most_unusual_names_the_column():
    usual = pd.DataFrame(mixed()).iloc[[30]]
    rows = [{"age": 400.0}, {"rooms": -20}, {"city": "Paris"}, {"same": 4.0}, {"wait": pd.NaT}]
    for change in rows:
        frame = usual.assign(**change)
        assert REFERENCE.most_unusual(frame) == list(change), change
    rare = TableTransform().fit(pd.DataFrame({"c": ["a"] * 999 + ["b"], "n": np.linspace(-1, 1, 1000)}))
    assert rare.most_unusual(pd.DataFrame({"c": ["b", "a"], "n": [0.9, 0.9]})) == ["c", "n"]


def test_before_fit():
    for call in (lambda t: t.transform([[1]]), lambda t: t.most_unusual([[1]]), lambda t: t.to_config()):
        with pytest.raises(ValueError, match="not fitted yet"):
            call(TableTransform())


CELLS = {
    "number": st.one_of(st.none(), st.floats(allow_nan=True, allow_infinity=False), st.integers(-(2**62), 2**62)),
    "boolean": st.one_of(st.none(), st.booleans()),
    "text": st.one_of(st.none(), st.text(max_size=3), st.sampled_from("ab")),
    "mixed": st.one_of(st.none(), st.booleans(), st.integers(-2, 2), st.sampled_from(["1", "True", "x"]), st.floats()),
    "date": st.one_of(st.none(), st.datetimes(), st.dates()),
    "duration": st.one_of(st.none(), st.timedeltas()),
}


@st.composite
def tables(draw: st.DrawFn) -> np.ndarray:
    rows = draw(st.integers(2, 12))
    kinds = draw(st.lists(st.sampled_from(sorted(CELLS)), min_size=1, max_size=4))
    table = np.empty((rows, len(kinds)), object)
    for place, kind in enumerate(kinds):
        table[:, place] = draw(st.lists(CELLS[kind], min_size=rows, max_size=rows))
    return table


def fitted(table: np.ndarray) -> TableTransform:
    try:
        return TableTransform().fit(table)
    except ValueError as error:  # a text among numbers, tested elsewhere
        assume("make the column categorical" not in str(error))
        raise


@given(tables(), st.data())
def test_any_table_is_finite_deterministic_and_row_wise(table, data):
    infinite = [isinstance(v, float) and math.isinf(v) for v in table.flat]
    table[np.array(infinite).reshape(table.shape)] = None
    half = data.draw(st.integers(1, len(table)))
    transform = fitted(table[:half])
    for place, column in enumerate(transform.columns):  # what does not fit the kind is an error, tested elsewhere
        if fitted(table[half - 1 :, [place]]).columns[0].kind != column.kind != "category":
            table[half:, place] = None
    result = transform.transform(table)
    assert np.isfinite(result).all()
    assert (result[:, -1] <= 0).all()
    assert (result[:half, -1] == 0).all()
    np.testing.assert_array_equal(transform.transform(table), result)
    rows = data.draw(st.lists(st.integers(0, len(table) - 1), min_size=1))
    np.testing.assert_array_equal(transform.transform(table[rows]), result[rows])
    loaded = again(transform)
    np.testing.assert_array_equal(loaded.transform(table), result)
    assert len(loaded.most_unusual(table)) == len(table)


@given(
    arrays.arrays(
        st.sampled_from([np.float64, np.float32]),
        st.tuples(st.integers(1, 20), st.integers(1, 4)),
        elements={"allow_infinity": False},
    )
)
def test_the_path_of_arrays_and_of_frames_agree(array):
    transform = TableTransform().fit(array)
    frame = pd.DataFrame(array.astype(np.float64), columns=transform.feature_names)
    np.testing.assert_array_equal(transform.transform(array), transform.transform(frame))
    np.testing.assert_array_equal(transform.transform(array), transform.transform(array.astype(object)))


def test_importing_is_light():
    code = (
        "import natpn, sys; assert 'narwhals' not in sys.modules; import natpn.tabular; "
        "assert not {'torch', 'pandas', 'polars', 'pyarrow'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_the_order_of_rows_does_not_matter():
    """Bit for bit: what is learned before rows are sorted is what they are trained with."""
    draw = np.random.default_rng(0)
    dates = pd.Timestamp("2020-01-01") + pd.to_timedelta(draw.integers(0, 10**8, 2_000), unit="s")
    frame = pd.DataFrame({"a": 1e6 * draw.normal(size=2_000), "b": draw.choice(["x", "y"], 2_000), "c": dates})
    shuffled = frame.iloc[draw.permutation(2_000)]
    assert TableTransform().fit(frame).to_config() == TableTransform().fit(shuffled).to_config()
