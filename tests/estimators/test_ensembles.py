"""Ensembles: on every estimator, their evidence together."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone

from estimators.problems import CLASSIFIER, REGRESSOR, classes, numbers, targets
from natpn import load
from natpn.families import FAMILIES
from natpn.network import NaturalPosteriorEnsemble


@pytest.mark.slow
@pytest.mark.parametrize("name", FAMILIES)
def test_three_members_of_every_family(name):
    X, y = targets(name, 40)
    model = clone(CLASSIFIER) if name == "categorical" else clone(REGRESSOR).set_params(family=name)
    model.set_params(ensemble_size=3, max_epochs=1).fit(X, y)
    assert isinstance(model.network_, NaturalPosteriorEnsemble)
    assert len(model.network_.members) == 3
    assert model.predict(X).shape == y.shape
    assert np.isfinite(model.predict_dist(X).log_prob(y)).all()
    assert model.predict_dist(X[:1] + 1e4).familiarity < 0.01


def test_members_differ_and_the_seed_decides():
    X, y = numbers(60)
    model = clone(REGRESSOR).set_params(ensemble_size=3).fit(X, y)
    weights = [member.decoder.weight for member in model.network_.members]
    assert all((weights[i] != weights[j]).any() for i in range(3) for j in range(i))
    again = clone(model).fit(X, y)
    assert_array_equal(again.predict(X), model.predict(X))


def test_an_ensemble_is_saved(tmp_path):
    X, y = classes(60)
    model = clone(CLASSIFIER).set_params(ensemble_size=2, calibrate="conformal").fit(X, y)
    model.save(tmp_path / "model")
    again = load(tmp_path / "model")
    for n in (1, 60):
        assert_array_equal(again.predict_proba(X[:n]), model.predict_proba(X[:n]))
    assert_array_equal(again.predict_set(X), model.predict_set(X))


def test_one_row_is_answered_as_among_many():
    X, y = numbers(60)
    model = clone(REGRESSOR).set_params(ensemble_size=2).fit(X, y)
    assert_allclose([model.predict(X[i : i + 1])[0] for i in range(20)], model.predict(X)[:20], rtol=1e-9)
    assert_allclose([model.score_samples(X[i : i + 1])[0] for i in range(20)], model.score_samples(X)[:20], rtol=1e-9)
