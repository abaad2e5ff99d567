"""What an exported graph can say of a family: which outputs it has, how to calculate them, and their meaning in words.

A graph has few functions: those of ONNX and of `natpn.export.operators`. What needs others, such as the quantiles of
Student's t, is left out, and a sentence says so.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

COUNT_QUANTILES = "Quantiles and intervals are left out: those of counts are not elementary."
COUNT_ENTROPY = "The aleatoric entropy is left out: that of counts is an infinite sum."
COORDINATES = "Standard deviations of the coordinates are left out: compute them from chi and n."


def mean_of(predictive: Any) -> Tensor:
    """Return the mean of a predictive distribution."""
    mean: Tensor = predictive.mean
    return mean


def entropy_of(posterior: Any) -> Tensor:
    """Return the entropy of the likelihood at the posterior mean."""
    entropy: Tensor = posterior.likelihood().entropy()
    return entropy


def entropy_at(family: Any, chi: Sequence[float]) -> float:
    """Return the entropy of the likelihood at some χ, as a number: entropies in other units differ by a logarithm."""
    standard = family.posterior(family.evidence(torch.tensor(chi, dtype=torch.float64), 0.0))
    return float(standard.likelihood().entropy())


@dataclass(frozen=True)
class Graph:
    """The outputs of a graph that depend on the family.

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
    predict: Callable[[Any], Tensor] = mean_of
    deviation: bool = True
    aleatoric: Callable[[Any], Tensor] | None = entropy_of
    quantiles: Callable[[Any, Tensor], Tensor] | None = None
    left_out: tuple[str, ...] = ()
