"""Tables as they come: libraries, kinds of columns, missing and unseen values, and kinds of targets."""

import datetime
import resource

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone

from attacks.steps import forked
from estimators.problems import CLASSIFIER, REGRESSOR, classes, numbers, quick
from natpn import NatPNClassifier, NatPNRegressor

LIBRARIES = {"pandas": pd.DataFrame, "polars": pl.DataFrame, "pyarrow": pa.table}
ROWS = 190


def columns(rows=ROWS, seed=0):
    """A table with every kind of column, and labels that depend on the number and the category."""
    generator = np.random.default_rng(seed)
    number = generator.normal(size=rows)
    colour = generator.choice(["red", "green", "blue"], rows)
    start = datetime.datetime(2020, 1, 1)
    table = {
        "number": number.tolist(),
        "whole": generator.integers(0, 9, rows).tolist(),
        "gaps": [None if i % 5 == 0 else float(v) for i, v in enumerate(generator.normal(size=rows))],
        "colour": colour.tolist(),
        "truth": (generator.random(rows) < 0.5).tolist(),
        "date": [start + datetime.timedelta(hours=7 * i) for i in range(rows)],
        "constant": [1.5] * rows,
        "empty": pa.nulls(rows, pa.float64()).to_pylist(),
        "name": [f"customer {i}" for i in range(rows)],
    }
    return table, np.where((number > 0) ^ (colour == "red"), "yes", "no")


@pytest.fixture(scope="module")
def fitted():
    table, y = columns()
    return NatPNClassifier(max_epochs=30, random_state=0).fit(pd.DataFrame(table), y)


@pytest.mark.parametrize("library", LIBRARIES)
def test_every_kind_of_column_from_every_library(library, fitted):
    table, y = columns()
    frame = LIBRARIES[library](table)
    model = NatPNClassifier(max_epochs=30, random_state=0).fit(frame, y)
    assert model.score(frame, y) > 0.9
    assert model.feature_names_in_.tolist() == list(table)
    assert_allclose(model.predict_proba(frame), fitted.predict_proba(pd.DataFrame(table)), atol=1e-6)
    one = frame[:1] if library != "pyarrow" else frame.slice(0, 1)
    assert_allclose(model.predict_proba(one), model.predict_proba(frame)[:1], atol=1e-9)


@pytest.mark.parametrize("library", LIBRARIES)
def test_a_model_answers_frames_of_another_library_alike(library, fitted):
    table, _ = columns(20, seed=5)
    frame = LIBRARIES[library](table)
    assert_allclose(fitted.predict_proba(frame), fitted.predict_proba(pd.DataFrame(table)), atol=1e-12)


def test_an_array_of_objects_is_a_table():
    table, y = columns()
    X = np.array([list(row) for row in zip(table["number"], table["colour"], table["gaps"], strict=True)], dtype=object)
    model = NatPNClassifier(max_epochs=30, random_state=0).fit(X, y)
    assert model.score(X, y) > 0.85
    assert model.score(X.tolist(), y) == model.score(X, y)


def test_new_missingness_lowers_familiarity(fitted):
    """A gap where training had none, or an unseen category, is less familiar; where gaps are usual, it is not."""
    table, _ = columns()
    before = fitted.predict_dist(pd.DataFrame(table))
    for name, value, falls in (
        ("number", None, True),
        ("colour", "purple", True),
        ("colour", None, True),
        ("truth", None, True),
        ("date", None, True),
        ("constant", 2.0, True),
        ("empty", 1.0, True),
        ("name", "somebody new", False),
    ):
        changed = pd.DataFrame(table | {name: [value] * ROWS})
        change = np.median(fitted.score_samples(changed) - before.log_evidence)
        assert (change < -1) if falls else (abs(change) < 1), (name, value, change)
    gone = np.array([value is None for value in table["gaps"]])
    p = before.novelty_p
    assert (p[gone] < 0.05).mean() < 0.2


def test_missing_values_do_not_lower_the_accuracy():
    """As much is right, where the value that is missing does not matter, as without it."""
    generator = np.random.default_rng(0)
    X = generator.normal(size=(600, 3))
    y = (X[:, 0] > 0).astype(int)
    holes = np.where(generator.random((600, 3)) < [0.0, 0.3, 0.3], np.nan, X)
    whole, gaps = (NatPNClassifier(max_epochs=25, random_state=0).fit(t[:400], y[:400]) for t in (X, holes))
    right = gaps.score(holes[400:], y[400:])
    assert right > 0.93
    assert right >= whole.score(X[400:], y[400:]) - 0.03


def test_missingness_may_be_what_matters():
    generator = np.random.default_rng(1)
    X = generator.normal(size=(300, 2))
    y = generator.random(300) < 0.5
    X[y, 0] = np.nan
    assert NatPNClassifier(max_epochs=30, random_state=0).fit(X[:200], y[:200]).score(X[200:], y[200:]) > 0.97


def test_unseen_categories_do_not_lower_the_accuracy():
    table, y = columns()
    frame = pd.DataFrame({"number": table["number"], "other": table["colour"]})
    y = (frame["number"] > 0).to_numpy()
    model = NatPNClassifier(max_epochs=30, random_state=0).fit(frame, y)
    unseen = frame.assign(other="purple")
    assert model.score(unseen, y) > model.score(frame, y) - 0.03
    assert np.median(model.score_samples(frame) - model.score_samples(unseen)) > 0.05


def test_thousands_of_distinct_strings():
    generator = np.random.default_rng(0)
    frame = pl.DataFrame({"id": [f"id {i}" for i in range(3_000)], "x": generator.normal(size=3_000)})
    y = frame["x"].to_numpy() > 0
    model = NatPNClassifier(max_epochs=3, ensemble_size=1, random_state=0).fit(frame, y)
    assert model.inputs_.table.n_outputs < 10
    assert model.score(frame, y) > 0.9
    new = frame.with_columns(id=pl.lit("new one"))
    assert np.median(np.abs(model.score_samples(new) - model.score_samples(frame))) < 0.1


def test_columns_in_another_order_are_refused_by_name(fitted):
    table, _ = columns(10)
    with pytest.raises(ValueError, match="feature names should match"):
        fitted.predict(pd.DataFrame(table)[list(table)[::-1]])
    with pytest.raises(ValueError, match="feature names should match"):
        fitted.predict(pd.DataFrame(table).drop(columns="colour"))


def test_a_value_of_another_kind_is_named(fitted):
    table, _ = columns(10)
    with pytest.raises(ValueError, match="number"):
        fitted.predict(pd.DataFrame(table | {"number": ["many"] * 10}))


@pytest.mark.parametrize("library", LIBRARIES)
@pytest.mark.parametrize("method", ["predict", "predict_dist", "predict_frame", "score_samples"])
def test_no_rows_are_refused(library, method):
    X, y = numbers(30)
    frame = LIBRARIES[library]({"a": X[:, 0], "b": X[:, 1]})
    model = clone(REGRESSOR).fit(frame, y)
    with pytest.raises(ValueError, match=r"0 sample\(s\)"):
        getattr(model, method)(frame[:0] if library != "pyarrow" else frame.slice(0, 0))


@pytest.mark.parametrize("library", LIBRARIES)
def test_validation_rows_may_be_a_frame(library):
    (X, y), (X_val, y_val) = numbers(60), numbers(30, seed=1)
    plain = clone(REGRESSOR).fit(X, y, X_val=X_val, y_val=y_val)
    frames = [LIBRARIES[library]({"a": t[:, 0], "b": t[:, 1]}) for t in (X, X_val)]
    model = clone(REGRESSOR).fit(frames[0], y, X_val=frames[1], y_val=y_val)
    assert model.n_rows_ == 60
    assert len(model.calibration_.log_evidence) == 30
    assert_array_equal(model.predict(frames[1]), plain.predict(X_val))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"X_val": np.zeros((3, 2))}, "X_val and y_val go together"),
        ({"y_val": np.zeros(3)}, "X_val and y_val go together"),
        ({"X_val": np.zeros((3, 2)), "y_val": np.zeros(2)}, "X_val has 3 rows, y_val 2"),
        ({"X_val": np.zeros((3, 4)), "y_val": np.zeros(3)}, "X has 4 features"),
    ],
)
def test_wrong_validation_rows_are_named(arguments, message):
    X, y = numbers(30)
    with pytest.raises(ValueError, match=message):
        clone(REGRESSOR).fit(X, y, **arguments)


TEXTS = classes(60)[1]
FLAGS = TEXTS == "low"
LABELS = {
    "list": TEXTS.tolist(),
    "objects": TEXTS.astype(object),
    "pandas": pd.Series(TEXTS),
    "pandas objects": pd.Series(TEXTS, dtype=object),
    "pandas string": pd.Series(TEXTS, dtype="string"),
    "pandas category": pd.Series(TEXTS, dtype="category"),
    "pandas index": pd.Series(TEXTS, index=range(60, 0, -1)),
    "polars": pl.Series(TEXTS),
    "polars category": pl.Series(TEXTS, dtype=pl.Categorical),
    "polars enum": pl.Series(TEXTS, dtype=pl.Enum(["top", "low", "middle"])),
    "pyarrow": pa.array(TEXTS),
    "pyarrow chunks": pa.chunked_array([TEXTS]),
    "pyarrow dictionary": pa.array(TEXTS).dictionary_encode(),
}


@pytest.mark.parametrize("kind", LABELS)
def test_texts_as_labels_from_every_library(kind):
    X = classes(60)[0]
    model = clone(CLASSIFIER).fit(X, LABELS[kind])
    assert model.classes_.tolist() == ["low", "middle", "top"]
    want = quick("categorical")  # of the same rows
    assert_array_equal(model.predict_proba(X), want.predict_proba(X))
    assert model.score(X, LABELS[kind]) == want.score(X, TEXTS)


@pytest.mark.parametrize(
    ("y", "found"),
    [
        (FLAGS, [False, True]),
        (FLAGS.astype(object), [False, True]),
        (pd.Series(FLAGS, dtype="boolean"), [False, True]),
        (pl.Series(FLAGS), [False, True]),
        (FLAGS * -5, [-5, 0]),
        ((FLAGS * -5).astype(object), [-5, 0]),
        (pd.Series(FLAGS * 2, dtype="Int64"), [0, 2]),
        (pd.Series(FLAGS * 2, dtype="int64[pyarrow]"), [0, 2]),
        (pl.Series(FLAGS * 2), [0, 2]),
        (FLAGS * 2.0, [0.0, 2.0]),
        (np.array(FLAGS, dtype=np.uint8), [0, 1]),
    ],
    ids=str,
)
def test_other_labels_keep_their_type(y, found):
    X = classes(60)[0]
    model = clone(CLASSIFIER).fit(X, y)
    assert model.classes_.tolist() == found
    assert [type(label) for label in model.classes_.tolist()] == [type(label) for label in found]
    assert set(model.predict(X).tolist()) <= set(found)
    assert 0 <= model.score(X, y) <= 1


@pytest.mark.parametrize(
    ("y", "message"),
    [
        (np.where(FLAGS, np.nan, 1.0), "row .* is missing"),
        (np.array(["a", None] * 30, dtype=object), "the target of row 1 is missing"),
        (pd.Series(["a", None] * 30, dtype="category"), "the target of row 1 is missing"),
        (pd.Series([1, None] * 30, dtype="Int64"), "the target of row 1 is missing"),
        (pl.Series(["a", None] * 30), "the target of row 1 is missing"),
        (pa.array(["a", None] * 30), "the target of row 1 is missing"),
        (np.where(FLAGS, np.inf, 1.0), "infinity"),
        (np.array(["a", 1] * 30, dtype=object), "labels of the types int, str; make them all texts"),
        (FLAGS * 0.5, "Unknown label type: continuous"),
        (["a"] * 60, "only one class is present: y holds 'a' alone"),
        (np.stack([FLAGS, FLAGS], 1), "1d array"),
    ],
)
def test_labels_that_cannot_be_are_named(y, message):
    with pytest.raises(ValueError, match=message):
        clone(CLASSIFIER).fit(classes(60)[0], y)


VALUES = numbers(60)[1]


@pytest.mark.parametrize(
    "y",
    [
        VALUES.tolist(),
        VALUES.astype(object),
        pd.Series(VALUES, index=range(60, 0, -1)),
        pd.Series(VALUES, dtype="Float64"),
        pd.Series(VALUES, dtype="double[pyarrow]"),
        pl.Series(VALUES),
        pa.array(VALUES),
        pa.chunked_array([VALUES]),
    ],
    ids=lambda y: f"{type(y).__module__}.{type(y).__name__}",
)
def test_numbers_as_targets_from_every_library(y):
    X = numbers(60)[0]
    model = clone(REGRESSOR).fit(X, y)
    assert_array_equal(model.predict(X), clone(REGRESSOR).fit(X, VALUES).predict(X))
    assert np.isfinite(model.score(X, y))


@pytest.mark.parametrize("library", LIBRARIES)
def test_vectors_as_targets_from_every_library(library):
    X, y = numbers(60)
    Y = np.stack([y, -y], 1)
    model = clone(REGRESSOR).set_params(family="multivariate_normal")
    frame = LIBRARIES[library]({"a": Y[:, 0], "b": Y[:, 1]})
    assert_array_equal(model.fit(X, frame).predict(X), clone(model).fit(X, Y).predict(X))
    assert_allclose(model.score(X, frame), model.score(X, Y))


@pytest.mark.parametrize(
    ("y", "message"),
    [
        (np.where(np.arange(60) == 3, np.nan, VALUES), "the target of row 3 is missing"),
        (pd.Series([1.0, None] * 30, dtype="Float64"), "the target of row 1 is missing"),
        (pl.Series([1.0, None] * 30), "the target of row 1 is missing"),
        (np.where(np.arange(60) == 3, np.inf, VALUES), "infinity"),
        (["a"] * 60, "y: expected numbers, got texts such as 'a'; use NatPNClassifier"),
        (VALUES[:50], r"inconsistent numbers of samples: \[60, 50\]"),
    ],
)
def test_targets_that_cannot_be_are_named(y, message):
    with pytest.raises(ValueError, match=message):
        clone(REGRESSOR).fit(numbers(60)[0], y)


def test_one_column_of_targets_warns():
    X, y = numbers(60)
    with pytest.warns(UserWarning, match="column-vector y"):
        model = clone(REGRESSOR).set_params(family="normal").fit(X, pl.DataFrame({"y": y}))
    assert model.predict(X).shape == (60,)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_many_rows_stream_through_predict():
    """200,000 rows of 20 columns take less than 100 MB above the input, as 1,000,000 may take 500."""
    X = np.random.default_rng(0).normal(size=(200_000, 20)).astype(np.float32)
    model = NatPNRegressor(max_epochs=1, ensemble_size=1, random_state=0).fit(X[:100], X[:100, 0])
    model.predict(X[:10_000], return_std=True)

    def predict():
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        for method in (model.predict_interval, lambda rows: model.predict(rows, return_std=True), model.score_samples):
            method(X)
        assert (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024 < 100

    assert forked(predict) == 0
