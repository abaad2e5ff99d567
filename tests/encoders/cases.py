"""One row per variant of every encoder: what the contract runs over."""

import copy
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from natpn.encoders import get

_made: dict[str, nn.Module] = {}


@dataclass(frozen=True)
class Case:
    name: str
    options: dict[str, Any]
    input_shape: tuple[int, ...]
    output_shape: tuple[int, ...]

    def build(self, seed: int = 0) -> nn.Module:
        """Return a copy of what `make` made once: to draw millions of weights takes longer than to copy them."""
        key = f"{self} {seed}"
        if key not in _made:
            _made[key] = self.make(seed)
        return copy.deepcopy(_made[key])

    def make(self, seed: int) -> nn.Module:
        """Make the encoder, with knots and running statistics that are not those of a fresh one."""
        torch.manual_seed(seed)
        encoder = get(self.name, **self.options)
        for method in ("fit_knots", "fit_filters"):
            if hasattr(encoder, method):
                getattr(encoder, method)(2 * self.inputs(50) + 1)
        with torch.no_grad():
            encoder.train()(2 * self.inputs(4) + 1)
        return encoder

    def inputs(self, *leading: int, seed: int = 1) -> Tensor:
        return torch.randn(*leading, *self.input_shape, generator=torch.Generator().manual_seed(seed))


_FULL = {"half_precision": False}  # test_resnet9.py has the other
CASES = {
    "tabular plain": Case("tabular", {"n_features": 6, "latent_dim": 5}, (6,), (5,)),
    "tabular piecewise": Case("tabular", {"n_features": 6, "latent_dim": 5, "encoding": "piecewise"}, (6,), (5,)),
    "tabular both": Case("tabular", {"n_features": 6, "latent_dim": 5, "encoding": "both"}, (6,), (5,)),
    "resnet9 tiny": Case("resnet9", {"shape": (1, 8, 8), "latent_dim": 5, "width": 4, **_FULL}, (1, 8, 8), (5,)),
    "resnet9 colour": Case("resnet9", {"shape": (3, 13, 18), "latent_dim": 5, **_FULL}, (3, 13, 18), (5,)),
    "image mnist": Case("image", {"shape": (1, 28, 28), "latent_dim": 5}, (1, 28, 28), (5,)),
    "image cifar": Case("image", {"shape": (3, 32, 32), "latent_dim": 5}, (3, 32, 32), (5,)),
    "image tiny": Case("image", {"shape": (1, 8, 8), "latent_dim": 5}, (1, 8, 8), (5,)),
    "resnet18 small": Case("resnet18", {"shape": (3, 16, 16), "latent_dim": 5}, (3, 16, 16), (5,)),
    "resnet18 large": Case("resnet18", {"shape": (3, 64, 64), "latent_dim": 5}, (3, 64, 64), (5,)),
    "dense": Case("dense", {"shape": (3, 13, 18), "latent_dim": 5}, (3, 13, 18), (13, 18, 5)),
    "dense reduced": Case("dense", {"shape": (3, 13, 18), "latent_dim": 5, "reduction": 2}, (3, 13, 18), (7, 9, 5)),
}
