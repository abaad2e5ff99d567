"""The location and scale of numbers, so that training sees targets of about the same size whatever their unit."""

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

REACH = 80.0
"""Positive targets within e^±80 are neither 0 nor infinite in float32: held-out ones may lie far from the few of
training."""

# A relative spread of a few last digits of float64 is that of one number calculated in several ways.
_ROUNDING = 4 * np.finfo(np.float64).eps


def mean_and_deviation(columns: Floats, weight: Floats | None) -> tuple[Floats, Floats]:
    """Return the mean and the standard deviation of each column; of a constant one, its size stands for the deviation.

    Args:
        columns: Numbers, (rows, D).
        weight: How much each row counts; once if None.

    Raises:
        ValueError: If squares would leave the range of float64.
    """
    largest = np.abs(columns).max(0)
    safe = np.where(largest > 0, largest, 1.0)  # squares of 1e200 would overflow
    _check_range(largest, safe)
    mean = np.average(columns / safe, axis=0, weights=weight)
    deviation = np.sqrt(np.average((columns / safe - mean) ** 2, axis=0, weights=weight))
    constant = deviation <= _ROUNDING * np.abs(mean)
    scale = np.where(constant | (deviation == 0), np.ones(columns.shape[1]), deviation) * safe
    _check_range(largest, scale)
    return mean * safe, scale


def _check_range(largest: Floats, scale: Floats) -> None:
    if largest.max() > 1e150 or scale.min() < 1e-150:
        raise ValueError(
            f"y: expected numbers up to 1e150 with a spread from 1e-150, got up to {largest.max():.3g} with a spread "
            f"of {scale.min():.3g}: choose another unit"
        )
