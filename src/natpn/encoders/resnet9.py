"""A small residual network for pictures that two cores train in an hour: the default encoder for images.

    x → whitened patches → three stages → the largest value of each map → latent

The first convolution is not learned: its filters are the leading principal components of the 3 x 3 patches of the
training pictures, brought to variance 1, each with both signs. Learning starts from inputs of equal weight, and the
layer has no backward pass. A stage is a convolution, max-pooling that halves the map, and a second convolution beside a
short cut; all are normalised. Convolutions start as close to the identity as their shapes allow. Steps of training run
them in bfloat16 if the processor multiplies it faster; predictions are in the precision of the weights.
"""

from collections.abc import Iterable
from contextlib import nullcontext
from itertools import pairwise
from typing import Self

import torch
from torch import Tensor, nn
from torch.nn import functional

from natpn.encoders.base import (
    Activation,
    ScaleFreeConvolution,
    bound,
    check_positive,
    check_shape,
    convolution,
    fast_in_half_precision,
    flatten_images,
    may_overwrite,
)
from natpn.encoders.patches import PATCH, patch_components

WIDTHS = (1, 2, 4)  # of the three stages, in units of `width`
FILTERS = 12  # at most, each with both signs
_TOGETHER = 256
_LEAST = 1e-3  # added to variances, of which the first is near 9 times the number of channels: rare ones are noise


class Stage(nn.Module):
    """A convolution and pooling that halves the map, rounded up, then a residual convolution."""

    def __init__(self, n_in: int, n_out: int) -> None:
        super().__init__()
        # orthogonal steps were tried with this encoder alone
        first, second = (convolution(size, n_out, kind=ScaleFreeConvolution) for size in (n_in, n_out))
        with torch.no_grad():
            nn.init.dirac_(first[0].get_parameter("weight")[:n_in])
            nn.init.dirac_(second[0].get_parameter("weight"))
        self.convolution, self.normalise = first[0], first[1:]
        self.pool = nn.MaxPool2d(2, ceil_mode=True)
        self.residual = second

    def forward(self, x: Tensor) -> Tensor:
        """Map (B, n_in, height, width) to (B, n_out, ⌈height/2⌉, ⌈width/2⌉)."""
        x = self.normalise(self.pool(self.convolution(x)))
        result: Tensor = x + self.residual(x)
        return result


class ResNet9Encoder(nn.Module):
    """Map pictures to latent vectors with a residual network of seven convolutions and a frozen first layer.

    Args:
        shape: (channels, height, width) of a picture.
        latent_dim: The size of the latent vector.
        width: The maps of the first stage; the next have twice and four times as many. By default 64 for pictures in
            colour and 32 for grey ones.
        half_precision: Whether steps of training may run convolutions in bfloat16.

    Example:
        >>> import torch
        >>> ResNet9Encoder(shape=(3, 32, 32), latent_dim=8)(torch.randn(2, 3, 32, 32)).shape
        torch.Size([2, 8])
    """

    n_dims = 3
    filters: Tensor

    def __init__(
        self,
        shape: Iterable[int] = (3, 32, 32),
        latent_dim: int = 16,
        *,
        width: int | None = None,
        half_precision: bool = True,
    ) -> None:
        super().__init__()
        self.half_precision = half_precision
        self.shape = check_shape(shape)
        channels = self.shape[0]
        width = (64 if channels > 1 else 32) if width is None else width
        check_positive(latent_dim=latent_dim, width=width)
        self.latent_dim = latent_dim
        size = channels * PATCH**2
        start = torch.eye(size)[: min(FILTERS, size)].reshape(-1, channels, PATCH, PATCH)
        self.register_buffer("filters", start)
        self.activation = Activation()
        widths = [2 * len(start), *(width * times for times in WIDTHS)]
        self.stages = nn.Sequential(*(Stage(n_in, n_out) for n_in, n_out in pairwise(widths)))
        self.output = nn.Linear(widths[-1], latent_dim)

    @torch.no_grad()
    def fit_filters(self, x: Tensor) -> Self:
        """Take the filters from training pictures, (rows, channels, height, width)."""
        variance, direction = patch_components(flatten_images(x, self.shape)[0])
        scaled = direction / (variance + _LEAST).sqrt()[:, None, None, None]
        self.filters.copy_(scaled[: len(self.filters)])
        return self

    def forward(self, x: Tensor) -> Tensor:
        """Map ``x``, shape (..., channels, height, width), to (..., latent_dim)."""
        images, leading = flatten_images(x, self.shape)
        # a few pictures at a time, whose maps stay in the cache
        parts = images.split(_TOGETHER) if may_overwrite() else [images]
        latent = torch.cat([self.output(self.pooled(part)) for part in parts])
        return bound(latent).reshape(*leading, self.latent_dim)

    def pooled(self, images: Tensor) -> Tensor:
        """Return the largest value of each of the last maps of (B, channels, height, width)."""
        responses = functional.conv2d(images, self.filters, padding=PATCH // 2)
        # The CPU is faster with channels last. Grey pictures have one channel, which says nothing of the order, so it
        # is set here and not on the input, and in a way that vmap can do.
        both = torch.cat([responses, -responses], 1).permute(0, 2, 3, 1).contiguous().permute(0, 3, 1, 2)
        x = self.activation(both)
        half = self.training and self.half_precision and fast_in_half_precision(images)
        with torch.autocast(images.device.type, torch.bfloat16) if half else nullcontext():
            x = self.stages(x)
        return bound(x.amax((-2, -1)).to(images.dtype))
