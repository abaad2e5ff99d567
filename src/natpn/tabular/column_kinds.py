"""The kinds of columns, two small ones here, and which one values and texts call for: the first whose own they are.

What no kind takes for its own are categories, and where no value is known the column is empty.

A data frame says what its columns are, so texts are categories, and numbers as objects are numbers. But a single text
among numbers makes a column of objects, or of texts if it was read from a file, and every number would be a category.
A column that is nearly all of one kind is therefore refused, with its first cell that is not; a column whose type says
that it is categorical is never refused. Texts that are all numbers or dates are categories, as their type says, with a
warning if there are more of them than a column of categories keeps.
"""

import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np

from natpn.tabular.base import Arithmetic, Column, oddness_of, standardised_flags
from natpn.tabular.category import MAX_LEVELS, CategoryColumn
from natpn.tabular.cells import (
    BOOLEAN_TYPES,
    CellError,
    Cells,
    Encoded,
    Floats,
    Mask,
    is_missing,
    known_types,
    map_to_floats,
    text_of,
    to_levels,
    unlike_training,
)
from natpn.tabular.date import DateColumn
from natpn.tabular.number import NumberColumn
from natpn.tabular.texts import (
    MOSTLY,
    PLACEHOLDER,
    PLAIN,
    TRUTHS,
    Fields,
    Written,
    is_mark,
    separator_advice,
    shown,
    truth_of_text,
)


@dataclass(frozen=True)
class BooleanColumn(Column):
    """Truth values: one 0/1 column, and another for missing values if training had some."""

    true: float  # the share of true among those that are not missing

    kind = "boolean"
    words = ("truth value", "truth values")
    types = BOOLEAN_TYPES
    expected = "true or false"

    @classmethod
    def unlike(cls, texts: list[str], written: Written = PLAIN, unit: str = "") -> list[str]:
        """Return those that are neither true nor false."""
        return [text for text in texts if text.strip().lower() not in TRUTHS]

    @classmethod
    def parse(cls, text: str, written: Written = PLAIN, unit: str = "") -> bool | None:
        """Return the truth value that a text stands for, None if it stands for a missing one."""
        return truth_of_text(text)

    @classmethod
    def arrow_of(cls, values: Iterable[Any]) -> tuple[str, ...]:
        """Return the type of Arrow for truth values."""
        return ("bool_",)

    @classmethod
    def fit(cls, name: str, cells: Cells) -> Self:
        """Learn the column from its training values, of which at least one is not missing."""
        truths = _to_booleans(cells, name)
        missing = np.isnan(truths)
        return cls(name, len(truths), float(missing.mean()), float(truths[~missing].mean()))

    @classmethod
    def widened(cls, shown: Column, summaries: Sequence["BooleanColumn"], n_empty: int) -> Self:
        """Return the column with the share of true in all rows."""
        known = [part.n_rows * (1 - part.missing) for part in summaries]
        true = sum(n * part.true for n, part in zip(known, summaries, strict=True)) / sum(known)
        return replace(super().widened(shown, summaries, n_empty), true=true)

    def meeting(self, cells: Cells) -> Self:
        """Return a column that is not constant, if the other value is among these."""
        truths = _to_booleans(cells, self.name)
        changed, few = self._changed(truths), 1 / (self.n_rows + 1)
        true = self.true if changed is None or not changed.any() else abs(self.true - few)
        return replace(self.meeting_missing(np.isnan(truths)), true=true)

    @property
    def arithmetic(self) -> Arithmetic:
        """A flag or a constant, and a flag for missing values."""
        missing = self.arithmetic_of_missing
        if self.true in (0, 1):
            return Arithmetic((), missing, self.true, 0.0)
        no, yes = standardised_flags(self.true)
        return Arithmetic((), ((self._instead, yes, no), *missing))

    @property
    def mlflow_type(self) -> str:
        """A boolean; in a frame those with missing values have another type."""
        return "any" if self.missing else "boolean"

    @property
    def _instead(self) -> float:
        """What a missing value is encoded as: a first one as the more frequent value, so that the row looks usual."""
        no, yes = standardised_flags(self.true)
        return 0.0 if self.missing_flag is not None else yes if self.true > 0.5 else no

    @property
    def n_flags(self) -> int:
        """One unless it is constant, and one more if training had missing values."""
        return int(0 < self.true < 1) + int(self.missing_flag is not None)

    def encode(self, cells: Cells, numbers: Encoded, flags: Encoded) -> Floats | None:
        """Write the flags."""
        truths = _to_booleans(cells, self.name)
        missing = np.isnan(truths)
        if 0 < self.true < 1:
            no, yes = standardised_flags(self.true)
            flags[:, 0] = np.where(missing, self._instead, np.where(truths == 1, yes, no))
        self.flag_missing(missing, flags)
        return self.new_events(missing, self._changed(truths))

    def read_json(self, value: Any) -> Any:
        """Return true or false."""
        return value if type(value) is bool else super().read_json(value)

    @property
    def schema(self) -> dict[str, Any]:
        """A truth value, or a text that is one."""
        return {"type": ["boolean", "string", "null"], "description": "null if it is not known."}

    @property
    def usual(self) -> bool:
        """The more frequent one."""
        return self.true > 0.5

    def as_json(self, cells: Cells) -> list[bool | None]:
        """Return truth values."""
        return [None if truth != truth else bool(truth) for truth in _to_booleans(cells, self.name).tolist()]

    def oddness(self, cells: Cells) -> Floats:
        """Return how unusual each value is, in standard deviations."""
        truths = _to_booleans(cells, self.name)
        usual = max(self.true, 1 - self.true)
        share = np.where(truths == 1, self.true, 1 - self.true)
        with np.errstate(divide="ignore"):
            score = oddness_of(np.log(share / usual))
        return self.score_events(score, np.isnan(truths), self._changed(truths))

    @property
    def familiar(self) -> list[bool | None]:
        """Those that training had, and the missing value if it had one."""
        seen = [truth for truth, share in ((True, self.true), (False, 1 - self.true)) if share]
        return [*seen, *([None] if self.missing else [])]

    def why_strange(self, value: bool | None) -> str:
        """Say that a truth value is new."""
        if value is None or value in self.familiar:
            return super().why_strange(value)
        return f"{value} was never seen in training"

    def _changed(self, truths: Floats) -> Mask | None:
        return ~np.isnan(truths) & (truths != self.true) if self.true in (0, 1) else None

    @property
    def facts(self) -> str:
        """The share of true."""
        return f"{100 * self.true:.2g} % true"

    def usually(self, value: Callable[[Any], str], share: Callable[[float], str]) -> str:
        """The share of true."""
        return f"true in {share(self.true)}"

    @property
    def summary(self) -> dict[str, Any]:
        """The share of true among known values, and the share missing."""
        return {"true": self.true, "missing": self.missing}

    @classmethod
    def _read(cls, read: Fields) -> dict[str, Any]:
        return {"true": read.number("true", 0, 1)}


def _to_booleans(cells: Cells, name: str) -> Floats:
    """Return 1 for true, 0 for false, NaN for missing."""
    if cells.form == "boolean":
        return np.asarray(cells.values, np.float64)
    if cells.form == "date" and not cells.is_empty():
        raise ValueError(f"Column {name!r} has dates, but it had truth values in training. Convert it, or fit again.")
    return map_to_floats(cells.to_list(), name, _truth_of_value)


def _truth_of_value(value: Any) -> float | None:
    try:
        return truth_of_text(text_of(value))
    except ValueError:
        fact = f"{value!r:.80} is no truth value"
    raise ValueError(unlike_training(fact, "true and false", "Write True, False, 1 or 0"))


class EmptyColumn(Column):
    """A column in which training had no value at all: nothing to encode, but a first value is a surprise.

    Less than all are missing only if rows that came after training had values.
    """

    kind = "empty"
    words = ("empty", "empty")
    keeps_texts = True
    expected = "a text or a number or a truth value"
    facts = "no value"

    @classmethod
    def parse(cls, text: str, written: Written = PLAIN, unit: str = "") -> str | None:
        """Return the text, None if it stands for a missing value."""
        return None if is_mark(text) else text

    @classmethod
    def fit(cls, name: str, cells: Cells) -> Self:
        """Learn that all values are missing."""
        return cls(name, len(cells.values), 1.0)

    @property
    def arithmetic(self) -> Arithmetic:
        """Every value is an event."""
        return Arithmetic(tolerance=-1.0)

    def encode(self, cells: Cells, numbers: Encoded, flags: Encoded) -> Floats | None:
        """Return the surprise of values where there were none."""
        present = self._present(cells)
        return np.where(present, self.log_never, 0.0) if self.missing == 1 and present.any() else None

    def meeting(self, cells: Cells) -> Self:
        """Return a column that may have values, if there are some among these."""
        return replace(self, missing=1 - 1 / (self.n_rows + 1)) if self._present(cells).any() else self

    def read_json(self, value: Any) -> Any:
        """Return a number or a truth value."""
        return value if type(value) in (int, float, bool) else super().read_json(value)

    @property
    def schema(self) -> dict[str, Any]:
        """A text, a number or a truth value."""
        return {"type": ["string", "number", "boolean", "null"], "description": "Training had no value here."}

    def oddness(self, cells: Cells) -> Floats:
        """Return how unusual values are where there were none."""
        return oddness_of(np.where(self._present(cells), self.log_never, 0.0))

    @property
    def familiar(self) -> list[None]:
        """The missing value."""
        return [None]

    def why_strange(self, value: Any) -> str:
        """Say that a value is new."""
        return "" if value is None else f"{self.spoken(value)} stands where training had no value"

    def usually(self, value: Callable[[Any], str], share: Callable[[float], str]) -> str:
        """Say that there was no value."""
        return "always missing"

    def _present(self, cells: Cells) -> Mask:
        levels, codes = to_levels(cells, self.name)
        return np.array([level is not None and not is_mark(level) for level in levels], np.bool_)[codes]


KINDS: dict[str, type[Column]] = {
    kind.kind: kind for kind in (NumberColumn, BooleanColumn, CategoryColumn, DateColumn, EmptyColumn)
}
EMPTY = EmptyColumn.kind
OTHER = CategoryColumn.kind


def column_type(kind: Any) -> type[Column]:
    """Return the type of column that a kind names, or raise a ValueError with the kinds that there are."""
    if not isinstance(kind, str) or kind not in KINDS:
        raise ValueError(f"{kind!r}; known are {', '.join(map(repr, KINDS))}")
    return KINDS[kind]


def fit_column(name: str, cells: Cells) -> Column:
    """Learn a column of the kind that its values call for; refuse it if nearly all are of one kind, the rest texts."""
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
