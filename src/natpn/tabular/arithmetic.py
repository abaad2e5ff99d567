"""How a column encodes one float64, as arithmetic that any graph of tensors can do.

With x the value, NaN where it is missing, a column becomes

- numbers: each x standardised by moments of its own (`natpn.tabular.moments`), 0 where missing;
- flags: each with one value where x is missing, one where x = 1, one otherwise;
- an event that training never had, where x is missing for the first time, or |x − constant| > tolerance.
"""

from dataclasses import dataclass
from math import inf

from natpn.tabular.moments import Moments


@dataclass(frozen=True)
class Arithmetic:
    """The constants of one column.

    Attributes:
        numbers: The moments of each number.
        flags: The values of each flag: if missing, if 1, otherwise.
        constant: From what a present value must differ to be an event.
        tolerance: By more than how much; none is an event if it is infinite, and all are if it is negative.
    """

    numbers: tuple[Moments, ...] = ()
    flags: tuple[tuple[float, float, float], ...] = ()
    constant: float = 0.0
    tolerance: float = inf


def if_missing(flag: tuple[float, float] | None) -> tuple[tuple[float, float, float], ...]:
    """Return the flag that says whether a value is missing, by what 0 and 1 become in it; none without one."""
    return () if flag is None else ((flag[1], flag[0], flag[0]),)
