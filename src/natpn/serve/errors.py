"""What a client did wrong: a status, a sentence with the cure, and where it is."""

import difflib
from collections.abc import Iterable, Sequence
from typing import Any

from natpn.tabular.texts import brief


class RequestError(Exception):
    """A request that cannot be answered.

    Args:
        status: The HTTP status, 4xx.
        message: What is wrong and how to mend it, as a sentence.
        field: The feature it is about, if it is about one.
        row: The row it is about, counted from 0, if it is about one.
    """

    def __init__(self, status: int, message: str, field: str | None = None, row: int | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.field = field
        self.row = row

    def body(self) -> dict[str, Any]:
        """Return the error as it is sent."""
        return {"error": str(self), "field": self.field, "row": self.row}


def listed(names: Sequence[str]) -> str:
    """Return some names for a message."""
    first = ", ".join(map(brief, names[:10]))  # no more are compared, however many there are
    return first + (f" and {len(names) - 10} more" if len(names) > 10 else "")


def near(name: str, names: Iterable[str]) -> str | None:
    """Return the name that was probably meant."""
    return next(iter(difflib.get_close_matches(name[:100], list(names)[:1000], n=1)), None)
