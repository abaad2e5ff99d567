"""Lists of Python objects: which are missing, of what types the rest are, their text, and their distinct values.

A text is the same for equal values of different types, so that a column agrees with itself between a CSV file and a
data frame: the whole numbers 1, 1.0 and Decimal("1.00") are "1", truth values are "True" and "False", bytes are
decoded, dates are in ISO form, in UTC if they have a time zone.
"""

import datetime
from collections.abc import Callable, Iterable
from decimal import Decimal
from numbers import Number, Real
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from natpn.tabular.errors import CellError, CellTypeError
from natpn.tabular.texts import is_mark

T = TypeVar("T")

BOOLEANS = (bool, np.bool_)
DATES = (datetime.date, np.datetime64)
DURATIONS = (datetime.timedelta, np.timedelta64, datetime.time)
NUMBERS = (Real, Decimal)
# pandas' own missing values, known by name because pandas may not be installed.
MISSING_TYPES = {"NoneType", "NAType", "NaTType"}


def is_missing(value: Any) -> bool:
    """Say whether a value is None, NaN, NaT or pandas' NA."""
    if type(value).__name__ in MISSING_TYPES:
        return True
    return isinstance(value, (*NUMBERS, *DATES, *DURATIONS)) and bool(value != value)


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


def _all(types: Iterable[type], parents: tuple[type, ...]) -> bool:
    return all(issubclass(t, parents) for t in types)


def text_of(value: Any) -> str:
    """Return the text of a value by which categories are compared.

    Raises:
        TypeError: If the value is a container, complex, or has no text of its own.
    """
    if isinstance(value, str):
        return str(value)
    if isinstance(value, BOOLEANS):
        return str(bool(value))
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    if isinstance(value, NUMBERS) and not isinstance(value, np.timedelta64):
        # Beyond 2^53 a float may stand for several whole numbers, and keeps its own text.
        number: Any = value
        whole = number == number and abs(number) < 2**53 and number == int(number)
        return str(int(number)) if whole or isinstance(value, (int, np.integer)) else str(value)
    if isinstance(value, datetime.datetime):
        moment = value if value.tzinfo is None else value.astimezone(datetime.UTC).replace(tzinfo=None)
        text = moment.isoformat()
        return text.removesuffix("T00:00:00")
    own: Any = type(value)
    plain = own.__str__ is object.__str__ and own.__repr__ is object.__repr__
    if isinstance(value, Number) or hasattr(value, "__len__") or hasattr(value, "__iter__") or plain:
        raise TypeError(not_a_cell(value))
    return str(value)


def not_a_cell(value: Any) -> str:
    """Word the error for a value that can be no cell of a table."""
    return f"argument must be a string or a number, not {type(value).__name__!r}"


def distinct(values: list[Any], name: str) -> tuple[list[Any], NDArray[np.intp]]:
    """Return the distinct values in the order they came, and the place of each row's value among them.

    Raises:
        CellTypeError: If a value cannot be compared, as a dict or a list.
    """
    types = set(map(type, values))
    if not types.isdisjoint(BOOLEANS) and not _all(types - {type(None)}, (*BOOLEANS, str)):
        keys: list[Any] = [(isinstance(v, BOOLEANS), v) for v in values]  # True == 1, but their texts differ
    else:
        keys = values
    try:
        place = dict.fromkeys(keys)
    except TypeError:
        row, value = next((i, v) for i, v in enumerate(values) if not _hashable(v))
        raise CellTypeError(name, row, f"{not_a_cell(value)}. Turn it into columns of its own first.") from None
    uniques = list(place)
    index = dict(zip(uniques, range(len(uniques)), strict=True))
    codes = np.fromiter(map(index.__getitem__, keys), np.intp, len(keys))
    return (uniques if keys is values else [v for _, v in uniques]), codes


def _hashable(value: Any) -> bool:
    try:
        hash(value)
    except TypeError:
        return False
    return True


def map_distinct(
    values: list[Any], name: str, function: Callable[[Any], T | None]
) -> tuple[list[T | None], NDArray[np.intp]]:
    """Apply a function to each distinct value, None for missing ones, and return the results and each row's place.

    Raises:
        CellError: If the function raised a ValueError, with the first such row; a CellTypeError for a TypeError.
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
