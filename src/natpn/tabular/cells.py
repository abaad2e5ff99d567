"""The cells of one column: as they came, which are missing, and what text or number each stands for.

Whatever library a table is from, each of its columns becomes `Cells` of one of these forms:

- "number": an array of numbers, NaN where missing; durations are in seconds,
- "boolean": an array of truth values, or of 0, 1 and NaN,
- "date": seconds since 1970 as float64, in UTC if there is a time zone, NaN where missing,
- "categories": a list that its library declares to be categories, whatever its elements are,
- "objects": a list whose elements decide its kind.

An array becomes a column of the kind that its form names.

Equal values of different types have the same text, so that a column is the same from a CSV file and from a data frame:
the whole numbers 1, 1.0 and Decimal("1.00") are "1", truth values are "True" and "False", bytes are decoded, and dates
are in ISO form, in UTC if they have a time zone.
"""

import contextlib
import datetime
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from numbers import Number, Real
from typing import Any, Literal, TypeVar

import numpy as np
from numpy.typing import NDArray

from natpn.tabular.texts import is_mark, number_of_text

T = TypeVar("T")
Floats = NDArray[np.float64]
Encoded = NDArray[np.float32]
Mask = NDArray[np.bool_]
Places = NDArray[np.intp]

BOOLEAN_TYPES = (bool, np.bool_)
DATE_TYPES = (datetime.date, np.datetime64)
DURATION_TYPES = (datetime.timedelta, np.timedelta64, datetime.time)
NUMBER_TYPES = (Real, Decimal)
# pandas' own missing values, known by name because pandas may not be installed.
MISSING_TYPES = {"NoneType", "NAType", "NaTType"}


class CellError(ValueError):
    """A cell cannot be read; in parts, so that a file, a request or a data frame can say where in its own terms.

    Attributes:
        column: The name of its column.
        row: The number of its row, from 0 on.
        problem: What is wrong, and the cure.
    """

    def __init__(self, column: str, row: int, problem: str) -> None:
        super().__init__(column, row, problem)  # all of it, so that another process can raise it again
        self.column, self.row, self.problem = column, row, problem

    def __str__(self) -> str:
        return f"Column {self.column!r}, row {self.row}: {self.problem}"


class CellTypeError(CellError, TypeError):
    """A cell holds a value that no cell can hold, such as a list or a dict."""


@dataclass
class Cells:
    """The values of one column, in one of the forms that this module describes."""

    form: Literal["number", "boolean", "date", "categories", "objects"]
    values: NDArray[Any] | list[Any]
    zone: str | None = None  # of dates
    levels: tuple[list[str | None], Places] | None = None  # what `to_levels` found before

    def take(self, rows: Places) -> "Cells":
        """Return some rows; their levels are known if they were before, with some that none of them has."""
        listed = isinstance(self.values, list)
        values = [self.values[row] for row in rows.tolist()] if listed else np.asarray(self.values)[rows]
        levels = None if self.levels is None else (self.levels[0], self.levels[1][rows])
        return Cells(self.form, values, self.zone, levels)

    def is_empty(self) -> bool:
        """Say whether all values are missing."""
        if isinstance(self.values, list):
            return not known_types(self.values)
        return self.values.dtype.kind == "f" and bool(np.isnan(self.values).all())

    def to_list(self) -> list[Any]:
        """Return the values as a list of Python objects."""
        return self.values if isinstance(self.values, list) else self.values.tolist()


def is_missing(value: Any) -> bool:
    """Say whether a value is None, NaN, NaT or pandas' NA."""
    if type(value).__name__ in MISSING_TYPES:
        return True
    return isinstance(value, (*NUMBER_TYPES, *DATE_TYPES, *DURATION_TYPES)) and bool(value != value)


def known_types(values: list[Any]) -> set[type]:
    """Return the types of the values that are not missing.

    Among values of another type a text such as "NA" is a missing value.
    """
    types = {t for t in set(map(type, values)) if t.__name__ not in MISSING_TYPES}
    floats = {t for t in types if issubclass(t, float)}
    # A column of another kind often has NaN for its missing values.
    if floats and all(v != v for v in values if isinstance(v, float)):
        types -= floats
    texts = {t for t in types if issubclass(t, str)}
    if texts and types != texts and all(is_mark(v) for v in values if isinstance(v, str)):
        types -= texts
    return types


def text_of(value: Any) -> str:
    """Return the text by which categories are compared; a TypeError for a container, or a value without a text."""
    if isinstance(value, str):
        return str(value)
    if isinstance(value, BOOLEAN_TYPES):
        return str(bool(value))
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    if isinstance(value, NUMBER_TYPES) and not isinstance(value, np.timedelta64):
        # Beyond 2^53 a float may stand for several whole numbers, and keeps its own text.
        number: Any = value
        whole = number == number and abs(number) < 2**53 and number == int(number)
        return str(int(number)) if whole or isinstance(value, (int, np.integer)) else str(value)
    if isinstance(value, datetime.datetime):
        moment = value if value.tzinfo is None else value.astimezone(datetime.UTC).replace(tzinfo=None)
        return moment.isoformat().removesuffix("T00:00:00")
    own: Any = type(value)
    plain = own.__str__ is object.__str__ and own.__repr__ is object.__repr__
    if isinstance(value, Number) or hasattr(value, "__len__") or hasattr(value, "__iter__") or plain:
        raise TypeError(_NO_CELL.format(type(value).__name__))
    return str(value)


_NO_CELL = "argument must be a string or a number, not {!r}"


def distinct(values: list[Any], name: str) -> tuple[list[Any], Places]:
    """Return the distinct values in the order they came, and the place of each row's value among them."""
    keys = values
    types = set(map(type, values))
    if not types.isdisjoint(BOOLEAN_TYPES) and not all(issubclass(t, (*BOOLEAN_TYPES, str, type(None))) for t in types):
        keys = [(isinstance(v, BOOLEAN_TYPES), v) for v in values]  # True == 1, but their texts differ
    try:
        uniques = list(dict.fromkeys(keys))
    except TypeError:
        row = next(row for row, value in enumerate(values) if not _is_hashable(value))
        fact = _NO_CELL.format(type(values[row]).__name__)
        raise CellTypeError(name, row, f"{fact}. Turn it into columns of its own first.") from None
    index = dict(zip(uniques, range(len(uniques)), strict=True))
    codes = np.fromiter(map(index.__getitem__, keys), np.intp, len(keys))
    return (uniques if keys is values else [v for _, v in uniques]), codes


def _is_hashable(value: Any) -> bool:
    try:
        hash(value)
    except TypeError:
        return False
    return True


def map_distinct(values: list[Any], name: str, function: Callable[[Any], T | None]) -> tuple[list[T | None], Places]:
    """Apply a function to each distinct value, None for missing ones, and return the results and each row's place.

    Where it raises a ValueError or a TypeError, a CellError or a CellTypeError names the first such row.
    """
    uniques, codes = distinct(values, name)
    results: list[T | None] = []
    for place, value in enumerate(uniques):
        try:
            results.append(None if is_missing(value) else function(value))
        except (TypeError, ValueError) as error:
            row = int(np.argmax(codes == place))
            kind = CellTypeError if isinstance(error, TypeError) else CellError
            raise kind(name, row, str(error)) from None
    return results, codes


def map_to_floats(values: list[Any], name: str, function: Callable[[Any], float | None]) -> Floats:
    """Apply a function to each distinct value as `map_distinct` does, and return each row's float, NaN for missing."""
    results, codes = map_distinct(values, name, function)
    return np.array([np.nan if result is None else result for result in results], np.float64)[codes]


def to_levels(cells: Cells, name: str) -> tuple[list[str | None], Places]:
    """Return the distinct texts of a column, None for missing, and each row's place among them."""
    if cells.levels is None:
        cells.levels = _find_levels(cells, name)
    return cells.levels


def _find_levels(cells: Cells, name: str) -> tuple[list[str | None], Places]:
    if cells.form == "number":
        uniques, codes = np.unique(np.asarray(cells.values), return_inverse=True)
        return _merge([None if is_missing(v) else text_of(v) for v in uniques], codes)
    if cells.form == "boolean":
        return ["False", "True", None], np.nan_to_num(np.asarray(cells.values, np.float64), nan=2).astype(np.intp)
    values = cells.to_list()
    if cells.form == "date":
        seconds = np.asarray(cells.values, np.float64)
        micro = np.round(np.nan_to_num(seconds) * 1e6).astype(np.int64).astype("M8[us]")
        micro[np.isnan(seconds)] = np.datetime64("NaT")
        values = micro.tolist()
    elif set(map(type, values)) <= {str, type(None)}:
        return distinct(values, name)
    return _merge(*map_distinct(values, name, text_of))


def _merge(texts: list[str | None], codes: Places) -> tuple[list[str | None], Places]:
    """Give values with the same text the same place."""
    index = {text: place for place, text in enumerate(dict.fromkeys(texts))}
    return list(index), np.array([index[text] for text in texts], np.intp)[codes]


def to_numbers(cells: Cells, name: str) -> Floats:
    """Return float64 numbers, which may be infinite, with NaN where a value is missing."""
    if cells.form == "date" and not cells.is_empty():
        raise ValueError(
            f"Column {name!r} has dates, but it had numbers in training. Convert it to the same numbers, or fit again."
        )
    values = cells.values
    if not isinstance(values, list):
        with np.errstate(over="ignore"):  # a longer float becomes infinite
            return np.asarray(values, np.float64)
    if set(map(type, values)) <= {int, float, bool, type(None)}:
        with contextlib.suppress(OverflowError):  # a whole number beyond float64
            return np.array(values, np.float64)
    return map_to_floats(values, name, _number)


def _number(value: Any) -> float | None:
    """Return one value as a float, durations and times of day in seconds; None if its text says that it is missing."""
    if isinstance(value, datetime.time):
        return value.hour * 3600 + value.minute * 60 + value.second + value.microsecond / 1e6
    if isinstance(value, datetime.timedelta):
        return value / datetime.timedelta(seconds=1)
    if isinstance(value, np.timedelta64):
        return float(value / np.timedelta64(1, "s"))
    if isinstance(value, (*NUMBER_TYPES, *BOOLEAN_TYPES)):
        try:
            return float(value)
        except OverflowError:
            return float("inf")
    text = text_of(value)  # raises for a container
    fact = f"{value!r} is not a number"
    if isinstance(value, str | bytes):
        try:
            return number_of_text(text)
        except ValueError as error:
            fact = str(error)
    raise ValueError(unlike_training(fact, "numbers", "Correct it"))


def unlike_training(fact: str, had: str, cure: str) -> str:
    """Word the error for a value that its column never had in training."""
    return f"{fact}; the column had only {had} in training. {cure}, or make it missing."


def check_finite(matrix: Floats, names: list[str], first_row: int = 0) -> None:
    """Raise a CellError about the first infinite number; NaN is allowed."""
    infinite = np.isinf(matrix)
    if infinite.any():
        row, column = np.argwhere(infinite)[0]
        raise CellError(
            names[column],
            first_row + int(row),
            "the value is infinity or too large for float64, but finite numbers are needed. Replace it by a number, or "
            "by NaN if it is unknown.",
        )
