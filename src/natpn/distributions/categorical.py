"""Classes, and the two-class case with targets 0 and 1."""

import numpy as np
import torch
from torch import Tensor

from natpn.distributions.base import Array, ScalarDistribution, array
from natpn.distributions.support import classes


class Categorical(ScalarDistribution):
    """Class indices 0 … C − 1 with the given probabilities, shape (..., C).

    A class index has no mean; `mean` and `variance` are those of its indicator vector, shape (..., C).
    """

    def __init__(self, probs: Tensor, dtype: torch.dtype = torch.float64) -> None:
        self.probs = probs
        super().__init__(probs.shape[:-1], classes(probs.shape[-1]), dtype)

    def _device(self) -> torch.device:
        return self.probs.device

    def _mean(self) -> Tensor:
        return self.probs

    def _variance(self) -> Tensor:
        return self.probs * (1 - self.probs)

    def _log_prob(self, y: Tensor) -> Tensor:
        shape = torch.broadcast_shapes(y.shape, self.batch_shape)
        probs = self.probs.expand(*shape, -1)
        return probs.gather(-1, y.expand(shape).long().unsqueeze(-1)).squeeze(-1).log()

    def _sample(self, shape: torch.Size) -> Tensor:
        flat: Tensor = torch.multinomial(
            self.probs.reshape(-1, self.probs.shape[-1]), max(shape.numel(), 1), replacement=True
        )
        drawn: Tensor = flat.T[: shape.numel()].reshape(shape + self.batch_shape)
        return drawn

    def _entropy(self) -> Tensor:
        entropies: Tensor = torch.special.entr(self.probs)
        return entropies.sum(-1)

    def _cdf(self, y: Array) -> Array:
        total = self._cumulative()
        index = np.broadcast_to(np.floor(y), np.broadcast_shapes(y.shape, total.shape[:-1]))
        last = np.clip(index, 0, total.shape[-1] - 1).astype(np.int64)[..., None]
        total = np.broadcast_to(total, (*index.shape, total.shape[-1]))
        return np.where(index < 0, 0.0, np.take_along_axis(total, last, -1)[..., 0])

    def _icdf(self, q: Array) -> Array:
        return np.asarray((self._cumulative()[..., :-1] < q[..., None]).sum(-1), dtype=np.float64)

    def _cumulative(self) -> Array:
        total = np.cumsum(array(self.probs), -1)
        total[..., -1] = 1.0
        return total


class Bernoulli(Categorical):
    """Targets 0 and 1; `mean` and `variance` are those of the number itself.

    Args:
        failure: The probability of 0.
        success: The probability of 1.
        dtype: The precision of what it returns.
    """

    def __init__(self, failure: Tensor, success: Tensor, dtype: torch.dtype = torch.float64) -> None:
        super().__init__(torch.stack([failure, success], -1), dtype)

    def _sample(self, shape: torch.Size) -> Tensor:
        drawn: Tensor = super()._sample(shape).to(self.probs.dtype)
        return drawn

    def _mean(self) -> Tensor:
        return self.probs[..., 1]

    def _variance(self) -> Tensor:
        return self.probs[..., 0] * self.probs[..., 1]
