"""Values of one column in the form that its kind needs, or an error that names the row that has no such form."""

import contextlib
import datetime
from typing import Any

import numpy as np
from numpy.typing import NDArray

from natpn.tabular.cells import Cells
from natpn.tabular.errors import CellError
from natpn.tabular.objects import BOOLEANS, DURATIONS, NUMBERS, distinct, is_missing, map_distinct, text_of
from natpn.tabular.texts import date_of_text, number_of_text, truth_of_text

SECOND = datetime.timedelta(seconds=1)
EPOCH = datetime.datetime(1970, 1, 1)


def to_numbers(cells: Cells, name: str) -> NDArray[np.float64]:
    """Return finite float64 numbers, with NaN where a value is missing.

    Raises:
        ValueError: If a value is not a number, or infinite.
    """
    numbers = read_numbers(cells, name)
    check_finite(numbers[:, None], [name])
    return numbers


def read_numbers(cells: Cells, name: str) -> NDArray[np.float64]:
    """Return float64 numbers, which may be infinite, with NaN where a value is missing.

    Raises:
        ValueError: If a value is not a number.
    """
    if cells.form == "date" and not cells.is_empty():
        raise ValueError(
            f"Column {name!r} has dates, but it had numbers in training. Convert it to the same numbers, or fit again."
        )
    if isinstance(cells.values, list):
        return _numbers(cells.values, name)
    with np.errstate(over="ignore"):  # from a longer float, which becomes infinite
        return np.asarray(cells.values, np.float64)


def _numbers(values: list[Any], name: str) -> NDArray[np.float64]:
    if set(map(type, values)) <= {int, float, bool, type(None)}:
        with contextlib.suppress(OverflowError):  # a whole number beyond float64
            return np.array(values, np.float64)
    results, codes = map_distinct(values, name, _number)
    return np.array([np.nan if r is None else r for r in results], np.float64)[codes]


def check_finite(matrix: NDArray[np.float64], names: list[str], first_row: int = 0) -> None:
    """Raise if there is an infinite number; NaN may be.

    Raises:
        CellError: About the first one.
    """
    infinite = np.isinf(matrix)
    if infinite.any():
        row, column = np.argwhere(infinite)[0]
        raise CellError(
            names[column],
            first_row + int(row),
            "the value is infinity or too large for float64, but finite numbers are needed. Replace it by a number, or "
            "by NaN if it is unknown.",
        )


def to_booleans(cells: Cells, name: str) -> NDArray[np.float64]:
    """Return 1 for true, 0 for false, NaN for missing.

    Raises:
        ValueError: If a value is no truth value.
    """
    if cells.form == "boolean":
        return np.asarray(cells.values, np.float64)
    if cells.form == "date" and not cells.is_empty():
        raise ValueError(f"Column {name!r} has dates, but it had truth values in training. Convert it, or fit again.")
    results, codes = map_distinct(_list(cells), name, _truth)
    return np.array([np.nan if r is None else r for r in results], np.float64)[codes]


def to_levels(cells: Cells, name: str) -> tuple[list[str | None], NDArray[np.intp]]:
    """Return the distinct texts of a column, None for missing, and each row's place among them.

    Raises:
        TypeError: If a value has no text, as a dict or a list.
    """
    if cells.form == "date":
        seconds = np.asarray(cells.values, np.float64)
        micro = np.round(np.nan_to_num(seconds) * 1e6).astype(np.int64).astype("M8[us]")
        micro[np.isnan(seconds)] = np.datetime64("NaT")
        values: list[Any] = micro.tolist()
    elif cells.form == "boolean":
        table = {0.0: "False", 1.0: "True"}
        values = [table.get(v) for v in np.asarray(cells.values, np.float64).tolist()]
    elif cells.form == "number":
        uniques, inverse = np.unique(np.asarray(cells.values), return_inverse=True)
        texts = [None if is_missing(v) else text_of(v) for v in uniques]
        return _merge(texts, inverse)
    else:
        values = list(cells.values)
        if set(map(type, values)) <= {str, type(None)}:
            return distinct(values, name)
    return _merge(*map_distinct(values, name, text_of))


def _merge(texts: list[str | None], codes: NDArray[np.intp]) -> tuple[list[str | None], NDArray[np.intp]]:
    """Give values with the same text the same place."""
    index = {text: place for place, text in enumerate(dict.fromkeys(texts))}
    table = np.array([index[text] for text in texts], np.intp)
    return list(index), table[codes]


def to_seconds(cells: Cells, name: str) -> tuple[NDArray[np.float64], str | None]:
    """Return seconds since 1970, NaN for missing, and the time zone: None if the dates have none, then they are local.

    Raises:
        ValueError: If a value is not a date, or only some have a time zone.
    """
    if cells.form == "date":
        return np.asarray(cells.values, np.float64), cells.zone
    values = _list(cells)
    results, codes = map_distinct(values, name, _instant)
    aware = {with_zone for _, with_zone in filter(None, results)}
    if len(aware) > 1:
        raise ValueError(f"Column {name!r} has dates with and without a time zone. Give all of them one, or none.")
    table = np.array([np.nan if r is None else r[0] for r in results], np.float64)
    return table[codes], "UTC" if aware == {True} else None


def _list(cells: Cells) -> list[Any]:
    values = cells.values
    return values if isinstance(values, list) else np.asarray(values).tolist()


def iso_text(second: float) -> str:
    """Return the ISO text of seconds since 1970, to the second."""
    return str(np.datetime64(int(second // 1), "s"))


def _number(value: Any) -> float | None:
    """Return one value as a float, durations and times of day in seconds; None if its text says that it is missing."""
    if isinstance(value, DURATIONS):
        if isinstance(value, datetime.time):
            return value.hour * 3600 + value.minute * 60 + value.second + value.microsecond / 1e6
        span = value / (np.timedelta64(1, "s") if isinstance(value, np.timedelta64) else SECOND)
        return float(span)
    if isinstance(value, (*NUMBERS, *BOOLEANS)):
        try:
            return float(value)
        except OverflowError:
            return float("inf")
    text = text_of(value)  # raises for a container
    try:
        if isinstance(value, str | bytes):
            return number_of_text(text)
        fact = f"{value!r} is not a number"
    except ValueError as error:
        fact = str(error)
    raise ValueError(_unlike_training(fact, "numbers", "Correct it"))


def _truth(value: Any) -> float | None:
    try:
        return truth_of_text(text_of(value))
    except ValueError:
        fact = f"{value!r:.80} is no truth value"
    raise ValueError(_unlike_training(fact, "true and false", "Write True, False, 1 or 0"))


def _instant(value: Any) -> tuple[float, bool] | None:
    """Return seconds since 1970, and whether the value has a time zone; None if its text says that it is missing."""
    if isinstance(value, np.datetime64):
        return float(value.astype("M8[us]").astype(np.int64)) / 1e6, False
    fact = f"{value!r} is not a date"
    if isinstance(value, str):
        try:
            value = date_of_text(value)
        except ValueError as error:
            fact = str(error)
    if value is None:
        return None
    if isinstance(value, datetime.datetime):
        return seconds_of(value), value.tzinfo is not None
    if isinstance(value, datetime.date):
        return float((value - EPOCH.date()).days * 86_400), False
    text_of(value)  # raises for a container
    raise ValueError(_unlike_training(fact, "dates", "Write it as 2024-12-31 or 2024-12-31T23:59:00"))


def seconds_of(moment: datetime.datetime) -> float:
    """Return seconds since 1970, in UTC if the moment has a time zone."""
    return (moment - (EPOCH if moment.tzinfo is None else EPOCH.replace(tzinfo=datetime.UTC))) / SECOND


def _unlike_training(fact: str, had: str, cure: str) -> str:
    return f"{fact}; the column had only {had} in training. {cure}, or make it missing."
