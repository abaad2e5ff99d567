"""Encoders: from an input to a latent vector, in the last dimension.

Any other ``nn.Module`` that does the same can be used in their place; there is no base class to inherit from. One that
is a ``ChainEncoder`` is trained faster.

To add one that estimators take by its name, write a module with ``n_dims``, the number of dimensions of one input, and
add a line to ``ENCODERS``. Its constructor is ``(n_features, latent_dim, n_ignored)`` for rows of numbers, of which it
ignores the last ``n_ignored``, and ``(shape, latent_dim)`` for inputs of more dimensions.
"""

import inspect
from typing import Any

from torch import Tensor, nn

from natpn.choices import check_choice
from natpn.encoders.base import ChainEncoder
from natpn.encoders.images import DenseEncoder, ImageEncoder, ResNet18Encoder
from natpn.encoders.resnet9 import ResNet9Encoder
from natpn.encoders.tabular import PiecewiseLinear, TabularEncoder

ENCODERS: dict[str, type[nn.Module]] = {
    "tabular": TabularEncoder,
    "image": ImageEncoder,
    "resnet9": ResNet9Encoder,
    "resnet18": ResNet18Encoder,
    "dense": DenseEncoder,
}

__all__ = [
    "ENCODERS",
    "ChainEncoder",
    "DenseEncoder",
    "ImageEncoder",
    "PiecewiseLinear",
    "ResNet9Encoder",
    "ResNet18Encoder",
    "TabularEncoder",
    "fit_to_inputs",
    "get",
]


def fit_to_inputs(encoder: nn.Module, sample: Tensor) -> None:
    """Fit what an encoder takes from the inputs alone, before it is trained: knots of numbers, filters of pictures."""
    for method in ("fit_knots", "fit_filters"):
        if hasattr(encoder, method):
            getattr(encoder, method)(sample)


def get(name: str, **options: Any) -> nn.Module:
    """Build an encoder by its name.

    Args:
        name: A key of ``ENCODERS``.
        **options: Arguments of its class.

    Raises:
        ValueError: If the name or an option is unknown, or a needed option is missing.

    Example:
        >>> get("tabular", n_features=4, latent_dim=8).latent_dim
        8
    """
    check_choice("encoder", name, ENCODERS)
    parameters = inspect.signature(ENCODERS[name]).parameters
    for option in options:
        check_choice(f"option of the encoder {name!r}", option, parameters)
    missing = [key for key, p in parameters.items() if p.default is p.empty and key not in options]
    if missing:
        raise ValueError(f"The encoder {name!r} needs {', '.join(missing)}: call get({name!r}, {missing[0]}=...).")
    return ENCODERS[name](**options)
