"""How a family describes itself: which targets suit it, in what units it learns them, how it is shown and exported.

Fits, reports, servers and exports ask the family, and know none by name. Everything here has a default: a family that
states nothing is fitted in the units of its targets, is never chosen by "auto", and is not exported.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

Floats = NDArray[np.float64]
Noise = Literal["temperature", "variance"]

COUNT_QUANTILES = "Quantiles and intervals are left out: those of counts are not elementary."
COUNT_ENTROPY = "The aleatoric entropy is left out: that of counts is an infinite sum."
COORDINATES = "Standard deviations of the coordinates are left out: compute them from chi and n."

REACH = 80.0
"""Positive targets within e^±80 are neither 0 nor infinite in float32: held-out ones may lie far from the few of
training."""

# A relative spread of a few last digits of float64 is that of one number calculated in several ways.
_ROUNDING = 4 * np.finfo(np.float64).eps


def entropy_at(family: Any, chi: Sequence[float]) -> float:
    """Return the entropy of the likelihood at some χ, as a number: entropies in other units differ by a logarithm."""
    standard = family.posterior(family.evidence(torch.tensor(chi, dtype=torch.float64), 0.0))
    return float(standard.likelihood().entropy())


@dataclass(frozen=True)
class Graph:
    """The outputs of an exported graph that depend on the family.

    A graph has few functions: those of ONNX and of `natpn.export.operators`. What needs others, such as the quantiles
    of Student's t, is left out, and a sentence says so.

    Attributes:
        parameters: What χ is, and how the posterior and the predictive follow from it and n.
        prediction: What the prediction is.
        predict: The prediction, from the predictive distribution.
        deviation: Whether it has the standard deviation of the predictive distribution.
        aleatoric: The entropy of the likelihood, from the posterior; None if it is left out.
        quantiles: Quantiles, from the predictive distribution and their levels (K,); None if they are left out.
        left_out: Sentences about what is left out, and why.
    """

    parameters: str
    prediction: str = "the mean of the predictive distribution"
    predict: Callable[[Any], Tensor] = lambda predictive: predictive.mean
    deviation: bool = True
    aleatoric: Callable[[Any], Tensor] | None = lambda posterior: posterior.likelihood().entropy()
    quantiles: Callable[[Any, Tensor], Tensor] | None = None
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
    """

    suits: ClassVar[str] = "targets it was asked for"
    predicts: ClassVar[str] = ""
    is_classes: ClassVar[bool] = False
    is_vectors: ClassVar[bool] = False
    is_trials: ClassVar[bool] = False
    noise: ClassVar[Noise | None] = None
    wider: ClassVar[str | None] = None

    @classmethod
    def suited(cls, y: Floats) -> int | None:
        """Say how well it suits targets, for "auto", which picks the family of the largest number; None for not at all.

        Args:
            y: Finite targets, one or two dimensions.
        """
        return None

    @classmethod
    def parameters(cls, y: Floats) -> dict[str, Any]:
        """Return the parameters of the family that follow from the targets, by name."""
        return {}

    def location_and_scale(self, y: Floats, weight: Floats | None) -> tuple[Floats, Floats]:
        """Return the location and the scale of each coordinate of a target, (D,), by which it is standardised.

        Args:
            y: Targets, (rows,) or (rows, D).
            weight: How much each row counts; once if None.
        """
        size = int(np.prod(y.shape[1:]))
        return np.zeros(size), np.ones(size)

    def standardise(self, y: Floats, location: Floats, scale: Floats) -> Floats:
        """Return targets as training sees them: another member of the same family."""
        return y

    def restore(self, chi: Tensor, location: Tensor, scale: Tensor) -> Tensor:
        """Return χ of standardised targets, (..., S), in the user's units."""
        return chi

    def express(self, chi: Tensor, location: Tensor, scale: Tensor) -> Tensor:
        """Return χ in the user's units, (..., S), as it is for standardised targets: the inverse of `restore`."""
        return chi

    def usual_targets(self, location: float, scale: float) -> tuple[float, float] | None:
        """Return the range of most targets in these units, for a drawing; None if units do not tell, or for vectors."""
        return None

    def largest_mean(self, y: Tensor) -> float | None:
        """Return the largest mean that it can predict, if some standardised targets exceed it; else None."""
        return None

    @property
    def graph(self) -> Graph | None:
        """What an ONNX graph can hold of it; None if it is not to be exported."""
        return None


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
