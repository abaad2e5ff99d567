"""Normalisation of the latent space: every latent feature has mean 0 and variance 1 over the training data.

z = (f − m)/√(v + ε), with m and v of the batch in training mode (over all processes, if there are several) and their
running averages in evaluation mode. There is nothing to learn in it. Without it an encoder may shrink the latent
space until every density is high, or spread it until none is.
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
        n_members: If given, latents are (n_members, B, latent_dim) and each member is normalised by itself.
    """

    running_mean: Tensor
    running_variance: Tensor

    def __init__(
        self, latent_dim: int, momentum: float = 0.05, epsilon: float = 1e-5, n_members: int | None = None
    ) -> None:
        super().__init__()
        check_positive(latent_dim=latent_dim)
        self.momentum = momentum
        self.epsilon = epsilon
        shape = (latent_dim,) if n_members is None else (n_members, 1, latent_dim)
        self.register_buffer("running_mean", torch.zeros(shape))
        self.register_buffer("running_variance", torch.ones(shape))

    def forward(self, latent: Tensor) -> Tensor:
        """Normalise latents of shape (..., latent_dim), cut at the encoders' limit."""
        latent = bound(latent.to(self.running_mean.dtype))
        shape = self.running_mean.shape
        flat = latent.reshape(*shape[:-2], -1, shape[-1])
        rows = flat.shape[-2] * parallel.world_size()
        if not self.training or rows < 2:
            return (latent - self.running_mean) * (self.running_variance + self.epsilon).rsqrt()
        if parallel.world_size() == 1:
            running = self.running_mean.view(-1), self.running_variance.view(-1)
            columns = flat.movedim(-2, 0).flatten(1)
            columns = batch_norm(columns, *running, training=True, momentum=self.momentum, eps=self.epsilon)
            result: Tensor = columns.unflatten(1, shape[:-2] + shape[-1:]).movedim(0, -2)
            return result.reshape(latent.shape)
        count = parallel.total(flat.new_tensor(flat.shape[-2]))
        mean = parallel.differentiable_total(flat.sum(-2, keepdim=True)) / count
        variance = parallel.differentiable_total((flat - mean).square().sum(-2, keepdim=True)) / count
        mean, variance = mean.reshape(shape), variance.reshape(shape)
        with torch.no_grad():
            self.running_mean.lerp_(mean, self.momentum)
            self.running_variance.lerp_(variance * (rows / (rows - 1)), self.momentum)
        return (latent - mean) * (variance + self.epsilon).rsqrt()

    @torch.no_grad()
    def settle(self, latent: Tensor) -> None:
        """Set the running mean to that of latents as the encoder returns them; the running variance stays."""
        shape = self.running_mean.shape
        flat = bound(latent.to(self.running_mean.dtype)).reshape(*shape[:-2], -1, shape[-1])
        self.running_mean.copy_(flat.mean(-2, keepdim=True).reshape(shape))
