"""What a target may be: the one place where values are checked and the error is worded."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from natpn.special import widen


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
    """The values a target may take.

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


def reals() -> Support:
    """Any finite number."""
    return Support("a finite number", torch.isfinite)


def positive() -> Support:
    """Any finite number above zero."""
    return Support("a positive number", lambda y: (y > 0) & y.isfinite())


def counts() -> Support:
    """Whole numbers from 0 on."""
    return Support("a count (0, 1, 2, …)", lambda y: (y >= 0) & y.isfinite() & (y == y.floor()), discrete=True)


def classes(n_classes: int) -> Support:
    """A class index from 0 to n_classes − 1."""
    expected = f"a class index from 0 to {n_classes - 1}"
    return Support(expected, lambda y: (y >= 0) & (y < n_classes) & (y == y.floor()), discrete=True)


def vectors(dim: int) -> Support:
    """Vectors of finite numbers."""
    return Support(f"a vector of {dim} finite numbers", lambda y: y.isfinite().all(-1), (dim,))


def count_vectors(dim: int) -> Support:
    """Vectors of counts."""
    return Support(f"a vector of {dim} counts", lambda y: counts().holds(y).all(-1), (dim,), discrete=True)


def unit_vectors(dim: int) -> Support:
    """Vectors of length one, to 10⁻⁴."""
    return Support(
        f"a vector of {dim} numbers of length 1",
        lambda y: (torch.linalg.vector_norm(y, dim=-1) - 1).abs() <= 1e-4,
        (dim,),
    )
