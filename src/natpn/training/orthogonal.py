"""Steps for convolutions whose outputs are normalised: all directions of a kernel move equally far.

Normalisation takes the length of a kernel out again, so only its direction is learned. With W a kernel as a matrix with
a row for each of its n outputs, g its gradient and m a sum of past gradients (Muon: Jordan and others 2024),

    m ← μ m + g,    W ← W · √n / ‖W‖ − rate · orthogonal(g + μ m)

`orthogonal` returns the matrix with the same singular vectors and singular values near 1. Adam, which scales each entry
by itself, leaves most of a step to a few directions; here rare ones count as much. The singular values are brought to 1
by an odd polynomial, five times over, which takes a few products of matrices and no decomposition:

    X ← a X + (b X Xᵀ + c (X Xᵀ)²) X,    from X / ‖X‖

a, b and c are Jordan's: small values grow as fast as they can, and all end between 0.68 and 1.13.
"""

from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor, nn

from natpn.encoders.base import ScaleFreeConvolution
from natpn.training.by_hand import FlatParameters

TIMES = 24.0  # the rate of kernels, in learning rates of the other parameters
_MOMENTUM = 0.6
_A, _B, _C = 3.4445, -4.7750, 2.0315
_ROUNDS = 5
_LEAST = 1e-12


def scale_free_kernels(module: nn.Module) -> list[nn.Parameter]:
    """Return the kernels whose length does not matter; one that is calculated from others is none."""
    layers = (layer for layer in module.modules() if isinstance(layer, ScaleFreeConvolution))
    found = (dict(layer.named_parameters(recurse=False)).get("weight") for layer in layers)
    return [kernel for kernel in found if kernel is not None and kernel.requires_grad]


def orthogonal(matrix: Tensor) -> Tensor:
    """Return the matrix with the same singular vectors, and singular values near 1 where they are not tiny."""
    wide = matrix.shape[0] <= matrix.shape[1]
    x: Tensor = matrix if wide else matrix.T
    x = x / torch.linalg.vector_norm(x).clamp(min=_LEAST)
    for _ in range(_ROUNDS):
        square = x @ x.T
        x = _A * x + (_B * square + _C * square @ square) @ x
    return x if wide else x.T


class OrthogonalSteps:
    """Steps of some of the parameters in a flat tensor; the others are left to another optimiser."""

    def __init__(self, flat: FlatParameters, kernels: Iterable[nn.Parameter]) -> None:
        wanted = {id(kernel) for kernel in kernels}
        self.flat = flat
        self.places = [i for i, parameter in enumerate(flat.parameters) if id(parameter) in wanted]
        self.momentum = [torch.zeros_like(flat.parameters[i]) for i in self.places]

    @torch.no_grad()
    def step(self, gradient: Tensor, rate: float) -> None:
        """Move the kernels against their part of a flat gradient, and set that part to 0."""
        if not self.places:
            return
        parts = self.flat.views(gradient)
        for i, momentum in zip(self.places, self.momentum, strict=True):
            kernel, part = self.flat.parameters[i], parts[i]
            momentum.mul_(_MOMENTUM).add_(part)
            direction = orthogonal((part + _MOMENTUM * momentum).flatten(1))
            kernel.mul_(len(kernel) ** 0.5 / torch.linalg.vector_norm(kernel).clamp(min=_LEAST))
            kernel.sub_(direction.view_as(kernel), alpha=TIMES * rate)
            part.zero_()

    def state_dict(self) -> dict[str, Any]:
        """Return all that is needed to go on."""
        return {"momentum": self.momentum}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from a state."""
        for own, other in zip(self.momentum, state["momentum"], strict=True):
            own.copy_(other)
