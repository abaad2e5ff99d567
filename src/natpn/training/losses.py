"""What is minimised, as modules whose forward pass returns one loss a row.

| class | loss | trains |
|---|---|---|
| `PlainLoss` | the family's: by default −log p(y) at χ, the Bayesian loss for n → ∞ | encoder, decoder, scales |
| `BayesianLoss` | −E[log p(y)] − λ H[posterior] | everything |
| `DensityLoss` | −log p(z) of latents that were calculated before | the density |
| `FineTuningLoss` | the same | a copy of the density |
"""

import copy
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import cast

import torch
from torch import Tensor, nn

from natpn.densities import Density
from natpn.encoders import ChainEncoder
from natpn.evidence import Evidence
from natpn.families import Family
from natpn.network import NaturalPosteriorNetwork
from natpn.training.by_hand import Backpropagation, FlatParameters, InputScales, Parts, StackedLinear, backpropagation

LEAST = 0.0  # the least log n that training counts with


@dataclass(frozen=True)
class Start:
    """Where the training of a network starts."""

    usual: Tensor  # raw outputs at the distribution of all targets, (S,)
    scale: float  # divides the loss

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
        """Take from a sample of prepared inputs what stays fixed in evaluation mode, where running means would lag."""

    def may_be_kept(self) -> bool:
        """Say whether the present state may be kept, if its validation loss is the least so far."""
        return True

    def close(self) -> None:
        """Put what was trained where it belongs."""


def stackable(members: Sequence[NaturalPosteriorNetwork]) -> bool:
    """Say whether members have chains of the same layers behind the same preparation, so that they can be stacked."""
    encoders = [member.encoder for member in members if isinstance(member.encoder, ChainEncoder)]
    if len(encoders) < len(members) or not all(encoders[0].prepares_like(other) for other in encoders[1:]):
        return False
    plain = all(type(layer) is nn.Linear or not layer.state_dict() for layer in encoders[0].layers)
    built = {repr((member.encoder, member.normalisation, member.decoder)) for member in members}
    return plain and len(built) == 1


class StackedEncoder(ChainEncoder):
    """The encoders of several networks in one: each linear layer is one `baddbmm`."""

    def __init__(self, encoders: Sequence[ChainEncoder]) -> None:
        super().__init__()
        self._encoders = tuple(encoders)  # in a tuple, which keeps them out of parameters() and state_dict()
        chains = zip(*(encoder.layers for encoder in encoders), strict=True)
        self.layers = nn.Sequential(*(StackedLinear(c) if isinstance(c[0], nn.Linear) else c[0] for c in chains))

    @property
    def columns(self) -> Tensor:
        """Those of the first encoder."""
        return self._encoders[0].columns

    def prepare(self, x: Tensor) -> Tensor:
        """Return what the first layers see."""
        return self._encoders[0].prepare(x)

    def unstack(self) -> None:
        """Write the weights to the encoders."""
        for place, layer in enumerate(self.layers):
            if isinstance(layer, StackedLinear):
                layer.unstack([cast(nn.Linear, encoder.layers[place]) for encoder in self._encoders])


class StackedNetworks(nn.Module):
    """What `PlainLoss` needs of a network, of several at once.

    It holds copies of the members' weights, stacked along a first dimension; `unstack` writes them back. Inputs are
    (M, B, F), one batch for each member. The members' normalisation stays as it is, and is no part of what is trained.
    """

    mean: Tensor
    factor: Tensor

    def __init__(self, members: Sequence[NaturalPosteriorNetwork]) -> None:
        super().__init__()
        if not stackable(members):
            raise ValueError("members: expected tabular encoders of the same architecture and encoding in all of them")
        self._members = tuple(members)
        self.n_members, self.family = len(members), members[0].family
        self.encoder = StackedEncoder([cast(ChainEncoder, member.encoder) for member in members])
        self.decoder = StackedLinear([member.decoder for member in members])
        normalisations = [member.normalisation for member in members]
        self.register_buffer("mean", torch.stack([n.running_mean[None] for n in normalisations]), persistent=False)
        self.register_buffer("factor", torch.stack([n.factor[None] for n in normalisations]), persistent=False)

    def read(self, latent: Tensor) -> tuple[Tensor, Tensor]:
        """Return normalised latents and raw outputs."""
        latent = (latent - self.mean) * self.factor
        return latent, self.decoder(latent)

    @torch.no_grad()
    def unstack(self) -> None:
        """Write the stacked weights back to the members."""
        self.encoder.unstack()
        self.decoder.unstack([member.decoder for member in self._members])


class PlainLoss(Trainee):
    """The family's training loss at χ, over a scale, of a network or of stacked ones.

    The normalisation of latents stays as it is. The columns of a chain's inputs get factors.

    Args:
        network: What is trained.
        start: Where its training starts.
    """

    def __init__(self, network: NaturalPosteriorNetwork | StackedNetworks, start: Start) -> None:
        super().__init__()
        self._network = (network,)  # in a tuple: its density is no part of this module
        self.start, encoder = start, network.encoder
        if isinstance(network, StackedNetworks):
            self.stacked, self.n_members = network, network.n_members
        self.scales = InputScales(encoder.columns, self.n_members) if isinstance(encoder, ChainEncoder) else None
        parts = [encoder, network.decoder, self.scales]
        self.trained = nn.ModuleList([part for part in parts if part is not None])

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        """Return losses, (B, …) or (M, B)."""
        network = self._network[0]
        encoder = network.encoder
        latent = encoder(x) if self.scales is None else cast(ChainEncoder, encoder).map(self.scales(x))
        return self.start.loss(network.family, network.read(latent)[1], y)

    def by_hand(self, flat: FlatParameters) -> Backpropagation | None:
        """Return the passes of a chain."""
        network, encoder = self._network[0], self._network[0].encoder
        if self.scales is None or not isinstance(encoder, ChainEncoder) or type(encoder).map is not ChainEncoder.map:
            return None
        slope = partial(self.start.slope, network.family)
        if isinstance(network, StackedNetworks):
            place = network.mean, network.factor
        else:
            place = network.normalisation.running_mean, network.normalisation.factor
        return backpropagation(Parts(encoder.layers, *place, network.decoder, slope, self.scales), flat)

    def prepare(self, x: Tensor) -> Tensor:
        """Prepare the inputs of a chain."""
        encoder = self._network[0].encoder
        return encoder.prepare(x) if isinstance(encoder, ChainEncoder) else x

    def close(self) -> None:
        """Make the factors of the inputs part of the first layer, and write stacked weights to the members."""
        network = self._network[0]
        if self.scales is not None:
            self.scales.fold(cast(ChainEncoder, network.encoder).first.weight)
        if isinstance(network, StackedNetworks):
            network.unstack()


class BayesianLoss(Trainee):
    """The paper's loss (Sec. 3.5), −E[log p(y)] − λ H[posterior]; the signs in its last form there are reversed.

    In training log n counts as at least `LEAST`, and gradients that ask for more evidence pass that bound as if it were
    not there: a row without evidence is predicted by the prior, whatever the network says of it, and nothing would be
    learned from it. A bound of e^−10 observations is too low: gradients of such rows hardly count beside others, and
    a run on MNIST ended with evidence for a few classes and none for the rest. In validation there is no bound.

    Args:
        network: What is trained.
        entropy_weight: λ.
        scale: Divides the loss, so that gradients of large targets are not all shortened.
    """

    def __init__(self, network: NaturalPosteriorNetwork, entropy_weight: float, scale: float = 1.0) -> None:
        super().__init__()
        self.trained = self.network = network
        self.entropy_weight, self.scale = entropy_weight, scale

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        """Return losses, (B, …)."""
        evidence = self.network.see(x)
        self.log_n = evidence.log_n.detach()
        return self.of(replace(evidence, log_n=_at_least(evidence.log_n)) if self.training else evidence, y)

    def of(self, evidence: Evidence, y: Tensor) -> Tensor:
        """Return the losses of evidence."""
        posterior = self.network.predict(evidence).posterior
        loss: Tensor = -posterior.expected_log_likelihood(y)
        loss = loss - self.entropy_weight * posterior.entropy() if self.entropy_weight else loss
        return loss / self.scale

    def settle(self, x: Tensor) -> None:
        """Set what the density fixes in evaluation mode, from a part of the sample at a time."""
        rows = max(1, min(len(x), 2**22 // max(1, x[0].numel())))
        parts = [self.network.features(part, self.network.represent(part)[0]) for part in x.split(rows)]
        self.network.density.settle(torch.cat(parts))


def _at_least(log_n: Tensor) -> Tensor:
    """Return log n, at least `LEAST`; below it, gradients that ask for more pass as if there were no bound.

    Those that ask for less do not: nothing would stop them.
    """
    passed = log_n - log_n.detach()  # 0, with the gradient of log n
    if passed.requires_grad:
        passed.register_hook(lambda gradient: gradient.clamp(max=0.0))
    return torch.where(log_n < LEAST, LEAST + passed, log_n)


class DensityLoss(Trainee):
    """Minus the log-density of what the density sees."""

    def __init__(self, density: Density) -> None:
        super().__init__()
        self.trained = self.density = density

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        """Return losses, (B,); the targets play no part."""
        result: Tensor = -self.density.log_prob(x)
        return result

    def settle(self, x: Tensor) -> None:
        """Set what the density fixes in evaluation mode."""
        self.density.settle(x)


class FineTuningLoss(DensityLoss):
    """Minus the log-density of a copy of the density, which replaces it in the end.

    In joint training a row that is hard to predict may get little evidence, and with it the width of the prior. A
    density that is fitted to latents alone gives it as much as others, and the prediction may become too sure. A state
    of the copy may be kept if the loss of held-out rows has grown by at most one standard error of their mean loss;
    without any such state the density stays as it was.

    Args:
        loss: The loss that the network was trained by.
        features: What the density sees of held-out rows, (N, D).
        raw: What the decoder says of them, (N, S).
        y: Their targets.
        weight: How much each counts, (N,).
    """

    def __init__(self, loss: BayesianLoss, features: Tensor, raw: Tensor, y: Tensor, weight: Tensor) -> None:
        super().__init__(copy.deepcopy(loss.network.density))
        self._loss = (loss,)  # in a tuple: it is not trained
        self._held_out = features, raw, y
        self._share = weight.double() / weight.double().sum()
        self._before = self.losses(loss.network.density)
        spread = (self._before - self._share @ self._before).square()
        self._error = (spread @ self._share / len(spread)).sqrt()

    @torch.no_grad()
    def losses(self, density: Density) -> Tensor:
        """Return what held-out rows lose with a density, (N,)."""
        loss, (features, raw, y) = self._loss[0].eval(), self._held_out
        network = loss.network
        own, network.density = network.density, density.eval()
        losses = loss.of(network.evidence(raw, features), y).double()
        network.density = own
        return losses

    def may_be_kept(self) -> bool:
        """Say whether held-out rows are predicted about as well as before."""
        return bool(self._share @ (self.losses(self.density) - self._before) <= self._error)

    @torch.no_grad()
    def close(self) -> None:
        """Give the network the best state that may be kept."""
        if self.may_be_kept():
            self._loss[0].network.density.load_state_dict(self.density.state_dict())


@torch.no_grad()
def start_at_marginal(network: NaturalPosteriorNetwork, y: Tensor, weight: Tensor) -> Start:
    """Set the decoder's bias to the distribution of all targets, and return it with the scale of the loss there."""
    raw, scale = marginal(network.family, y, weight)
    network.decoder.bias.copy_(raw)
    return Start(raw.to(network.decoder.bias), scale)


@torch.no_grad()
def marginal(family: Family, y: Tensor, weight: Tensor) -> tuple[Tensor, float]:
    """Return raw outputs, (S,), at the distribution of all targets, and the scale of the loss there.

    The scale is the root mean square of the loss's gradient with respect to the raw outputs, if that is above 1.
    Targets may have any leading dimensions; the weight says how much each row counts.
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
