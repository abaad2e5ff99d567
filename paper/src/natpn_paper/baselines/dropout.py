"""Monte Carlo dropout (Gal and Ghahramani 2016): several passes of a network, each with other activations left out.

Hidden activations are set to zero with probability `rate`: in training at random for every row, in prediction by
`n_samples` fixed patterns. Each pattern is one network drawn from the approximate posterior over weights, and is used
for all rows. So the prediction for a row depends neither on the other rows of a call nor on earlier calls.
"""

from typing import Any

import torch
from torch import Tensor, nn

from natpn.encoders.base import Activation
from natpn.encoders.base import Dropout as FastDropout
from natpn.estimators.rows import Prepared
from natpn_paper.baselines.base import Baseline
from natpn_paper.baselines.checks import check_count, check_share
from natpn_paper.baselines.members import MembersClassifier, MembersRegressor
from natpn_paper.baselines.plain_network import PlainNetwork

_ACTIVATIONS = (Activation, nn.ReLU, nn.LeakyReLU, nn.ELU, nn.GELU, nn.SiLU, nn.Softplus, nn.Tanh, nn.Sigmoid)


class PatternDropout(FastDropout):
    """Dropout that applies one of several fixed patterns to all rows in evaluation mode, once one is chosen.

    Args:
        rate: The share of entries set to zero.
        seed: The seed of the patterns.
    """

    def __init__(self, rate: float, seed: int) -> None:
        super().__init__(rate)
        self.seed = seed
        self.pattern: int | None = None  # which of them applies

    def forward(self, x: Tensor) -> Tensor:
        """Set entries to zero, and scale the others up."""
        if self.training or self.pattern is None or not self.p:
            return super().forward(x)
        generator = torch.Generator().manual_seed(self.seed)
        kept = torch.rand(self.pattern + 1, *x.shape[1:], generator=generator, dtype=torch.float64)[-1] >= self.p
        return x * (kept.to(x) / (1 - self.p))


class DropoutNetwork(PlainNetwork):
    """A plain network with dropout after every activation of its encoder, or on the latent vector if there is none.

    Args:
        encoder: The encoder, which is changed.
        latent_dim: The size of the latent vector.
        n_outputs: The number of raw outputs.
        rate: The share of activations left out.
        n_samples: The number of patterns in evaluation mode, after `sample` was called.
        seed: The seed of the patterns.
    """

    def __init__(
        self, encoder: nn.Module, latent_dim: int, n_outputs: int, rate: float, n_samples: int, seed: int
    ) -> None:
        super().__init__(encoder, latent_dim, n_outputs)
        self.n_samples = n_samples
        self.samples = False
        if not _insert(encoder, rate, seed):
            self.encoder = nn.Sequential(encoder, PatternDropout(rate, seed))

    def sample(self) -> None:
        """Return n_samples outputs, (n_samples, B, n_outputs), in all calls from now on."""
        self.samples = True

    def forward(self, x: Tensor) -> Tensor:
        """Return raw outputs, (B, n_outputs), or (n_samples, B, n_outputs) after `sample` was called."""
        if not self.samples:
            return super().forward(x)
        return torch.stack([self._with_pattern(i, x) for i in range(self.n_samples)])

    def _with_pattern(self, pattern: int, x: Tensor) -> Tensor:
        for module in self.modules():
            if isinstance(module, PatternDropout):
                module.pattern = pattern
        return super().forward(x)


def _insert(module: nn.Module, rate: float, seed: int) -> int:
    """Put dropout behind every activation, and return how many there were."""
    found = 0
    for name, child in module.named_children():
        if isinstance(child, _ACTIVATIONS):
            setattr(module, name, nn.Sequential(child, PatternDropout(rate, seed)))
            found += 1
        else:
            found += _insert(child, rate, seed + 7919 * found)
        seed += 1
    return found


class Dropout(Baseline):
    """Monte Carlo dropout.

    Args:
        rate: The share of hidden activations left out.
        n_samples: How many networks are drawn for prediction.
        **settings: Those of `Baseline`.
    """

    def __init__(self, *, rate: float = 0.1, n_samples: int = 5, **settings: Any) -> None:
        super().__init__(**settings)
        self.rate = rate
        self.n_samples = n_samples

    def _check_parameters(self) -> None:
        super()._check_parameters()
        check_share(self, "rate", with_zero=True)
        check_count(self, "n_samples")

    def _network(self, n_outputs: int, data: Prepared, seed: int) -> nn.Module:
        return DropoutNetwork(
            self._encoder(), int(self.latent_dim), n_outputs, float(self.rate), int(self.n_samples), seed
        )

    def _train(self, data: Prepared, seed: int) -> nn.Module:
        network = self._trained(data, seed)
        if isinstance(network, DropoutNetwork):
            network.sample()
        return network


class DropoutClassifier(Dropout, MembersClassifier):
    """Monte Carlo dropout for classes; see `Dropout`."""


class DropoutRegressor(Dropout, MembersRegressor):
    """Monte Carlo dropout for numbers and counts; see `Dropout` and `BaselineRegressor`."""
