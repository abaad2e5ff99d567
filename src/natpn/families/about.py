"""What a family says of itself: which targets it is for, in what units it learns them, how it is shown and exported.

Fits, reports, servers and exports ask the family, and know none by name. Everything here has a default: a family that
says nothing is fitted in the units of its targets, is never chosen by itself, and is not exported.
"""

from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from natpn.families.graph import Graph

Floats = NDArray[np.float64]
Noise = Literal["temperature", "variance"]


class About:
    """The statements of a family, and their defaults.

    Attributes:
        suits: Which targets "auto" picks it for.
        predicts: What it predicts, for readers of a report; what its support expects if empty.
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
        """Return those of its parameters that follow from targets, by name."""
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
        """Return where most single numbers of such units are, for a drawing; None if the units do not tell."""
        return None

    def largest_mean(self, y: Tensor) -> float | None:
        """Return the largest mean that it can predict, if standardised targets lie beyond; else None."""
        return None

    @property
    def graph(self) -> Graph | None:
        """What a graph in ONNX can say of it; None if it is not to be exported."""
        return None
