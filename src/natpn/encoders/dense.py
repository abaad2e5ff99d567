"""A latent vector for every pixel: an encoder and a decoder with skip connections."""

from collections.abc import Iterable, Sequence
from itertools import pairwise

import torch
from torch import Tensor, nn
from torch.nn import functional

from natpn.encoders.base import Shape, bound, check_positive, check_shape, convolution, flatten_images

CHANNELS = (16, 32, 64, 128, 128)


def resize(maps: Tensor, size: tuple[int, int]) -> Tensor:
    """Interpolate maps bilinearly to (height, width)."""
    if tuple(maps.shape[-2:]) == size:
        return maps
    return functional.interpolate(maps, size=size, mode="bilinear", align_corners=False)


def map_channels(backbone: nn.Module, shape: Shape) -> list[int]:
    """Run a backbone once on a blank image and return the channels of its maps, or raise.

    Raises:
        ValueError: If it does not return maps of shape (B, channels, height, width), the finest first.
    """
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
        """Map ``x``, shape (..., channels, height, width), to (..., height, width, latent_dim).

        Raises:
            ValueError: If the images have another shape.
        """
        images, leading = flatten_images(x, self.shape)
        maps: Sequence[Tensor] = self.backbone(images)
        *skips, features = (bound(m) for m in maps)
        for step, skip in zip(self.steps, reversed(skips), strict=True):
            height, width = skip.shape[-2:]
            features = step(torch.cat([resize(features, (height, width)), skip], dim=1))
        latent = bound(self.output(resize(features, self.size)))
        return latent.permute(0, 2, 3, 1).reshape(*leading, *self.size, self.latent_dim)
