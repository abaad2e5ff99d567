"""Exponential: waiting times, the `gamma` family of shape 1. Its predictive is the Lomax distribution."""

from dataclasses import dataclass, field

from natpn.families.gamma import Gamma


@dataclass(frozen=True, repr=False)
class Exponential(Gamma):
    """Waiting times, with a Gamma prior on the rate."""

    shape: float = field(default=1.0, init=False)
