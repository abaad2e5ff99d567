"""What the figures share: colours that all readers can tell apart, the choice of lines, and rounding."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

Line = dict[str, Any]

# Okabe and Ito's palette, which colour-blind readers can tell apart
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#999933")
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*")


def rounded(values: ArrayLike, digits: int = 4) -> Any:
    """Return numbers as nested lists, rounded, with None for those that are not finite, which JSON lacks."""
    array = np.asarray(values, dtype=np.float64)
    if np.isfinite(array).all():
        return np.round(array, digits).tolist()
    return np.where(np.isfinite(array), np.round(array, digits), None).tolist()  # type: ignore[call-overload]


def numbers(values: Any) -> Any:
    """Return an array of what `rounded` wrote, with NaN for None."""
    return np.asarray(values, dtype=np.float64)


def first_lines(lines: Sequence[Line]) -> dict[tuple[str, str], Line]:
    """Return the first line of each pair of data and model, in the order of the lines.

    Raises:
        ValueError: If there are no lines.
    """
    if not lines:
        raise ValueError("lines: expected at least one result to draw, got none: run the experiment first")
    found: dict[tuple[str, str], Line] = {}
    for line in lines:
        found.setdefault((line["data"], line["model"]), line)
    return found
