"""Truth values: one 0/1 column, and another for missing values if training had some."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np

from natpn.tabular.base import Column, oddness_of
from natpn.tabular.cells import BOOLEAN_TYPES, Cells, Encoded, Floats, Mask, map_to_floats, text_of, unlike_training
from natpn.tabular.config import Fields
from natpn.tabular.moments import Arithmetic, standardised_flags
from natpn.tabular.texts import TRUTHS, truth_of_text
from natpn.tabular.written import PLAIN, Written


@dataclass(frozen=True)
class BooleanColumn(Column):
    """A column of truth values.

    Attributes:
        true: The share of true among those that are not missing.
    """

    true: float

    kind = "boolean"
    words = ("truth value", "truth values")
    types = BOOLEAN_TYPES

    @classmethod
    def unlike(cls, texts: list[str], written: Written = PLAIN, unit: str = "") -> list[str]:
        """Return which of some texts are neither true nor false."""
        return [text for text in texts if text.strip().lower() not in TRUTHS]

    @classmethod
    def parse(cls, text: str, written: Written = PLAIN, unit: str = "") -> bool | None:
        """Return the truth value that a text stands for, None if it stands for a missing one."""
        return truth_of_text(text)

    @classmethod
    def arrow_of(cls, values: Iterable[Any]) -> tuple[str, ...]:
        """Return the type of Arrow for truth values."""
        return ("bool_",)

    @classmethod
    def fit(cls, name: str, cells: Cells) -> Self:
        """Learn the column from its training values, of which at least one is not missing."""
        truths = _to_booleans(cells, name)
        missing = np.isnan(truths)
        return cls(name, len(truths), float(missing.mean()), float(truths[~missing].mean()))

    def widened(self, summaries: Sequence["BooleanColumn"], n_empty: int) -> Self:
        """Return the column with the share of true in all rows."""
        known = [part.n_rows * (1 - part.missing) for part in summaries]
        true = sum(n * part.true for n, part in zip(known, summaries, strict=True)) / sum(known)
        return replace(super().widened(summaries, n_empty), true=true)

    @property
    def arithmetic(self) -> Arithmetic:
        """A flag or a constant, and a flag for missing values."""
        missing = self.arithmetic_of_missing
        if self.true in (0, 1):
            return Arithmetic((), missing, self.true, 0.0)
        no, yes = standardised_flags(self.true)
        return Arithmetic((), ((self._instead, yes, no), *missing))

    @property
    def _instead(self) -> float:
        """What a missing value is encoded as: a first one as the more frequent value, so that the row looks usual."""
        no, yes = standardised_flags(self.true)
        return 0.0 if self.missing_flag is not None else yes if self.true > 0.5 else no

    @property
    def n_flags(self) -> int:
        """One unless it is constant, and one more if training had missing values."""
        return int(0 < self.true < 1) + int(self.missing_flag is not None)

    def encode(self, cells: Cells, numbers: Encoded, flags: Encoded) -> Floats | None:
        """Write the encoded values, and return the surprise of each row, or None if it is 0 in all of them."""
        truths = _to_booleans(cells, self.name)
        missing = np.isnan(truths)
        if 0 < self.true < 1:
            no, yes = standardised_flags(self.true)
            flags[:, 0] = np.where(missing, self._instead, np.where(truths == 1, yes, no))
        self.flag_missing(missing, flags)
        return self.new_events(missing, self._changed(truths))

    def read_json(self, value: Any) -> Any:
        """Return true or false."""
        if type(value) is bool:
            return value
        return super().read_json(value)

    @property
    def expected(self) -> str:
        """True or false."""
        return "true or false"

    @property
    def schema(self) -> dict[str, Any]:
        """A truth value, or a text that is one."""
        return {"type": ["boolean", "string", "null"], "description": "null if it is not known."}

    @property
    def usual(self) -> bool:
        """The more frequent one."""
        return self.true > 0.5

    def oddness(self, cells: Cells) -> Floats:
        """Return how unusual each value is, in standard deviations."""
        truths = _to_booleans(cells, self.name)
        usual = max(self.true, 1 - self.true)
        share = np.where(truths == 1, self.true, 1 - self.true)
        with np.errstate(divide="ignore"):
            score = oddness_of(np.log(share / usual))
        return self.score_events(score, np.isnan(truths), self._changed(truths))

    def _changed(self, truths: Floats) -> Mask | None:
        return ~np.isnan(truths) & (truths != self.true) if self.true in (0, 1) else None

    @property
    def facts(self) -> str:
        """The share of true."""
        return f"{100 * self.true:.2g} % true"

    def usually(self, value: Callable[[Any], str], share: Callable[[float], str]) -> str:
        """The share of true."""
        return f"true in {share(self.true)}"

    @property
    def summary(self) -> dict[str, Any]:
        """The share of true among known values, and the share missing."""
        return {"true": self.true, "missing": self.missing}

    @classmethod
    def _read(cls, read: Fields) -> dict[str, Any]:
        return {"true": read.number("true", 0, 1)}


def _to_booleans(cells: Cells, name: str) -> Floats:
    """Return 1 for true, 0 for false, NaN for missing.

    Raises:
        ValueError: If a value is no truth value.
    """
    if cells.form == "boolean":
        return np.asarray(cells.values, np.float64)
    if cells.form == "date" and not cells.is_empty():
        raise ValueError(f"Column {name!r} has dates, but it had truth values in training. Convert it, or fit again.")
    return map_to_floats(cells.to_list(), name, _truth_of_value)


def _truth_of_value(value: Any) -> float | None:
    try:
        return truth_of_text(text_of(value))
    except ValueError:
        fact = f"{value!r:.80} is no truth value"
    raise ValueError(unlike_training(fact, "true and false", "Write True, False, 1 or 0"))
