"""Columns in which training had no value at all: nothing to encode, but a first value is a surprise."""

from collections.abc import Callable, Iterable
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from natpn.tabular.base import Column, odds_of
from natpn.tabular.cells import Cells, to_levels
from natpn.tabular.config import Fields
from natpn.tabular.moments import Arithmetic
from natpn.tabular.texts import is_mark
from natpn.tabular.written import PLAIN, Written


class EmptyColumn(Column):
    """A column of missing values."""

    kind = "empty"
    words = ("empty", "empty")
    keeps_texts = True

    @classmethod
    def parse(cls, text: str, written: Written = PLAIN, unit: str = "") -> str | None:
        """Return the text, None if it stands for a missing value."""
        return None if is_mark(text) else text

    @classmethod
    def arrow_of(cls, values: Iterable[Any]) -> tuple[str, ...]:
        """Return the type of Arrow for texts."""
        return ("string",)

    @classmethod
    def fit(cls, name: str, cells: Cells) -> Self:
        """Learn that all values are missing."""
        return cls(name, len(cells.values), 1.0)

    @property
    def arithmetic(self) -> Arithmetic:
        """Any value is an event."""
        return Arithmetic(tolerance=-1.0)

    @property
    def n_numbers(self) -> int:
        """None."""
        return 0

    def encode(
        self, cells: Cells, numbers: NDArray[np.float32], flags: NDArray[np.float32]
    ) -> NDArray[np.float64] | None:
        """Return the surprise of values where there were none."""
        present = self._present(cells)
        return np.where(present, self.log_never, 0.0) if present.any() else None

    def read_json(self, value: Any) -> Any:
        """Return a number or a truth value."""
        if type(value) in (int, float, bool):
            return value
        return super().read_json(value)

    @property
    def expected(self) -> str:
        """Anything but a list or an object."""
        return "a text or a number or a truth value"

    @property
    def schema(self) -> dict[str, Any]:
        """Anything but a list or an object."""
        return {"type": ["string", "number", "boolean", "null"], "description": "Training had no value here."}

    @property
    def usual(self) -> None:
        """Nothing."""
        return None

    def oddness(self, cells: Cells) -> NDArray[np.float64]:
        """Return how unusual values are where there were none."""
        return odds_of(np.where(self._present(cells), self.log_never, 0.0))

    @property
    def facts(self) -> str:
        """Nothing."""
        return "no value"

    def usually(self, value: Callable[[Any], str], share: Callable[[float], str]) -> str:
        """Nothing."""
        return "always missing"

    def _present(self, cells: Cells) -> NDArray[np.bool_]:
        levels, codes = to_levels(cells, self.name)
        return np.array([level is not None and not is_mark(level) for level in levels], np.bool_)[codes]

    @classmethod
    def _read(cls, read: Fields) -> dict[str, Any]:
        return {}
