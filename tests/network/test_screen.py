"""Columns judged by principal components alone, against a search over the mixture itself."""

import numpy as np
import pytest
import torch
from scipy.stats import multivariate_normal

from natpn import families
from natpn.network import PrincipalComponents, default_network
from natpn.network.default import harden, soften
from natpn.network.screen import Screen, Slot


@pytest.fixture(scope="module")
def fitted():
    """A network whose mixture has seen three clusters, with a flag for missing values of the last number."""
    torch.manual_seed(0)
    generator = np.random.default_rng(0)
    centres = generator.normal(size=(3, 5)) * 2
    x = (centres[generator.integers(0, 3, 400)] + 0.3 * generator.normal(size=(400, 5))).astype(np.float32)
    x[:, 4] = np.where(generator.random(400) < 0.3, 1.5, -0.6)
    network = default_network(5, families.get("normal"), 400, latent_dim=2, n_numbers=4).double().eval()
    network.requires_grad_(False)
    assert isinstance(network.bypass, PrincipalComponents)
    network.bypass.fit(torch.from_numpy(x))
    rows = torch.from_numpy(x).double()
    network.density.refit(network.features(rows, network.represent(rows)[0]))
    return network, x


def log_p(network, x):
    """Return the largest weighted component over principal components, by scipy."""
    mixture, start = network.density, network.latent_dim
    beside = network.bypass(torch.from_numpy(x).double())
    u = ((beside - mixture.location[start:]) / mixture.scale[start:]).numpy()
    factor = mixture.factor.detach()
    whitener = factor.tril(-1) + torch.diag_embed(factor.diagonal(dim1=1, dim2=2).exp())
    covariance = torch.linalg.inv(whitener.mT @ whitener).numpy()[:, start:, start:]
    weight = mixture.logits.detach().log_softmax(0).numpy()
    parts = [
        w + multivariate_normal(m[start:], c).logpdf(u)
        for w, m, c in zip(weight, mixture.mean.detach().numpy(), covariance, strict=True)
    ]
    return np.max(parts, axis=0) + np.log(2 * np.pi) * u.shape[-1] / 2


SLOTS = [Slot([0], np.zeros((1, 1)), (-4.0, 4.0)), Slot([1, 2], np.array([[0.0, 1.0], [2.0, -1.0], [-1.0, 0.5]]))]
SLOTS += [Slot([3, 4], np.array([[0.0, -0.6], [0.0, 1.5]]), (-2.0, 3.0)), Slot([], np.zeros((1, 0)))]


def test_gains_are_those_of_the_mixture(fitted):
    network, x = fitted
    rows = x[:40] + np.float32(0.7) * np.random.default_rng(1).normal(size=(40, 5)).astype(np.float32)
    gains, numbers, encodings = Screen.of(network, SLOTS).replace(rows)
    before = log_p(network, rows)
    for place, slot in enumerate(SLOTS):
        changed = rows.copy()
        for row in range(len(rows)):
            chosen = slot.encodings[max(encodings[row, place], 0)].copy()
            if encodings[row, place] < 0:
                chosen[0] = numbers[row, place]
            changed[row, slot.places] = chosen
        found = log_p(network, changed) - before
        assert gains[:, place] == pytest.approx(np.maximum(found, 0), abs=0.02), place
    assert (gains[:, 3] == 0).all()


def test_no_value_is_much_better(fitted):
    """A free number may cost half a nat, because it is one deviation nearer to the row than the best one."""
    network, x = fitted
    rows = x[:30] + np.float32(0.7) * np.random.default_rng(2).normal(size=(30, 5)).astype(np.float32)
    gains, _, _ = Screen.of(network, SLOTS).replace(rows)
    before = log_p(network, rows)
    for place, slot, slack in ((0, SLOTS[0], 0.52), (1, SLOTS[1], 0.02), (2, SLOTS[2], 0.52)):
        tried = list(slot.encodings[1 if slot.bounds else 0 :])
        if slot.bounds:
            tried += [np.array([z, *slot.encodings[0, 1:]]) for z in np.linspace(*slot.bounds, 200)]
        best = np.full(len(rows), -np.inf)
        for encoding in tried:
            changed = rows.copy()
            changed[:, slot.places] = encoding
            best = np.maximum(best, log_p(network, changed))
        assert (best - before - gains[:, place] < slack).all(), place


def test_far_rows_stay_finite(fitted):
    network, _ = fitted
    gains, numbers, _ = Screen.of(network, SLOTS).replace(np.full((2, 5), 1e30, np.float32))
    assert np.isfinite(gains).all()
    assert (numbers[:, 0] <= 4).all()


def test_softened_numbers_come_back():
    x = torch.linspace(-40, 40, 81, dtype=torch.float64)
    assert torch.allclose(harden(soften(x)), x)
