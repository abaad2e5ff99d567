"""What every distribution of a target offers, and where values are checked and rounded.

A distribution calculates in float64 and answers in the precision it was asked for. Members write the underscored
methods, which see checked float64 tensors; quantile functions see numpy arrays, since they stand on `scipy.special`.

A likelihood is the predictive distribution at infinitely many pseudo-observations, so one class serves both: parameters
that count observations may be `inf`.
"""

from abc import ABC, abstractmethod
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from natpn.distributions.support import Support
from natpn.special import narrow, widen

Array = NDArray[np.float64]

INFINITE = 1e100
"""Stands for infinitely many observations: 1/INFINITE is nothing in float64, and its square does not overflow."""


class Distribution(torch.distributions.Distribution, ABC):
    """A distribution of targets with `mean`, `variance`, `log_prob`, `sample` and `entropy`.

    Attributes:
        has_moments: Whether it has mean and variance for some parameters; if not, median and quantiles serve instead.
    """

    has_moments: ClassVar[bool] = True
    arg_constraints: dict[str, Any] = {}  # noqa: RUF012 (torch asks for it)

    def __init__(self, batch_shape: torch.Size, target: Support, dtype: torch.dtype) -> None:
        super().__init__(batch_shape, torch.Size(target.event_shape), validate_args=False)
        self.target = target
        self.dtype = dtype

    def __repr__(self) -> str:
        return f"{type(self).__name__}(batch_shape={tuple(self.batch_shape)}, dtype={self.dtype})"

    @property
    def mean(self) -> Tensor:
        """The mean, or the centre of symmetry where no mean exists, or inf."""
        return narrow_keeping_infinity(self._mean(), self.dtype)

    @property
    def variance(self) -> Tensor:
        """The variance; inf where there is none."""
        return narrow_keeping_infinity(self._variance(), self.dtype)

    def log_prob(self, value: Tensor) -> Tensor:
        """Return the log-probability or log-density of targets, whose shape broadcasts with the batch shape."""
        y = self.target.check(value, "value")
        self._check_broadcast(y.shape[: y.dim() - len(self.event_shape)], "value")
        return narrow(self._log_prob(y), self.dtype)

    def sample(self, sample_shape: torch.Size | list[int] | tuple[int, ...] = ()) -> Tensor:
        """Draw targets of shape sample_shape + batch_shape + event_shape from torch's global generator."""
        with torch.no_grad():
            drawn = self._sample(torch.Size(sample_shape))
            return narrow(drawn, self.dtype) if drawn.is_floating_point() else drawn

    def entropy(self) -> Tensor:
        """Return the entropy in nats."""
        return narrow_keeping_infinity(self._entropy(), self.dtype)

    def _check_broadcast(self, shape: torch.Size, argument: str) -> None:
        try:
            torch.broadcast_shapes(shape, self.batch_shape)
        except RuntimeError:
            raise ValueError(
                f"{argument}: expected a shape that broadcasts with the batch shape {tuple(self.batch_shape)}, "
                f"got {tuple(shape)}"
            ) from None

    @abstractmethod
    def _mean(self) -> Tensor: ...
    @abstractmethod
    def _variance(self) -> Tensor: ...
    @abstractmethod
    def _log_prob(self, y: Tensor) -> Tensor: ...
    @abstractmethod
    def _sample(self, shape: torch.Size) -> Tensor: ...
    @abstractmethod
    def _entropy(self) -> Tensor: ...


class ScalarDistribution(Distribution):
    """A distribution of numbers, which also has `cdf` and `icdf`; neither passes gradients."""

    def cdf(self, value: Tensor) -> Tensor:
        """Return the probability of a target of at most `value`, any number or ±inf."""
        y = self.target.check_shape(value, "value")
        if bool(y.isnan().any()):
            raise ValueError("value: expected numbers, got nan")
        self._check_broadcast(y.shape, "value")
        return self._tensor(np.clip(self._cdf(array(y)), 0.0, 1.0))

    def icdf(self, value: Tensor) -> Tensor:
        """Return the smallest target whose cdf is at least `value`, a probability."""
        q = widen(torch.as_tensor(value))
        if not bool(((q >= 0) & (q <= 1)).all()):
            raise ValueError(f"value: expected probabilities from 0 to 1, got {q[~((q >= 0) & (q <= 1))][0].item()}")
        self._check_broadcast(q.shape, "value")
        return self._tensor(self._icdf(array(q)))

    def _tensor(self, x: Array) -> Tensor:
        return narrow_keeping_infinity(torch.as_tensor(x, device=self._device()), self.dtype)

    @abstractmethod
    def _device(self) -> torch.device: ...
    @abstractmethod
    def _cdf(self, y: Array) -> Array: ...
    @abstractmethod
    def _icdf(self, q: Array) -> Array: ...


def array(x: Tensor) -> Array:
    """Return a tensor's values for scipy."""
    return np.asarray(x.detach().cpu().numpy(), dtype=np.float64)


def narrow_keeping_infinity(x: Tensor, dtype: torch.dtype) -> Tensor:
    """Like `narrow`, but an infinite mean, variance or quantile stays infinite: it is the answer."""
    return x if x.dtype == dtype else torch.where(x.isinf(), x.to(dtype), narrow(x, dtype))


def finite_count(n: Tensor) -> Tensor:
    """Return a number of observations with `INFINITE` for inf."""
    return n.clamp(max=INFINITE)
