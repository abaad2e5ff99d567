"""What is wrong with one cell, in parts: a file, a request or a data frame can then say in its terms where it is."""


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
