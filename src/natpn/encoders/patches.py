"""The principal components of small patches of pictures, which filters are made of."""

import torch
from torch import Tensor
from torch.nn import functional

PATCH = 3  # pixels a side
_PICTURES = 2000


@torch.no_grad()
def patch_components(images: Tensor) -> tuple[Tensor, Tensor]:
    """Return variances, descending, and directions, (components, channels, 3, 3), of patches of pictures.

    The variances are mean squares: pictures are expected to be standardised. Patches reach over the edge, where there
    is nothing. Of many pictures, (rows, channels, height, width), evenly spaced ones are used.
    """
    if images.ndim != 4 or not len(images):
        raise ValueError(
            f"images: expected at least one picture, (rows, channels, height, width), got shape {tuple(images.shape)}"
        )
    chosen = images[:: -(-len(images) // _PICTURES)].double()
    size = images.shape[1] * PATCH**2
    patches = functional.unfold(chosen, PATCH, padding=PATCH // 2).transpose(1, 2).reshape(-1, size)
    value, vector = torch.linalg.eigh(patches.T @ patches / len(patches))
    vector = vector.flip(-1)
    # The sign of an eigenvector is arbitrary: make its largest entry positive, so that fits repeat.
    vector = vector * vector.gather(0, vector.abs().argmax(0, keepdim=True)).sign()
    return value.flip(-1).clamp(min=0), vector.T.reshape(-1, images.shape[1], PATCH, PATCH)
