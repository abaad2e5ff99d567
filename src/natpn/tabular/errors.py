"""What is wrong with a table, in parts: a file, a request or a data frame can then say in its terms where it is."""

from natpn.choices import listed, nearest


class CellError(ValueError):
    """A cell cannot be read.

    Attributes:
        column: The name of its column.
        row: The number of its row, from 0 on.
        problem: What is wrong, and the cure.
    """

    def __init__(self, column: str, row: int, problem: str) -> None:
        super().__init__(column, row, problem)  # all of it, so that another process can raise it again
        self.column, self.row, self.problem = column, row, problem

    def __str__(self) -> str:
        return f"Column {self.column!r}, row {self.row}: {self.problem}"


class CellTypeError(CellError, TypeError):
    """A cell holds what no cell can, as a list or a dict."""


class ColumnsError(ValueError):
    """The columns of a table are not those of training.

    Attributes:
        fitted: The names of the training columns.
        n_columns: How many columns the table has.
        absent: The names that it lacks; none if columns are not matched by name.
        extra: The names that training did not have.
    """

    def __init__(self, fitted: list[str], n_columns: int, absent: list[str], extra: list[str]) -> None:
        super().__init__(fitted, n_columns, absent, extra)  # all of it, so that another process can raise it again
        self.fitted, self.n_columns, self.absent, self.extra = fitted, n_columns, absent, extra

    def __str__(self) -> str:
        if self.absent:
            pairs = [(name, nearest(name, self.extra)) for name in self.absent]
            hints = [f"{near!r} for {name!r}" for name, near in pairs if near]
            hint = (
                f"Did you mean {', '.join(hints)}?" if hints else "Add them, with missing values if they are unknown."
            )
            return f"X lacks columns that training had: {listed(self.absent)}. {hint}"
        if self.extra:
            return f"X has columns that training did not have: {listed(self.extra)}. Drop them, or fit again with them."
        return (
            f"X has {self.n_columns} features, but training had {len(self.fitted)}: {listed(self.fitted)}. Give the "
            "same columns."
        )
