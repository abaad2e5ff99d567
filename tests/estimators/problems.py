"""Small problems and estimators that are quick to fit, for tests where the quality of training does not matter."""

from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone

from natpn import NatPNClassifier, NatPNRegressor
from natpn.families import FAMILIES

Floats = NDArray[np.float64]

CLASSIFIER = NatPNClassifier(max_epochs=3, random_state=0)
REGRESSOR = NatPNRegressor(max_epochs=3, random_state=0)


def numbers(rows: int, seed: int = 0) -> tuple[Floats, Floats]:
    """Two columns, and a number that depends on the first, with noise."""
    generator = np.random.default_rng(seed)
    X = generator.normal(size=(rows, 2))
    return X, np.sin(2 * X[:, 0]) + 0.2 * generator.normal(size=rows)


def classes(rows: int, seed: int = 0) -> tuple[Floats, NDArray[Any]]:
    """Two columns, and a label that depends on the first, with noise."""
    generator = np.random.default_rng(seed)
    X = generator.normal(size=(rows, 2))
    level = np.digitize(X[:, 0] + 0.1 * generator.normal(size=rows), [-0.4, 0.4])
    return X, np.array(["low", "middle", "top"])[level]


def targets(family: str, rows: int, seed: int = 0) -> tuple[Floats, NDArray[Any]]:
    """Two columns, and targets of a family whose mean depends on the first."""
    generator = np.random.default_rng(seed)
    X, noise = generator.normal(size=(rows, 2)), generator.normal(size=(rows, 3))
    mean = np.exp(1 + 0.5 * X[:, 0])
    share = 1 / (1 + np.exp(-2 * X[:, 0]))
    vectors = np.stack([X[:, 0], -X[:, 0], X[:, 1]], 1) + 0.3 * noise
    found = {
        "categorical": lambda: classes(rows, seed)[1],
        "bernoulli": lambda: (generator.random(rows) < share).astype(float),
        "multinomial": lambda: np.stack([ones := generator.binomial(10, share), 10 - ones], 1),
        "normal": lambda: X[:, 0] + 0.2 * noise[:, 0],
        "lognormal": lambda: np.exp(X[:, 0] + 0.2 * noise[:, 0]),
        "multivariate_normal": lambda: vectors,
        "poisson": lambda: generator.poisson(mean).astype(float),
        "negative_binomial": lambda: generator.negative_binomial(3, 3 / (3 + mean)).astype(float),
        "exponential": lambda: generator.exponential(mean),
        "gamma": lambda: generator.gamma(2, mean / 2),
        "von_mises_fisher": lambda: vectors / np.linalg.norm(vectors, axis=1, keepdims=True),
    }
    return X, found[family]()


@cache
def quick(family: str = "normal", rows: int = 60, **options: Any) -> Any:
    """A model of the targets of a family, fitted once for all tests that only read it."""
    model = clone(CLASSIFIER) if family == "categorical" else clone(REGRESSOR).set_params(family=family)
    return model.set_params(**options).fit(*targets(family, rows))


VECTORS = {name for name, kind in FAMILIES.items() if kind.is_vectors}
SCALARS = [name for name, kind in FAMILIES.items() if not kind.is_vectors and not kind.is_classes]
