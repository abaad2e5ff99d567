"""What every distribution of a target offers, and where values are checked and rounded.

A distribution calculates in float64 and answers in the precision it was asked for. Members write the underscored
methods, which see checked float64 tensors; quantile functions see numpy arrays, since they stand on `scipy.special`.

A likelihood is the predictive distribution at infinitely many pseudo-observations, so one class serves both: parameters
that count observations may be `inf`.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from scipy import special as sp
from torch import Tensor

from natpn.special import narrow, widen

Array = NDArray[np.float64]

INFINITE = 1e100
"""Stands for infinitely many observations: 1/INFINITE is nothing in float64, and its square does not overflow."""

TAIL = 36.0
"""−log of the probability that is left out of an entropy."""

_HEAD = 128  # counts summed one by one
_PANELS = 8
_NODES, _WEIGHTS = (torch.from_numpy(np.asarray(a)) for a in sp.roots_legendre(24))
_ROWS = 2048  # rows whose tables are in memory at a time
_LARGEST = 2.0**63  # quantiles beyond are given as inf


class SupportError(ValueError):
    """A value is outside the support of a target.

    Attributes:
        argument: The argument that holds the value.
        expected: Which values are allowed, in words.
        got: The value.
        index: Its index in the argument.
    """

    def __init__(self, argument: str, expected: str, got: Any, index: tuple[int, ...]) -> None:
        super().__init__(argument, expected, got, index)  # all of them, so that it can be pickled
        self.argument, self.expected, self.got, self.index = argument, expected, got, index

    def __str__(self) -> str:
        return f"{self.argument}: expected {self.expected}, got {self.got} at index {self.index}"


@dataclass(frozen=True)
class Support:
    """The values a target may take: the one place where they are checked and the error is worded.

    Attributes:
        expected: The values in words, for the error message.
        holds: Maps float64 targets to a boolean per target.
        event_shape: The shape of one target: () or (D,).
        discrete: Whether the values lie apart, as counts and classes do: each has a probability, not a density.
    """

    expected: str
    holds: Callable[[Tensor], Tensor]
    event_shape: tuple[int, ...] = ()
    discrete: bool = False

    def check(self, y: Tensor, argument: str = "y") -> Tensor:
        """Return y in float64, or raise a SupportError about the first value outside the support."""
        y = self.check_shape(y, argument)
        inside = self.holds(y)
        if not bool(inside.all()):
            where = tuple(int(i) for i in (~inside).nonzero()[0])
            raise SupportError(argument, self.expected, y[where].tolist(), where)
        return y

    def check_shape(self, y: Tensor, argument: str) -> Tensor:
        """Return y in float64, or raise a ValueError if one target does not have the event shape."""
        y = torch.as_tensor(y)
        if y.is_complex():
            raise ValueError(f"{argument}: expected {self.expected}, got complex numbers")
        size = len(self.event_shape)
        if size and tuple(y.shape[-size:]) != self.event_shape:
            raise ValueError(
                f"{argument}: expected {self.expected} in the last dimension, of size {self.event_shape[0]}, "
                f"got shape {tuple(y.shape)}"
            )
        return widen(y)


REALS = Support("a finite number", torch.isfinite)
POSITIVE = Support("a positive number", lambda y: (y > 0) & y.isfinite())
COUNTS = Support("a count (0, 1, 2, …)", lambda y: (y >= 0) & y.isfinite() & (y == y.floor()), discrete=True)


class Distribution(torch.distributions.Distribution, ABC):
    """A distribution of targets with `mean`, `variance`, `log_prob`, `sample` and `entropy`.

    Args:
        like: One of its parameters, of the batch shape.
        target: What a target may be.
        dtype: The precision of what it returns.

    Attributes:
        has_moments: Whether it has mean and variance for some parameters; if not, median and quantiles serve instead.
    """

    has_moments: ClassVar[bool] = True
    arg_constraints: dict[str, Any] = {}  # noqa: RUF012 (torch asks for it)

    def __init__(self, like: Tensor, target: Support, dtype: torch.dtype) -> None:
        super().__init__(like.shape, torch.Size(target.event_shape), validate_args=False)
        self.device = like.device
        self.target = target
        self.dtype = dtype

    def __repr__(self) -> str:
        return f"{type(self).__name__}(batch_shape={tuple(self.batch_shape)}, dtype={self.dtype})"

    @property
    def mean(self) -> Tensor:
        """The mean, or the centre of symmetry where no mean exists, or inf."""
        return self._answer(self._mean())

    @property
    def variance(self) -> Tensor:
        """The variance; inf where there is none."""
        return self._answer(self._variance())

    def log_prob(self, value: Tensor) -> Tensor:
        """Return the log-probability or log-density of targets, whose shape broadcasts with the batch shape."""
        y = self.target.check(value, "value")
        self._check_broadcast(y.shape[: y.dim() - len(self.event_shape)])
        return narrow(self._log_prob(y), self.dtype)

    def sample(self, sample_shape: torch.Size | list[int] | tuple[int, ...] = ()) -> Tensor:
        """Draw targets of shape sample_shape + batch_shape + event_shape from torch's global generator."""
        with torch.no_grad():
            drawn = self._sample(torch.Size(sample_shape))
            return narrow(drawn, self.dtype) if drawn.is_floating_point() else drawn

    def entropy(self) -> Tensor:
        """Return the entropy in nats."""
        return self._answer(self._entropy())

    def _answer(self, x: Tensor) -> Tensor:
        """Round as `narrow` does, but leave an infinite mean, variance or quantile infinite: it is the answer."""
        return x if x.dtype == self.dtype else torch.where(x.isinf(), x.to(self.dtype), narrow(x, self.dtype))

    def _check_broadcast(self, shape: torch.Size) -> None:
        # torch's function imports sympy, which takes most of a second, but is the one that compilers know
        broadcast_shapes = torch.broadcast_shapes if torch.compiler.is_compiling() else np.broadcast_shapes
        try:
            broadcast_shapes(shape, self.batch_shape)
        except (RuntimeError, ValueError):
            raise ValueError(
                f"value: expected a shape that broadcasts with the batch shape {tuple(self.batch_shape)}, "
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
        self._check_broadcast(y.shape)
        return self._answer(torch.as_tensor(np.clip(self._cdf(array(y)), 0.0, 1.0), device=self.device))

    def icdf(self, value: Tensor) -> Tensor:
        """Return the smallest target whose cdf is at least `value`, a probability."""
        q = widen(torch.as_tensor(value))
        if not bool(((q >= 0) & (q <= 1)).all()):
            raise ValueError(f"value: expected probabilities from 0 to 1, got {q[~((q >= 0) & (q <= 1))][0].item()}")
        self._check_broadcast(q.shape)
        return self._answer(torch.as_tensor(self._icdf(array(q)), device=self.device))

    @abstractmethod
    def _cdf(self, y: Array) -> Array: ...
    @abstractmethod
    def _icdf(self, q: Array) -> Array: ...


class CountDistribution(ScalarDistribution):
    """A distribution of counts: quantiles are searched for, and the entropy is summed."""

    def _entropy(self) -> Tensor:
        """Sum −p log p over the first counts, and integrate it over log y from there to where nothing is left."""
        low, high = (t.expand(self.batch_shape).reshape(-1) for t in self._bulk())
        rows = range(0, low.numel(), _ROWS)
        parts = [self._flat(i, i + _ROWS)._entropy_table(low[i : i + _ROWS], high[i : i + _ROWS]) for i in rows]
        return torch.cat(parts).reshape(self.batch_shape) if parts else low.reshape(self.batch_shape)

    def _entropy_table(self, low: Tensor, high: Tensor) -> Tensor:
        y = torch.arange(_HEAD, dtype=low.dtype, device=low.device).unsqueeze(-1)
        head = self._surprise(y)
        start = low.clamp(min=_HEAD - 0.5).log()
        length = (high.clamp(min=_HEAD - 0.5).log() - start).clamp(min=0) / _PANELS
        panel = torch.arange(_PANELS, dtype=low.dtype, device=low.device)
        nodes = (panel.unsqueeze(-1) + (_NODES.to(panel) + 1) / 2).reshape(-1, 1)
        y = (start + nodes * length).exp()
        weights = _WEIGHTS.to(panel).repeat(_PANELS).unsqueeze(-1) / 2 * length * y
        # Euler and Maclaurin: the sum from _HEAD on is the integral from _HEAD − ½ plus the slope there over 24.
        slope = self._surprise(y.new_tensor([[float(_HEAD)]]))[0] - head[-1]
        correction = torch.where((low < _HEAD) & (high > _HEAD), slope / 24, 0.0)
        return head.sum(0) + (self._surprise(y) * weights).sum(0) + correction

    def _surprise(self, y: Tensor) -> Tensor:
        log_p = self._log_prob(y)
        return -log_p * log_p.exp()

    def _icdf(self, q: Array) -> Array:
        """Search for the smallest count whose cdf is at least q: bracket by doubling around a guess, then halve."""
        shape = np.broadcast_shapes(q.shape, tuple(self.batch_shape))
        q = np.broadcast_to(q, shape)
        sd = np.sqrt(np.nan_to_num(array(self._variance()), posinf=1.0))
        guess = np.floor(np.clip(self._guess(q, sd), 0, _LARGEST))
        step = np.ceil(1 + np.broadcast_to(sd, shape) / 8)
        low, high = guess.copy(), guess.copy()
        while (grow := (self._cdf(high) < q) & (high < _LARGEST)).any():
            low, high = np.where(grow, high, low), np.where(grow, high + step, high)
            step = np.where(grow, 2 * step, step)
        step = np.ceil(1 + np.broadcast_to(sd, shape) / 8)
        low = np.where(low == high, low - 1, low)
        while (grow := (low >= 0) & (self._cdf(np.maximum(low, 0)) >= q)).any():
            high, low = np.where(grow, low, high), np.where(grow, np.maximum(low - step, -1), low)
            step = np.where(grow, 2 * step, step)
        while (gap := high - low > np.maximum(1, np.abs(high) * 2e-16)).any():
            middle = np.floor((low + high) / 2)
            above = self._cdf(middle) >= q
            low, high = np.where(gap & ~above, middle, low), np.where(gap & above, middle, high)
        return np.where((q == 1) | (high >= _LARGEST), np.inf, high)

    def _guess(self, q: Array, sd: Array) -> Array:
        """Return about which count has a cdf of q: here that of the Normal with the same mean and deviation."""
        centre = np.nan_to_num(array(self._mean()), posinf=1.0)
        return np.asarray(centre + sd * sp.ndtri(np.clip(q, 1e-9, 1 - 1e-9)))

    @abstractmethod
    def _bulk(self) -> tuple[Tensor, Tensor]:
        """Return counts below and above which the distribution has at most exp(−TAIL) of its mass."""

    @abstractmethod
    def _flat(self, start: int, stop: int) -> "CountDistribution":
        """Return the rows from start to stop of the flattened batch."""


def broadcast(*parameters: Tensor) -> tuple[Tensor, ...]:
    """Return parameters in their common shape."""
    return tuple(torch.broadcast_tensors(*parameters))


def array(x: Tensor) -> Array:
    """Return a tensor's values for scipy."""
    return np.asarray(x.detach().cpu().numpy(), dtype=np.float64)
