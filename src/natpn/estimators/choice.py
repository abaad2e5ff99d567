"""Which family: by name, by value, or from the targets."""

import numpy as np
from numpy.typing import NDArray

from natpn import families
from natpn.families import FAMILIES, Family

Floats = NDArray[np.float64]


def choose_family(family: str | Family, y: Floats) -> Family:
    """Return the family for targets.

    Args:
        family: A family, the name of one, or "auto".
        y: The targets, one or two dimensions.

    Raises:
        ValueError: If there is no such family, or its targets have another shape.
    """
    if isinstance(family, Family):
        chosen = family
    elif isinstance(family, str):
        chosen = _by_name(automatic(y) if family == "auto" else family, y)
    else:
        raise ValueError(f"family: expected a name, a Family or 'auto', got {family!r}")
    wanted = len(chosen.support.event_shape) + 1
    if y.ndim != wanted:
        raise ValueError(
            f"y: {chosen!r} predicts {'vectors' if wanted == 2 else 'single numbers'}, so y should be {wanted}-d, got "
            f"shape {y.shape}"
        )
    return chosen


def automatic(y: Floats) -> str:
    """Return the name of the family that suits the targets best, as families say themselves (`Family.suited`)."""
    grades = {name: grade for name, kind in FAMILIES.items() if (grade := kind.suited(y)) is not None}
    return max(grades, key=lambda name: grades[name])


def _by_name(name: str, y: Floats) -> Family:
    kind = FAMILIES.get(name)
    if kind is not None and kind.is_classes:
        raise ValueError(f"family: classes are for NatPNClassifier, got {name!r}")
    return families.get(name, **({} if kind is None else kind.parameters(y)))
