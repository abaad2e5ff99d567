"""Tables that are read in parts: what each part shows of the columns, added up."""

from collections import Counter, defaultdict
from collections.abc import Iterable
from typing import Any

from natpn.tabular.column_kinds import EMPTY, column_type, fit_column, kind_of_cells
from natpn.tabular.input_tables import read_table
from natpn.tabular.transform import TableTransform


class TableParts:
    """Summaries of the columns of a table, by name and kind; parts may be added in any order."""

    def __init__(self) -> None:
        self.n_rows = 0
        self._empty: Counter[str] = Counter()  # rows of parts in which a column has no value
        self._summaries: defaultdict[str, dict[str, list[Any]]] = defaultdict(dict)

    def add(self, X: Any) -> None:
        """Add a part, a table with names."""
        table = read_table(X)
        self.n_rows += table.shape[0]
        for name, cells in zip(table.names or [], table.columns(), strict=True):
            kind = kind_of_cells(cells)
            if kind == EMPTY:
                self._empty[name] += table.shape[0]
            else:
                self._put(name, kind, [column_type(kind).summarise(name, cells)])

    def join(self, others: Iterable["TableParts"]) -> None:
        """Add what others have seen."""
        for other in others:
            self.n_rows += other.n_rows
            self._empty.update(other._empty)
            for name, kinds in other._summaries.items():
                for kind, summaries in kinds.items():
                    self._put(name, kind, summaries)

    def _put(self, name: str, kind: str, summaries: list[Any]) -> None:
        own = self._summaries[name]
        own[kind] = column_type(kind).combine(own.get(kind, []) + summaries)

    def transform(self, sample: Any) -> TableTransform:
        """Return the transform of the whole table.

        Args:
            sample: Some of its rows; all of them if it has no more.

        Raises:
            ValueError: If a column has values of different kinds.
        """
        table = read_table(sample)
        columns = []
        for name, cells in zip(table.names or [], table.columns(), strict=True):
            column, kinds = fit_column(name, cells), self._summaries[name]
            if len(kinds) > 1:
                raise ValueError(
                    f"Column {name!r} holds {' and '.join(column_type(kind).words[1] for kind in kinds)} in different "
                    "files; write it with one type in all of them"
                )
            if table.shape[0] < self.n_rows:
                kind, summaries = next(iter(kinds.items()), (EMPTY, []))
                seen = column if column.kind == kind else column_type(kind).of_summary(name, summaries[0])
                column = seen.widened(summaries, self._empty[name])
            columns.append(column)
        made = TableTransform()
        made.set_columns(columns, named=True)
        return made
