"""What a kind of column says of single values: how people write them, why one is strange, and which are familiar.

Values here are as the kind itself knows them (`readable`): numbers are floats, dates seconds since 1970, categories
texts, truth values bools, and what is missing is None.
"""

from collections.abc import Sequence
from typing import Any

from natpn.tabular.cells import Cells, Floats, is_missing, text_of

_LONGEST = 40  # characters of a text in a sentence


class SingleValues:
    """The part of `Column` that is about single values; the defaults are for kinds that have no more to say."""

    missing: float

    @property
    def familiar(self) -> list[Any]:
        """Values that training had, spread over all of them, for the one that suits a row best; by default none."""
        return []

    def values_at(self, standardised: Floats) -> list[Any]:
        """Return familiar values near those that are encoded as these numbers, for kinds with `bounds`."""
        raise NotImplementedError

    def readable(self, cells: Cells) -> list[Any]:
        """Return values as the kind knows them, None where missing; by default as JSON writes them."""
        return self.as_json(cells)

    def as_json(self, cells: Cells) -> list[Any]:
        """Return values as JSON writes them, None where missing, so that they can be sent; by default as texts."""
        return [None if is_missing(value) else text_of(value) for value in cells.to_list()]

    def cells_of(self, values: Sequence[Any]) -> Cells:
        """Return values that `familiar` or `readable` returned as cells."""
        return Cells("objects", list(values))

    def written(self, value: Any) -> str:
        """Write a value so that the column can read it again; "" if it is missing."""
        return "" if value is None else text_of(value)

    def spoken(self, value: Any) -> str:
        """Write a value for people, in a sentence."""
        text = " ".join(self.written(value).split())
        return "missing" if value is None else text if len(text) <= _LONGEST else text[: _LONGEST - 1] + "…"

    def why_strange(self, value: Any) -> str:
        """Say why training makes a value strange by itself, in words that follow the column's name; "" if not."""
        return "is missing, and never was in training" if value is None and not self.missing else ""
