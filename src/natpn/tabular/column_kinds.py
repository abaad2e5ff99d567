"""The kinds of columns, and which of them values and texts call for: the first in `KINDS` whose own they are.

What no kind takes for its own are categories, and where no value is known the column is empty.
"""

from collections.abc import Mapping
from typing import Any

from natpn.tabular.base import Column
from natpn.tabular.boolean import BooleanColumn
from natpn.tabular.category import CategoryColumn
from natpn.tabular.cells import Cells, known_types
from natpn.tabular.date import DateColumn
from natpn.tabular.empty import EmptyColumn
from natpn.tabular.number import NumberColumn
from natpn.tabular.texts import MOSTLY, PLACEHOLDER, is_mark
from natpn.tabular.written import PLAIN, Written

KINDS: dict[str, type[Column]] = {
    kind.kind: kind for kind in (NumberColumn, BooleanColumn, CategoryColumn, DateColumn, EmptyColumn)
}
EMPTY = EmptyColumn.kind
OTHER = CategoryColumn.kind


def column_type(kind: Any) -> type[Column]:
    """Return the type of column that a kind names.

    Raises:
        ValueError: If there is no such kind; with those that there are.
    """
    if not isinstance(kind, str) or kind not in KINDS:
        raise ValueError(f"{kind!r}; known are {', '.join(map(repr, KINDS))}")
    return KINDS[kind]


def kind_of_cells(cells: Cells) -> str:
    """Return the kind of column that values call for."""
    if not isinstance(cells.values, list):
        return EMPTY if cells.is_empty() else cells.form
    types = known_types(cells.values)
    if not types:
        return EMPTY
    return OTHER if cells.form == "categories" else kind_of_types(types)


def kind_of_types(types: set[type]) -> str:
    """Return the kind of column that objects of some types call for.

    Args:
        types: The types, at least one.
    """
    return next((name for name, kind in KINDS.items() if kind.holds(types)), OTHER)


def kinds_among(values: list[Any]) -> list[tuple[type[Column], int]]:
    """Return the types of column that some objects are values of, and how many are; the narrowest type first.

    Truth values are numbers too: the type of which fewer are is the narrower one, and else the later in `KINDS`.
    """
    counts = [(kind, sum(isinstance(value, kind.types) for value in values)) for kind in reversed(KINDS.values())]
    return sorted(((kind, count) for kind, count in counts if count), key=lambda pair: pair[1])


def kind_of_texts(counts: Mapping[str, int], written: Written = PLAIN, unit: str = "") -> tuple[str, list[str]]:
    """Return the kind of column that texts call for, and which of them are not of that kind.

    Texts of which at least nine in ten are of one kind are of that kind; what people write for missing values, as "-",
    does not count against it. What is left is "category", in which every text is a value.

    Args:
        counts: How often there is each text.
        written: How the file writes values.
        unit: The sign that numbers may have.
    """
    known = [text for text in counts if not is_mark(text)]
    if not known:
        return EMPTY, []
    for name, kind in KINDS.items():
        bad = kind.unlike(known, written, unit)
        if len(bad) == len(known):
            continue
        doubtful = sum(counts[text] for text in bad if not PLACEHOLDER.fullmatch(text.strip()))
        good = sum(counts[text] for text in known) - sum(counts[text] for text in bad)
        if good >= MOSTLY * (good + doubtful):
            return name, bad
    return OTHER, []
