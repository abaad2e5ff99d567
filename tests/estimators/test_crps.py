"""Values of equal probability give the score that the distribution function defines."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from natpn import NatPNRegressor, metrics


@pytest.mark.slow
@pytest.mark.parametrize("family", ["normal", "poisson"])
def test_the_score_is_the_integral_of_its_definition(family):
    """∫ (F(x) − 1{x ≥ y})² dx, a sum for counts; draws leave 3 % open."""
    generator = np.random.default_rng(0)
    X = generator.normal(size=(300, 2))
    y = generator.poisson(np.exp(1 + X[:, 0])).astype(float)
    found = NatPNRegressor(family, max_epochs=5, random_state=0).fit(X, y).predict_dist(X[:20])
    points = np.arange(0.0, 400.0) if family == "poisson" else np.arange(-300, 300, 0.1) + 0.05
    gaps = [(found.cdf(np.full(20, x)) - (x >= y[:20])) ** 2 for x in points]
    exact = np.mean(gaps, axis=1).sum() * (points[1] - points[0])
    assert_allclose(metrics.crps(y[:20], found.equally_likely()), exact, rtol=0.03 if family == "poisson" else 2e-3)
