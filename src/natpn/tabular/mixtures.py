"""Columns of objects that are nearly of one kind: refused, because a few wrong cells would make categories of them.

A data frame says what its columns are, so texts are categories, and numbers as objects are numbers. But one text among
numbers makes a column of objects, or of texts where a file was read, and a category of every number. What is nearly all
of one kind is therefore an error, which names the first cell that is not; a column that is categorical by its type is
never doubted. Texts that are all numbers or dates are categories as they say, with a warning if they have too many
values to keep.
"""

import warnings
from collections import Counter
from typing import Any

from natpn.tabular.base import Column
from natpn.tabular.cells import CellError, is_missing
from natpn.tabular.column_kinds import column_type, kind_of_texts, kinds_among
from natpn.tabular.texts import MOSTLY, PLACEHOLDER, is_mark, separator_advice, shown


def check_mixture(values: list[Any], name: str, kept: int) -> None:
    """Refuse objects of which nearly all are of one kind, and the rest texts.

    Args:
        values: The values of a column that would be one of categories.
        name: Its name.
        kept: How many values a column of categories keeps apart.

    Raises:
        ValueError: With the first row that is not like the others.
    """
    counts = Counter(values if set(map(type, values)) == {str} else [v for v in values if isinstance(v, str)])
    texts = Counter({text: count for text, count in counts.items() if not is_mark(text)})
    others = [value for value in values if not isinstance(value, str) and not is_missing(value)]
    if not texts:
        return
    called_for, wrong = kind_of_texts(texts)
    same = column_type(called_for)
    if not others:
        if same.numeric and wrong:
            _refuse(values, set(wrong), name, same, f"texts, most of which are {same.words[1]}")
        if same.conversion and len(texts) > kept:
            _warn(name, same, len(texts), kept)
        return
    doubtful = sum(n for text, n in texts.items() if not PLACEHOLDER.fullmatch(text.strip()))
    for kind, alike in kinds_among(others):
        # Texts of the same kind are no better: their type says that they are not.
        fitting = sum(texts.values()) - sum(texts[text] for text in wrong) if same is kind else 0
        if alike + fitting >= MOSTLY * (len(others) + doubtful):
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


def _warn(name: str, kind: type[Column], count: int, kept: int) -> None:
    warnings.warn(
        f"Column {name!r} holds texts that are {kind.words[1]}, and is read as categories: {count} values, of which at "
        f"most {kept} are kept apart. Convert it, as by {kind.conversion}(X[{name!r}]), or make it categorical, as "
        f"by X[{name!r}].astype('category').",
        UserWarning,
        stacklevel=2,
    )
