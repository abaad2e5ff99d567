"""What the density sees of a picture beside its latent vector: the texture, as energies of small patches."""

from collections.abc import Iterable
from typing import Self

import torch
from torch import Tensor, nn
from torch.nn import functional

from natpn.encoders.base import bound, check_shape, flatten_images, may_overwrite
from natpn.encoders.patches import PATCH, patch_components

_MOST = 27
_LEAST = 1e-4  # of the largest variance is added to all
_FAINTEST, _STRONGEST = 1e-3, 1e3
_TOGETHER = 256


class PatchEnergies(nn.Module):
    """Map a picture to the logarithms of its energies: how much of each component there is in its 3 x 3 patches.

    With r_k the response of the picture to the k-th principal component of training patches, brought to variance 1,

        e_k = log(E_k + 10⁻³),   E_k = the mean of r_k² over all places,

    and from E_k = 1000 on, a thousand times the energy of ordinary pictures, e_k goes on as a straight line: pictures
    that grow without end leave every density behind.

    It is a bypass: the density sees it beside the latent vector, the decoder does not. An encoder learns to disregard
    what classes have in common: noise, blur, compression, how colours go together. Pictures of another kind differ in
    just that.

    Args:
        shape: (channels, height, width) of a picture.
    """

    filters: Tensor

    def __init__(self, shape: Iterable[int]) -> None:
        super().__init__()
        self.shape = check_shape(shape)
        channels = self.shape[0]
        size = channels * PATCH**2
        self.latent_dim = min(size, _MOST)
        start = torch.eye(size)[: self.latent_dim].reshape(-1, channels, PATCH, PATCH)
        self.register_buffer("filters", start)

    @torch.no_grad()
    def fit(self, x: Tensor) -> Self:
        """Take the components from training pictures, (rows, channels, height, width)."""
        variance, direction = patch_components(flatten_images(x, self.shape)[0])
        scaled = direction / (variance + max(_LEAST * float(variance[0]), 1e-12)).sqrt()[:, None, None, None]
        self.filters.copy_(scaled[: self.latent_dim])
        return self

    def forward(self, x: Tensor) -> Tensor:
        """Map `x`, shape (..., channels, height, width), to (..., components)."""
        images, leading = flatten_images(x.to(self.filters.dtype), self.shape)
        parts = images.split(_TOGETHER) if may_overwrite() else [images]
        energies = torch.cat([self._energies(part) for part in parts])
        beyond = (energies - _STRONGEST).clamp(min=0) / _STRONGEST
        logarithm = (energies.clamp(max=_STRONGEST) + _FAINTEST).log()
        return bound(logarithm + beyond).reshape(*leading, self.latent_dim)

    def _energies(self, images: Tensor) -> Tensor:
        response = bound(functional.conv2d(images, self.filters, padding=PATCH // 2))
        return response.square().mean((-2, -1))
