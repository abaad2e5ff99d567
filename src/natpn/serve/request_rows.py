"""Bodies of requests → rows of checked values in training's order, or an error with the field, the row and the cure.

Rows are plain lists, since a data frame takes longer to make than a prediction. Every value is checked here, one
request at a time, so that none can spoil the batch it is predicted in.

A parser makes an object of every list and every value: sixteen megabytes of `[]` become a gigabyte, and no other
request is answered meanwhile. So brackets and commas are counted first, which takes a few milliseconds, and a body may
have no more of them than its rows can need.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from math import prod
from typing import Any, NamedTuple

import numpy as np
import orjson
from fastapi import Response
from numpy.typing import NDArray
from starlette.types import Scope

Row = Any
"""A list of values in the order of the columns, or an array."""

# Up to this many lists or values are always parsed, so that the answer can say what is wrong.
FREE = 100_000


def header(scope: Scope, name: bytes) -> str:
    """Return a header of a request, by its name in small letters; empty if there is none."""
    for key, value in scope["headers"]:
        if key == name:
            return str(value, "latin-1")
    return ""


class RequestError(Exception):
    """A request that cannot be answered.

    Args:
        status: The HTTP status.
        message: What is wrong and how to mend it, as a sentence.
        field: The feature it is about, if it is about one.
        row: The row it is about, counted from 0, if it is about one.
    """

    def __init__(self, status: int, message: str, field: str | None = None, row: int | None = None) -> None:
        super().__init__(message)
        self.status, self.field, self.row = status, field, row

    def response(self, headers: Mapping[str, str] | None = None) -> Response:
        """Return the error as it is sent, with the headers that its status asks for."""
        own = {"www-authenticate": "Bearer"} if self.status == 401 else {}
        if self.status in (408, 413, 503):  # the rest of a body that is too large would be read as the next request
            own["connection"] = "close"
        if self.status == 503:
            own["retry-after"] = "1"
        return as_json(
            {"error": str(self), "field": self.field, "row": self.row}, self.status, own | dict(headers or {})
        )


def as_json(content: Any, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    """Return an answer; NaN and infinity become null."""
    return Response(orjson.dumps(content, default=str), status, headers, "application/json")


class Asked(NamedTuple):
    """What a body asks.

    Attributes:
        rows: Its rows.
        alone: Whether it is one row rather than a list.
        kept: The texts of columns that are no features and were to be kept, by name.
    """

    rows: list[Row]
    alone: bool
    kept: dict[str, list[str]]


class Reader(ABC):
    """Reads bodies.

    Args:
        max_rows: How many rows a request may have.
        lists: How many lists and objects a row has at most.
        values: How many values it has.
        least: The fewest bytes in which it can be written as JSON.
    """

    def __init__(self, max_rows: int, lists: int, values: int, least: int) -> None:
        self._max_rows, self._lists, self._values, self._least = max_rows, lists, values, least

    def read(self, body: bytes, form: str, keep: Sequence[str] = (), drop: Sequence[str] = ()) -> Asked:
        """Return what a body asks.

        Args:
            body: The body.
            form: "json" or "csv".
            keep: Columns of a CSV that are kept beside the rows, such as one that names them.
            drop: Columns of a CSV that are left out.
        """
        if form == "csv":
            return self.csv(body, keep, drop)
        for option, names in (("id", keep), ("drop", drop)):
            if names:
                message = f"{option}: it names a column of a CSV, and this is JSON, answered in the order of its rows."
                raise RequestError(422, f"{message} Leave it out.", option)
        return Asked(*self.json(body), {})

    def json(self, body: bytes) -> tuple[list[Row], bool]:
        """Return the rows of JSON, and whether they came as one row rather than as a list."""
        data = self._parse(body, self._least, self._lists)
        if type(data) is not dict or len(data) != 1 or type(data.get("rows")) is not list:
            return [self._row(data, None)], True
        many: list[Any] = data["rows"]
        if not many:
            raise RequestError(422, "rows is empty. Send at least one row.", "rows")
        return self.rows(many), False

    def rows(self, many: Sequence[Any]) -> list[Row]:
        """Return rows of parsed JSON."""
        if len(many) > self._max_rows:
            raise self._too_many(str(len(many)))
        return [self._row(row, place) for place, row in enumerate(many)]

    def parse_tensors(self, body: bytes) -> Any:
        """Return JSON with rows in tensors, where a value takes two bytes or more, and maybe a list of its own."""
        return self._parse(body, 2 * self._values, self._lists + self._values)

    def _parse(self, body: bytes, least: int, lists: int) -> Any:
        """Return JSON that has no more lists and values than rows of so many bytes and lists can need."""
        rows = min(self._max_rows, len(body) // least)
        self._count(body, b"[{", FREE + rows * lists, "lists and objects")
        self._count(body, b",", FREE + rows * self._values, "values")
        return _parse(body)

    @abstractmethod
    def csv(self, body: bytes, keep: Sequence[str] = (), drop: Sequence[str] = ()) -> Asked:
        """Return what a CSV with a header asks; an empty cell is a missing value."""

    @abstractmethod
    def _row(self, data: Any, place: int | None) -> Row:
        """Return a row of parsed JSON; its place is None if it came alone."""

    def _too_many(self, came: str) -> RequestError:
        return RequestError(
            413, f"At most {self._max_rows} rows are answered at once, got {came}. Send them in several requests."
        )

    def _count(self, body: bytes, signs: bytes, most: int, what: str) -> None:
        """Raise if the body has more of some signs than its rows can need."""
        # Few of them are inside texts as a rule, so quotes are looked at only if the count is too high.
        if sum(body.count(sign) for sign in signs) <= most:
            return
        if what != "cells":  # an escaped quote does not end a text of JSON
            body = body.replace(rb"\\", b"").replace(rb"\"", b"")
        characters: NDArray[np.uint8] = np.frombuffer(body, np.uint8)
        outside = np.logical_not(np.logical_xor.accumulate(characters == ord('"')))
        if sum(int(np.count_nonzero(outside & (characters == sign))) for sign in signs) > most:
            raise RequestError(
                413,
                f"The body has more than {most} {what}, and {self._max_rows} rows of this model, which are answered at "
                "once, need no more. Send rows as /openapi.json describes them, in several requests.",
            )


class ArrayReader(Reader):
    """Reads bodies for a model that was trained on arrays, such as images.

    Args:
        shape: The shape of one input, which is written as [[0,…],…] or longer.
        max_rows: How many inputs a request may have.
    """

    def __init__(self, shape: tuple[int, ...], max_rows: int) -> None:
        self._shape, values = shape, prod(shape)
        super().__init__(max_rows, sum(prod(shape[:depth]) for depth in range(len(shape))), values, 2 * values)

    def _row(self, data: Any, place: int | None) -> Row:
        try:
            values = np.array(data)
            right = values.shape == self._shape and values.dtype.kind in "iuf"
        except ValueError:
            right = False
        if not right:
            shape, row = " × ".join(map(str, self._shape)), "" if place is None else f" in row {place}"
            raise RequestError(
                422,
                f"Expected nested lists of numbers of shape {shape}{row}. Send one input as such lists, or many as "
                '{"rows": [[…], […]]}.',
                row=place,
            )
        values = values.astype(np.float64)
        if not np.isfinite(values).all():
            raise RequestError(422, "Expected finite numbers, got one that is too large for float64.", row=place)
        return values

    def csv(self, body: bytes, keep: Sequence[str] = (), drop: Sequence[str] = ()) -> Asked:
        """Raise: arrays have no CSV form."""
        raise RequestError(
            415, "This model takes arrays, which have no CSV form. Send nested lists as application/json."
        )


def _parse(body: bytes) -> Any:
    try:
        return orjson.loads(body)
    except orjson.JSONDecodeError as error:
        cure = "Correct it." if body.strip() else 'Send an object such as {"feature": value, …}.'
        if b"NaN" in body or b"Infinity" in body:
            cure = "JSON has no NaN and no Infinity: write null for a missing value."
        where = f"line {error.lineno} column {error.colno}"
        raise RequestError(400, f"The body is not JSON: {error.msg}, {where}. {cure}") from None
