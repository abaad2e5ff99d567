"""A step of training, written out: parameters in one tensor, gradients without autograd, and Adam.

For the few rows of a batch the bookkeeping of autograd and of torch's optimisers takes longer than the arithmetic.

`Adam` (Kingma and Ba 2015) works on one flat tensor, so that a step is a few operations in all:

    m ← β₁ m + (1 − β₁) g,   v ← β₂ v + (1 − β₂) g²,   p ← p − rate · (m / (1 − β₁ᵗ)) / (√(v / (1 − β₂ᵗ)) + ε)

m and v are moving averages of gradients g and of g², corrected for their start at zero. With a penalty λ the gradient
has λp added, that of ½λp². torch's own optimisers also load its compiler when the first of them is made, which takes
two seconds.

`Backpropagation` is the forward and backward pass of tabular networks, with a learned factor s for each column:

    h₀ = s ⊙ x,   hₗ = dropout(φ(hₗ₋₁ Wₗᵀ + bₗ)),   z = normalise(h W_Lᵀ + b_L),   raw = z Wᵀ + b

The loss gives its own gradient with respect to the raw outputs; from there gradients go straight to their places in
the flat tensor, and numpy does what is exact in any order. φ is LeakyReLU or SiLU. Results are autograd's but for
rounding. Chains of other layers, and modules with hooks, are left to autograd.
"""

import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from natpn.encoders.base import Activation, Dropout, SmoothActivation, bound

Array = NDArray[np.float32]
Losses = Callable[[Tensor, Tensor, Tensor], tuple[Tensor, Tensor]]
_SLOPE = 0.01  # of leaky_relu below 0
_FIRST, _SECOND, _EPSILON = 0.9, 0.999, 1e-8
RATE = 24.0


class FlatParameters:
    """Parameters as views of one tensor of shape (M, P), where M is the first dimension of stacked members."""

    def __init__(self, parameters: Iterable[nn.Parameter], n_members: int | None = None) -> None:
        self.parameters = list(parameters)
        self.n_members = n_members or 1
        self.value = self._join([p.detach() for p in self.parameters])
        for parameter, part in zip(self.parameters, self.views(self.value), strict=True):
            parameter.data = part

    def gradient(self) -> Tensor:
        """Return the gradients, (M, P), with 0 where there are none, and forget them."""
        gradients = [torch.zeros_like(p) if p.grad is None else p.grad for p in self.parameters]
        for parameter in self.parameters:
            parameter.grad = None
        return self._join(gradients)

    def release(self) -> None:
        """Give each parameter memory of its own again."""
        for parameter in self.parameters:
            parameter.data = parameter.data.clone()

    def _join(self, tensors: list[Tensor]) -> Tensor:
        return torch.cat([t.reshape(self.n_members, -1) for t in tensors], 1)

    def views(self, flat: Tensor) -> list[Tensor]:
        """Return the parts of a flat tensor, (M, P), in the shapes of the parameters."""
        sizes = [p.numel() // self.n_members for p in self.parameters]
        parts = flat.split(sizes, 1)
        return [
            part.unflatten(1, p.shape[1:]) if self.n_members > 1 else part[0].view(p.shape)
            for part, p in zip(parts, self.parameters, strict=True)
        ]


class Adam:
    """Adam on one tensor, with λ = `penalty`."""

    def __init__(self, value: Tensor, penalty: float = 0.0) -> None:
        self.value, self.penalty = value, penalty
        self.first, self.second = torch.zeros_like(value), torch.zeros_like(value)
        self.steps = 0

    @torch.no_grad()
    def step(self, gradient: Tensor, rate: float) -> None:
        """Take a step against a gradient, at a learning rate."""
        self.steps += 1
        if self.penalty:
            gradient = gradient.add(self.value, alpha=self.penalty)
        self.first.lerp_(gradient, 1 - _FIRST)
        self.second.mul_(_SECOND).addcmul_(gradient, gradient, value=1 - _SECOND)
        correction = math.sqrt(1 - _SECOND**self.steps)
        spread = self.second.sqrt().add_(_EPSILON * correction)
        self.value.addcdiv_(self.first, spread, value=-rate * correction / (1 - _FIRST**self.steps))

    def state_dict(self) -> dict[str, Any]:
        """Return all that is needed to go on."""
        return {"first": self.first, "second": self.second, "steps": self.steps}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from a state."""
        self.steps = state["steps"]
        self.first.copy_(state["first"])
        self.second.copy_(state["second"])


class StackedLinear(nn.Module):
    """M linear layers in one: (M, B, in) → (M, B, out)."""

    def __init__(self, layers: Sequence[nn.Linear]) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.stack([layer.weight.detach().T for layer in layers]))
        self.bias = nn.Parameter(torch.stack([layer.bias.detach()[None] for layer in layers]))

    def forward(self, x: Tensor) -> Tensor:
        """Return x @ weight + bias."""
        return torch.baddbmm(self.bias, x, self.weight)

    def unstack(self, layers: Sequence[nn.Linear]) -> None:
        """Write the weights to single layers."""
        for layer, weight, bias in zip(layers, self.weight, self.bias, strict=True):
            layer.weight.copy_(weight.T)
            layer.bias.copy_(bias[0])


class InputScales(nn.Module):
    """Factors of a table's columns, learned while the network is trained and then made part of its weights.

        first layer = W (s ⊙ x) + b,   afterwards W ← W · diag(s)

    A gradient step changes every weight of a column by itself. A factor turns the whole column, its number and its
    pieces, up or down at once, and `RATE` times as fast as a weight, so the few columns that matter soon stand out
    (Holzmüller et al., "Better by Default", 2024, keep such a layer for good, with a factor for each input). The
    factors start at 1. `columns` says which column each input of the first layer belongs to, from 0 on.
    """

    columns: Tensor

    def __init__(self, columns: Tensor, n_members: int | None = None) -> None:
        super().__init__()
        self.register_buffer("columns", columns, persistent=False)
        shape = () if n_members is None else (n_members, 1)
        # a step of Adam is of one size for all parameters, so a share of 1 / RATE moves that much faster
        start = torch.full((*shape, int(columns.max()) + 1), 1 / RATE, device=columns.device)
        self.share = nn.Parameter(start)

    @property
    def factor(self) -> Tensor:
        """The factors of the inputs, (inputs,) or (M, 1, inputs)."""
        return (self.share * RATE).index_select(-1, self.columns)

    def forward(self, x: Tensor) -> Tensor:
        """Return inputs times their factors."""
        return x * self.factor

    @torch.no_grad()
    def fold(self, weight: Tensor) -> None:
        """Make the factors part of the first layer's weights, (out, in) or (M, in, out), and start again at 1."""
        weight.mul_(self.factor if weight.ndim == 2 else self.factor.mT)
        self.share.fill_(1 / RATE)


class _Layer(NamedTuple):
    """A linear layer, and the activation and dropout behind it."""

    linear: nn.Linear | StackedLinear
    activation: type[nn.Module] | None = None
    dropout: Dropout | None = None


class _Linear:
    """The passes of a linear layer; `views` are where gradients go, by the identity of their parameter."""

    def __init__(self, linear: nn.Linear | StackedLinear, views: dict[int, Tensor]) -> None:
        self.weight_slope, self.bias_slope = views[id(linear.weight)], views[id(linear.bias)]
        self.stacked = isinstance(linear, StackedLinear)
        weight = linear.weight.detach()
        self.bias, self.inwards = linear.bias.detach(), weight if self.stacked else weight.T
        self.outwards = self.inwards.mT

    def forward(self, h: Tensor) -> Tensor:
        """Return what the layer makes of its input."""
        self.input = h
        return (torch.baddbmm if self.stacked else torch.addmm)(self.bias, h, self.inwards)

    def backward(self, slope: Tensor) -> None:
        """Put the gradients of weight and bias in their places."""
        if self.stacked:
            torch.bmm(self.input.mT, slope, out=self.weight_slope)
            torch.sum(slope, 1, keepdim=True, out=self.bias_slope)
        else:
            torch.mm(slope.T, self.input, out=self.weight_slope)
            torch.sum(slope, 0, out=self.bias_slope)

    def onwards(self, slope: Tensor) -> Tensor:
        """Return the gradient of the input."""
        return slope @ self.outwards


class _ScaledLinear(_Linear):
    """The passes of the first layer, whose inputs are scaled: its weights are, which are fewer or as many."""

    def __init__(self, linear: nn.Linear | StackedLinear, scales: InputScales, views: dict[int, Tensor]) -> None:
        super().__init__(linear, views)
        self.weight, self.scales = linear.weight.detach(), scales
        self.share_slope = views[id(scales.share)]

    def forward(self, h: Tensor) -> Tensor:
        """Return what the layer makes of its scaled input."""
        factor = self.scales.factor
        self.factor = factor.mT if self.stacked else factor
        scaled = self.weight * self.factor
        self.inwards = scaled if self.stacked else scaled.T
        return super().forward(h)

    def backward(self, slope: Tensor) -> None:
        """Put the gradients of weight, bias and factors in their places."""
        super().backward(slope)  # as if the scaled weights were the parameters
        by_scaled, place = self.weight_slope, self.share_slope.zero_()
        by_factor = (by_scaled * self.weight).sum(-1 if self.stacked else 0).mul_(RATE)
        place.index_add_(-1, self.scales.columns, by_factor.view(*place.shape[:-1], -1))
        by_scaled.mul_(self.factor)


class Parts(NamedTuple):
    """The parts of a network, or of stacked ones, that gradients pass through."""

    layers: nn.Sequential  # prepared inputs → latents
    mean: Tensor  # what is taken from latents
    factor: Tensor  # what they are multiplied with then
    decoder: nn.Linear | StackedLinear  # normalised latents → raw outputs
    losses: Losses  # raw outputs, targets and shares → losses, and the gradient of their sum, each times its share
    scales: InputScales  # the factors of prepared inputs


class Backpropagation:
    """Losses and gradients of a tabular network, or of stacked ones; see `backpropagation`."""

    def __init__(self, layers: Sequence[_Layer], parts: Parts, flat: FlatParameters) -> None:
        self._losses = parts.losses
        self._mean, self._factor = parts.mean, parts.factor
        self._gradient = torch.zeros_like(flat.value)
        views = dict(zip(map(id, flat.parameters), flat.views(self._gradient), strict=True))
        first, *others = (layer.linear for layer in layers)
        self._linears = [_ScaledLinear(first, parts.scales, views), *(_Linear(linear, views) for linear in others)]
        self._decoder = _Linear(parts.decoder, views)
        self._activations = [layer.activation for layer in layers]
        self._arguments: list[Tensor | None] = [None] * len(layers)  # of smooth activations
        self._dropouts = [layer.dropout for layer in layers]
        self._masks: list[Array | None] = [None] * len(layers)

    @torch.no_grad()
    def __call__(self, x: Tensor, y: Tensor, share: Tensor) -> tuple[Tensor, Tensor]:
        """Return the losses of rows, and the gradient of their sum, each times its share.

        The gradient has the shape of the flat parameters, and is overwritten by the next call.
        """
        losses, slope = self._losses(self._forward(x), y, share)
        self._backward(slope)
        return losses, self._gradient

    def _forward(self, h: Tensor) -> Tensor:
        for i, linear in enumerate(self._linears):
            h = linear.forward(h)
            if self._activations[i] is SmoothActivation:
                self._arguments[i], h = h, torch.nn.functional.silu(h)
            values, dropout = h.numpy(), self._dropouts[i]
            if self._activations[i] is Activation:
                np.maximum(values, _SLOPE * values, out=values)
            if dropout is not None:
                mask = self._masks[i] = dropout.mask(values.shape)
                values *= mask
        return self._decoder.forward((bound(h) - self._mean) * self._factor)

    def _backward(self, slope: Tensor) -> None:
        self._decoder.backward(slope)
        slope = self._decoder.onwards(slope) * self._factor
        for i in reversed(range(len(self._linears))):
            mask = self._masks[i]
            if mask is not None:
                slope.numpy()[...] *= mask
            argument = self._arguments[i]
            if argument is not None:
                slope = torch.ops.aten.silu_backward(slope, argument)
            elif self._activations[i] is Activation:  # the result has the sign of its argument, also behind dropout
                slope = torch.ops.aten.leaky_relu_backward(slope, self._linears[i + 1].input, _SLOPE, True)
            self._linears[i].backward(slope)
            if i:
                slope = self._linears[i].onwards(slope)


def backpropagation(parts: Parts, flat: FlatParameters) -> Backpropagation | None:
    """Return the passes of a chain of layers, if it is one that is known here and all parameters are its own."""
    layers, decoder = parts.layers, parts.decoder
    chain: list[_Layer] = []
    for module in layers:
        if isinstance(module, nn.Linear | StackedLinear) and type(module) in (nn.Linear, StackedLinear):
            chain.append(_Layer(module))
        elif type(module) in (Activation, SmoothActivation) and chain and chain[-1].activation is None:
            chain[-1] = chain[-1]._replace(activation=type(module))
        elif type(module) is Dropout and module.in_bytes and chain and chain[-1].activation and not chain[-1].dropout:
            chain[-1] = chain[-1]._replace(dropout=module)
        else:
            return None
    modules = [layers, *layers, decoder]
    known = {id(parts.scales.share)}
    known |= {id(p) for linear in (*(layer.linear for layer in chain), decoder) for p in (linear.weight, linear.bias)}
    is_known = chain and chain[-1].activation is None and known == set(map(id, flat.parameters))
    if not is_known or any(map(_has_hooks, modules)) or flat.value.device.type != "cpu":
        return None
    return Backpropagation(chain, parts, flat)


def _has_hooks(module: nn.Module) -> bool:
    return any((module._forward_hooks, module._forward_pre_hooks, module._backward_hooks, module._backward_pre_hooks))
