"""Forward and backward pass of tabular networks, written out.

    hₗ = dropout(leaky_relu(hₗ₋₁ Wₗᵀ + bₗ)),   z = normalise(h W_Lᵀ + b_L),   raw = z Wᵀ + b

For the few rows of a batch autograd's bookkeeping takes longer than the arithmetic. So it is left what comes after the
raw outputs, the loss; below them gradients go straight to their places in one flat tensor. The operations are those that
autograd would use, in its order, so that results are the same bit for bit.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional

from natpn.encoders.base import Activation, Dropout, bound
from natpn.network.normalisation import LatentNormalisation
from natpn.network.stacked import StackedLinear
from natpn.training.adam import FlatParameters

Losses = Callable[[Tensor, Tensor], Tensor]
_SLOPE = 0.01  # of leaky_relu below 0


class _Layer(NamedTuple):
    """A linear layer, and the activation and dropout behind it."""

    linear: nn.Linear | StackedLinear
    activated: bool = False
    dropout: Dropout | None = None


class Backpropagation:
    """Losses and gradients of a tabular network, or of stacked ones; see `backpropagation`."""

    def __init__(
        self,
        layers: Sequence[_Layer],
        normalisation: LatentNormalisation,
        decoder: _Layer,
        losses: Losses,
        flat: FlatParameters,
    ) -> None:
        self._layers, self._normalisation, self._decoder, self._losses = layers, normalisation, decoder, losses
        self._gradient = torch.zeros_like(flat.value)
        self._views = dict(zip(map(id, flat.parameters), flat.views(self._gradient), strict=True))
        self._inputs: list[Tensor] = []
        self._masks: list[Tensor | None] = []

    def __call__(self, x: Tensor, y: Tensor, share: Tensor) -> tuple[Tensor, Tensor]:
        """Return the losses of rows, and the gradient of their sum, each times its share.

        The gradient has the shape of the flat parameters, and is overwritten by the next call.
        """
        with torch.no_grad():
            raw = self._forward(x)
        losses = self._losses(raw.requires_grad_(), y)
        (slope,) = torch.autograd.grad(losses, raw, share)
        with torch.no_grad():
            self._backward(slope)
        return losses.detach(), self._gradient

    def _forward(self, h: Tensor) -> Tensor:
        self._inputs, self._masks = [], []
        for linear, activated, dropout in self._layers:
            self._inputs.append(h)
            h = linear(h)
            if activated:
                h = functional.leaky_relu(h, _SLOPE, inplace=True)
            self._masks.append(None if dropout is None else dropout.mask(h))
            if self._masks[-1] is not None:
                h.mul_(self._masks[-1])
        normalisation = self._normalisation
        # members side by side, as more columns
        self._latent = bound(h) if h.ndim == 2 else bound(h).movedim(-2, 0).flatten(1)
        running = normalisation.running_mean.view(-1), normalisation.running_variance.view(-1)
        z, *self._moments = torch.native_batch_norm(
            self._latent, None, None, *running, True, normalisation.momentum, normalisation.epsilon
        )
        self._shape = h.shape
        self._normalised = z if h.ndim == 2 else z.unflatten(1, (len(h), -1)).movedim(0, -2).reshape(h.shape)
        return self._decoder.linear(self._normalised)

    def _backward(self, slope: Tensor) -> None:
        slope = self._linear_backward(self._decoder.linear, self._normalised, slope)
        if slope.ndim > 2:
            slope = slope.movedim(-2, 0).flatten(1)
        slope = torch.ops.aten.native_batch_norm_backward(
            slope, self._latent, None, None, None, *self._moments, True, self._normalisation.epsilon, [True, False, False]
        )[0]
        if len(self._shape) > 2:
            slope = slope.unflatten(1, (self._shape[0], -1)).movedim(0, -2)
        for i in reversed(range(len(self._layers))):
            layer = self._layers[i]
            mask = self._masks[i]
            if mask is not None:
                slope.mul_(mask)
            if layer.activated:  # its result has the sign of its argument, also behind dropout
                slope = torch.ops.aten.leaky_relu_backward(slope, self._inputs[i + 1], _SLOPE, True)
            slope = self._linear_backward(layer.linear, self._inputs[i], slope, onwards=i > 0)

    def _linear_backward(
        self, linear: nn.Linear | StackedLinear, h: Tensor, slope: Tensor, onwards: bool = True
    ) -> Tensor:
        """Put the gradients of a layer in their places, and return that of its input if it is asked for."""
        weight, bias = self._views[id(linear.weight)], self._views[id(linear.bias)]
        if isinstance(linear, StackedLinear):
            torch.bmm(h.mT, slope, out=weight)
            torch.sum(slope, 1, keepdim=True, out=bias)
            return torch.bmm(slope, linear.weight.mT) if onwards else slope
        torch.mm(slope.T, h, out=weight)
        torch.sum(slope, 0, out=bias)
        return torch.mm(slope, linear.weight) if onwards else slope


def backpropagation(
    layers: nn.Sequential,
    normalisation: LatentNormalisation,
    decoder: nn.Linear | StackedLinear,
    losses: Losses,
    flat: FlatParameters,
) -> Backpropagation | None:
    """Return the passes of a chain of layers, if it is one that is known here.

    Args:
        layers: Encoded inputs → latents.
        normalisation: Normalises latents.
        decoder: Normalised latents → raw outputs.
        losses: Raw outputs and targets → losses.
        flat: All parameters of these, and no others, on the CPU.
    """
    chain: list[_Layer] = []
    for module in layers:
        if isinstance(module, nn.Linear | StackedLinear):
            chain.append(_Layer(module))
        elif isinstance(module, Activation) and chain and not chain[-1].activated:
            chain[-1] = chain[-1]._replace(activated=True)
        elif isinstance(module, Dropout) and chain and chain[-1].activated and not chain[-1].dropout:
            chain[-1] = chain[-1]._replace(dropout=module)
        else:
            return None
    known = {id(p) for layer in (*chain, _Layer(decoder)) for p in (layer.linear.weight, layer.linear.bias)}
    plain = chain and not chain[-1].activated and all(layer.dropout is None or layer.dropout.in_bytes for layer in chain)
    if not plain or known != set(map(id, flat.parameters)) or flat.value.device.type != "cpu":
        return None
    return Backpropagation(chain, normalisation, _Layer(decoder), losses, flat)
