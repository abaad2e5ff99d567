"""The transform: learn the columns of a table, then turn tables of that form into float32 matrices.

The last column is the surprise of each row (`natpn.tabular.surprise`).

A table that met more rows after training (`meeting`) has one column more: the surprise beside what training and those
rows had. All other columns stay as they are.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import groupby
from typing import Any, Self

import numpy as np

from natpn.tabular.base import Column, ColumnBlock, encode_in_turn
from natpn.tabular.cells import Cells, Encoded, Floats
from natpn.tabular.column_kinds import EMPTY, column_type, fit_column, kind_of_cells
from natpn.tabular.input_tables import Table, match_columns, read_table
from natpn.tabular.number import NumberBlock
from natpn.tabular.surprise import Events, Ranges, combine_events
from natpn.tabular.texts import Fields

# From 2 on, numbers beyond their range are events; from 3 on, many events and numbers far beyond count for more.
VERSION = 3


def _described(read: Fields, key: str, where: str) -> list[Column]:
    """Return the columns that a list in a configuration describes."""
    described = read.read(key, "a list of at least one column", lambda v: isinstance(v, list) and bool(v))
    columns = []
    for place, entry in enumerate(described):
        try:
            kind = column_type(entry.get("kind") if isinstance(entry, dict) else None)
        except ValueError as error:
            raise ValueError(f"{where}: the kind of column {place} is {error}.") from None
        columns.append(kind.from_config(entry))
    return columns


def names_of(table: Table) -> list[str]:
    """Return the names of the columns; "x0", "x1", … if the table has none."""
    return table.names or [f"x{place}" for place in range(table.shape[1])]


@dataclass(frozen=True)
class TakenApart:
    """Rows as `transform` returns them, and what each column has to do with them.

    Attributes:
        encoded: The matrix, (rows, n_outputs).
        places: Where the numbers and 0/1 columns of each input column are in it.
        cells: The cells of each column.
        events: What training never had, by column.
    """

    encoded: Encoded
    places: list[list[int]]
    cells: list[Cells]
    events: Events


class TableTransform:
    """Turn tables into float32 matrices: numbers first, then 0/1 columns, and the surprise last.

    All columns but the last are standardised, so that 0 is the mean in training. Constant columns and those without any
    value are left out; only the surprise depends on them. The surprise of a row is the log-probability, by the rule of
    succession, of what training never had: a first missing value, an unseen category, another value in a constant
    column, or a number beyond its range. It is 0 for rows without such an event, and grows faster than the share of
    columns that are strange.

    Tables are numpy arrays, data frames of pandas, polars, pyarrow and whatever else narwhals knows, or lists of rows.

    Attributes:
        columns: The input columns as training showed them.
        named: Whether the training table had names.
        met: The columns as training and rows after it showed them; None without such rows.

    Example:
        >>> import numpy as np
        >>> rows = [[1.5, "red"], [2.5, "blue"], [3.5, "red"], [4.5, "blue"]]
        >>> transform = TableTransform().fit(rows)
        >>> [column.kind for column in transform.columns]
        ['number', 'category']
        >>> print(transform.transform([[3.0, "red"], [3.0, "green"]]).round(2))
        [[ 0.    1.    0.  ]
         [ 0.   -1.   -3.58]]
    """

    columns: list[Column]
    named: bool
    met: "TableTransform | None" = None

    def fit(self, X: Any) -> Self:
        """Learn the columns of a table.

        Args:
            X: The table.

        Returns:
            This transform.

        Raises:
            ValueError: If the table cannot be used; the message names column and row.
            TypeError: If a value is neither a text nor a number, such as a dict or a list.
        """
        table = read_table(X)
        columns = [fit_column(name, cells) for name, cells in zip(names_of(table), table.columns(), strict=True)]
        self.set_columns(columns, table.names is not None)
        return self

    def as_rare_as(self, other: "TableTransform") -> Self:
        """Let events that this table never had be as rare as in another table of the same columns."""
        pairs = zip(self.columns, other.columns, strict=True)
        self.set_columns([column.as_rare_as(theirs) for column, theirs in pairs], self.named, self.version)
        return self

    def surprise_unseen(self, X: Any, seen: Any) -> Encoded:
        """Return the surprise that rows of the training table would have if only some others had been in training.

        Args:
            X: The rows.
            seen: Those that were seen. If both are taken from one `Table.keep`, nothing is read twice.
        """
        return TableTransform().fit(seen).as_rare_as(self).transform(X)[:, -1]

    def meeting(self, X: Any) -> "TableTransform":
        """Return a table that met these rows after training: what is new in them is no event beside both."""
        before = self if self.met is None else self.met
        table = read_table(X)
        cells = table.columns(self.match_columns(table.names, table.shape[1]))
        columns = [column.meeting(these) for column, these in zip(before.columns, cells, strict=True)]
        return self._with_met(columns)

    def _with_met(self, columns: list[Column]) -> "TableTransform":
        both, made = TableTransform(), TableTransform()
        both.set_columns(columns, self.named, self.version)
        made.set_columns(self.columns, self.named, self.version)
        made.met = both
        return made

    def set_columns(self, columns: list[Column], named: bool, version: int = VERSION) -> None:
        """Take columns that were learned before."""
        self.columns = columns
        self.version = version
        self.named = named
        self._n_numbers = sum(column.n_numbers for column in columns)
        self._n_flags = sum(column.n_flags for column in columns)
        # A table without any other output gets one column of zeros, because a network needs an input.
        self._n_zeros = int(self._n_numbers + self._n_flags == 0)
        self.ranges = Ranges(columns, grows=version > 2) if version > 1 else None
        self._blocks: list[ColumnBlock] = []
        for _, run in groupby(columns, type):
            neighbours = list(run)
            self._blocks += neighbours[0].blocks(neighbours)

    @property
    def n_outputs(self) -> int:
        """The number of columns of the result, each surprise included."""
        return self.n_encoded + 1 + int(self.met is not None)

    @property
    def n_encoded(self) -> int:
        """The number of columns of the result without the surprise."""
        return self._n_numbers + self._n_zeros + self._n_flags

    @property
    def n_numbers(self) -> int:
        """How many columns of the result are numbers; these come first, and 0/1 columns follow."""
        return self._n_numbers + self._n_zeros

    @property
    def feature_names(self) -> list[str]:
        """The names of the input columns; "x0", "x1", … if the training table had none."""
        return [column.name for column in self.columns]

    def outputs_of(self, column: int) -> list[int]:
        """Return which columns of the result an input column becomes, given its place; none if it was constant."""
        before, own = self.columns[:column], self.columns[column]
        number = sum(other.n_numbers for other in before)
        flag = self.n_numbers + sum(other.n_flags for other in before)
        return [*range(number, number + own.n_numbers), *range(flag, flag + own.n_flags)]

    def transform(self, X: Any) -> Encoded:
        """Encode a table of the form that was fitted.

        Args:
            X: The table. Columns are matched by name if both tables have names, otherwise by position.

        Returns:
            The matrix, shape (rows, n_outputs), finite.

        Raises:
            ValueError: If columns do not match, or a value does not fit its column; the message names column and row.
            TypeError: If a value is neither a text nor a number, such as a dict or a list.
        """
        self._check_fitted()
        table = read_table(X)
        order = self.match_columns(table.names, table.shape[1])
        result = np.zeros((table.shape[0], self.n_outputs), np.float32)
        first, *others = self._blocks
        numbers, flags = result[:, : self.n_numbers], result[:, self.n_numbers : self.n_encoded]
        surprise: Floats | None
        if table.matrix is not None and isinstance(first, NumberBlock) and not others and not self._n_zeros:
            surprise = first.encode(table.matrix, numbers, flags)
        else:
            surprise = encode_in_turn(self._blocks, table.columns(order), numbers, flags)
        beyond = None if self.ranges is None else self.ranges.surprise(result[:, : self._n_numbers])
        if beyond is not None:
            surprise = beyond if surprise is None else surprise + beyond
        if surprise is not None:
            if self.version > 2 and surprise.any():
                surprise = combine_events(surprise, self.columns[0].log_never, len(self.columns))
            result[:, self.n_encoded] = surprise
            events = np.flatnonzero(surprise)
            if self.met is not None and len(events):  # no other row has an event beside more rows
                result[events, -1] = self.met.transform(table.take(events))[:, -1]
        return result

    def take_apart(self, X: Any) -> TakenApart:
        """Encode a table as `transform` does, column by column, with the surprise beside training alone."""
        self._check_fitted()
        table = read_table(X)
        n_rows = table.shape[0]
        cells = list(table.columns(self.match_columns(table.names, table.shape[1])))
        encoded, log_events = np.zeros((n_rows, self.n_encoded + 1), np.float32), np.zeros((n_rows, len(self.columns)))
        for place, (column, own) in enumerate(zip(self.columns, self.places, strict=True)):
            numbers, flags = (np.zeros((n_rows, n), np.float32) for n in (column.n_numbers, column.n_flags))
            event = column.encode(cells[place], numbers, flags)
            encoded[:, own] = np.concatenate([numbers, flags], axis=1)
            log_events[:, place] = 0 if event is None else event
        beyond = np.zeros_like(log_events)
        if self.ranges is not None:
            beyond = self.ranges.by_column(encoded[:, : self._n_numbers], self.columns)
        events = Events(log_events, beyond, self.columns[0].log_never, self.version > 2)
        encoded[:, -1] = events.shares().sum(axis=1)
        return TakenApart(encoded, self.places, cells, events)

    @property
    def places(self) -> list[list[int]]:
        """The places of each input column in the result: its numbers, then its 0/1 columns."""
        found, number, flag = [], 0, self.n_numbers
        for column in self.columns:
            own = [*range(number, number + column.n_numbers), *range(flag, flag + column.n_flags)]
            number, flag = number + column.n_numbers, flag + column.n_flags
            found.append(own)
        return found

    def match_columns(self, names: list[str] | None, n_columns: int) -> list[int] | None:
        """Return where each fitted column is in new data with these names, None if the order is the same."""
        return match_columns(self.feature_names, self.named, names, n_columns)

    def most_unusual(self, X: Any) -> list[str]:
        """Return for each row the name of the column whose value is the most unusual beside the training data.

        Numbers and dates are judged by their standardised value, categories by how rare they are.

        Args:
            X: A table, as for `transform`.
        """
        return [self.columns[place].name for place in np.argmax(self.oddness(X), axis=0)]

    def oddness(self, X: Any) -> Floats:
        """Return how unusual each cell of a table is beside the training data, (columns, rows)."""
        return np.stack([column.oddness(cells) for column, cells in self._matched(X)])

    def as_json(self, X: Any, row: int) -> list[Any]:
        """Return a row of a table as JSON writes it."""
        return [column.as_json(cells.take(np.array([row])))[0] for column, cells in self._matched(X)]

    def _matched(self, X: Any) -> Iterator[tuple[Column, Cells]]:
        """Return the columns as training showed them, each with its cells in a table."""
        self._check_fitted()
        table = read_table(X)
        order = self.match_columns(table.names, table.shape[1])
        return zip(self.columns, table.columns(order), strict=True)

    def to_config(self) -> dict[str, Any]:
        """Return everything the transform has learned, as JSON can hold it."""
        self._check_fitted()
        columns = [column.to_config() for column in self.columns]
        met = {} if self.met is None else {"met": [column.to_config() for column in self.met.columns]}
        return {"version": self.version, "named": self.named, "columns": columns, **met}

    @classmethod
    def from_config(cls, config: Any) -> Self:
        """Return the transform that `to_config` described, or raise a ValueError that says what is wrong."""
        where = "The configuration of the table"
        has_met = isinstance(config, dict) and "met" in config
        read = Fields(config, where, ["version", "named", "columns", *(["met"] if has_met else [])])
        version = read.read("version")
        if isinstance(version, bool) or version not in range(1, VERSION + 1):
            raise ValueError(f"{where} has version {version!r}, but this natpn reads versions up to {VERSION}.")
        columns = _described(read, "columns", where)
        name, count = Counter(column.name for column in columns).most_common(1)[0]
        if count > 1:
            raise ValueError(f"{where} has two columns of the name {name!r}.")
        transform = cls()
        transform.set_columns(columns, read.flag("named"), int(version))
        if has_met:
            met = _described(read, "met", where)
            if [(column.name, column.kind) for column in met] != [(column.name, column.kind) for column in columns]:
                raise ValueError(f"{where}: 'met' has other columns than 'columns'.")
            transform.met = transform._with_met(met).met
        return transform

    def _check_fitted(self) -> None:
        if not hasattr(self, "columns"):
            raise ValueError("This transform is not fitted yet. Call fit with training data first.")


class TableParts:
    """What each part of a table shows of its columns, added up by name and kind; parts may come in any order."""

    def __init__(self) -> None:
        self.n_rows, self.named = 0, True
        self._empty: Counter[str] = Counter()  # rows of parts in which a column has no value
        self._summaries: defaultdict[str, dict[str, list[Any]]] = defaultdict(dict)

    def add(self, X: Any) -> None:
        """Add a part."""
        table = read_table(X)
        self.n_rows, self.named = self.n_rows + table.shape[0], table.names is not None
        for name, cells in zip(names_of(table), table.columns(), strict=True):
            kind = kind_of_cells(cells)
            if kind == EMPTY:
                self._empty[name] += table.shape[0]
            else:
                self._put(name, kind, [column_type(kind).summarise(name, cells)])

    def join(self, others: Iterable["TableParts"]) -> None:
        """Add what others have seen."""
        for other in others:
            self.n_rows, self.named = self.n_rows + other.n_rows, other.named
            self._empty.update(other._empty)
            for name, kinds in other._summaries.items():
                for kind, summaries in kinds.items():
                    self._put(name, kind, summaries)

    def _put(self, name: str, kind: str, summaries: list[Any]) -> None:
        own = self._summaries[name]
        own[kind] = column_type(kind).combine(own.get(kind, []) + summaries)

    def transform(self, sample: Any) -> TableTransform:
        """Return the transform of the whole table, of which a sample has some rows, or all if there are no more."""
        table = read_table(sample)
        columns = []
        for name, cells in zip(names_of(table), table.columns(), strict=True):
            column, kinds = fit_column(name, cells), self._summaries[name]
            if len(kinds) > 1:
                raise ValueError(
                    f"Column {name!r} holds {' and '.join(column_type(kind).words[1] for kind in kinds)} in different "
                    "files; write it with one type in all of them"
                )
            if table.shape[0] < self.n_rows:
                kind, summaries = next(iter(kinds.items()), (EMPTY, []))
                column = column_type(kind).widened(column, summaries, self._empty[name])
            columns.append(column)
        made = TableTransform()
        made.set_columns(columns, self.named)
        return made
