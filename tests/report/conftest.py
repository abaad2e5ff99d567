"""Small fitted models, each with rows to report on."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import pytest

from natpn import NatPNClassifier, NatPNRegressor

SCRIPT = "<script>alert(1)</script>"


@dataclass(frozen=True)
class Case:
    model: Any
    X: Any
    y: Any
    ood: Any


def table(n: int, shift: float = 0.0) -> pd.DataFrame:
    rng = np.random.default_rng(n)
    frame = pd.DataFrame(
        {
            SCRIPT: rng.normal(shift, 1, n),
            "$x_1$ & more": rng.normal(shift, 1, n),
            "colour": rng.choice(["red", "<i>blue</i>"], n),
            "day": pd.Timestamp("2024-01-01") + pd.to_timedelta(rng.integers(0, 300, n), "D"),
            "fresh": rng.random(n) < 0.5,
        }
    )
    frame.loc[::9, "$x_1$ & more"] = np.nan
    return frame


def labels(X: pd.DataFrame) -> Any:
    return np.where(X[SCRIPT] > 0.5, "<b>high</b>", np.where(X[SCRIPT] < -0.5, "low & $1$", "middle"))


def make(kind: str) -> Case:
    train, test, ood = table(300), table(120), table(60, 25.0)
    quick: dict[str, Any] = {"max_epochs": 3, "random_state": 0}
    signal = [X[SCRIPT].to_numpy() for X in (train, test)]
    if kind == "labels":
        return Case(NatPNClassifier(**quick).fit(train, labels(train)), test, labels(test), ood)
    if kind == "many labels":
        many = [np.round(s * 12).astype(int).clip(-12, 12) for s in signal]
        known = np.isin(many[1], many[0])
        return Case(NatPNClassifier(**quick).fit(train, many[0]), test[known], many[1][known], ood)
    if kind == "numbers":
        return Case(NatPNRegressor(**quick).fit(train, 3 * signal[0]), test, 3 * signal[1], ood)
    if kind == "conformal ensemble":
        model = NatPNRegressor(calibrate="conformal", ensemble_size=2, **quick)
        return Case(model.fit(train, 3 * signal[0]), test, 3 * signal[1], ood)
    if kind == "lognormal":
        return Case(
            NatPNRegressor(family="lognormal", **quick).fit(train, np.exp(3 * signal[0])),
            test,
            np.exp(3 * signal[1]),
            ood,
        )
    if kind == "counts":
        y = [np.random.default_rng(0).poisson(np.exp(s / 2)) for s in signal]
        return Case(NatPNRegressor(family="poisson", **quick).fit(train, y[0]), test, y[1], ood)
    if kind == "vectors":
        y = [np.stack([s, -s + 0.1 * s**2], 1) for s in signal]
        return Case(NatPNRegressor(family="multivariate_normal", **quick).fit(train, y[0]), test, y[1], ood)
    rng = np.random.default_rng(0)
    pictures = [rng.normal(size=(n, 1, 8, 8)) + (np.arange(n) % 2)[:, None, None, None] for n in (80, 40)]
    model = NatPNClassifier(latent_dim=4, **quick).fit(pictures[0], np.arange(80) % 2)
    return Case(model, pictures[1], np.arange(40) % 2, pictures[1] + 30)


KINDS = ["labels", "many labels", "numbers", "conformal ensemble", "lognormal", "counts", "vectors", "images"]
_made: dict[str, Case] = {}


@pytest.fixture
def case(request):
    """The case whose name a test gives, fitted once."""
    if request.param not in _made:
        _made[request.param] = make(request.param)
    return _made[request.param]
