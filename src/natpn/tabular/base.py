"""What every kind of column states about itself: its values and texts, how it is fitted, encoded, described and saved.

Whatever depends on the kind of a column is stated in the class of that kind. The server, the report, the export and the
command line ask for it by the names here and know no kinds.

An event that training never had in N rows, such as a first missing value or a new value in a column that was constant,
gets the probability 1 / (N + 2) of the rule of succession. Its logarithm is the row's surprise in that column.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence, Set
from dataclasses import asdict, dataclass, fields, replace
from math import inf, log
from typing import Any, ClassVar, Protocol, Self

import numpy as np

from natpn.tabular.cells import Cells, Encoded, Floats, Mask
from natpn.tabular.moments import Moments
from natpn.tabular.single_values import SingleValues
from natpn.tabular.texts import PLAIN, Fields, Written, brief, shown


@dataclass(frozen=True)
class Codes:
    """How a column encodes texts, by tables with a row for each code.

    Attributes:
        of: The code of each text that has one of its own, the empty text among them, which is a missing value.
        otherwise: The code of all other texts.
        flags: The flags of each code, (codes, n_flags).
        events: The surprise of each code.
    """

    of: dict[str, int]
    otherwise: int
    flags: Encoded
    events: Floats


@dataclass(frozen=True)
class Arithmetic:
    """How a column encodes one float64 x, NaN where missing, in operations that any graph of tensors has.

    Attributes:
        numbers: The moments by which x is standardised to each number, which is 0 where x is missing.
        flags: The values of each flag: where x is missing, where x = 1, and otherwise.
        constant: A present x is an event that training never had if |x − constant| > tolerance; an x that is missing is
            one if training had no missing value.
        tolerance: Infinite if no present value is such an event, negative if every one is.
        parts: What is standardised to each number in place of x: a function of torch's tensor x (rows,) that returns
            as many tensors, NaN where x is.
        codes: If values are texts, what they become in place of numbers and flags; x is then the code of a text.
        unit: What x is, for readers; by default the value itself.
    """

    numbers: tuple[Moments, ...] = ()
    flags: tuple[tuple[float, float, float], ...] = ()
    constant: float = 0.0
    tolerance: float = inf
    parts: Callable[[Any], Sequence[Any]] | None = None
    codes: Codes | None = None
    unit: str = "float64, NaN if missing"


def standardised_flags(share: float) -> tuple[float, float]:
    """Return what 0 and 1 become in a 0/1 column that was 1 in this share of the training rows."""
    deviation = float(np.sqrt(share * (1 - share)))
    return -share / deviation, (1 - share) / deviation


def oddness_of(log_share: Floats | float) -> Floats:
    """Return √(−2 · log-probability): how many deviations from its mean a Gaussian's density has fallen as far."""
    return np.asarray(np.sqrt(-2 * np.minimum(log_share, 0.0)))


class ColumnBlock(Protocol):
    """A column, or several that are encoded at once."""

    @property
    def n_numbers(self) -> int:
        """How many columns of numbers they become."""

    @property
    def n_flags(self) -> int:
        """How many 0/1 columns they become."""

    def encode_next(self, cells: Iterator[Cells], numbers: Encoded, flags: Encoded) -> Floats | None:
        """Write the encoded values of the next columns, and return the surprise of each row, or None if it is 0."""


def encode_in_turn(blocks: Iterable[ColumnBlock], cells: Iterator[Cells], numbers: Encoded, flags: Encoded) -> Floats:
    """Let blocks write their columns one after the other, and return the sum of the surprise of each row."""
    surprise = np.zeros(len(numbers))
    number = flag = 0
    for block in blocks:
        next_number, next_flag = number + block.n_numbers, flag + block.n_flags
        event = block.encode_next(cells, numbers[:, number:next_number], flags[:, flag:next_flag])
        if event is not None:
            surprise += event
        number, flag = next_number, next_flag
    return surprise


@dataclass(frozen=True)
class Column(SingleValues, ABC):
    """One input column as training showed it.

    Attributes:
        name: The name of the column.
        n_rows: How many rows training had.
        missing: The share of them in which the value was missing.
    """

    name: str
    n_rows: int
    missing: float

    kind: ClassVar[str]
    words: ClassVar[tuple[str, str]]  # for people: one such value, and several
    types: ClassVar[tuple[type, ...]] = ()  # whose instances are values of such a column
    conversion: ClassVar[str] = ""  # the function of pandas that turns texts into such values
    numeric: ClassVar[bool] = False  # whether its values are floats
    keeps_texts: ClassVar[bool] = False  # whether it takes the texts of a file as they are

    # Its values, and the texts of them. In a file, `written` says how it writes values, and `unit` is the sign that
    # numbers may have beside them.

    @classmethod
    def holds(cls, types: Set[type]) -> bool:
        """Say whether objects of all these types, of which there is at least one, are values of such a column."""
        return all(issubclass(kind, cls.types) for kind in types)

    @classmethod
    def unlike(cls, texts: list[str], written: Written = PLAIN, unit: str = "") -> list[str]:
        """Return which distinct texts, none of them a mark, are no values; by default all, so texts never make one."""
        return texts

    @classmethod
    @abstractmethod
    def parse(cls, text: str, written: Written = PLAIN, unit: str = "") -> Any:
        """Return the value of a text in any such column, None if it is missing, or raise a ValueError that says why."""

    @classmethod
    def why_unlike(cls, text: str, written: Written = PLAIN, unit: str = "") -> str:
        """Say why a text is one of those that `unlike` returns."""
        try:
            cls.parse(text, written, unit)
        except ValueError as error:
            return str(error)
        return f"{shown(text)} is not like the others"

    def read_text(self, text: str, written: Written = PLAIN) -> Any:
        """Return the value of a text in this column, None if it is missing, or raise a ValueError that says why."""
        return self.parse(text, written, written.units.get(self.name, ""))

    @property
    def required(self) -> bool:
        """Whether every row needs a value; by default one may be missing."""
        return False

    def read_json(self, value: Any) -> Any:
        """Return a value of JSON, neither a text nor null, as the column takes it; by default it takes none.

        Raises:
            ValueError: If it takes no such value; with what was expected, what came, and the cure.
        """
        raise ValueError(f"expected {self.expected}, got {brief(value)}. Write it so, or null if it is not known.")

    @classmethod
    def arrow_of(cls, values: Iterable[Any]) -> tuple[str, ...]:
        """Return Arrow's type for what `parse` returned: a function of pyarrow and its arguments; by default texts."""
        return ("string",)

    @property
    def arrow(self) -> tuple[str, ...]:
        """The type of Arrow for the values of this column, even if all are missing."""
        return self.arrow_of(())

    # How it is learned. Of a table that is read in parts, a sample of the rows shows the column, and summaries of all
    # parts widen it.

    @classmethod
    @abstractmethod
    def fit(cls, name: str, cells: Cells) -> "Column":
        """Learn the column from its training values."""

    @classmethod
    def summarise(cls, name: str, cells: Cells) -> Any:
        """Return what `widened` needs of a part of the rows; by default the column that the part shows."""
        return cls.fit(name, cells)

    @classmethod
    def combine(cls, summaries: list[Any]) -> list[Any]:
        """Return summaries that say the same together; by default they stay apart."""
        return summaries

    @classmethod
    def widened(cls, shown: "Column", summaries: Sequence[Any], n_empty: int) -> Self:
        """Return the column of all rows; by default it is that of a part, but for the number of rows.

        Args:
            shown: What a sample shows; a column of another kind if it has no values.
            summaries: Those of the parts that have values.
            n_empty: How many rows the other parts have.
        """
        rows = sum(part.n_rows for part in summaries) + n_empty
        missing = sum(part.n_rows * part.missing for part in summaries) + n_empty
        one: Self = shown if isinstance(shown, cls) else summaries[0]
        return replace(one, n_rows=rows, missing=missing / rows)

    def as_rare_as(self, other: "Column") -> Self:
        """Return this column, with events that it never had as rare as in another column of that name."""
        return replace(self, n_rows=other.n_rows)

    def meeting(self, cells: Cells) -> Self:
        """Return a column to which values of these cells are no events: rows that came after training had them.

        It is asked for surprises alone; what it encodes may differ. By default all events stay events.
        """
        return self

    # How it is encoded.

    @property
    def n_numbers(self) -> int:
        """How many columns of numbers it becomes; by default 0."""
        return 0

    @property
    def n_flags(self) -> int:
        """How many 0/1 columns it becomes; by default one if training had missing values."""
        return int(self.missing_flag is not None)

    @classmethod
    def blocks(cls, columns: Sequence[Self]) -> Sequence[ColumnBlock]:
        """Return the blocks in which neighbouring columns of this kind are encoded; by default each is its own."""
        return columns

    def encode_next(self, cells: Iterator[Cells], numbers: Encoded, flags: Encoded) -> Floats | None:
        """Encode the next of some columns."""
        return self.encode(next(cells), numbers, flags)

    @abstractmethod
    def encode(self, cells: Cells, numbers: Encoded, flags: Encoded) -> Floats | None:
        """Write the encoded values, and return the surprise of each row, or None if it is 0 in all of them."""

    @abstractmethod
    def oddness(self, cells: Cells) -> Floats:
        """Return how unusual each value is, in standard deviations.

        For values that have a probability p instead, this is √(2 log(p_max / p)), where p_max is the probability of the
        most frequent value: that many deviations from its mean, a Gaussian's density has fallen by the same factor.
        """

    @property
    def bounds(self) -> dict[int, tuple[float, float]]:
        """The training range of each encoded number, by its place, that is strange outside of that range."""
        return {}

    @property
    def arithmetic(self) -> Arithmetic | None:
        """How it encodes a number or a text; None if no graph of tensors can read its values."""
        return None

    @property
    def mlflow_type(self) -> str:
        """MLflow's name for the type of its values; by default "any", where no single type takes all of them."""
        return "any"

    # What is said about it.

    @property
    @abstractmethod
    def expected(self) -> str:
        """What values of the column look like, as errors say it."""

    @property
    def schema(self) -> dict[str, Any]:
        """The JSON schema of one value; by default that of a text."""
        words = self.expected[:1].upper() + self.expected[1:]
        return {"type": ["string", "null"], "description": f"{words}. null if it is not known."}

    @property
    def usual(self) -> Any:
        """An ordinary value of this column, as JSON writes it; None if there is none."""
        return None

    @property
    def thousands(self) -> bool:
        """Whether people set thousands apart in its numbers, as they do not in years; by default they do."""
        return True

    @property
    @abstractmethod
    def facts(self) -> str:
        """What it holds, in a few words for people."""

    def usually(self, value: Callable[[Any], str], share: Callable[[float], str]) -> str:
        """Say what training had, with functions that write a value and a share as the page does; by default `facts`."""
        return self.facts

    def all_differ(self, cells: Cells) -> bool:
        """Say whether nearly every training row has a value of its own, and such values may be names of rows."""
        return False

    @property
    def summary(self) -> dict[str, Any]:
        """What training had, in words and numbers that JSON can hold."""
        return {"missing": self.missing}

    @property
    def described(self) -> dict[str, Any]:
        """The summary for clients of a server: each value in it is written as a client has to send it."""
        return self.summary

    # How it is saved.

    def to_config(self) -> dict[str, Any]:
        """Return everything the column has learned, as JSON can hold it."""
        return {"kind": self.kind, **asdict(self)}

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> Self:
        """Return the column that `to_config` described, or raise a ValueError."""
        where = f"Column {config.get('name')!r} of the configuration"
        read = Fields(config, where, ["kind", *(f.name for f in fields(cls))])
        common = (read.text("name"), read.whole("n_rows", 1), read.number("missing", 0, 1))
        return cls(*common, **cls._read(read))

    @classmethod
    def _read(cls, read: Fields) -> dict[str, Any]:
        """Return the checked fields that this kind has beside those of `Column`."""
        return {}

    # What most kinds need: events that training never had, and the 0/1 column of missing values.

    @property
    def log_never(self) -> float:
        """The log-probability of an event that training never had."""
        return -log(self.n_rows + 2)

    @property
    def missing_flag(self) -> tuple[float, float] | None:
        """What 0 and 1 become in the column that says whether the value is missing; None if it has no such column."""
        return standardised_flags(self.missing) if 0 < self.missing < 1 else None

    @property
    def arithmetic_of_missing(self) -> tuple[tuple[float, float, float], ...]:
        """That column as one of the flags of `Arithmetic`, if there is one."""
        if self.missing_flag is None:
            return ()
        no, yes = self.missing_flag
        return ((yes, no, no),)

    def flag_missing(self, missing: Mask, flags: Encoded) -> None:
        """Write the last 0/1 column, if it has one that says whether the value is missing."""
        if self.missing_flag is not None:
            no, yes = self.missing_flag
            flags[:, -1] = np.where(missing, yes, no)

    def meeting_missing(self, missing: Mask) -> Self:
        """Return a column to which missing values are no events, if some are missing."""
        return replace(self, missing=1 / (self.n_rows + 1)) if not self.missing and missing.any() else self

    def new_events(self, missing: Mask, changed: Mask | None = None) -> Floats | None:
        """Return the surprise of first missing values, and of values in which a constant column changed."""
        event = missing if not self.missing else None
        if changed is not None:
            event = changed if event is None else event | changed
        return np.where(event, self.log_never, 0.0) if event is not None and event.any() else None

    def score_events(self, score: Floats, missing: Mask, changed: Mask | None = None) -> Floats:
        """Put into the oddness of values that of missing ones, and of those in which a constant column changed."""
        score[missing] = oddness_of(np.log(self.missing) if self.missing else self.log_never)
        if changed is not None:
            score[changed] = oddness_of(self.log_never)
        return score
