"""Bodies of requests → rows of checked values in training's order, or an error with the field, the row and the cure.

Rows are plain lists, since a data frame takes longer to make than a prediction. Every value is checked here, one
request at a time, so that none can spoil the batch it is predicted in.
"""

import csv
import io
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import orjson

from natpn.serve.errors import RequestError, listed, near
from natpn.tabular import Column
from natpn.tabular.texts import PLAIN, Written, brief

Row = list[Any]
Check = Callable[[Any], Any]

MAX_CELL = 100_000  # characters of one cell of a CSV


class TableReader:
    """Read bodies for a model that was trained on a table.

    Args:
        columns: Its columns.
        max_rows: How many rows a request may have.
        written: How a CSV writes values.
    """

    def __init__(self, columns: list[Column], max_rows: int, written: Written = PLAIN) -> None:
        self._names = [column.name for column in columns]
        self._set = frozenset(self._names)
        self._max_rows = max_rows
        self._from_json = [(column.name, json_check(column, Written(units=written.units))) for column in columns]
        self._from_text = [(column.name, text_check(column, written)) for column in columns]

    def json(self, body: bytes) -> tuple[list[Row], bool]:
        """Return the rows, and whether they came as one row rather than as a list.

        Raises:
            RequestError: If it is not JSON of the form that the schema describes.
        """
        data = parse(body)
        many = rows_of(data, self._max_rows)
        if many is None:
            return [self._row(data, None)], True
        return [self._row(row, place) for place, row in enumerate(many)], False

    def _row(self, row: Any, place: int | None) -> Row:
        if type(row) is not dict:
            raise RequestError(
                422,
                f"Expected an object with the features {listed(self._names)}, got {brief(row)}. Send one row as "
                '{"feature": value, …}, or many as {"rows": [{…}, {…}]}.',
                row=place,
            )
        if row.keys() != self._set:
            self._complain(list(row), place)
        values = []
        for name, check in self._from_json:
            value = row[name]
            if value is not None:
                try:
                    value = check(value)
                except ValueError as error:
                    raise RequestError(422, f"{_where(name, place)}: {error}", name, place) from None
            values.append(value)
        return values

    def csv(self, body: bytes) -> list[Row]:
        """Return the rows of a CSV with a header; an empty cell is a missing value.

        Raises:
            RequestError: If it is no such text, or a cell does not fit its column.
        """
        try:
            text = body.decode("utf-8-sig")
        except UnicodeDecodeError as error:
            raise RequestError(400, f"The CSV is not UTF-8 ({error}). Save it as UTF-8.") from None
        # Not splitlines, which also divides cells, as at U+2028.
        lines = csv.reader(io.StringIO(text, newline=""), strict=True)
        try:
            header = next(lines, [])
            if not self._set.issuperset(header) or len(header) != len(self._names) or set(header) != self._set:
                self._complain(header, None)
            order = [header.index(name) for name in self._names]
            return [self._cells(cells, order, place) for place, cells in enumerate(self._bounded(lines))]
        except csv.Error as error:
            raise RequestError(400, f"The CSV cannot be read, line {lines.line_num}: {error}.") from None

    def _bounded(self, lines: Iterable[list[str]]) -> Iterable[list[str]]:
        place = -1
        for place, cells in enumerate(filter(None, lines)):
            if place >= self._max_rows:
                raise too_many(None, self._max_rows)
            yield cells
        if place < 0:
            raise RequestError(422, "The CSV has no rows below its header. Add at least one.")

    def _cells(self, cells: list[str], order: list[int], place: int) -> Row:
        if len(cells) != len(order):
            raise RequestError(
                422, f"Row {place} has {len(cells)} cells, but the header has {len(order)}. Quote cells with commas.",
                row=place,
            )  # fmt: skip
        values = []
        for (name, check), where in zip(self._from_text, order, strict=True):
            cell = cells[where]
            try:
                values.append(check(cell))
            except ValueError as error:
                raise RequestError(422, f"{_where(name, place)}: {error}", name, place) from None
        return values

    def _complain(self, names: list[str], place: int | None) -> None:
        row = "" if place is None else f" in row {place}"
        given = frozenset(names)
        unknown = [name for name in names if name not in self._set]
        missing = [name for name in self._names if name not in given]
        if unknown:
            meant = near(unknown[0], missing or self._names)
            cure = (
                f"Did you mean {brief(meant)}?"
                if meant
                else "Leave it out."
                if len(unknown) == 1
                else "Leave them out."
            )
            known = listed(self._names)
            raise RequestError(
                422, f"Unknown features{row}: {listed(unknown)}. {cure} The features are {known}.", unknown[0], place
            )
        if missing:
            raise RequestError(
                422,
                f"Missing features{row}: {listed(missing)}. Add them, with null (in CSV: an empty cell) for what "
                "is not known.",
                missing[0],
                place,
            )
        twice = next(name for i, name in enumerate(names) if name in names[:i])
        raise RequestError(422, f"The column {brief(twice)} is there twice. Leave one out.", twice, place)


class ArrayReader:
    """Read bodies for a model that was trained on arrays, such as images.

    Args:
        shape: The shape of one input.
        max_rows: How many inputs a request may have.
    """

    def __init__(self, shape: tuple[int, ...], max_rows: int) -> None:
        self._shape = shape
        self._max_rows = max_rows

    def json(self, body: bytes) -> tuple[list[Row], bool]:
        """Return the inputs, and whether one came alone.

        Raises:
            RequestError: If it is not JSON with numbers in the right shape.
        """
        data = parse(body)
        many = rows_of(data, self._max_rows)
        if many is None:
            return [self._input(data, None)], True
        return [self._input(one, place) for place, one in enumerate(many)], False

    def _input(self, data: Any, place: int | None) -> Any:
        try:
            values = np.array(data)
            right = values.shape == self._shape and values.dtype.kind in "iuf"
        except ValueError:
            right = False
        if not right:
            shape = " × ".join(map(str, self._shape))
            raise RequestError(
                422,
                f"Expected nested lists of numbers of shape {shape}"
                + ("" if place is None else f" in row {place}")
                + '. Send one input as such lists, or many as {"rows": [[…], […]]}.',
                row=place,
            )
        values = values.astype(np.float64)
        if not np.isfinite(values).all():
            raise RequestError(422, "Expected finite numbers, got one that is too large for float64.", row=place)
        return values

    def csv(self, body: bytes) -> list[Row]:
        """Raise: arrays have no CSV form."""
        raise RequestError(
            415, "This model takes arrays, which have no CSV form. Send nested lists as application/json."
        )


def parse(body: bytes) -> Any:
    """Return what JSON says.

    Raises:
        RequestError: If it is not JSON.
    """
    try:
        return orjson.loads(body)
    except orjson.JSONDecodeError as error:
        cure = "Send an object such as " + '{"feature": value, …}.' if not body.strip() else "Correct it."
        if b"NaN" in body or b"Infinity" in body:
            cure = "JSON has no NaN and no Infinity: write null for a missing value."
        where = f"line {error.lineno} column {error.colno}"
        raise RequestError(400, f"The body is not JSON: {error.msg}, {where}. {cure}") from None


def rows_of(data: Any, max_rows: int) -> list[Any] | None:
    """Return the list of rows in the body, None if it is one row.

    Raises:
        RequestError: If there are none, or too many.
    """
    if type(data) is not dict or len(data) != 1 or type(data.get("rows")) is not list:
        return None
    rows: list[Any] = data["rows"]
    if not rows:
        raise RequestError(422, "rows is empty. Send at least one row.", "rows")
    if len(rows) > max_rows:
        raise too_many(len(rows), max_rows)
    return rows


def too_many(count: int | None, limit: int) -> RequestError:
    """Word the error for more rows than are allowed."""
    came = "more" if count is None else str(count)
    return RequestError(413, f"At most {limit} rows are answered at once, got {came}. Send them in several requests.")


def json_check(column: Column, written: Written = PLAIN) -> Check:
    """Return a function that gives a JSON value of the column as the model takes it, or raises a ValueError.

    Args:
        column: The column.
        written: How texts write values: plainly, but with the units of training.
    """
    read = text_check(column, written)
    others = column.read_json
    return lambda value: read(value) if type(value) is str else others(value)


def text_check(column: Column, written: Written = PLAIN) -> Check:
    """Return a function that gives the text of a cell as the model takes it, or raises a ValueError."""
    expected = column.expected

    def check(text: str) -> Any:
        try:
            return None if written.is_missing(text) else column.read_text(text, written)
        except ValueError as error:
            raise ValueError(
                f"expected {expected}, but {error}. Correct it, or leave the cell empty (in JSON: null)."
            ) from None

    return check


def _where(name: str, place: int | None) -> str:
    return brief(name) if place is None else f"{brief(name)} in row {place}"
