"""How a family describes itself: which targets suit it, in what units it learns them, how it is shown and exported.

Fits, reports, servers and exports ask the family, and know none by name. Everything here has a default: a family that
states nothing is fitted in the units of its targets, is never chosen by "auto", and is not exported.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np
from torch import Tensor

from natpn.families.distribution import Array

Noise = Literal["temperature", "variance"]

COUNT_QUANTILES = "Quantiles and intervals are left out: those of counts are not elementary."
COUNT_ENTROPY = "The aleatoric entropy is left out: that of counts is an infinite sum."
COORDINATES = "Standard deviations of the coordinates are left out: compute them from chi and n."

REACH = 80.0
"""Positive targets within e^±80 are neither 0 nor infinite in float32: held-out ones may lie far from the few of
training."""

# A relative spread of a few last digits of float64 is that of one number calculated in several ways.
_ROUNDING = 4 * np.finfo(np.float64).eps


@dataclass(frozen=True)
class Graph:
    """The outputs of an exported graph that depend on the family.

    A graph has few functions: those of ONNX and of `natpn.export.operators`. What needs others, such as the quantiles
    of counts, is left out, and a sentence says so.

    Attributes:
        parameters: What χ is, and how the posterior and the predictive follow from it and n.
        prediction: What the prediction is.
        predict: The prediction, from the predictive distribution.
        deviation: Whether it has the standard deviation of the predictive distribution.
        aleatoric: The entropy of the likelihood, from the posterior; None if it is left out.
        quantiles: Given levels, what returns the quantiles of the predictive distribution at them, (rows, levels); None
            if they are left out.
        left_out: Sentences about what is left out, and why.
    """

    parameters: str
    prediction: str = "the mean of the predictive distribution"
    predict: Callable[[Any], Tensor] = lambda predictive: predictive.mean
    deviation: bool = True
    aleatoric: Callable[[Any], Tensor] | None = lambda posterior: posterior.likelihood().entropy()
    quantiles: Callable[[Sequence[float]], Callable[[Any], Tensor]] | None = None
    left_out: tuple[str, ...] = ()


class Description:
    """What a family states of itself, with defaults.

    Attributes:
        suits: Which targets "auto" picks it for.
        predicts: What it predicts, for readers of a report; if empty, the words of its support.
        is_classes: Whether targets are labels, which a classifier predicts.
        is_vectors: Whether a target is a vector.
        is_trials: Whether a target is the outcome of several trials: `predictive` and `likelihood` take their number,
            which stands in place of a scale.
        noise: How a linear decoder is refitted to held-out rows: by one "temperature" that divides the raw outputs, or
            by the "variance", the first raw output being the centre of the first statistic and the second the logarithm
            of its variance; None if nothing is to be refitted.
        wider: The name of a family of which it is a limit: if "auto" picks it, held-out rows choose between the two.
        no_exposure: Why its targets have no exposure, and what to do instead; None if they have (`Family.at_exposure`).
    """

    suits: ClassVar[str] = "targets it was asked for"
    predicts: ClassVar[str] = ""
    is_classes: ClassVar[bool] = False
    is_vectors: ClassVar[bool] = False
    is_trials: ClassVar[bool] = False
    noise: ClassVar[Noise | None] = None
    wider: ClassVar[str | None] = None
    no_exposure: ClassVar[str | None] = (
        "whose targets do not grow with one; give it as a feature, or for counts choose family='poisson' or "
        "'negative_binomial'"
    )

    @classmethod
    def suited(cls, y: Array) -> int | None:
        """Say how well it suits finite targets: "auto" picks the family of the largest number; None for not at all."""
        return None

    @classmethod
    def parameters(cls, y: Array) -> dict[str, Any]:
        """Return the parameters of the family that follow from the targets, by name."""
        return {}

    def location_and_scale(self, y: Array, weight: Array | None) -> tuple[Array, Array]:
        """Return location and scale of each coordinate of weighted targets, (D,), by which it is standardised."""
        size = int(np.prod(y.shape[1:]))
        return np.zeros(size), np.ones(size)

    def standardise(self, y: Array, location: Array, scale: Array) -> Array:
        """Return targets as training sees them: another member of the same family."""
        return y

    def rescaling(self, location: Tensor, scale: Tensor) -> tuple[Tensor, Tensor]:
        """Return factor and shift, (S,), by which χ of standardised targets becomes that of targets in these units."""
        return scale.new_ones(1), scale.new_zeros(1)

    def restore(self, chi: Tensor, location: Tensor, scale: Tensor) -> Tensor:
        """Return χ of standardised targets, (..., S), in the user's units."""
        factor, shift = self.rescaling(location, scale)
        return chi * factor + shift

    def express(self, chi: Tensor, location: Tensor, scale: Tensor) -> Tensor:
        """Return χ in the user's units, (..., S), as it is for standardised targets: the inverse of `restore`."""
        factor, shift = self.rescaling(location, scale)
        return (chi - shift) / factor

    def largest_mean(self, y: Tensor) -> float | None:
        """Return the largest mean that it can predict, if some standardised targets exceed it; else None."""
        return None

    @property
    def graph(self) -> Graph | None:
        """What an ONNX graph can hold of it; None if it is not to be exported."""
        return None


def mean_and_deviation(y: Array, weight: Array | None) -> tuple[Array, Array]:
    """Return mean and standard deviation of each coordinate; for one that is constant, its size is the deviation."""
    columns = y.reshape(len(y), -1)
    largest = np.abs(columns).max(0)
    safe = np.where(largest > 0, largest, 1.0)  # squares of 1e200 would overflow
    mean = np.average(columns / safe, axis=0, weights=weight)
    deviation = np.sqrt(np.average((columns / safe - mean) ** 2, axis=0, weights=weight))
    constant = deviation <= _ROUNDING * np.abs(mean)
    scale = np.where(constant | (deviation == 0), 1.0, deviation) * safe
    if largest.max() > 1e150 or scale.min() < 1e-150:
        raise ValueError(
            f"y: expected numbers up to 1e150 with a spread from 1e-150, got up to {largest.max():.3g} with a spread "
            f"of {scale.min():.3g}: choose another unit"
        )
    return mean * safe, scale
