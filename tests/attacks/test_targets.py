"""Targets far from 1: predicted as well as any, or refused with the cure."""

import numpy as np
import pytest
from sklearn.base import clone

from estimators.problems import REGRESSOR, numbers
from natpn import NatPNRegressor, families
from natpn.estimators.regressor import automatic
from natpn.model.targets import Units


@pytest.mark.parametrize("name", ["poisson", "negative_binomial"])
def test_counts_beyond_what_a_family_reaches_are_refused(name):
    X, y = numbers(60)
    counts = np.round(1e9 * np.exp(y))
    with pytest.raises(ValueError, match=r"^y: .* expected numbers up to 1e\+08, .* got .*: choose family='lognormal'"):
        clone(REGRESSOR).set_params(family=name).fit(X, counts)
    clone(REGRESSOR).set_params(family=name).fit(X, np.round(1e7 * np.exp(y)))


def test_auto_has_another_family_for_large_counts():
    X, y = numbers(200)
    counts = np.round(1e9 * np.exp(y))
    assert automatic(counts) != "poisson"
    model = NatPNRegressor(family="auto", max_epochs=40, random_state=0).fit(X[:160], counts[:160])
    low, high = model.predict_interval(X[160:], 0.9).T
    assert ((low <= counts[160:]) & (counts[160:] <= high)).mean() > 0.7
    assert model.score(X[160:], counts[160:]) > 0.5


@pytest.mark.parametrize(("location", "spread"), [(1e6, 1e-7), (-1e9, 1e-4), (1e12, 0.1), (1.0, 1e-13)])
def test_a_tiny_spread_is_not_taken_for_none(location, spread):
    """As large as a thousand steps of float64 and more, it is as good as any other."""
    X, f = numbers(160)
    y = location + spread * f
    model = clone(REGRESSOR).set_params(max_epochs=40).fit(X[:120], y[:120])
    assert 0.5 * spread < float(model.units_.scale[0]) < 2 * spread
    assert model.score(X[120:], y[120:]) > 0.5
    low, high = model.predict_interval(X[120:], 0.9).T
    assert ((low <= y[120:]) & (y[120:] <= high)).mean() > 0.6


@pytest.mark.parametrize("value", [0.3, 1e6 / 3, -1e-7, 1e100])
def test_the_last_digit_is_no_spread(value):
    """One number, calculated in several ways."""
    y = np.where(np.arange(50) % 2, value, np.nextafter(value, np.inf))
    for targets in (y, np.full(50, value)):
        assert Units.of(families.get("normal"), targets).scale[0] == pytest.approx(abs(value))
