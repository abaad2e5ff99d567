"""Networks in float32, for many rows: nearly the same answers, and the model itself stays as it is."""

import numpy as np
import pytest
import torch

from estimators.problems import numbers, quick
from natpn.families import FAMILIES


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("scale", [1.0, 30.0, 1e6])
def test_answers_agree_near_and_far(family, scale):
    model = quick(family)
    rows = scale * numbers(500, seed=3)[0]
    exact, fast = model.predict_dist(rows), model.fast().predict_dist(rows)
    np.testing.assert_allclose(fast.log_evidence, exact.log_evidence, atol=5e-3)
    np.testing.assert_allclose(fast.epistemic, exact.epistemic, atol=5e-3)
    if family == "categorical":
        np.testing.assert_allclose(model.fast().predict_proba(rows), model.predict_proba(rows), atol=2e-3)
    elif not exact.predictive.event_shape:
        unit = np.abs(np.diff(exact.interval()))
        assert (np.abs(fast.interval() - exact.interval()) <= 5e-3 * unit + 1e-9).all()


def test_the_model_stays_as_it_is():
    model = quick()
    fast = model.fast()
    assert {p.dtype for p in fast.network_.parameters()} == {torch.float32}
    assert {p.dtype for p in model.network_.parameters()} == {torch.float64}
    assert {b.dtype for b in fast.network_.buffers(recurse=False)} <= {torch.float64}
    assert not any(m._hastened for m in model.network_.modules() if hasattr(m, "_hastened"))
