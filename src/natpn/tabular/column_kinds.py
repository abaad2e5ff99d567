"""The kinds of columns, and which of them values and texts call for: the first in `KINDS` whose own they are.

What no kind takes for its own are categories, and where no value is known the column is empty.

A data frame says what its columns are, so texts are categories, and numbers as objects are numbers. But a single text
among numbers makes a column of objects, or of texts if it was read from a file, and every number would be a category.
A column that is nearly all of one kind is therefore refused, with its first cell that is not; a column whose type says
that it is categorical is never refused. Texts that are all numbers or dates are categories, as their type says, with a
warning if there are more of them than a column of categories keeps.
"""

import warnings
from collections import Counter
from collections.abc import Mapping
from typing import Any

from natpn.tabular.base import Column
from natpn.tabular.boolean import BooleanColumn
from natpn.tabular.category import MAX_LEVELS, CategoryColumn
from natpn.tabular.cells import CellError, Cells, is_missing, known_types
from natpn.tabular.date import DateColumn
from natpn.tabular.empty import EmptyColumn
from natpn.tabular.number import NumberColumn
from natpn.tabular.texts import MOSTLY, PLACEHOLDER, is_mark, separator_advice, shown
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


def fit_column(name: str, cells: Cells) -> Column:
    """Learn a column of the kind that its values call for.

    Raises:
        ValueError: If a value cannot be used, or nearly all are of one kind, and the rest texts.
        TypeError: If a value is neither a text nor a number, such as a dict or a list.
    """
    kind = kind_of_cells(cells)
    if kind == OTHER and cells.form == "objects":
        _check_mixture(cells.to_list(), name)
    return column_type(kind).fit(name, cells)


def kind_of_cells(cells: Cells) -> str:
    """Return the kind of column that cells call for."""
    if not isinstance(cells.values, list):
        return EMPTY if cells.is_empty() else cells.form
    types = known_types(cells.values)
    if not types:
        return EMPTY
    if cells.form == "categories":
        return OTHER
    return next((name for name, kind in KINDS.items() if kind.holds(types)), OTHER)


def kind_of_texts(counts: Mapping[str, int], written: Written = PLAIN, unit: str = "") -> tuple[str, list[str]]:
    """Return the kind of column that texts call for, and which of them are not of that kind.

    A kind is called for by at least nine in ten texts; what people write for missing values, such as "-", does not
    count against it. What is left is "category", in which every text is a value.

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


def _check_mixture(values: list[Any], name: str) -> None:
    """Refuse objects that would be categories, if nearly all are of one kind, and the rest texts."""
    counts = Counter(values if set(map(type, values)) == {str} else [v for v in values if isinstance(v, str)])
    texts = Counter({text: count for text, count in counts.items() if not is_mark(text)})
    if not texts:
        return
    called_for, wrong = kind_of_texts(texts)
    same = column_type(called_for)
    others = [value for value in values if not isinstance(value, str) and not is_missing(value)]
    if not others:
        if same.numeric and wrong:
            _refuse(values, set(wrong), name, same, f"texts, most of which are {same.words[1]}")
        if same.conversion and len(texts) > MAX_LEVELS:
            warnings.warn(
                f"Column {name!r} holds texts that are {same.words[1]}, and is read as categories: {len(texts)} "
                f"values, of which at most {MAX_LEVELS} are kept apart. Convert it, as by "
                f"{same.conversion}(X[{name!r}]), or make it categorical, as by X[{name!r}].astype('category').",
                UserWarning,
                stacklevel=2,
            )
        return
    doubtful = sum(count for text, count in texts.items() if not PLACEHOLDER.fullmatch(text.strip()))
    # Truth values are numbers too: of two kinds the narrower is that of fewer values, or else the later in `KINDS`.
    found = [(kind, sum(isinstance(value, kind.types) for value in others)) for kind in reversed(KINDS.values())]
    for kind, alike in sorted(found, key=lambda pair: pair[1]):
        # Texts of the same kind count, but are refused too: their type says that they are not of it.
        fitting = sum(texts.values()) - sum(texts[text] for text in wrong) if same is kind else 0
        if alike and alike + fitting >= MOSTLY * (len(others) + doubtful):
            _refuse(values, set(texts), name, kind, f"{kind.words[1]} and texts")


def _refuse(values: list[Any], wrong: set[str], name: str, kind: type[Column], holds: str) -> None:
    row, text = next((row, value) for row, value in enumerate(values) if isinstance(value, str) and value in wrong)
    advice = separator_advice(text)
    cure = f"{kind.conversion}(X[{name!r}], errors='coerce')" if kind.numeric else "None in its place"
    which = f", which {advice}" if advice else ""
    raise CellError(
        name,
        row,
        f"the column holds {holds}, and {shown(text)} there{which}. Correct it, or make it missing, as by {cure}; if "
        f"they are names, make the column categorical, as by X[{name!r}].astype('category').",
    )
