"""Small data: it works, or says why not."""

import numpy as np
import pytest
from sklearn.base import clone

from estimators.problems import CLASSIFIER, REGRESSOR, SCALARS, classes, numbers, targets
from natpn import NatPNClassifier, NatPNRegressor


def test_thirty_rows_at_the_default():
    X, y = numbers(30)
    model = NatPNRegressor(random_state=0).fit(X, y)
    fresh, truth = numbers(200, seed=1)
    assert np.mean((model.predict(fresh) - truth) ** 2) < truth.var()
    low, high = model.predict_interval(fresh, 0.9).T
    assert ((low <= truth) & (truth <= high)).mean() > 0.6
    assert model.predict_dist(fresh[:1] + 1e4).familiarity < 0.01


def test_thirty_rows_of_classes_at_the_default():
    X, y = classes(30)
    model = NatPNClassifier(random_state=0).fit(X, y)
    fresh, truth = classes(200, seed=1)
    assert model.score(fresh, truth) > 0.6


@pytest.mark.parametrize("name", SCALARS)
@pytest.mark.parametrize("rows", [2, 3, 5])
def test_a_handful_of_rows(name, rows):
    X, y = targets(name, rows)
    model = clone(REGRESSOR).set_params(family=name).fit(X, y)
    distribution = model.predict_dist(X)
    assert np.isfinite(model.predict(X)).all()
    assert ((distribution.novelty_p > 0) & (distribution.novelty_p <= 1)).all()


@pytest.mark.parametrize("calibrate", [None, "conformal"])
def test_two_rows_of_a_class(calibrate):
    X, y = classes(40)
    few = np.concatenate([np.flatnonzero(y == "low"), np.flatnonzero(y == "top")[:2]])
    model = clone(CLASSIFIER).set_params(max_epochs=20, calibrate=calibrate).fit(X[few], y[few])
    assert model.classes_.tolist() == ["low", "top"]
    assert model.predict_proba(X).shape == (40, 2)


@pytest.mark.parametrize("rows", [[0, 1], [0, 1, 1]])
def test_one_row_of_a_class(rows):
    X = np.array([[0.0], [1.0]])[rows]
    model = clone(CLASSIFIER).fit(X, np.array(["a", "b"])[rows])
    assert model.predict(X).shape == (len(rows),)


def test_one_feature_and_one_row_to_predict():
    X, y = numbers(60)
    model = clone(REGRESSOR).fit(X[:, :1], y)
    assert model.predict(X[:1, :1]).shape == (1,)
    assert model.predict_interval([[0.5]]).shape == (1, 2)
    assert len(model.predict_frame(X[:1, :1])) == 1
    with pytest.raises(ValueError, match="Reshape your data"):
        model.predict(X[:, 0])


def test_one_row_is_refused():
    with pytest.raises(ValueError, match="at least 2 rows, got n_samples=1"):
        clone(REGRESSOR).fit([[1.0, 2.0]], [3.0])
    with pytest.raises(ValueError, match="only one class is present"):
        clone(CLASSIFIER).fit([[1.0], [2.0]], ["a", "a"])


def test_all_columns_constant():
    y = numbers(40)[1]
    model = clone(REGRESSOR).set_params(max_epochs=30).fit(np.ones((40, 2)), y)
    assert np.allclose(model.predict(np.ones((3, 2))), y.mean(), atol=0.5 * y.std())
    assert model.score_samples([[2.0, 1.0]])[0] < model.score_samples([[1.0, 1.0]])[0]


def test_more_columns_than_rows():
    generator = np.random.default_rng(0)
    X = generator.normal(size=(30, 100))
    model = clone(REGRESSOR).fit(X, X[:, 0])
    assert np.isfinite(model.predict(X)).all()
    assert model.predict_dist(X[:1] + 1e4).familiarity < 0.01


def test_a_seeded_share_is_held_out():
    X, y = numbers(100)
    models = [clone(REGRESSOR).set_params(random_state=seed, ensemble_size=1).fit(X, y) for seed in (0, 0, 1)]
    assert [model.n_rows_ for model in models] == [80] * 3
    same, again, other = (model.calibration_.log_evidence for model in models)
    assert (same == again).all()
    assert (same != other).any()
    wider = clone(REGRESSOR).set_params(validation_fraction=0.5, ensemble_size=1).fit(X, y)
    assert (wider.n_rows_, len(wider.calibration_.log_evidence)) == (50, 50)


def test_a_generator_as_random_state():
    X, y = numbers(40)
    first = clone(REGRESSOR).set_params(random_state=np.random.RandomState(3)).fit(X, y)
    again = clone(REGRESSOR).set_params(random_state=np.random.RandomState(3)).fit(X, y)
    assert (first.predict(X) == again.predict(X)).all()
