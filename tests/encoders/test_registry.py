"""Encoders by name, and the answers to names that are wrong."""

import re

import pytest
from torch import nn

from natpn.encoders import ENCODERS, DenseEncoder, ImageEncoder, ResNet18Encoder, TabularEncoder, get


def test_names() -> None:
    assert list(ENCODERS) == ["tabular", "image", "resnet9", "resnet18", "dense"]
    assert all(issubclass(encoder, nn.Module) for encoder in ENCODERS.values())


def test_options_reach_the_encoder() -> None:
    encoder = get("tabular", n_features=3, latent_dim=7, hidden=11, n_layers=2)
    widths = [layer.out_features for layer in encoder.layers if isinstance(layer, nn.Linear)]
    assert widths == [11, 11, 7]


@pytest.mark.parametrize(
    ("name", "options", "parts"),
    [
        ("tabulr", {"n_features": 3}, ["'tabulr'", "'image'", "Did you mean 'tabular'?"]),
        ("zzz", {}, ["'zzz'", "'dense'"]),
        ("tabular", {"n_feature": 3}, ["'n_feature'", "'hidden'", "Did you mean 'n_features'?"]),
        ("tabular", {"latent_dim": 3}, ["needs n_features"]),
        ("tabular", {"n_features": 3, "encoding": "picewise"}, ["encoding", "'plain'", "Did you mean 'piecewise'?"]),
        ("tabular", {"n_features": 0}, ["n_features = 0", "at least 1"]),
        ("tabular", {"n_features": 3, "latent_dim": 2.0}, ["latent_dim = 2.0"]),
        ("tabular", {"n_features": 3, "hidden": True}, ["hidden = True"]),
        ("tabular", {"n_features": 3, "n_layers": 0}, ["n_layers = 0"]),
        ("tabular", {"n_features": 3, "encoding": "piecewise", "knots": 1}, ["knots = 1", "at least 2"]),
        ("image", {"shape": (28, 28)}, ["(28, 28)", "(channels, height, width)"]),
        ("image", {"shape": (1, 0, 28)}, ["height = 0"]),
        ("resnet18", {"latent_dim": -1}, ["latent_dim = -1"]),
        ("dense", {"reduction": 0}, ["reduction = 0"]),
    ],
)
def test_errors_name_the_argument_and_the_cure(name: str, options: dict[str, object], parts: list[str]) -> None:
    with pytest.raises(ValueError, match=re.escape(parts[0])) as error:
        get(name, **options)
    for part in parts:
        assert part in str(error.value)


def test_no_hint_for_a_name_far_from_all() -> None:
    with pytest.raises(ValueError, match="zzz") as error:
        get("zzz")
    assert "Did you mean" not in str(error.value)


def test_latent_dim_is_a_keyword_with_one_default() -> None:
    defaults = {
        TabularEncoder(n_features=2).latent_dim,
        ImageEncoder().latent_dim,
        ResNet18Encoder().latent_dim,
        DenseEncoder(shape=(1, 4, 4)).latent_dim,
    }
    assert defaults == {16}
