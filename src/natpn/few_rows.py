"""A few rows at a time, quickly: what frozen modules calculate, in numpy.

For a single row nearly all time goes into calls, not arithmetic: torch takes several microseconds for each of a hundred
operations, numpy one. So a module may have a method `in_numpy`, in its own file, that returns its numpy form: a
function of arrays in float64 that gives what the module, frozen and in evaluation mode, gives for a batch of rows. A
network whose parts all have one answers single rows that way. Answers agree to the rounding of float64.
"""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray
from torch import Tensor, nn

Floats = NDArray[np.float64]
Form = Callable[[Floats], Floats]
MAX_ROWS = 256  # numpy stays faster for a few more


def form_of(module: nn.Module | None) -> Form | None:
    """Return the numpy form of a module, if it has one."""
    form: Form | None = module.in_numpy() if hasattr(module, "in_numpy") else None  # type: ignore[operator, union-attr]
    return form


def array(t: Tensor) -> Floats:
    """Return a tensor on the CPU as an array."""
    return np.ascontiguousarray(t.detach().numpy(), dtype=np.float64)


def within(x: Floats, limit: float) -> Floats:
    """Return x from −limit to limit; `numpy.clip` takes several times as long for a row."""
    value: Floats = np.minimum(np.maximum(x, -limit), limit)
    return value
