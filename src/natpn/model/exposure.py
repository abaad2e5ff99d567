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
from natpn.tabular import CellError, NumberColumn, read_table
from natpn.tabular.texts import PLAIN, Written

Floats = NDArray[np.float64]

_FARTHEST = 1e12


EXPECTED = "a finite number above 0"


def read_exposures(values: ArrayLike, rows: int, column: str | None = None) -> Floats:
    """Return one exposure for each row; a single number is that of all.

    Raises:
        ValueError: If they are not finite numbers above 0, one a row; a CellError if they are from a column.
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
        if column is not None:
            got = "none" if np.isnan(found[row]) else f"{found[row]:g}"
            raise CellError(column, row, f"expected {EXPECTED}, the exposure, got {got}; correct it")
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
class ExposureColumn(NumberColumn):
    """A column of exposures, which is no feature: every row has a number above 0."""

    expected = EXPECTED
    required = True

    def read_text(self, text: str, written: Written = PLAIN) -> float | None:
        """Return the number of a text, None if it is missing."""
        found: float | None = super().read_text(text, written)
        if found is not None and found <= 0:
            raise ValueError(f"{text!r} is not above 0")
        return found

    def read_json(self, value: Any) -> float:
        """Return a number above 0."""
        found = super().read_json(value)
        if found <= 0:
            raise ValueError(f"expected {EXPECTED}, got {found:g}. Correct it.")
        return found

    @property
    def schema(self) -> dict[str, Any]:
        """A positive number, or a text that is one."""
        text = f"The exposure, by which counts grow. In training from {self.minimum:g} to {self.maximum:g}."
        return {"type": ["number", "string"], "exclusiveMinimum": 0, "description": text}


@dataclass(frozen=True)
class Exposure:
    """What was learned about exposures in training.

    Attributes:
        mean: The mean of training rows.
        described: The column of a table that holds exposures; None if they came as numbers.
    """

    mean: float
    described: ExposureColumn | None = None

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
        cells = next(read_table(exposures[:, None]).columns())
        return cls(mean, None if column is None else ExposureColumn.fit(column, cells))

    @property
    def column(self) -> str | None:
        """The name of the column."""
        return None if self.described is None else self.described.name

    def read(self, X: Any, given: ArrayLike | None) -> tuple[Any, Floats]:
        """Return rows without the column of exposures, and exposures in the user's unit.

        Args:
            X: The rows.
            given: Exposures, one a row or one for all; None if they are in the column.

        Raises:
            ValueError: If there are none, or they are not numbers above 0.
        """
        if self.column is not None and given is None:
            X, values = take_column(X, self.column)
            return X, read_exposures(values, n_rows(X), self.column)
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
        return {"mean": self.mean, "column": self.described and self.described.to_config()}

    @classmethod
    def from_config(cls, config: dict[str, Any] | None) -> Self | None:
        """Return what `to_config` described, None for models without exposures."""
        if config is None:
            return None
        column = config["column"]
        return cls(float(config["mean"]), None if column is None else ExposureColumn.from_config(column))
