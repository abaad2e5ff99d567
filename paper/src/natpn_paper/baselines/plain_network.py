"""The network and the loss of most baselines: an encoder with a linear layer on top, and its likelihood."""

import torch
from torch import Tensor, nn

from natpn.families import Family
from natpn.training import Trainee
from natpn.training.losses import marginal


class PlainNetwork(nn.Module):
    """Encoder and linear decoder: raw outputs (B, n_outputs).

    Args:
        encoder: Any module x → (B, latent_dim).
        latent_dim: The size of the latent vector.
        n_outputs: The number of raw outputs.
    """

    def __init__(self, encoder: nn.Module, latent_dim: int, n_outputs: int) -> None:
        super().__init__()
        self.encoder = encoder
        self.latent_dim = latent_dim
        self.decoder = nn.Linear(latent_dim, n_outputs)

    def forward(self, x: Tensor) -> Tensor:
        """Return raw outputs."""
        raw: Tensor = self.decoder(checked_latent(self.encoder(x), self.latent_dim))
        return raw


class NetworkLoss(Trainee):
    """A loss of a network's outputs.

    Args:
        network: The network.
    """

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self.trained = self.network = network


class LikelihoodLoss(NetworkLoss):
    """Minus the log-likelihood of the targets, over the size of its gradient at the start.

    The start is the distribution of all targets, to which the decoder's bias is set.

    Args:
        network: The network.
        family: The family of the targets.
        y: The targets whose distribution is the start.
        weight: The weight of each target.
    """

    def __init__(self, network: PlainNetwork, family: Family, y: Tensor, weight: Tensor) -> None:
        super().__init__(network)
        self.family = family
        raw, self.scale = marginal(family, y, weight)
        with torch.no_grad():
            network.decoder.bias.copy_(raw)

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        """Return losses, (B,)."""
        return -self.family.log_likelihood(self.network(x), y) / self.scale


def checked_latent(latent: Tensor, latent_dim: int) -> Tensor:
    """Return latents if they have the expected size.

    Raises:
        ValueError: If they have another size.
    """
    if latent.shape[-1:] != (latent_dim,):
        raise ValueError(
            f"encoder: expected outputs with latent_dim = {latent_dim} in the last dimension, got shape "
            f"{tuple(latent.shape)}"
        )
    return latent
