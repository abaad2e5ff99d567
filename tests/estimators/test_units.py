"""Units of targets: what training sees, and the way back."""

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose
from sklearn.base import clone
from torch.testing import assert_close

from estimators.problems import REGRESSOR, VECTORS, numbers, targets
from natpn import families
from natpn.estimators.regressor import choose_family
from natpn.families import FAMILIES
from natpn.model.targets import Units

NAMES = [name for name in FAMILIES if name != "categorical"]


@pytest.mark.parametrize("name", NAMES)
def test_evidence_of_standardised_targets_is_that_of_the_targets(name):
    """Pooling observations commutes with the change of units."""
    y = targets(name, 50)[1]
    y = 1e3 * y + 7 if name in ("normal", "multivariate_normal") else y
    family = choose_family(name, y)
    units = Units.of(family, y)
    seen = units.standardise(y)
    assert seen.dtype == torch.float32
    assert seen.shape == y.shape
    prior = family.prior(dtype=torch.float64)

    def pooled(prior_chi, t):
        start = family.evidence(prior_chi, prior.log_n)
        for one in t:
            start = start + family.observe(one)
        return start.chi

    want = pooled(units.restore(prior.chi), torch.from_numpy(np.asarray(y, float)))
    assert_close(units.restore(pooled(prior.chi, seen.double())), want, rtol=1e-4, atol=1e-3)


@pytest.mark.parametrize("name", NAMES)
def test_express_is_the_inverse_of_restore(name):
    y = targets(name, 50)[1]
    family = choose_family(name, y)
    units = Units.of(family, 3 * y if name in ("normal", "gamma", "lognormal") else y)
    chi = family.prior(dtype=torch.float64).chi
    assert_close(units.express(units.restore(chi)), chi)
    assert_close(units.restore(units.express(chi)), chi)
    again = Units.from_config(family, units.to_config())
    assert_close(again.restore(chi), units.restore(chi), rtol=0, atol=0)


def test_weights_weigh_the_units():
    y, weight = np.array([0.0, 0.0, 10.0]), np.array([1.0, 1, 2])
    weighted = Units.of(families.get("normal"), y, weight)
    repeated = Units.of(families.get("normal"), np.array([0.0, 0, 10, 10]))
    assert_allclose(weighted.location, repeated.location)
    assert_allclose(weighted.scale, repeated.scale)


@pytest.mark.parametrize("scale", [1e12, 1e-12, 1e100, 1e-100])
@pytest.mark.parametrize("name", ["normal", "lognormal", "gamma", "exponential", "multivariate_normal"])
def test_very_large_and_tiny_targets(name, scale):
    X, y = targets(name, 60)
    model = clone(REGRESSOR).set_params(family=name).fit(X, scale * y)
    plain = clone(model).fit(X, y)
    assert_allclose(model.predict(X) / scale, plain.predict(X), rtol=1e-3, atol=1e-4)
    distribution = model.predict_dist(X)
    assert np.isfinite(distribution.log_prob(scale * y)).all()
    assert np.isfinite(distribution.entropy()).all()
    if name not in VECTORS:
        assert np.isfinite(distribution.interval()).all()


@pytest.mark.parametrize("scale", [1e200, 1e-200, 1e-320])
def test_targets_beyond_the_range_of_squares_are_refused(scale):
    X, y = numbers(30)
    with pytest.raises(ValueError, match=r"y: expected numbers up to 1e150 .* choose another unit"):
        clone(REGRESSOR).fit(X, scale * y)


@pytest.mark.parametrize("value", [0.0, 3.0, -1e12])
def test_a_constant_target_is_learned(value):
    X = numbers(60)[0]
    model = clone(REGRESSOR).set_params(max_epochs=120).fit(X, np.full(60, value))
    size = max(abs(value), 1.0)
    assert_allclose(model.predict(X), value, atol=0.1 * size)
    assert (model.predict_dist(X).std() < 0.2 * size).all()


def test_a_small_spread_around_a_large_number_is_learned():
    X, y = numbers(100)
    model = clone(REGRESSOR).set_params(max_epochs=40).fit(X, 1e9 + y)
    assert np.corrcoef(model.predict(X) - 1e9, y)[0, 1] > 0.8
    assert np.median(model.predict_dist(X).std()) < 1
