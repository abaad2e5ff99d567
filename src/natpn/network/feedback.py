"""What rows that came after training add to a network, which itself stays as it is.

The rows have a density p′ of their own, a mixture over what the density of the network sees, and a linear decoder of
their own. With N rows in training and N′ after it, the density of all rows is, but for a factor, that of training plus
the new one, and a row is predicted by either decoder with the share that its rows have there:

    p(x) = p₀(x) + (N′/N) p′(x),   raw(x) = (1 − s) raw₀(x) + s raw′(x),   s = (N′/N) p′(x) / p(x)

Where the new rows are not, s is 0 and both are those of training. p is measured as in training, so the budget stays.

An event that training never had lowers p₀ by its surprise. It is no event any more to p′ if the new rows had it: the
surprise there is the one beside training and the new rows together (`natpn.tabular.transform`), the last number of an
input.
"""

from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor, nn

from natpn.densities import Density, GaussianMixture, Surprise
from natpn.densities.base import FLOOR
from natpn.few_rows import Floats, array


def mixture_of(density: Density) -> GaussianMixture | None:
    """Return the mixture that a network's density is, or has beside events; None if it is another density."""
    inner = density.density if isinstance(density, Surprise) else density
    return inner if isinstance(inner, GaussianMixture) else None


class Feedback(nn.Module):
    """Density and decoder of rows that came after training.

    Args:
        n_features: How many numbers the density of the network sees, a surprise included.
        n_statistics: How many raw outputs the decoder has.
        n_components: How many components the mixture has.
        sees_events: Whether the last number that the density of the network sees is a surprise.
    """

    log_ratio: Tensor
    event_weight: Tensor

    def __init__(self, n_features: int, n_statistics: int, n_components: int = 1, sees_events: bool = True) -> None:
        super().__init__()
        self.sees_events = sees_events
        self.density = GaussianMixture(n_features, n_components)
        self.decoder = nn.Linear(n_features, n_statistics)
        self.register_buffer("log_ratio", torch.zeros(()))  # log N′/N
        self.register_buffer("event_weight", torch.zeros(()))  # that of the surprise in the density of the network

    def divide(self, x: Tensor) -> tuple[Tensor, Tensor | None]:
        """Return inputs as the network knows them, and their surprise beside training and the new rows."""
        return (x[..., :-1], x[..., -1]) if self.sees_events else (x, None)

    def forward(self, raw: Tensor, features: Tensor, log_density: Tensor, met: Tensor | None) -> tuple[Tensor, Tensor]:
        """Return raw outputs and log-density of all rows together.

        Args:
            raw: Raw outputs of the network's decoder, (..., S).
            features: What its density sees, (..., D).
            log_density: What its density says, (...).
            met: The surprise beside training and the new rows, (...); None if there are no events.
        """
        own, both = self.log_density(features, log_density, met)
        share = (own - both).exp().unsqueeze(-1).to(raw.dtype)
        return raw + share * (self.decoder(features) - raw), both

    def log_density(self, features: Tensor, log_density: Tensor, met: Tensor | None) -> tuple[Tensor, Tensor]:
        """Return the log-density of the new rows, times N′/N, and that of all rows together."""
        own = self.density(features) + self.log_ratio
        if met is not None:
            own = (own + self.event_weight * met.to(own.dtype)).clamp(min=-FLOOR)
        return own, torch.logaddexp(log_density.to(own.dtype), own)

    def in_numpy(self) -> Callable[[Floats, Floats, Floats, Floats | None], tuple[Floats, Floats]] | None:
        """Return the numpy form."""
        density = self.density.in_numpy()
        if density is None:
            return None
        log_ratio, event_weight = float(self.log_ratio), float(self.event_weight)
        weight, bias = array(self.decoder.weight).T.copy(), array(self.decoder.bias)

        def form(raw: Floats, features: Floats, log_density: Floats, met: Floats | None) -> tuple[Floats, Floats]:
            own = density(features) + log_ratio
            if met is not None:
                own = np.maximum(own + event_weight * met, -FLOOR)
            both = np.logaddexp(log_density, own)
            share = np.exp(own - both)[:, None]
            return raw + share * (features @ weight + bias - raw), both

        return form
