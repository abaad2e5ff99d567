"""Exponential: waiting times, the `gamma` family of shape 1. Its predictive is the Lomax distribution."""

from dataclasses import dataclass, field, replace
from typing import ClassVar

from natpn.families.description import Graph
from natpn.families.gamma import Gamma


@dataclass(frozen=True, repr=False)
class Exponential(Gamma):
    """Waiting times, with a Gamma prior on the rate."""

    predicts: ClassVar[str] = "a positive number, such as a waiting time"

    shape: float = field(default=1.0, init=False)

    @property
    def graph(self) -> Graph:
        """The outputs of the Gamma, whose shape is known to be 1."""
        parameters = "the mean; n + 1 and n·chi are shape and rate of the Gamma posterior of its inverse"
        return replace(super().graph, parameters=parameters)
