"""Two small models of tables, one of images, and clients of servers for them."""

from collections.abc import Iterator

import httpx
import numpy as np
import pytest
import torch

from natpn import NatPNClassifier, NatPNRegressor
from natpn.serve import create_app
from serve.serving import client_of, flats


@pytest.fixture(scope="session")
def regressor() -> NatPNRegressor:
    torch.manual_seed(0)
    return NatPNRegressor(max_epochs=20, random_state=0).fit(*flats())


@pytest.fixture(scope="session")
def classifier() -> NatPNClassifier:
    torch.manual_seed(0)
    rng = np.random.default_rng(0)
    X = rng.normal(size=(600, 4))
    labels = np.array(["low", "mid", "high"])[np.digitize(X[:, 0] + rng.normal(size=600) / 3, [-0.5, 0.5])]
    return NatPNClassifier(max_epochs=20, random_state=0).fit(X, labels)


@pytest.fixture(scope="session")
def painter() -> NatPNClassifier:
    """A model of images."""
    torch.manual_seed(0)
    pictures = np.random.default_rng(0).normal(size=(60, 1, 8, 8)) + np.arange(60)[:, None, None, None] % 2
    return NatPNClassifier(latent_dim=4, max_epochs=2, random_state=0).fit(pictures, np.arange(60) % 2)


@pytest.fixture(scope="session")
def client(regressor) -> Iterator[httpx.Client]:
    with client_of(create_app(regressor)) as client:
        yield client


@pytest.fixture(scope="session")
def class_client(classifier) -> Iterator[httpx.Client]:
    with client_of(create_app(classifier)) as client:
        yield client
