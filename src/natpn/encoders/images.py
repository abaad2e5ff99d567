"""Encoders for images: the paper's two for small ones, a residual network, and one with a latent vector a pixel."""

from collections.abc import Iterable, Sequence
from itertools import pairwise

import torch
from torch import Tensor, nn
from torch.nn import functional

from natpn.encoders.base import (
    Activation,
    Shape,
    bound,
    check_positive,
    check_shape,
    convolution,
    flatten_images,
    perceptron,
)

# (filters, stride) of each convolution. The paper gives the filters; the strides are chosen so that both end on 4 x 4
# maps.
SMALL = ((32, 1), (32, 2), (32, 1), (64, 2), (64, 1), (64, 2))
LARGE = ((32, 1), (32, 1), (32, 2), (64, 1), (64, 2), (128, 1), (128, 1), (128, 2))
GRID = 4
# (channels, stride) of the eight blocks of the residual network.
BLOCKS = ((64, 1), (64, 1), (128, 2), (128, 1), (256, 2), (256, 1), (512, 2), (512, 1))
SMALL_SIDE = 64
CHANNELS = (16, 32, 64, 128, 128)  # of the maps of the default backbone of a dense encoder


class ImageEncoder(nn.Module):
    """Map small images to latent vectors.

    Images with a side below 32 pixels get the paper's MNIST encoder, 6 convolutions with 32/32/32/64/64/64 filters;
    others its CIFAR encoder, 8 with 32/32/32/64/64/128/128/128. Hidden layers of width 1024/128/64 and a linear map to
    the latent space follow. The convolutions are 3 x 3 with batch normalisation; some have stride 2 in place of
    pooling, which saves the work at full size. Maps that end larger than 4 x 4 are averaged to it, so that the number
    of weights does not grow with the image.

    Args:
        shape: (channels, height, width) of an image.
        latent_dim: The size of the latent vector.

    Example:
        >>> import torch
        >>> ImageEncoder(shape=(1, 28, 28), latent_dim=8)(torch.randn(2, 1, 28, 28)).shape
        torch.Size([2, 8])
    """

    n_dims = 3

    def __init__(self, shape: Iterable[int] = (1, 28, 28), latent_dim: int = 16) -> None:
        super().__init__()
        check_positive(latent_dim=latent_dim)
        self.shape = check_shape(shape)
        self.latent_dim = latent_dim
        n_in, height, width = self.shape
        layers: list[nn.Module] = []
        for filters, stride in SMALL if min(height, width) < 32 else LARGE:
            layers.append(convolution(n_in, filters, stride=stride))
            n_in, height, width = filters, -(-height // stride), -(-width // stride)
        if max(height, width) > GRID:
            height, width = min(height, GRID), min(width, GRID)
            layers.append(nn.AdaptiveAvgPool2d((height, width)))
        self.convolutions = nn.Sequential(*layers)
        self.layers = perceptron(n_in * height * width, 1024, 128, 64, latent_dim)

    def forward(self, x: Tensor) -> Tensor:
        """Map ``x``, shape (..., channels, height, width), to (..., latent_dim)."""
        images, leading = flatten_images(x, self.shape)
        return bound(self.layers(self.convolutions(images).flatten(1))).reshape(*leading, self.latent_dim)


class Block(nn.Module):
    """Two 3 x 3 convolutions beside a short cut, which is a 1 x 1 convolution where the size changes."""

    def __init__(self, n_in: int, n_out: int, stride: int) -> None:
        super().__init__()
        self.branch = nn.Sequential(
            convolution(n_in, n_out, stride=stride), convolution(n_out, n_out, activation=False)
        )
        same = n_in == n_out and stride == 1
        self.shortcut = nn.Identity() if same else convolution(n_in, n_out, kernel=1, stride=stride, activation=False)
        self.activation = Activation()

    def forward(self, x: Tensor) -> Tensor:
        """Return the activation of the sum of branch and short cut."""
        result: Tensor = self.activation(self.branch(x) + self.shortcut(x))
        return result


class ResNet18Encoder(nn.Module):
    """Map images to latent vectors with a ResNet-18.

    Images with a side below 64 pixels enter by a 3 x 3 convolution at full size; larger ones by a 7 x 7 convolution
    with stride 2 and max-pooling, as in the original network. After the last block the map is averaged and mapped
    linearly to the latent space. The activations are LeakyReLU, as in the paper's other encoders.

    Args:
        shape: (channels, height, width) of an image.
        latent_dim: The size of the latent vector.

    Example:
        >>> import torch
        >>> ResNet18Encoder(shape=(3, 32, 32), latent_dim=8)(torch.randn(2, 3, 32, 32)).shape
        torch.Size([2, 8])
    """

    n_dims = 3

    def __init__(self, shape: Iterable[int] = (3, 32, 32), latent_dim: int = 16) -> None:
        super().__init__()
        check_positive(latent_dim=latent_dim)
        self.shape = check_shape(shape)
        self.latent_dim = latent_dim
        channels, height, width = self.shape
        if min(height, width) < SMALL_SIDE:
            self.stem = convolution(channels, 64)
        else:
            self.stem = convolution(channels, 64, kernel=7, stride=2).append(nn.MaxPool2d(3, stride=2, padding=1))
        blocks: list[nn.Module] = []
        n_in = 64
        for n_out, stride in BLOCKS:
            blocks.append(Block(n_in, n_out, stride))
            n_in = n_out
        self.blocks = nn.Sequential(*blocks)
        self.output = nn.Linear(n_in, latent_dim)

    def forward(self, x: Tensor) -> Tensor:
        """Map ``x``, shape (..., channels, height, width), to (..., latent_dim)."""
        images, leading = flatten_images(x, self.shape)
        features = self.blocks(self.stem(images)).mean(dim=(-2, -1))
        return bound(self.output(features)).reshape(*leading, self.latent_dim)


def resize(maps: Tensor, size: tuple[int, int]) -> Tensor:
    """Interpolate maps bilinearly to (height, width)."""
    if tuple(maps.shape[-2:]) == size:
        return maps
    return functional.interpolate(maps, size=size, mode="bilinear", align_corners=False)


def map_channels(backbone: nn.Module, shape: Shape) -> list[int]:
    """Run a backbone on a blank image; return the channels of its maps, or raise if they are not, the finest first."""
    parameter = next(backbone.parameters(), torch.zeros(()))
    training = {module: module.training for module in backbone.modules()}
    backbone.eval()  # so that a blank image leaves no trace in running statistics
    try:
        with torch.no_grad():
            maps = backbone(parameter.new_zeros(1, *shape))
    finally:
        for module, mode in training.items():
            module.training = mode
    listed = isinstance(maps, (list, tuple)) and len(maps) > 0
    if not listed or not all(isinstance(m, Tensor) and m.ndim == 4 for m in maps):
        came = [tuple(getattr(m, "shape", ())) for m in maps] if listed else type(maps).__name__
        raise ValueError(f"The backbone returned {came}, but a list of maps (B, channels, height, width) is needed.")
    sizes = [tuple(m.shape[-2:]) for m in maps]
    if any(fine[0] < coarse[0] or fine[1] < coarse[1] for fine, coarse in pairwise(sizes)):
        raise ValueError(
            f"The backbone returned maps of sizes {sizes}, but the finest must come first: reverse the list."
        )
    return [m.shape[1] for m in maps]


class Pyramid(nn.Module):
    """The default backbone: five maps with 16/32/64/128/128 channels, each half the size of the one before."""

    def __init__(self, n_in: int, stride: int = 1) -> None:
        super().__init__()
        stages: list[nn.Module] = []
        for n_out in CHANNELS:
            stages.append(nn.Sequential(convolution(n_in, n_out, stride=stride), convolution(n_out, n_out)))
            n_in, stride = n_out, 2
        self.stages = nn.ModuleList(stages)

    def forward(self, x: Tensor) -> list[Tensor]:
        """Return the maps, the finest first."""
        maps: list[Tensor] = []
        for stage in self.stages:
            x = stage(x)
            maps.append(x)
        return maps


class DenseEncoder(nn.Module):
    """Map images to a latent vector per pixel, as for depth.

    From the coarsest map of the backbone on, each step interpolates to the size of the next finer map, joins that map,
    and applies two convolutions; sizes need not divide by the strides. A 1 x 1 convolution maps to the latent space.
    The paper's network for NYU Depth v2 is this with a pretrained DenseNet as backbone and ``reduction=2``.

    Args:
        shape: (channels, height, width) of an image.
        latent_dim: The size of the latent vectors.
        backbone: A module that returns a list of maps (B, channels, height, width), the finest first; by default a
            small one is built.
        reduction: How many times smaller than the image the output is, rounded up.

    Example:
        >>> import torch
        >>> DenseEncoder(shape=(3, 45, 61), latent_dim=8)(torch.randn(2, 3, 45, 61)).shape
        torch.Size([2, 45, 61, 8])
    """

    def __init__(
        self,
        shape: Iterable[int] = (3, 480, 640),
        latent_dim: int = 16,
        *,
        backbone: nn.Module | None = None,
        reduction: int = 1,
    ) -> None:
        super().__init__()
        check_positive(latent_dim=latent_dim, reduction=reduction)
        self.shape = check_shape(shape)
        self.latent_dim = latent_dim
        self.size = (-(-self.shape[1] // reduction), -(-self.shape[2] // reduction))
        self.backbone = Pyramid(self.shape[0], reduction) if backbone is None else backbone
        steps: list[nn.Module] = []
        *skips, n_in = map_channels(self.backbone, self.shape)
        for n_out in reversed(skips):
            steps.append(nn.Sequential(convolution(n_in + n_out, n_out), convolution(n_out, n_out)))
            n_in = n_out
        self.steps = nn.ModuleList(steps)
        self.output = nn.Conv2d(n_in, latent_dim, kernel_size=1)

    def forward(self, x: Tensor) -> Tensor:
        """Map ``x``, shape (..., channels, height, width), to (..., height, width, latent_dim)."""
        images, leading = flatten_images(x, self.shape)
        maps: Sequence[Tensor] = self.backbone(images)
        *skips, features = (bound(m) for m in maps)
        for step, skip in zip(self.steps, reversed(skips), strict=True):
            height, width = skip.shape[-2:]
            features = step(torch.cat([resize(features, (height, width)), skip], dim=1))
        latent = bound(self.output(resize(features, self.size)))
        return latent.permute(0, 2, 3, 1).reshape(*leading, *self.size, self.latent_dim)
