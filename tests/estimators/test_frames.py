"""Frames of predictions: named columns in the library that came in."""

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from numpy.testing import assert_array_equal
from sklearn.base import clone

from estimators.problems import CLASSIFIER, REGRESSOR, classes, numbers, targets
from natpn.estimators import data_estimator

LIBRARIES = {"pandas": pd.DataFrame, "polars": pl.DataFrame, "pyarrow": pa.table}
KINDS = {"pandas": pd.DataFrame, "polars": pl.DataFrame, "pyarrow": pa.Table}
UNCERTAINTIES = ["aleatoric", "epistemic", "familiarity", "novelty_p", "novel"]


@pytest.fixture(scope="module")
def regressor():
    X, y = numbers(60)
    return clone(REGRESSOR).fit(pd.DataFrame(X, columns=["a", "b"]), y)


@pytest.fixture(scope="module")
def classifier():
    X, y = classes(60)
    return clone(CLASSIFIER).fit(pd.DataFrame(X, columns=["a", "b"]), y)


def names(frame):
    return frame.column_names if isinstance(frame, pa.Table) else list(frame.columns)


@pytest.mark.parametrize("library", LIBRARIES)
def test_a_regressors_frame(library, regressor):
    X = numbers(20, seed=3)[0]
    frame = LIBRARIES[library]({"a": X[:, 0], "b": X[:, 1]})
    found = regressor.predict_frame(frame, coverage=0.5)
    assert isinstance(found, KINDS[library])
    assert names(found) == ["prediction", "lower", "upper", *UNCERTAINTIES, "reason"]
    distribution = regressor.predict_dist(frame)
    columns = {name: np.asarray(found[name]) for name in names(found)}
    assert_array_equal(columns["prediction"], regressor.predict(frame))
    assert_array_equal(np.stack([columns["lower"], columns["upper"]], 1), distribution.interval(0.5))
    for name in UNCERTAINTIES[:4]:
        assert_array_equal(columns[name], getattr(distribution, name))
    assert_array_equal(columns["novel"], distribution.novelty_p < 0.05)
    assert columns["novel"].dtype == bool


@pytest.mark.parametrize("library", LIBRARIES)
def test_a_classifiers_frame(library, classifier):
    X = classes(20, seed=3)[0]
    frame = LIBRARIES[library]({"a": X[:, 0], "b": X[:, 1]})
    found = classifier.predict_frame(frame)
    assert isinstance(found, KINDS[library])
    assert names(found) == ["prediction", "p_low", "p_middle", "p_top", *UNCERTAINTIES, "reason"]
    assert [str(v) for v in np.asarray(found["prediction"])] == classifier.predict(frame).tolist()
    p = np.stack([np.asarray(found[f"p_{label}"]) for label in ("low", "middle", "top")], 1)
    assert_array_equal(p, classifier.predict_proba(frame))


def test_the_index_is_kept(regressor):
    X = numbers(5)[0]
    frame = pd.DataFrame(X, columns=["a", "b"], index=list("vwxyz"))
    assert regressor.predict_frame(frame).index.tolist() == list("vwxyz")


def test_an_array_gives_a_frame_of_what_is_installed(monkeypatch):
    X, y = numbers(40)
    model = clone(REGRESSOR).fit(X, y)
    assert isinstance(model.predict_frame(X), pd.DataFrame)
    monkeypatch.setattr(data_estimator, "find_spec", lambda name: name == "pyarrow")
    assert isinstance(model.predict_frame(X), pa.Table)
    monkeypatch.setattr(data_estimator, "find_spec", lambda name: None)
    with pytest.raises(ImportError, match="pip install pandas"):
        model.predict_frame(X)


@pytest.mark.parametrize("labels", [[False, True], [-5, 7], [0.0, 2.0]])
def test_labels_keep_their_type(labels):
    X, y = classes(40)
    found = clone(CLASSIFIER).fit(X, np.array(labels)[(y == "low").astype(int)]).predict_frame(X)
    assert found["prediction"].dtype == np.array(labels).dtype
    assert names(found)[1:3] == [f"p_{label}" for label in labels]


def test_vectors_have_a_column_for_each_coordinate():
    X, y = targets("multivariate_normal", 40)
    model = clone(REGRESSOR).set_params(family="multivariate_normal").fit(X, y)
    assert names(model.predict_frame(X)) == ["prediction_0", "prediction_1", "prediction_2", *UNCERTAINTIES, "reason"]
