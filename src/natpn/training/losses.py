"""What is minimised, as modules whose forward pass returns one loss a row.

| class | loss | trains |
|---|---|---|
| `PlainLoss` | the family's: by default −log p(y) at χ, the Bayesian loss for n → ∞ | encoder, decoder, scales |
| `StackedPlainLoss` | the same, of several members at once | the same, stacked |
| `BayesianLoss` | −E[log p(y)] − λ H[posterior] | everything |
| `DensityLoss` | −log p(z) of latents that were calculated before | the density |
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor, nn

from natpn.densities import Density
from natpn.encoders import TabularEncoder
from natpn.families import Family
from natpn.network import NaturalPosteriorNetwork
from natpn.network.ensemble import StackedNetworks
from natpn.training.by_hand import Backpropagation, FlatParameters, InputScales, backpropagation


@dataclass(frozen=True)
class Start:
    """Where the training of a network starts.

    Attributes:
        usual: Raw outputs at the distribution of all targets, (S,).
        scale: Divides the loss.
    """

    usual: Tensor
    scale: float

    def loss(self, family: Family, raw: Tensor, y: Tensor) -> Tensor:
        """Return what the family minimises, over the scale."""
        return family.training_loss(raw, y, self.usual) / self.scale

    def slope(self, family: Family, raw: Tensor, y: Tensor, share: Tensor) -> tuple[Tensor, Tensor]:
        """Return `loss`, and the gradient of its sum over targets, each times its share."""
        value, slope = family.training_slope(raw, y, self.usual, share / self.scale)
        return value / self.scale, slope


class Trainee(nn.Module, ABC):
    """A module whose forward pass returns losses.

    Attributes:
        trained: What is trained; its state is what early stopping keeps.
        n_members: How many stacked members it has; None for a single one, without a dimension for it.
        log_n: The log-evidence of the last batch, if there is evidence.
    """

    trained: nn.Module
    n_members: int | None = None
    log_n: Tensor | None = None

    def prepare(self, x: Tensor) -> Tensor:
        """Apply to inputs (..., F) what is the same at every step; `forward` and `settle` take the result."""
        return x

    @abstractmethod
    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        """Return losses, (B, …), or (M, B, …) for stacked members."""

    def by_hand(self, flat: FlatParameters) -> Backpropagation | None:
        """Return losses and gradients of all parameters without autograd, if they can be had."""
        return None

    def settle(self, x: Tensor) -> None:
        """Set the running mean of the latents to that of a sample.

        Training does not see constant shifts of the latents, so the optimiser turns their gradients, which are rounding
        errors, into a random walk. A running mean would lag behind it.
        """

    def close(self) -> None:
        """Put what was trained where it belongs."""


class PlainLoss(Trainee):
    """The family's training loss at χ, over a scale.

    Args:
        network: The network; the normalisation of its latents stays as it is.
        start: Where training starts.
    """

    def __init__(self, network: NaturalPosteriorNetwork, start: Start) -> None:
        super().__init__()
        encoder = network.encoder
        self.scales = InputScales(encoder.columns) if isinstance(encoder, TabularEncoder) else None
        parts = [encoder, network.decoder, self.scales]
        self.trained = nn.ModuleList([part for part in parts if part is not None])
        self._network = (network,)  # in a tuple: its density is no part of this module
        self.start = start
        network.normalisation.eval()

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        """Return losses, (B, …)."""
        network = self._network[0]
        return self.start.loss(network.family, network.read(self._latent(x))[1], y)

    def by_hand(self, flat: FlatParameters) -> Backpropagation | None:
        """Return the passes of a tabular encoder."""
        network = self._network[0]
        if type(network.encoder) is not TabularEncoder or self.scales is None:  # another may map otherwise
            return None
        slope = partial(self.start.slope, network.family)
        normalisation = network.normalisation
        place = normalisation.running_mean, normalisation.factor
        return backpropagation(network.encoder.layers, *place, network.decoder, slope, self.scales, flat)

    def prepare(self, x: Tensor) -> Tensor:
        """Encode the columns of a table."""
        encoder = self._network[0].encoder
        return encoder.encode(x) if isinstance(encoder, TabularEncoder) else x

    def _latent(self, x: Tensor) -> Tensor:
        encoder = self._network[0].encoder
        if isinstance(encoder, TabularEncoder) and self.scales is not None:
            return encoder.map(self.scales(x))
        latent: Tensor = encoder(x)
        return latent

    def close(self) -> None:
        """Make the factors of the inputs part of the first layer."""
        encoder = self._network[0].encoder
        if self.scales is not None and isinstance(encoder, TabularEncoder):
            self.scales.fold(encoder.first.weight)


class StackedPlainLoss(Trainee):
    """`PlainLoss` of several members at once.

    Args:
        members: The networks.
        start: Where training starts.
    """

    def __init__(self, members: list[NaturalPosteriorNetwork], start: Start) -> None:
        super().__init__()
        self.stacked = StackedNetworks(members)
        self.scales = InputScales(self.stacked.columns, len(members))
        self.trained = nn.ModuleList([self.stacked, self.scales])
        self.family = members[0].family
        self.n_members = len(members)
        self.start = start

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        """Return losses, (M, B)."""
        return self.start.loss(self.family, self.stacked.read(self.stacked.map(self.scales(x)))[1], y)

    def by_hand(self, flat: FlatParameters) -> Backpropagation | None:
        """Return the passes of the stacked encoders."""
        stacked, slope = self.stacked, partial(self.start.slope, self.family)
        place = stacked.mean, stacked.factor
        return backpropagation(stacked.layers, *place, stacked.decoder, slope, self.scales, flat)

    def prepare(self, x: Tensor) -> Tensor:
        """Encode the columns of a table."""
        return self.stacked.encode(x)

    def close(self) -> None:
        """Make the factors of the inputs part of the weights, and write these to the members."""
        self.scales.fold(self.stacked.first.weight)
        self.stacked.unstack()


class BayesianLoss(Trainee):
    """The paper's loss (Sec. 3.5), −E[log p(y)] − λ H[posterior]; the signs in its last form there are reversed.

    Args:
        network: The network.
        entropy_weight: λ.
    """

    def __init__(self, network: NaturalPosteriorNetwork, entropy_weight: float) -> None:
        super().__init__()
        self.trained = self.network = network
        self.entropy_weight = entropy_weight

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        """Return losses, (B, …)."""
        posterior, evidence = self.network(x)
        self.log_n = evidence.log_n.detach()
        loss: Tensor = -posterior.expected_log_likelihood(y)
        return loss - self.entropy_weight * posterior.entropy() if self.entropy_weight else loss

    def settle(self, x: Tensor) -> None:
        """Set the running mean of the network's latents, a part of the sample at a time."""
        rows = max(1, min(len(x), 2**22 // max(1, x[0].numel())))
        latent = torch.cat([self.network.encoder(part) for part in x.split(rows)])
        self.network.normalisation.settle(latent)


class DensityLoss(Trainee):
    """Minus the log-density of what the density sees.

    Args:
        density: The density.
    """

    def __init__(self, density: Density) -> None:
        super().__init__()
        self.trained = self.density = density

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        """Return losses, (B,); the targets play no part."""
        result: Tensor = -self.density.log_prob(x)
        return result


@torch.no_grad()
def start_at_marginal(network: NaturalPosteriorNetwork, y: Tensor, weight: Tensor) -> Start:
    """Set the decoder's bias to the distribution of all targets, and return it with the scale of the loss there.

    Args:
        network: The network.
        y: Targets, any leading dimensions.
        weight: How much each row counts.
    """
    raw, scale = marginal(network.family, y, weight)
    network.decoder.bias.copy_(raw)
    return Start(raw.to(network.decoder.bias), scale)


@torch.no_grad()
def marginal(family: Family, y: Tensor, weight: Tensor) -> tuple[Tensor, float]:
    """Return raw outputs, (S,), at the distribution of all targets, and the scale of the loss there.

    The scale is the root mean square of the loss's gradient with respect to the raw outputs, if that is above 1.

    Args:
        family: What the targets are.
        y: Targets, any leading dimensions.
        weight: How much each row counts.
    """
    size = len(family.support.event_shape)
    weight = weight.reshape(-1, *[1] * (y.ndim - size - 1)).expand(y.shape[: y.ndim - size]).flatten()
    y = y.reshape(-1, *y.shape[y.ndim - size :])
    observed = family.observe(y.double())
    pooled = family.evidence(observed.chi, observed.log_n + weight.double().log()).sum(0)
    raw = family.inverse_link(pooled.chi.to(y.device)).to(torch.get_default_dtype())
    with torch.enable_grad():
        rows = raw.double().expand(len(y), -1).clone().requires_grad_()
        (gradient,) = torch.autograd.grad(family.log_likelihood(rows, y).sum(), rows)
    steepness = (gradient.square().sum(-1) * weight).sum() / weight.sum()
    return raw, max(1.0, float(steepness.sqrt()))
