"""Varied pictures for training: shifted a little at random, and mirrored where that does not change what they show.

Whether pictures are mirrored is read off the pictures. Photographs look the same in a mirror: their mean is symmetric,
and their edges lean to the right as often as to the left. Digits and letters lean: with g and g′ the differences of
neighbouring pixels across and down, the mean of g·g′ over the root of the means of g² and g′² is 0.23 for MNIST, 0.15
for KMNIST, 0.07 for SVHN, and 0.002 for CIFAR-10. The mean of Fashion-MNIST is not symmetric, since all shoes point to
the left.
"""

from typing import Self

import torch
from torch import Tensor
from torch.nn import functional

PICTURES = 4000  # that show whether mirrored ones look the same
_REACH = 1 / 16  # of the side: the largest shift
_LEANING = 0.02
_ASYMMETRY = 0.01  # of the variance of a pixel
_ERRORS = 3.0  # standard errors that are allowed on top


class Variation:
    """Shift each picture by up to a sixteenth of its side, reflected at the edge, and mirror half of them or none.

    It draws from torch's generator, whose state is part of a checkpoint.

    Args:
        mirror: Whether to mirror half of the pictures from left to right.
    """

    def __init__(self, mirror: bool) -> None:
        self.mirror = mirror

    @classmethod
    def of(cls, sample: Tensor) -> Self:
        """Return the variation for pictures of which there is a sample, (rows, channels, height, width)."""
        return cls(looks_the_same_mirrored(sample))

    def __repr__(self) -> str:
        return f"{type(self).__name__}(mirror={self.mirror})"

    def __call__(self, x: Tensor) -> Tensor:
        """Return varied pictures of shape (B, channels, height, width)."""
        rows, _, height, width = x.shape
        down, across = (round(side * _REACH) for side in (height, width))
        padded = functional.pad(x, (across, across, down, down), mode="reflect")
        windows = padded.unfold(2, height, 1).unfold(3, width, 1)
        top, left = (torch.randint(n, (rows,)).to(x.device) for n in windows.shape[2:4])
        varied = windows[torch.arange(rows, device=x.device), :, top, left]
        if not self.mirror:
            return varied
        chosen = (torch.rand(rows) < 0.5).to(x.device)
        return torch.where(chosen[:, None, None, None], varied.flip(-1), varied)


@torch.no_grad()
def looks_the_same_mirrored(x: Tensor) -> bool:
    """Say whether pictures, (rows, channels, height, width), have a symmetric mean and edges that do not lean."""
    x = x.float()
    rows, variance = len(x), x.var(0, correction=0).mean().clamp(min=1e-12)
    mean = x.mean(0)
    asymmetry = (mean - mean.flip(-1)).square().mean() / variance
    across, down = x[..., 1:-1, 2:] - x[..., 1:-1, :-2], x[..., 2:, 1:-1] - x[..., :-2, 1:-1]
    if not across.numel():
        return False
    size = (across.square().mean() * down.square().mean()).sqrt().clamp(min=1e-12)
    leaning = (across * down).flatten(1).mean(1) / size
    error = leaning.std(correction=0) / rows**0.5
    return bool(asymmetry < _ASYMMETRY + 4 / rows and leaning.mean().abs() < _LEANING + _ERRORS * error)
