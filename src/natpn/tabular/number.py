"""Numbers: standardised, 0 where missing, with a 0/1 column for missing values if training had some."""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence, Set
from dataclasses import dataclass, replace
from itertools import pairwise
from math import floor, isfinite, ldexp, log10
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from natpn.tabular.base import Arithmetic, Column, encode_in_turn
from natpn.tabular.cells import (
    BOOLEAN_TYPES,
    DURATION_TYPES,
    NUMBER_TYPES,
    Cells,
    Encoded,
    Floats,
    Mask,
    check_finite,
    to_numbers,
)
from natpn.tabular.moments import Moments, Standardiser, measure, pooled
from natpn.tabular.texts import PLAIN, Fields, Written, brief, find_number, number_of_text

QUANTILES = (0.05, 0.25, 0.5, 0.75, 0.95)
YEARS = (1700, 2200)  # whole numbers that all lie between are taken for years
CODES = frozenset({"year", "yr", "jahr", "zip", "zipcode", "postcode", "postal", "plz", "code", "id"})
_WORDS = re.compile(r"[A-Z]?[a-z]+|[A-Z]+")
CHUNK = 1 << 18  # numbers that are standardised at once: 2 MB of float64, which stay in the cache
# So that a constant is the same in float32 and in float64.
TOLERANCE = 1e-6
_FREQUENT = 0.2  # deviations from a frequent number that are put down to it
_LONG = 10_000  # from here on amounts are written in groups of three digits


def is_year_or_code(name: str, low: float, high: float) -> bool:
    """Say whether whole numbers are written without separators of thousands: by where they lie, or by their name.

    Examples:
        >>> is_year_or_code("built", 1900, 2015), is_year_or_code("yr_renovated", 0, 2015)
        (True, True)
        >>> is_year_or_code("zipCode", 98001, 98199), is_year_or_code("income_per_year", 0, 90000)
        (True, False)
    """
    words = {word.lower() for word in _WORDS.findall(name)}
    return YEARS[0] <= low <= high <= YEARS[1] or bool(words & CODES and "per" not in words)


@dataclass(frozen=True)
class NumberColumn(Column):
    """A column of numbers.

    Attributes:
        exponent: The e of the formula in `natpn.tabular.moments`.
        mean: The mean of the scaled numbers.
        deviation: Their standard deviation.
        minimum: The smallest number.
        maximum: The largest.
        quantiles: The 5, 25, 50, 75 and 95 % quantiles.
        whole: Whether all are whole numbers.
    """

    exponent: int
    mean: float
    deviation: float
    minimum: float
    maximum: float
    quantiles: list[float]
    whole: bool

    kind = "number"
    words = ("number", "numbers")
    types = NUMBER_TYPES
    conversion = "pandas.to_numeric"
    numeric = True
    expected = "a finite number"

    @classmethod
    def holds(cls, types: Set[type]) -> bool:
        """Say whether all are durations, or all are numbers, with truth values among them or not."""
        if all(issubclass(kind, DURATION_TYPES) for kind in types):
            return True
        truths = {kind for kind in types if issubclass(kind, BOOLEAN_TYPES)}
        return truths != types and all(issubclass(kind, NUMBER_TYPES) for kind in types - truths)

    @classmethod
    def unlike(cls, texts: list[str], written: Written = PLAIN, unit: str = "") -> list[str]:
        """Return which of some texts are not finite numbers."""
        return [text for text in texts if find_number(text, written, unit) is None]

    @classmethod
    def parse(cls, text: str, written: Written = PLAIN, unit: str = "") -> float | None:
        """Return the number that a text stands for, None if it stands for a missing one."""
        return number_of_text(text, written, unit)

    @classmethod
    def arrow_of(cls, values: Iterable[Any]) -> tuple[str, ...]:
        """Return the type of Arrow for numbers."""
        return ("float64",)

    @classmethod
    def fit(cls, name: str, cells: Cells) -> Self:
        """Learn the column from its training values, of which at least one is not missing."""
        numbers = _finite_numbers(cells, name)
        missing = np.isnan(numbers)
        known = numbers[~missing]
        # For each share the smallest number that at least this share of all does not exceed.
        places = [max(int(np.ceil(level * len(known) - 1e-9)) - 1, 0) for level in QUANTILES]
        quantiles = np.partition(known, places)[places].tolist()
        low, high = float(known.min()), float(known.max())
        whole = bool((known == np.floor(known)).all())
        return cls(name, len(numbers), float(missing.mean()), *measure(known), low, high, quantiles, whole)

    @classmethod
    def widened(cls, shown: Column, summaries: Sequence["NumberColumn"], n_empty: int) -> Self:
        """Return the column with the moments and the range of all rows; its quantiles stay those of the sample."""
        moments = pooled([(part.n_rows * (1 - part.missing), part.moments) for part in summaries])
        low, high = min(part.minimum for part in summaries), max(part.maximum for part in summaries)
        return replace(
            super().widened(shown, summaries, n_empty),
            **moments._replace(deviation=moments.deviation if low < high else 0.0)._asdict(),
            minimum=low,
            maximum=high,
            whole=all(part.whole for part in summaries),
        )

    def meeting(self, cells: Cells) -> Self:
        """Return the column with a range that holds these numbers too."""
        numbers = _finite_numbers(cells, self.name)
        missing = np.isnan(numbers)
        known = [self.minimum, self.maximum, *numbers[~missing].tolist()]
        return replace(self.meeting_missing(missing), minimum=min(known), maximum=max(known))

    @property
    def moments(self) -> Moments:
        """The moments by which the numbers are standardised."""
        return Moments(self.exponent, self.mean, self.deviation)

    @property
    def bounds(self) -> dict[int, tuple[float, float]]:
        """The smallest and the largest number as the column encodes them."""
        if not self.n_numbers:
            return {}
        low, high = Standardiser([self.moments])(np.array([[self.minimum], [self.maximum]]), None)[:, 0].tolist()
        return {0: (low, high)}

    @property
    def arithmetic(self) -> Arithmetic:
        """A standardised number or a constant, and a flag for missing values."""
        flags = self.arithmetic_of_missing
        if self.minimum == self.maximum:
            return Arithmetic((), flags, self.minimum, TOLERANCE * abs(self.minimum))
        return Arithmetic((self.moments,) if self.n_numbers else (), flags)

    @property
    def mlflow_type(self) -> str:
        """A double; no type of MLflow takes both whole numbers and missing ones."""
        return "any" if self.whole else "double"

    @property
    def n_numbers(self) -> int:
        """One, or 0 if the column is constant."""
        return int(self.deviation > 0)

    @classmethod
    def blocks(cls, columns: Sequence[Self]) -> list["NumberBlock"]:
        """Return one for all columns: one for each would take many more calls."""
        return [NumberBlock(columns)]

    def encode(self, cells: Cells, numbers: Encoded, flags: Encoded) -> Floats | None:
        """Encode one column as a block of its own."""
        return NumberBlock([self]).encode_next(iter([cells]), numbers, flags)

    def read_json(self, value: Any) -> float:
        """Return a finite number."""
        if (type(value) is float or type(value) is int) and isfinite(value):
            return value
        if type(value) is float:
            raise ValueError("the number is too large for float64. Send a smaller one, or null if it is not known.")
        raise ValueError(f"expected a number, got {brief(value)}. Write a number, or null if it is not known.")

    @property
    def schema(self) -> dict[str, Any]:
        """A number, or a text that is one."""
        text = f"In training from {self.minimum:g} to {self.maximum:g}. null if it is not known."
        return {"type": ["number", "string", "null"], "description": text}

    @property
    def usual(self) -> float:
        """The median."""
        return self.quantiles[len(self.quantiles) // 2]

    def as_json(self, cells: Cells) -> list[Any]:
        """Return numbers, whole ones without a decimal point."""
        numbers = _finite_numbers(cells, self.name).tolist()
        return [None if x != x else int(x) if x == int(x) and abs(x) < 2**53 else x for x in numbers]

    @property
    def thousands(self) -> bool:
        """Whether they are amounts, and not years or codes."""
        return not (self.whole and is_year_or_code(self.name, self.minimum, self.maximum))

    def oddness(self, cells: Cells) -> Floats:
        """Return how many standard deviations each number lies from the mean."""
        numbers = _finite_numbers(cells, self.name)[:, None]
        missing = np.isnan(numbers)
        score = np.zeros(len(numbers))
        if self.deviation:
            score = np.abs(Standardiser([self.moments])(numbers, missing))[:, 0]
        return self.score_events(score, missing[:, 0], self.changed(numbers[:, 0]))

    def changed(self, numbers: Floats) -> Mask | None:
        """Return where a number differs from the constant that the column was; None if it was not constant."""
        if self.minimum != self.maximum:
            return None
        with np.errstate(over="ignore"):
            return np.abs(numbers - self.minimum) > TOLERANCE * abs(self.minimum)

    @property
    def familiar(self) -> list[float]:
        """The only number; where there are more, all between the smallest and the largest are tried."""
        return [self.minimum] if self.minimum == self.maximum else []

    def cells_of(self, values: Sequence[float | None]) -> Cells:
        """Return numbers as an array."""
        return Cells("number", np.array(values, np.float64))

    def values_at(self, standardised: Floats) -> list[float]:
        """Return the numbers of the training range nearest to standardised ones, without digits that say nothing.

        Near a number that was frequent it is that number.
        """
        scale, moments = ldexp(self.deviation, self.exponent), self.moments
        numbers = np.clip(np.ldexp(standardised * moments.deviation + moments.mean, moments.exponent), *self._ends)
        digits = 2 - floor(log10(scale)) if 1e-300 < scale < 1e300 else 0
        if abs(digits) < 300:
            numbers = np.clip(np.round(numbers, min(digits, 0) if self.whole else digits), *self._ends)
        known = [self.minimum, *self.quantiles, self.maximum]
        for frequent in {low for low, high in pairwise(known) if low == high}:
            numbers[np.abs(numbers - frequent) < _FREQUENT * scale] = frequent
        return [float(number) for number in numbers]

    @property
    def _ends(self) -> tuple[float, float]:
        return self.minimum, self.maximum

    def written(self, value: float | None) -> str:
        """Write all digits."""
        if value is None:
            return ""
        return f"{value:.0f}" if value == floor(value) and abs(value) < 1e15 else repr(value)

    def spoken(self, value: float | None) -> str:
        """Write six digits."""
        if value is None:
            return super().spoken(value)
        short = float(f"{value:.6g}")
        return f"{short:,.0f}" if self.thousands and _LONG <= abs(short) < 1e15 else self.written(short)

    def why_strange(self, value: float | None) -> str:
        """Say that a number is outside the range."""
        if value is None:
            return super().why_strange(value)
        if self.minimum == self.maximum:
            changed = bool(np.any(self.changed(np.array([value]))))
            return f"{self.spoken(value)} is not {self.spoken(self.minimum)}, as it always was" if changed else ""
        if value > self.maximum:
            return f"{self.spoken(value)} is beyond {self.spoken(self.maximum)}"
        return f"{self.spoken(value)} is below {self.spoken(self.minimum)}" if value < self.minimum else ""

    @property
    def facts(self) -> str:
        """The smallest and the largest."""
        return f"{self.minimum:.6g} to {self.maximum:.6g}"

    def usually(self, value: Callable[[Any], str], share: Callable[[float], str]) -> str:
        """The 5 and 95 % quantiles, or the only number."""
        if self.minimum == self.maximum:
            return f"always {value(self.minimum)}"
        return f"{value(self.quantiles[0])} to {value(self.quantiles[-1])}"

    def all_differ(self, cells: Cells) -> bool:
        """Say whether all are whole numbers and no two are equal."""
        numbers = _finite_numbers(cells, self.name)
        known = numbers[~np.isnan(numbers)]
        return self.whole and len(np.unique(known)) == len(known)

    @property
    def summary(self) -> dict[str, Any]:
        """The range, the mean and deviation, the quantiles, the share missing, and whether all are whole numbers."""
        quantiles = {f"{100 * level:g}%": value for level, value in zip(QUANTILES, self.quantiles, strict=True)}
        return {
            "minimum": self.minimum,
            "maximum": self.maximum,
            "mean": min(max(ldexp(self.mean, self.exponent), self.minimum), self.maximum),
            "deviation": ldexp(self.deviation, self.exponent),
            "quantiles": quantiles,
            "missing": self.missing,
            "whole": self.whole,
        }

    @property
    def described(self) -> dict[str, Any]:
        """The summary, and whether people set thousands apart."""
        return self.summary | {"thousands": self.thousands}

    @classmethod
    def _read(cls, read: Fields) -> dict[str, Any]:
        return {
            "exponent": read.whole("exponent", -1000, 1020),
            "mean": read.number("mean"),
            "deviation": read.number("deviation", 0),
            "minimum": read.number("minimum"),
            "maximum": read.number("maximum", read.number("minimum")),
            "quantiles": read.numbers("quantiles", len(QUANTILES)),
            "whole": read.flag("whole"),
        }


def _finite_numbers(cells: Cells, name: str) -> Floats:
    numbers = to_numbers(cells, name)
    check_finite(numbers[:, None], [name])
    return numbers


class NumberBlock:
    """Neighbouring columns of numbers, encoded as one matrix."""

    def __init__(self, columns: Sequence[NumberColumn]) -> None:
        self._columns = columns
        self.n_numbers = sum(column.n_numbers for column in columns)
        self.n_flags = sum(column.n_flags for column in columns)
        self._names = [column.name for column in columns]
        self._standardise = Standardiser([column.moments for column in columns])
        flagged = [(place, c.missing_flag) for place, c in enumerate(columns) if c.missing_flag is not None]
        self._flagged = [place for place, _ in flagged]
        self._flags = np.array([flag for _, flag in flagged], np.float32).reshape(-1, 2)
        self._constant = [place for place, c in enumerate(columns) if c.minimum == c.maximum]
        self._complete = np.array([not column.missing for column in columns])

    def encode_next(self, cells: Iterator[Cells], numbers: Encoded, flags: Encoded) -> Floats | None:
        """Write the encoded values of the next columns, and return the surprise of each row, or None if it is 0."""
        width = max(CHUNK // len(numbers), 1)
        if len(self._columns) <= width:
            columns = [to_numbers(column, name) for name, column in zip(self._names, cells, strict=False)]
            return self.encode(np.stack(columns, axis=1), numbers, flags)
        starts = range(0, len(self._columns), width)  # in parts, because a matrix of all would be a second copy
        parts = [NumberBlock(self._columns[start : start + width]) for start in starts]
        return encode_in_turn(parts, cells, numbers, flags)

    def encode(self, matrix: NDArray[Any], numbers: Encoded, flags: Encoded) -> Floats | None:
        """Encode a whole matrix, as `Column.encode` does."""
        surprise: Floats | None = None
        step = max(CHUNK // len(self._columns), 1)
        for start in range(0, len(matrix), step):
            rows = slice(start, start + step)
            with np.errstate(over="ignore", invalid="ignore"):
                part = np.asarray(matrix[rows], np.float64)
                missing = None if np.isfinite(part.sum()) else np.isnan(part)
            if missing is not None:
                check_finite(part, self._names, start)
            numbers[rows] = self._standardise(part, missing)
            if self._flagged:
                no, yes = self._flags.T
                flags[rows] = no if missing is None else np.where(missing[:, self._flagged], yes, no)
            if missing is not None or self._constant:
                surprise = np.zeros(len(matrix)) if surprise is None else surprise
                self._add_surprise(part, missing, surprise[rows])
        return surprise

    def _add_surprise(self, part: Floats, missing: Mask | None, surprise: Floats) -> None:
        none = np.zeros(len(part), np.bool_)
        first_missing = [] if missing is None else np.flatnonzero(self._complete & missing.any(axis=0)).tolist()
        for place in sorted({*self._constant, *first_missing}):
            column = self._columns[place]
            event = column.new_events(none if missing is None else missing[:, place], column.changed(part[:, place]))
            if event is not None:
                surprise += event
