"""Mean and deviation of numbers, and numbers standardised by them.

    z = (x · 2^−e − mean) / deviation, cut at ±1e30.

Mean and deviation are those of x · 2^−e. The exponent e is 0 for numbers of ordinary size, which makes this the usual
formula. Otherwise it is the exponent of the largest number, so that squares neither overflow nor vanish. Scaling by a
power of two is exact.
"""

from collections.abc import Sequence
from math import ldexp
from typing import NamedTuple

import numpy as np

from natpn.tabular.cells import Floats, Mask

STANDARDISED_LIMIT = 1e30
ORDINARY = (1e-100, 1e100)


class Moments(NamedTuple):
    """Where numbers lie and how far they spread: mean and standard deviation of x · 2^−exponent; 0 if constant."""

    exponent: int
    mean: float
    deviation: float

    def restore(self, standardised: float) -> float:
        """Return the number that was standardised."""
        return ldexp(standardised * self.deviation + self.mean, self.exponent)


def measure(numbers: Floats) -> Moments:
    """Return the moments of finite numbers, of which there is at least one; their order does not matter."""
    numbers = np.sort(numbers)  # sums are rounded by the order of their terms
    largest = float(np.abs(numbers).max())
    exponent = 0
    if largest and not ORDINARY[0] < largest < ORDINARY[1]:
        exponent = int(np.clip(np.frexp(largest)[1], -1000, 1020))
    scaled = np.ldexp(numbers, -exponent)
    mean = float(scaled.mean())
    rest = scaled - mean
    # The mean is rounded, so the deviations from it have a mean of their own.
    remainder = float(rest.mean())
    variance = float((rest**2).mean()) - remainder**2
    deviation = 0.0 if numbers[0] == numbers[-1] else float(np.sqrt(max(variance, 0.0)))
    return Moments(exponent, mean + remainder, deviation)


def pooled(parts: Sequence[tuple[float, Moments]]) -> Moments:
    """Return the moments of all numbers from those of parts, each with how many numbers it has."""
    exponent = max(part.exponent for _, part in parts)
    counts = np.array([count for count, _ in parts])
    means, deviations = (
        np.ldexp([getattr(part, name) for _, part in parts], [part.exponent - exponent for _, part in parts])
        for name in ("mean", "deviation")
    )
    share = counts / counts.sum()
    mean = float(share @ means)
    variance = float(share @ (deviations**2 + (means - mean) ** 2))
    return Moments(exponent, mean, float(np.sqrt(variance)))


class Standardiser:
    """Standardise columns of numbers by the moments they had in training, those without deviation left out."""

    def __init__(self, moments: Sequence[Moments]) -> None:
        self.varying = [place for place, m in enumerate(moments) if m.deviation > 0]
        self._all = len(self.varying) == len(moments)
        used = [moments[place] for place in self.varying]
        self._mean = np.array([m.mean for m in used])
        self._deviation = np.array([m.deviation for m in used])
        exponents = np.array([m.exponent for m in used])
        self._exponent = -exponents if exponents.any() else None

    def __call__(self, matrix: Floats, missing: Mask | None) -> Floats:
        """Return the standardised numbers of the columns that vary, 0 where missing; the input stays as it is."""
        numbers = matrix if self._all else matrix[:, self.varying]
        with np.errstate(over="ignore"):  # what overflows is cut below
            if self._exponent is not None:
                numbers = np.ldexp(numbers, self._exponent)
            z: Floats = numbers - self._mean
            z /= self._deviation
        np.maximum(z, -STANDARDISED_LIMIT, out=z)
        np.minimum(z, STANDARDISED_LIMIT, out=z)
        if missing is not None:
            z[missing if self._all else missing[:, self.varying]] = 0
        return z
