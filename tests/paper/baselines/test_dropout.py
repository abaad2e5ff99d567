import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose
from torch import nn

from natpn.encoders import ImageEncoder, ResNet9Encoder, TabularEncoder
from natpn_paper.baselines.dropout import DropoutNetwork, PatternDropout
from paper.baselines.problems import clusters, line, quick


@pytest.mark.parametrize("target", ["classes", "normal", "poisson"])
def test_without_dropout_there_is_no_epistemic_uncertainty(target):
    X, y = clusters(60) if target == "classes" else line(60)
    y = np.round(np.abs(y)) if target == "poisson" else y
    found = quick("Dropout", target, rate=0.0).fit(X, y).predict_dist(X)
    assert_allclose(found.epistemic, 0.0, atol=1e-20)
    some = quick("Dropout", target, rate=0.2).fit(X, y).predict_dist(X)
    assert (some.epistemic > 0).all()


def test_without_dropout_it_is_a_plain_network():
    X, y = clusters(60)
    plain = quick("StandardNet", "classes").fit(X, y)
    none = quick("Dropout", "classes", rate=0.0).fit(X, y)
    assert_allclose(none.predict_proba(X), plain.predict_proba(X), rtol=1e-6)


def test_more_dropout_is_more_uncertainty():
    X, y = line(200)
    little, much = (quick("Dropout", "normal", rate=rate, max_epochs=20).fit(X, y) for rate in (0.02, 0.4))
    assert much.predict_dist(X).epistemic.mean() > 2 * little.predict_dist(X).epistemic.mean()


def test_samples_are_fixed_networks_whatever_the_rows_beside():
    X, y = line(60)
    model = quick("Dropout", "normal", n_samples=3).fit(X, y)
    assert next(iter(model._raws(X))).shape == (3, 60, 2)
    together, one = model.predict_dist(X), model.predict_dist(X[7:8])
    assert_allclose(one.epistemic, together.epistemic[7:8], rtol=1e-9)


def test_patterns_drop_the_share_and_keep_the_mean():
    layer = PatternDropout(0.25, seed=0).eval()
    found = []
    for layer.pattern in range(400):
        found.append(layer(torch.ones(2, 64, dtype=torch.float64)))
    dropped = torch.stack(found)
    assert torch.equal(dropped[:, 0], dropped[:, 1])
    assert float((dropped == 0).double().mean()) == pytest.approx(0.25, abs=0.01)
    assert float(dropped.mean()) == pytest.approx(1.0, abs=0.02)
    assert len(dropped[:, 0].unique(dim=0)) == 400


@torch.no_grad()
def test_patterns_are_the_same_for_pictures_that_the_encoder_takes_in_parts():
    network = DropoutNetwork(ResNet9Encoder((1, 8, 8), 4, width=4), 4, 2, 0.1, 3, seed=0).eval()
    network.sample()
    x = torch.randn(300, 1, 8, 8, generator=torch.Generator().manual_seed(0))
    raw = network(x)
    assert raw.shape == (3, 300, 2)
    assert_allclose(network(x[290:]), raw[:, 290:], rtol=1e-4, atol=1e-5)
    assert float(raw.std(0).min()) > 0


@pytest.mark.parametrize(
    ("encoder", "count"),
    [
        (TabularEncoder(4, 8), 3),
        (ImageEncoder((1, 8, 8), 8), 9),
        (nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 8)), 1),
        (nn.Linear(4, 8), 1),
    ],
)
def test_every_activation_is_followed_by_its_own_patterns(encoder, count):
    network = DropoutNetwork(encoder, 8, 2, 0.1, 5, seed=3)
    layers = [m for m in network.modules() if isinstance(m, PatternDropout)]
    assert len(layers) == count == len({layer.seed for layer in layers})


@pytest.mark.parametrize(("name", "value"), [("rate", 1.0), ("rate", -0.1), ("n_samples", 0)])
def test_wrong_parameters_are_named(name, value):
    with pytest.raises(ValueError, match=f"{name}: expected"):
        quick("Dropout", "normal", **{name: value}).fit(*line(20))
