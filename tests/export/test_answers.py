"""The module that is exported says what the estimator says, for every family and density."""

import numpy as np
import pytest

from export.problems import ROWS, ask, assert_agree, fitted, questions, targets
from natpn import NatPNRegressor
from natpn.densities import DENSITIES
from natpn.families import FAMILIES


def test_the_parameters_of_every_family_are_described():
    said = [fitted(name).family_.graph.parameters for name in FAMILIES]
    assert len(set(said)) == len(FAMILIES) - 1  # categorical and multinomial have the same


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("n", [1, 7, 300])
def test_every_family(family, n):
    model = fitted(family)
    assert_agree(ask(model, questions(n)), model, questions(n), 1e-7)


@pytest.mark.parametrize("density", DENSITIES)
def test_every_density(density):
    model = fitted("normal", density)
    assert_agree(ask(model, questions(60)), model, questions(60), 1e-7)


def test_an_ensemble():
    model = fitted("poisson", ensemble_size=3)
    assert_agree(ask(model, questions(60)), model, questions(60), 1e-7)


def test_columns_that_are_constant_empty_or_truth_values():
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame(
        {
            "truth": ROWS[:, 1] > 0,
            "always": True,
            "constant": 7.0,
            "empty": np.nan,
            "huge": ROWS[:, 0] * 1e200,
            "gaps": pd.array(np.where(np.isnan(ROWS[:, 2]), None, ROWS[:, 0] > 0), "boolean"),
        }
    )
    model = NatPNRegressor(latent_dim=4, max_epochs=2, random_state=0).fit(frame, targets("normal"))
    asked = frame.iloc[:8].copy()
    asked["always"] = [True, False, *[True] * 6]
    asked["constant"] = [7.0, 7.0, 8.0, np.nan, *[7.0] * 4]
    asked["empty"] = [np.nan] * 4 + [1.0] + [np.nan] * 3
    asked["gaps"] = pd.array([True, False, None, None, True, True, False, False], "boolean")
    rows = asked.astype(float).to_numpy(dtype=float, na_value=np.nan)
    found = ask(model, rows)
    assert np.allclose(found["log_evidence"], model.score_samples(asked), rtol=1e-12)
    assert len({round(v, 6) for v in found["log_evidence"]}) > 4
