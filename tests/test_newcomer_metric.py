"""A score that only this file knows goes all the way: one line in the registry."""

import json

import numpy as np
import pandas as pd
import pytest

from cli.conftest import run
from natpn import NatPNClassifier, NatPNRegressor
from natpn.families import ScalarDistribution
from natpn.report import render
from natpn.report.scores import METRICS, Metric, scores


def shortfall(answer, y):
    """Return the pinball loss of each row at 95 %, which only single numbers have."""
    if not isinstance(answer.predictive, ScalarDistribution) or answer.predictive.target.discrete:
        return None
    below = y - answer.quantile(0.95)
    return np.maximum(0.95 * below, -0.05 * below)


@pytest.fixture(autouse=True)
def pinball(monkeypatch):
    monkeypatch.setitem(
        METRICS, "pinball_95", Metric("Pinball loss", "Loss of the 95 % quantile.", ("pinball_95",), np.mean, shortfall)
    )


def table(n: int = 80, seed: int = 0) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    a = rng.normal(size=n)
    return pd.DataFrame({"a": a, "y": 2 * a + rng.normal(size=n)})


def test_a_score_is_one_line(tmp_path):
    table().to_csv(tmp_path / "train.csv", index=False)
    table(40, 1).to_csv(tmp_path / "test.csv", index=False)
    fit = run("fit", tmp_path / "train.csv", "--target", "y", "--out", tmp_path / "model", "--max-epochs", 1)
    assert "pinball_95" in fit.stdout
    shown = run("evaluate", tmp_path / "model", tmp_path / "test.csv")
    assert "Loss of the 95 % quantile." in shown.stdout
    found = json.loads(run("evaluate", tmp_path / "model", tmp_path / "test.csv", "--json").stdout)
    assert found["pinball_95"] > 0


def test_it_is_in_the_report_and_left_out_where_it_has_no_meaning():
    train, test = table(), table(40, 1)
    model = NatPNRegressor(max_epochs=1, random_state=0).fit(train[["a"]], train["y"])
    assert "Pinball loss" in render(model, test[["a"]], test["y"])
    missed = test["y"].to_numpy() - model.predict_quantiles(test[["a"]], 0.95)
    expected = np.mean(np.where(missed > 0, 0.95 * missed, -0.05 * missed))
    assert scores(model, test[["a"]], test["y"])["pinball_95"] == pytest.approx(expected)
    classes = NatPNClassifier(max_epochs=1, random_state=0).fit(train[["a"]], train["y"] > 0)
    assert "pinball_95" not in scores(classes, test[["a"]], test["y"] > 0)
