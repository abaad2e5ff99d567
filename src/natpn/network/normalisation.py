"""Normalisation of the latent space, in the paper's scheme: every latent feature has mean 0 and variance 1.

z = (f − m)/√(v + ε), with m and v of the batch in training mode (over all processes, if there are several) and their
running averages in evaluation mode. There is nothing to learn in it. Without it an encoder may shrink the latent
space until every density is high, or spread it until none is. The staged scheme leaves m = 0 and v = 1 as they are:
there the density is fitted afterwards and cannot pull.
"""

import torch
from torch import Tensor, nn
from torch.nn.functional import batch_norm

from natpn import parallel
from natpn.encoders.base import bound, check_positive


class LatentNormalisation(nn.Module):
    """Batch normalisation over all but the last dimension, without scale and shift.

    A batch of one row has no variance; it is normalised by the running averages and leaves them as they are.

    Args:
        latent_dim: The size of the last dimension.
        momentum: The weight of a new batch in the running averages.
        epsilon: Added to variances.
    """

    running_mean: Tensor
    running_variance: Tensor

    def __init__(self, latent_dim: int, momentum: float = 0.05, epsilon: float = 1e-5) -> None:
        super().__init__()
        check_positive(latent_dim=latent_dim)
        self.momentum = momentum
        self.epsilon = epsilon
        self.register_buffer("running_mean", torch.zeros(latent_dim))
        self.register_buffer("running_variance", torch.ones(latent_dim))

    @property
    def factor(self) -> Tensor:
        """What latents less the running mean are multiplied with."""
        return (self.running_variance + self.epsilon).rsqrt()

    def forward(self, latent: Tensor) -> Tensor:
        """Normalise latents of shape (..., latent_dim), cut at the encoders' limit."""
        latent = bound(latent.to(self.running_mean.dtype))
        flat = latent.reshape(-1, latent.shape[-1])
        rows = flat.shape[0] * parallel.world_size()
        if not self.training or rows < 2:
            return (latent - self.running_mean) * self.factor
        if parallel.world_size() == 1:
            running = self.running_mean, self.running_variance
            result: Tensor = batch_norm(flat, *running, training=True, momentum=self.momentum, eps=self.epsilon)
            return result.reshape(latent.shape)
        count = parallel.total(flat.new_tensor(flat.shape[0]))
        mean = parallel.differentiable_total(flat.sum(0)) / count
        variance = parallel.differentiable_total((flat - mean).square().sum(0)) / count
        with torch.no_grad():
            self.running_mean.lerp_(mean, self.momentum)
            self.running_variance.lerp_(variance * (rows / (rows - 1)), self.momentum)
        return (latent - mean) * (variance + self.epsilon).rsqrt()

    @torch.no_grad()
    def settle(self, latent: Tensor) -> None:
        """Set the running mean to that of latents as the encoder returns them; the running variance stays."""
        self.running_mean.copy_(bound(latent.to(self.running_mean.dtype)).flatten(0, -2).mean(0))
