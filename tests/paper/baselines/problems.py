"""Known answers, and estimators that are quick to fit."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from natpn_paper.baselines import BASELINES, get
from natpn_paper.baselines.base import Baseline

Floats = NDArray[np.float64]

NOISE = 0.3
CASES = [(name, target) for name, entry in BASELINES.items() for target in entry.targets]
OWN = [(name, target) for name, target in CASES if isinstance(get(name, target), Baseline)]
# A few epochs do where the quality of training does not matter.
QUICK = {"max_epochs": 2, "random_state": 0}
SMALL = {"Ensemble": {"ensemble_size": 2}, "EnD2": {"ensemble_size": 2}, "SNGP": {"n_features": 128}}


def quick(name: str, target: str, **parameters: Any) -> Any:
    """Return a model that is quick to fit."""
    return get(name, target, **{**QUICK, **SMALL.get(name, {}), **parameters})


def line(rows: int, seed: int = 0) -> tuple[Floats, Floats]:
    """Two columns, and a number on a plane with Normal noise of standard deviation `NOISE`."""
    generator = np.random.default_rng(seed)
    X = generator.normal(size=(rows, 2))
    return X, 1 + X @ [2.0, -1.0] + NOISE * generator.normal(size=rows)


def counts(rows: int, seed: int = 0) -> tuple[Floats, Floats]:
    """Two columns, and a count whose log rate is on a plane."""
    generator = np.random.default_rng(seed)
    X = generator.normal(size=(rows, 2))
    return X, generator.poisson(np.exp(2 + X @ [0.5, -0.3])).astype(float)


def clusters(rows: int, seed: int = 0, spread: float = 0.3) -> tuple[Floats, NDArray[Any]]:
    """Three classes around three points."""
    generator = np.random.default_rng(seed)
    index = generator.integers(3, size=rows)
    X = np.array([[0.0, 1.0], [0.9, -0.5], [-0.9, -0.5]])[index] + spread * generator.normal(size=(rows, 2))
    return X, np.array(["a", "b", "c"])[index]


def problem(target: str, rows: int, seed: int = 0) -> tuple[Floats, NDArray[Any]]:
    """Return a problem by its kind of target."""
    return {"classes": clusters, "normal": line, "poisson": counts}[target](rows, seed)
