"""Columns in which training had no value at all: nothing to encode, but a first value is a surprise."""

from collections.abc import Callable
from typing import Any, Self

import numpy as np

from natpn.tabular.base import Column, oddness_of
from natpn.tabular.cells import Cells, Encoded, Floats, Mask, to_levels
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
    def fit(cls, name: str, cells: Cells) -> Self:
        """Learn that all values are missing."""
        return cls(name, len(cells.values), 1.0)

    @property
    def arithmetic(self) -> Arithmetic:
        """Every value is an event."""
        return Arithmetic(tolerance=-1.0)

    def encode(self, cells: Cells, numbers: Encoded, flags: Encoded) -> Floats | None:
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
        """A text, a number or a truth value."""
        return "a text or a number or a truth value"

    @property
    def schema(self) -> dict[str, Any]:
        """A text, a number or a truth value."""
        return {"type": ["string", "number", "boolean", "null"], "description": "Training had no value here."}

    def oddness(self, cells: Cells) -> Floats:
        """Return how unusual values are where there were none."""
        return oddness_of(np.where(self._present(cells), self.log_never, 0.0))

    @property
    def facts(self) -> str:
        """That there is no value."""
        return "no value"

    def usually(self, value: Callable[[Any], str], share: Callable[[float], str]) -> str:
        """Say that there was no value."""
        return "always missing"

    def _present(self, cells: Cells) -> Mask:
        levels, codes = to_levels(cells, self.name)
        return np.array([level is not None and not is_mark(level) for level in levels], np.bool_)[codes]
