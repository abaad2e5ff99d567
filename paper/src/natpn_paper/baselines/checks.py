"""Checks of numeric parameters when a fit starts."""

from numbers import Integral, Real

import numpy as np


def check_count(estimator: object, name: str) -> None:
    """Raise unless a parameter is a whole number of at least 1."""
    value = getattr(estimator, name)
    if isinstance(value, bool) or not isinstance(value, Integral) or value < 1:
        raise ValueError(f"{name}: expected a whole number of at least 1, got {value!r}")


def check_share(estimator: object, name: str, with_zero: bool = False) -> None:
    """Raise unless a parameter is a share between 0 and 1."""
    value = getattr(estimator, name)
    low_enough = isinstance(value, Real) and value < 1
    if not low_enough or not (value > 0 or (with_zero and value == 0)):
        raise ValueError(f"{name}: expected a share between 0 and 1, got {value!r}")


def check_number(estimator: object, name: str, low: float, inclusive: bool = False) -> None:
    """Raise unless a parameter is a finite number above `low`."""
    value = getattr(estimator, name)
    is_number = isinstance(value, (int, float, np.number)) and not isinstance(value, bool)
    if not is_number or not low <= value < np.inf or (value == low and not inclusive):
        raise ValueError(f"{name}: expected a number {'from' if inclusive else 'above'} {low}, got {value!r}")
