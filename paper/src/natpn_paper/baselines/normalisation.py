"""Batch norm of latents without anything learned, for the baselines that have it."""

from typing import cast

import torch
from torch import Tensor, nn
from torch.nn.functional import batch_norm

from natpn.encoders.base import bound, check_positive
from natpn_paper.baselines.plain_network import NetworkLoss

_MOMENTUM = 0.05  # the weight of a new batch in the running averages
_EPSILON = 1e-5  # added to variances
_ROWS = 512


class LatentNormalisation(nn.Module):
    """Normalise every latent feature to mean 0 and variance 1.

    z = (f − m)/√(v + ε), with m and v of the batch in training mode and their running averages in evaluation mode. A
    batch of one row has no variance; it is normalised by the running averages and leaves them as they are.
    """

    running_mean: Tensor
    running_variance: Tensor

    def __init__(self, latent_dim: int) -> None:
        super().__init__()
        check_positive(latent_dim=latent_dim)
        self.register_buffer("running_mean", torch.zeros(latent_dim))
        self.register_buffer("running_variance", torch.ones(latent_dim))

    def forward(self, latent: Tensor) -> Tensor:
        """Normalise latents of shape (B, latent_dim), cut at the encoders' limit."""
        latent = bound(latent.to(self.running_mean.dtype))
        if not self.training or len(latent) < 2:
            return (latent - self.running_mean) * (self.running_variance + _EPSILON).rsqrt()
        running = self.running_mean, self.running_variance
        result: Tensor = batch_norm(latent, *running, training=True, momentum=_MOMENTUM, eps=_EPSILON)
        return result


class NormalisedLoss(NetworkLoss):
    """A loss of a network that normalises its latents."""

    def settle(self, x: Tensor) -> None:
        """Set the running mean of the latents to that of a sample; the running variance stays.

        Training does not see constant shifts of the latents, so the optimiser turns their gradients, which are rounding
        errors, into a random walk. A running mean would lag behind it. But with dropout the layers behind have learned
        around the mean of noisy latents, which only the running mean knows.
        """
        encoder, normalisation = (
            cast(nn.Module, self.network.encoder),
            cast(LatentNormalisation, self.network.normalisation),
        )
        if any(isinstance(part, nn.Dropout) and part.p > 0 for part in encoder.modules()):
            return
        latent = torch.cat([encoder(part) for part in x.split(_ROWS)])
        mean = normalisation.running_mean
        mean.copy_(bound(latent.to(mean.dtype)).mean(0))
