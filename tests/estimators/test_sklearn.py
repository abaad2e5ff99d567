"""scikit-learn's own checks, without expected failures or skips, and its tools around the estimators."""

import pickle
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

from estimators.problems import CLASSIFIER, REGRESSOR, classes, numbers
from natpn import NatPNClassifier, NatPNRegressor

# These ask for accuracy. All others are about the interface, where few epochs do.
ACCURATE = ("check_classifiers_train", "check_regressors_train")
BOTH = pytest.mark.parametrize("kind", [NatPNClassifier, NatPNRegressor])


@parametrize_with_checks([NatPNClassifier(max_epochs=2), NatPNRegressor(max_epochs=2)])
def test_scikit_learns_checks(estimator, check, monkeypatch):
    monkeypatch.setenv("SCIPY_ARRAY_API", "1")  # else the check of the array API skips itself
    if getattr(check, "func", check).__name__ in ACCURATE:
        # read-only inputs are one more fit of the same, for which one network will do
        alone = "readonly_memmap" in getattr(check, "keywords", {})
        estimator = clone(estimator).set_params(max_epochs=20, ensemble_size=1 if alone else "auto")
    check(estimator)


@BOTH
def test_parameters_are_stored_as_they_came(kind):
    given = {"latent_dim": 4, "prior": (0.5, 2.0), "max_epochs": 3, "random_state": 7}
    model = kind(**given)
    assert {name: model.get_params()[name] for name in given} == given
    assert clone(model).get_params() == model.get_params()
    assert model.set_params(latent_dim=5).latent_dim == 5
    with pytest.raises(ValueError, match="Invalid parameter 'latent'"):
        model.set_params(latent=3)


@pytest.mark.parametrize("method", ["predict", "predict_dist", "predict_frame", "score_samples", "save"])
@BOTH
def test_nothing_is_predicted_before_fit(kind, method, tmp_path):
    with pytest.raises(NotFittedError):
        getattr(kind(), method)(tmp_path / "model" if method == "save" else np.zeros((2, 2)))


@pytest.mark.parametrize("method", ["predict_proba", "predict_log_proba", "predict_set"])
def test_no_probabilities_before_fit(method):
    with pytest.raises(NotFittedError):
        getattr(NatPNClassifier(), method)(np.zeros((2, 2)))


def test_pipeline_search_and_cross_validation():
    X, y = classes(120)
    pipeline = make_pipeline(StandardScaler(), NatPNClassifier(max_epochs=20, random_state=0))
    assert pipeline.fit(X, y).score(X, y) > 0.85
    pipeline.set_params(natpnclassifier__max_epochs=1)
    assert cross_val_score(pipeline, X, y, cv=2).shape == (2,)
    search = GridSearchCV(pipeline, {"natpnclassifier__latent_dim": [2, 4]}, cv=2).fit(X, y)
    assert search.best_params_["natpnclassifier__latent_dim"] in (2, 4)


def test_a_search_in_two_processes_finds_the_same():
    X, y = numbers(60)
    grid = {"latent_dim": [2, 4]}
    one, two = (GridSearchCV(REGRESSOR, grid, cv=2, n_jobs=jobs).fit(X, y).cv_results_ for jobs in (1, 2))
    assert_array_equal(one["mean_test_score"], two["mean_test_score"])


@pytest.mark.parametrize("ensemble_size", [1, 2])
def test_a_pickled_model_predicts_the_same_after_predicting(ensemble_size):
    X, y = numbers(60)
    model = clone(REGRESSOR).set_params(ensemble_size=ensemble_size).fit(X, y)
    want = [model.predict(X[:n]) for n in (1, 60)]
    again = pickle.loads(pickle.dumps(model))
    assert_array_equal(again.predict(X[:1]), want[0])
    assert_array_equal(again.predict(X), want[1])
    assert clone(again).get_params() == model.get_params()


def test_two_threads_may_predict_at_once():
    X, y = numbers(300)
    model = clone(REGRESSOR).fit(X[:60], y[:60])
    want = [model.predict_interval(X[:n]) for n in (1, 300)]
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda n: model.predict_interval(X[:n]), [1, 300] * 10))
    for i, interval in enumerate(found):
        assert_array_equal(interval, want[i % 2])


def test_names_of_columns_are_kept_and_checked():
    pandas = pytest.importorskip("pandas")
    X, y = classes(60)
    frame = pandas.DataFrame(X, columns=["a", "b"])
    model = clone(CLASSIFIER).fit(frame, y)
    assert model.feature_names_in_.tolist() == ["a", "b"]
    assert model.n_features_in_ == 2
    with pytest.raises(ValueError, match="feature names should match"):
        model.predict(frame.rename(columns={"a": "c"}))
    with pytest.warns(UserWarning, match="valid feature names"):
        model.predict(X)
    assert not hasattr(model.fit(X, y), "feature_names_in_")


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("latent_dim", 0, "latent_dim: expected a whole number of at least 1, got 0"),
        ("ensemble_size", 1.5, "ensemble_size: expected a whole number"),
        ("max_epochs", 0, "max_epochs: expected"),
        ("batch_size", -1, "batch_size: expected"),
        ("learning_rate", -1.0, "learning_rate: expected a positive number"),
        ("patience", 0, "patience: expected a positive number"),
        ("validation_fraction", 1.0, "validation_fraction: expected a share"),
        ("calibrate", "conform", "calibrate = 'conform' is unknown.*Did you mean 'conformal'"),
        ("scheme", "pape", "scheme = 'pape' is unknown.*Did you mean 'paper'"),
        ("density", "foo", "density = 'foo' is unknown"),
        ("density", 3, "density: expected a name or a natpn.densities.Density, got 3"),
        ("budget", "foo", "budget = 'foo' is unknown"),
        ("encoder", "foo", "encoder: 'foo' is not for inputs of shape"),
        ("device", "foo", "device: expected"),
        ("prior", 3, "prior: expected 'marginal', 'paper', an Evidence or a pair"),
        ("prior", ([1.0] * 7, 1.0), r"prior: chi of .* has \d numbers, got shape \(7,\)"),
        ("prior", (-1.0, 1.0), "prior: .* is not a proper prior"),
        ("prior", (1.0, 0.0), "prior: .* is not a proper prior"),
        ("random_state", "a", "cannot be used to seed"),
    ],
)
@BOTH
def test_wrong_parameters_are_named(kind, name, value, message):
    X, y = classes(40) if kind is NatPNClassifier else numbers(40)
    with pytest.raises(ValueError, match=message):
        kind(**{"max_epochs": 1, name: value}).fit(X, y)
