"""How many lists and values a body may have: no more than its rows can need.

A parser makes an object of every list and every value: sixteen megabytes of `[]` become a gigabyte, and no other
request is answered meanwhile. So brackets and commas are counted first, which takes a few milliseconds.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import prod

import numpy as np
from numpy.typing import NDArray

from natpn.serve.errors import RequestError

# Up to this many are always parsed, so that the answer can say what is wrong.
FREE = 100_000


@dataclass(frozen=True)
class Bounds:
    """What one row has at most, and how many rows there may be.

    Attributes:
        lists: Lists and objects of a row.
        values: Its values.
        least: The fewest bytes in which it can be written as JSON.
        max_rows: How many rows a request may have.
    """

    lists: int
    values: int
    least: int
    max_rows: int

    @classmethod
    def of_table(cls, names: Sequence[str], max_rows: int) -> "Bounds":
        """Return the bounds of a table's rows, each written as {"name":0,…}."""
        return cls(1, len(names), sum(len(name.encode()) + 5 for name in names) + 2, max_rows)

    @classmethod
    def of_array(cls, shape: Sequence[int], max_rows: int) -> "Bounds":
        """Return the bounds of arrays, each written as [[0,…],…]."""
        values = prod(shape)
        return cls(sum(prod(shape[:depth]) for depth in range(len(shape))), values, 2 * values, max_rows)

    def check_json(self, body: bytes) -> None:
        """Raise if the body has more lists, objects or values than its rows can need.

        Raises:
            RequestError: If it has.
        """
        rows = min(self.max_rows, len(body) // self.least)
        self._check(body, b"[{", FREE + rows * self.lists, "lists and objects", _without_escapes)
        self._check(body, b",", FREE + rows * self.values, "values", _without_escapes)

    def check_csv(self, body: bytes) -> None:
        """Raise if the body has more cells than its rows can need.

        Raises:
            RequestError: If it has.
        """
        self._check(body, b",", FREE + (self.max_rows + 1) * self.values, "cells")

    def _check(
        self, body: bytes, signs: bytes, most: int, what: str, prepare: Callable[[bytes], bytes] = bytes
    ) -> None:
        # Few of them are inside texts as a rule, so quotes are looked at only if the count is too high.
        if sum(body.count(sign) for sign in signs) > most and _outside_texts(prepare(body), signs) > most:
            raise RequestError(
                413,
                f"The body has more than {most} {what}, and {self.max_rows} rows of this model, which are answered at "
                "once, need no more. Send rows as /openapi.json describes them, in several requests.",
            )


def _without_escapes(body: bytes) -> bytes:
    """Remove escaped quotes, which do not end a text of JSON."""
    return body.replace(rb"\\", b"").replace(rb"\"", b"")


def _outside_texts(body: bytes, signs: bytes) -> int:
    """Count signs that are not between quotes."""
    characters: NDArray[np.uint8] = np.frombuffer(body, np.uint8)
    outside = np.logical_not(np.logical_xor.accumulate(characters == ord('"')))
    return sum(int(np.count_nonzero(outside & (characters == sign))) for sign in signs)
