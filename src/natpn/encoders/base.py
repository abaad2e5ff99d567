"""What encoders share: the bound that keeps float32 finite, activations, the perceptron, convolutions and checks.

Far from the training data, the latent vector has to move away too, or the evidence could not fall (Theorem 1 of the
paper). So every encoder here is piecewise affine in its input once it is in evaluation mode: LeakyReLU, convolutions,
linear layers, linear interpolation, pooling, and batch normalisation with its running statistics. SiLU, which the
default network for tables has, is so only far from 0. Group, layer or instance normalisation is not used: it divides by
the scale of the input that it sees, so ``x`` and ``255 * x`` would get the same latent vector.

What grows without end overflows. Inputs, hidden activations and latents are therefore cut at ±1e15 (``LIMIT``): its
square, summed over 1e8 entries, is still a float32, and one layer may multiply it by 1e23 before the next cut. An
encoder is exactly piecewise affine below the limit and finite above it, even for infinite inputs. float16 has no such
range; use bfloat16 where half precision is wanted.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import pairwise
from math import prod
from typing import cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional

from natpn.choices import check_choice
from natpn.few_rows import Floats, Form, array, form_of, within

LIMIT = 1e15
_LOWEST = 700.0  # the exponential of more is infinite

Shape = tuple[int, int, int]
# A name, a module that is copied, or a function that makes one.
EncoderChoice = str | nn.Module | Callable[[], nn.Module]


def bound(x: Tensor) -> Tensor:
    """Cut ``x`` at ±``LIMIT``; the gradient beyond is zero."""
    return x.clamp(-LIMIT, LIMIT)


def clamp_own(x: Tensor, low: float = -LIMIT, high: float = LIMIT) -> Tensor:
    """Cut ``x``, which the caller has just made: in its own memory, which is in the cache, where gradients are off."""
    return x.clamp_(low, high) if may_overwrite() else x.clamp(low, high)


def may_overwrite() -> bool:
    """Say whether a tensor that no one else holds can be overwritten: neither gradients nor a graph need it."""
    return not torch.is_grad_enabled() and not torch.compiler.is_compiling()


class Activation(nn.Module):
    """LeakyReLU, cut at ±``LIMIT`` in evaluation mode.

    In training mode only the input of an encoder is cut: training data are of ordinary size, and a second cut would
    cost a pass over every activation.
    """

    def forward(self, x: Tensor) -> Tensor:
        """Return the activation of ``x``, which is overwritten in training mode."""
        return functional.leaky_relu(x, inplace=True) if self.training else bound(functional.leaky_relu(x))

    def in_numpy(self) -> Form:
        """Return the numpy form."""
        return lambda h: within(np.maximum(h, 0.01 * h), LIMIT)


class SmoothActivation(nn.Module):
    """SiLU, x · sigmoid(x), cut at ±``LIMIT`` in evaluation mode."""

    def forward(self, x: Tensor) -> Tensor:
        """Return the activation of ``x``, which is overwritten in evaluation mode where gradients are off."""
        return functional.silu(x) if self.training else clamp_own(functional.silu(x, inplace=may_overwrite()))

    def in_numpy(self) -> Form:
        """Return the numpy form."""
        return lambda h: within(h / (1 + np.exp(-np.maximum(h, -_LOWEST))), LIMIT)


ACTIVATIONS: dict[str, type[nn.Module]] = {"leaky_relu": Activation, "silu": SmoothActivation}


class Dropout(nn.Dropout):
    """Dropout whose share is rounded to a 256th on the CPU.

    There a random byte decides on each entry, eight of them from one draw, which takes a fraction of the time of a
    random number each.
    """

    def forward(self, x: Tensor) -> Tensor:
        """Set entries to zero in training, and scale the others up."""
        if not self.training or not self.in_bytes or x.device.type != "cpu":
            return functional.dropout(x, self.p, self.training)
        return x * torch.from_numpy(self.mask(x.shape)).to(x.dtype)

    def in_numpy(self) -> Form:
        """Return the numpy form: outside training nothing is set to zero."""
        return lambda h: h

    @property
    def in_bytes(self) -> bool:
        """Whether bytes can decide, which is not so for shares near 0 and 1."""
        return 0 < round(256 * self.p) < 256

    def mask(self, shape: Sequence[int]) -> NDArray[np.float32]:
        """Draw what to multiply entries by: 0, or what makes up for it."""
        dropped, size = round(256 * self.p), prod(shape)
        words = torch.empty(-(-size // 8), dtype=torch.int64).random_(-(2**63), None)
        # numpy compares bytes, and makes numbers of the result, several times as fast as torch
        kept = words.numpy().view(np.uint8)[:size] >= dropped
        return np.multiply(kept, np.float32(256 / (256 - dropped))).reshape(shape)


def perceptron(*widths: int, dropout: float = 0.0, activation: str = "leaky_relu") -> nn.Sequential:
    """Chain linear layers from ``widths[0]`` to ``widths[-1]`` with activations, and dropout if any, between them."""
    check_choice("activation", activation, ACTIVATIONS)
    if not 0 <= dropout < 1:
        raise ValueError(f"dropout = {dropout!r}, but a share of at least 0 and below 1 is needed.")
    layers: list[nn.Module] = []
    for n_in, n_out in pairwise(widths[:-1]):
        layers += [nn.Linear(n_in, n_out), ACTIVATIONS[activation](), *([Dropout(dropout)] if dropout else [])]
    return nn.Sequential(*layers, nn.Linear(widths[-2], widths[-1]))


class ChainEncoder(nn.Module, ABC):
    """An encoder of rows of numbers that prepares them, with nothing to learn, and then maps them by a chain of layers.

    Training prepares each row once, members of an ensemble share it, and columns get factors (`columns`). Chains of
    linear layers, activations and dropout are also differentiated by hand, stacked, and stated in numpy.

    Attributes:
        layers: The chain; its first layer is linear.
        activation: The name of its activation, which is saved with a model.
    """

    layers: nn.Sequential
    activation: str

    @abstractmethod
    def prepare(self, x: Tensor) -> Tensor:
        """Return what the first layer sees."""

    @property
    @abstractmethod
    def columns(self) -> Tensor:
        """The column that each input of the first layer belongs to, (inputs,)."""

    @property
    def first(self) -> nn.Linear:
        """The first layer."""
        return cast(nn.Linear, self.layers[0])

    def map(self, prepared: Tensor) -> Tensor:
        """Map what `prepare` returns to latents."""
        latent: Tensor = clamp_own(self.layers(prepared))
        return latent

    def forward(self, x: Tensor) -> Tensor:
        """Map inputs to latents."""
        return self.map(self.prepare(x))

    def prepares_like(self, other: nn.Module) -> bool:
        """Say whether another encoder prepares rows in the same way, by its type and its buffers."""
        if not isinstance(other, ChainEncoder) or type(other) is not type(self):
            return False
        own, others = list(self.buffers()), list(other.buffers())
        alike = len(own) == len(others) and self.first.in_features == other.first.in_features
        return alike and all(map(torch.equal, own, others))

    def map_in_numpy(self) -> Form | None:
        """Return the numpy form of `map`, if all layers have one."""
        forms = [_affine(layer) if type(layer) is nn.Linear else form_of(layer) for layer in self.layers]
        known = [form for form in forms if form is not None]
        if len(known) < len(forms) or type(self).map is not ChainEncoder.map:
            return None

        def mapped(h: Floats) -> Floats:
            for form in known:
                h = form(h)
            return within(h, LIMIT)

        return mapped


def _affine(layer: nn.Linear) -> Form:
    weight, bias = array(layer.weight).T.copy(), array(layer.bias)
    return lambda h: h @ weight + bias


class BatchNorm(nn.BatchNorm2d):
    """Batch normalisation that also trains on a single value per channel.

    One image whose map has shrunk to one pixel has no variance: there the running statistics normalise it and stay as
    they are. With more values it is ``nn.BatchNorm2d``.
    """

    def forward(self, input: Tensor) -> Tensor:  # noqa: A002 (the name in torch)
        """Normalise maps of shape (B, channels, height, width)."""
        if self.training and input.numel() > input.shape[1]:
            return super().forward(input)
        return functional.batch_norm(
            input, self.running_mean, self.running_var, self.weight, self.bias, training=False, eps=self.eps
        )


def fast_in_half_precision(x: Tensor) -> bool:
    """Say whether ``x`` is in float32 on a processor with instructions for bfloat16; without, it would be slower."""
    if x.dtype != torch.float32:
        return False
    if x.device.type == "cuda":
        return bool(torch.cuda.is_bf16_supported(including_emulation=False))
    known: Mapping[str, object] = getattr(torch.cpu, "get_capabilities", dict)()  # which older versions do not have
    return x.device.type == "cpu" and any(known.get(name) is True for name in ("avx512_bf16", "amx_bf16"))


class ScaleFreeConvolution(nn.Conv2d):
    """A convolution whose output is normalised: training may use that the length of its kernels does not matter."""


def convolution(
    n_in: int,
    n_out: int,
    *,
    kernel: int = 3,
    stride: int = 1,
    activation: bool = True,
    kind: type[nn.Conv2d] = nn.Conv2d,
) -> nn.Sequential:
    """Build a convolution with an odd kernel that keeps the size up to its stride, ⌈size / stride⌉, normalised."""
    weights = kind(n_in, n_out, kernel, stride, padding=kernel // 2, bias=False)
    nn.init.kaiming_normal_(weights.weight, mode="fan_out", nonlinearity="leaky_relu")
    layers: list[nn.Module] = [weights, BatchNorm(n_out)]
    return nn.Sequential(*layers, Activation()) if activation else nn.Sequential(*layers)


def check_positive(**values: int) -> None:
    """Raise unless every named value is an integer of at least 1."""
    for name, value in values.items():
        if not isinstance(value, int) or isinstance(value, bool) or value < 1:
            raise ValueError(f"{name} = {value!r}, but a whole number of at least 1 is needed.")


def check_shape(shape: Iterable[int]) -> Shape:
    """Return an image's shape (channels, height, width) as a tuple, or raise."""
    sizes = tuple(shape)
    if len(sizes) != 3:
        raise ValueError(f"shape = {sizes} has {len(sizes)} entries, but (channels, height, width) is needed.")
    channels, height, width = sizes
    check_positive(channels=channels, height=height, width=width)
    return channels, height, width


def flatten_images(x: Tensor, shape: Shape) -> tuple[Tensor, tuple[int, ...]]:
    """Return images of a shape, cut at the limit, as (B, channels, height, width), and their leading dimensions."""
    if tuple(x.shape[-3:]) != shape:
        raise ValueError(
            f"Images of shape {tuple(x.shape[-3:])} came in an input of shape {tuple(x.shape)}, but this encoder was "
            f"built for (channels, height, width) = {shape}: resize the images, or build the encoder with their shape."
        )
    return bound(x).reshape(-1, *shape), tuple(x.shape[:-3])
