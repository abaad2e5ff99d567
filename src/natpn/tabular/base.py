"""What every kind of column has: how it is fitted, encoded, scored, described and saved.

An event that training never had in N rows, a first missing value or a new value in a column that was constant, gets
the probability 1 / (N + 2) of the rule of succession. Its logarithm is the row's surprise in that column.
"""

from abc import ABC, abstractmethod
from dataclasses import asdict, dataclass, fields, replace
from math import log
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from natpn.tabular.cells import Cells
from natpn.tabular.config import Fields
from natpn.tabular.moments import standardised_flags
from natpn.tabular.weights import Weights
from natpn.tabular.written import PLAIN, Written


@dataclass(frozen=True)
class Column(ABC):
    """One input column as training showed it.

    Attributes:
        name: The name of the column.
        n_rows: How many rows training had.
        missing: The share of them in which the value was missing.
    """

    name: str
    n_rows: int
    missing: float

    kind: ClassVar[str]
    words: ClassVar[tuple[str, str]]  # for a person: one such column, and several

    @classmethod
    @abstractmethod
    def fit(cls, name: str, cells: Cells, weights: Weights) -> "Column":
        """Learn the column from its training values."""

    @property
    @abstractmethod
    def n_numbers(self) -> int:
        """How many columns of numbers it becomes."""

    @property
    @abstractmethod
    def n_flags(self) -> int:
        """How many 0/1 columns it becomes."""

    @abstractmethod
    def encode(
        self, cells: Cells, numbers: NDArray[np.float32], flags: NDArray[np.float32]
    ) -> NDArray[np.float64] | None:
        """Write the encoded values, and return the surprise of each row, or None if it is 0 in all of them."""

    @abstractmethod
    def read_text(self, text: str, written: Written = PLAIN) -> Any:
        """Return the value that a text stands for in this column, None if it stands for a missing one.

        Args:
            text: The text.
            written: How the file that it is from writes values.

        Raises:
            ValueError: If it stands for nothing here; with that fact.
        """

    @abstractmethod
    def oddness(self, cells: Cells) -> NDArray[np.float64]:
        """Return how unusual each value is, in standard deviations.

        For values that have a probability p instead, it is √(2 log(p_max / p)), where p_max is that of the most usual
        value: a Gaussian's density falls by the same factor so many deviations from its mean.
        """

    @property
    @abstractmethod
    def facts(self) -> str:
        """What it holds, in a few words for a person."""

    def all_differ(self, cells: Cells) -> bool:
        """Say whether nearly every row has a value of its own, of a type that may name the rows.

        Args:
            cells: The training values.
        """
        return False

    @property
    def summary(self) -> dict[str, Any]:
        """The column in words and numbers that JSON can hold."""
        return {"missing": self.missing}

    def to_config(self) -> dict[str, Any]:
        """Return everything the column knows, as JSON can hold it."""
        return {"kind": self.kind, **asdict(self)}

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> Self:
        """Return the column that `to_config` described.

        Raises:
            ValueError: If the description is not one of such a column.
        """
        name = config.get("name")
        read = Fields(config, f"Column {name!r} of the configuration", ["kind", *(f.name for f in fields(cls))])
        common: dict[str, Any] = {
            "name": read.text("name"),
            "n_rows": read.whole("n_rows", 1),
            "missing": read.number("missing", 0, 1),
        }
        return cls(**common, **cls._read(read))

    @classmethod
    @abstractmethod
    def _read(cls, read: Fields) -> dict[str, Any]:
        """Return the checked fields that not every kind has."""

    def as_rare_as(self, other: "Column") -> Self:
        """Return this column, with events that it never had as rare as another of that name says."""
        return replace(self, n_rows=other.n_rows)

    @property
    def log_never(self) -> float:
        """The log-probability of an event that training never had."""
        return -log(self.n_rows + 2)

    @property
    def missing_flag(self) -> tuple[float, float] | None:
        """What 0 and 1 become in the column that says whether the value is missing; None if it has no such column."""
        return standardised_flags(self.missing) if 0 < self.missing < 1 else None

    def new_events(
        self, missing: NDArray[np.bool_], changed: NDArray[np.bool_] | None = None
    ) -> NDArray[np.float64] | None:
        """Return the surprise of first missing values, and of values in which a constant column changed."""
        event = missing if not self.missing else None
        if changed is not None:
            event = changed if event is None else event | changed
        return np.where(event, self.log_never, 0.0) if event is not None and event.any() else None


def odds_of(log_share: NDArray[np.float64] | float) -> NDArray[np.float64]:
    """Return √(−2 · log-probability): how many deviations out a Gaussian's density has fallen as far."""
    return np.asarray(np.sqrt(-2 * np.minimum(log_share, 0.0)))
