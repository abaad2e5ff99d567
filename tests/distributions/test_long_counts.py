"""Counts that are summed one by one agree with those that are integrated."""

import numpy as np
import pytest
import torch

from natpn.distributions import beta_negative_binomial as bnb
from natpn.distributions.beta_negative_binomial import BetaNegativeBinomial


def test_sum_and_integral_meet(monkeypatch: pytest.MonkeyPatch) -> None:
    lot = np.random.default_rng(0)
    a, b, size = (torch.from_numpy(lot.uniform(low, high, 8)) for low, high in ((1, 900), (3, 60), (0.5, 20)))
    distribution, y = BetaNegativeBinomial(a, b, size), torch.from_numpy(lot.integers(0, 600, 8).astype(float))
    summed = distribution.cdf(y)
    quantiles = distribution.icdf(torch.tensor([[0.05], [0.95]], dtype=torch.float64))
    monkeypatch.setattr(bnb, "_FEW", 0)
    np.testing.assert_allclose(summed, distribution.cdf(y), rtol=1e-9)
    np.testing.assert_array_equal(quantiles, distribution.icdf(torch.tensor([[0.05], [0.95]], dtype=torch.float64)))
