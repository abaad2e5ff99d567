"""Exposures of rows, over how long or among how many their counts were counted: read, checked, and in training's unit.

Training counts exposure in units of the mean of its rows, so that evidence, and the observations that the prior is
worth, are rows of ordinary exposure whatever unit the user has.
"""

from dataclasses import dataclass
from typing import Any, Self

import narwhals as nw
import numpy as np
from numpy.typing import ArrayLike, NDArray

from natpn.model.inputs import as_array, n_rows

Floats = NDArray[np.float64]

_FARTHEST = 1e12


def read_exposures(values: ArrayLike, rows: int) -> Floats:
    """Return one exposure for each row; a single number is that of all.

    Raises:
        ValueError: If they are not finite numbers above 0, one a row.
    """
    try:
        found = np.asarray(as_array(values), np.float64)
    except (TypeError, ValueError):
        raise ValueError("exposure: expected numbers, got values that are none: give one a row") from None
    if found.ndim == 0:
        found = np.full(rows, float(found))
    if found.shape != (rows,):
        raise ValueError(
            f"exposure: expected one number for each of {rows} rows, or one for all, got shape {found.shape}"
        )
    bad = ~(np.isfinite(found) & (found > 0))
    if bad.any():
        row = int(np.argmax(bad))
        raise ValueError(
            f"exposure: expected finite numbers above 0, got {found[row]} in row {row}: correct it, or leave the row "
            "out"
        )
    return found


def take_column(X: Any, name: str) -> tuple[Any, Any]:
    """Return a data frame without a column, and the column.

    Raises:
        ValueError: If it is no data frame, or has no such column.
    """
    frame = _frame(X)
    if frame is None:
        raise ValueError(
            f"exposure: expected a data frame with the column {name!r}, got {type(X).__name__}: give exposure= as "
            "numbers"
        )
    if name not in frame.columns:
        raise ValueError(f"exposure: expected a column {name!r} in X, got none: add it, or give exposure= as numbers")
    return frame.drop(name).to_native(), frame[name].to_numpy()


def _frame(X: Any) -> "nw.DataFrame[Any] | None":
    frame = nw.from_native(X, eager_only=True, pass_through=True)
    return frame if isinstance(frame, nw.DataFrame) else None


@dataclass(frozen=True)
class Exposure:
    """What was learned about exposures in training.

    Attributes:
        mean: The mean of training rows.
        column: The column of a data frame that holds exposures and is no feature; None if there is none.
    """

    mean: float
    column: str | None = None

    @classmethod
    def of(cls, exposures: Floats, weight: Floats, column: str | None) -> Self:
        """Return what training rows show.

        Raises:
            ValueError: If some are so far from the mean that training could not tell them from 0.
        """
        mean = float(np.average(exposures, weights=weight))
        least = int(exposures.argmin())
        if exposures[least] * _FARTHEST < mean:
            raise ValueError(
                f"exposure: expected numbers above {1 / _FARTHEST:g} of their mean, {mean:.3g}, got "
                f"{exposures[least]}: check its unit"
            )
        return cls(mean, column)

    def read(self, X: Any, given: ArrayLike | None) -> tuple[Any, Floats]:
        """Return rows without the column of exposures, and exposures in the user's unit.

        Args:
            X: The rows.
            given: Exposures, one a row or one for all; None if they are in the column.

        Raises:
            ValueError: If there are none, or they are not numbers above 0.
        """
        if self.column is not None and given is None:
            X, given = take_column(X, self.column)
        if given is None:
            raise ValueError(
                "exposure: expected one for each row, as in the fit, got none; give exposure=1 for counts at exposure 1"
            )
        return self.without(X), read_exposures(given, n_rows(as_array(getattr(X, "dataset", X))))

    def without(self, X: Any) -> Any:
        """Return rows without the column of exposures."""
        frame = None if self.column is None else _frame(X)
        return X if frame is None or self.column not in frame.columns else frame.drop(self.column).to_native()

    def to_config(self) -> dict[str, Any]:
        """Return it as JSON can hold it."""
        return {"mean": self.mean, "column": self.column}

    @classmethod
    def from_config(cls, config: dict[str, Any] | None) -> Self | None:
        """Return what `to_config` described, None for models without exposures."""
        return None if config is None else cls(float(config["mean"]), config["column"])
