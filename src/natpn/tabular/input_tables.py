"""Input tables: numpy arrays and data frames that narwhals knows, and which of their columns training had."""

import sys
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import narwhals.stable.v1 as nw
import numpy as np
from narwhals.exceptions import DuplicateError
from numpy.typing import NDArray

from natpn.choices import listed, nearest
from natpn.tabular.cells import Cells, Places

_LONG = (nw.Int128, nw.UInt128)  # which numpy does not have


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
            add = "Add them, with missing values if they are unknown."
            hint = f"Did you mean {', '.join(hints)}?" if hints else add
            return f"X lacks columns that training had: {listed(self.absent)}. {hint}"
        if self.extra:
            return f"X has columns that training did not have: {listed(self.extra)}. Drop them, or fit again with them."
        return (
            f"X has {self.n_columns} features, but training had {len(self.fitted)}: {listed(self.fitted)}. Give the "
            "same columns."
        )


@dataclass(frozen=True)
class Table:
    """A table with at least one row and one column, wherever one of these is taken.

    Attributes:
        data: A two-dimensional array, a data frame of pandas, or one of another library as narwhals shows it.
        names: The names of the columns; None if they have none.
        cells: The columns, if they were read for good.
    """

    data: Any
    names: list[str] | None
    cells: list[Cells] | None = None

    @property
    def shape(self) -> tuple[int, int]:
        """The number of rows and of columns."""
        rows, columns = self.data.shape if self.cells is None else (len(self.cells[0].values), len(self.cells))
        return rows, columns

    @property
    def matrix(self) -> NDArray[Any] | None:
        """The whole table as one array of numbers, if it is one."""
        return self.data if isinstance(self.data, np.ndarray) and self.data.dtype.kind in "iufb" else None

    def keep(self) -> "Table":
        """Read the columns for good, for a table that is fitted, encoded or taken from more than once."""
        return replace(self, cells=list(self.columns()))

    def take(self, rows: Places) -> "Table":
        """Return some rows of a table that is kept; nothing is read again."""
        matrix = None if self.matrix is None else self.matrix[rows]
        return Table(matrix, self.names, [cells.take(rows) for cells in self.columns()])

    def columns(self, order: list[int] | None = None) -> Iterator[Cells]:
        """Yield the columns, in another order if one is given."""
        if self.cells is not None:
            yield from self.cells if order is None else map(self.cells.__getitem__, order)
        elif isinstance(self.data, np.ndarray):
            for place in range(self.shape[1]) if order is None else order:
                yield _cells_of_array(self.data[:, place])
        elif order is None:
            yield from map(_cells_of_column, self._series())
        else:
            # All at once, because a frame takes longer to find one column the more it has.
            columns = list(self._series())
            yield from (_cells_of_column(columns[place]) for place in order)

    def values(self, place: int) -> list[Any]:
        """Return the values of one column as they came."""
        if isinstance(self.data, np.ndarray):
            return list(self.data[:, place])
        column: Any = list(self._series())[place]
        return list(column.to_list())

    def _series(self) -> Iterator[Any]:
        if isinstance(self.data, nw.DataFrame):
            return iter(self.data.iter_columns())
        return (column for _, column in self.data.items())


def _cells_of_column(column: Any) -> Cells:
    """Read one column of a data frame of pandas, or of narwhals."""
    if isinstance(column, nw.Series):
        return _cells_of_series(column)
    # Arrays and texts of pandas are read directly: for few rows narwhals would take many times as long.
    if isinstance(column.dtype, np.dtype):
        return _cells_of_array(column.to_numpy())
    if column.dtype.type is str:
        return Cells("objects", column.to_list())
    return _cells_of_series(nw.from_native(column, series_only=True))


def _cells_of_array(array: NDArray[Any]) -> Cells:
    """Read one column of a numpy array."""
    kind = array.dtype.kind
    if kind in "iuf":
        return Cells("number", array)
    if kind == "b":
        return Cells("boolean", array)
    if kind in "Mm":
        micro = array.astype(f"{kind}8[us]")
        seconds = np.where(np.isnat(micro), np.nan, micro.astype(np.int64) / 1e6)
        return Cells("date" if kind == "M" else "number", seconds)
    return Cells("objects", array.tolist())


def _cells_of_series(series: "nw.Series[Any]") -> Cells:
    """Read one column of a data frame."""
    dtype = series.dtype
    if dtype.is_integer() and dtype not in _LONG and not series.null_count():
        return Cells("number", series.to_numpy())
    if dtype.is_numeric():
        return Cells("number", _floats(series))
    if dtype == nw.Boolean:
        return Cells("boolean", series.cast(nw.Float64).to_numpy())
    if dtype in (nw.Datetime, nw.Date):
        seconds = _floats(series.dt.timestamp("us")) / 1e6
        return Cells("date", seconds, getattr(dtype, "time_zone", None))
    if dtype == nw.Duration:
        return Cells("number", _floats(series.dt.total_microseconds()) / 1e6)
    return Cells("categories" if dtype in (nw.Categorical, nw.Enum) else "objects", series.to_list())


def _floats(series: "nw.Series[Any]") -> NDArray[np.float64]:
    """Return numbers as float64, NaN where they are missing."""
    if not series.dtype.is_integer() or series.dtype in _LONG:
        return series.cast(nw.Float64).to_numpy()
    # By numpy, which rounds: pyarrow refuses whole numbers beyond 2^53.
    numbers = series.fill_null(0).to_numpy().astype(np.float64)
    numbers[series.is_null().to_numpy().astype(np.bool_)] = np.nan
    return numbers


def is_pandas(X: Any) -> bool:
    """Say whether X is a data frame of pandas, which need not be installed."""
    pandas = sys.modules.get("pandas")
    return pandas is not None and isinstance(X, pandas.DataFrame)


def read_table(X: Any) -> Table:
    """Read a numpy array, a data frame of any library that narwhals knows, or a list of rows, if it is not read yet."""
    if isinstance(X, Table):
        return X
    if isinstance(X, np.ndarray):
        return _of_array(X)
    if hasattr(X, "toarray") and hasattr(X, "nnz"):
        raise ValueError("X is a sparse matrix, but dense data is required. Use X.toarray().")
    if is_pandas(X) and X.columns.is_unique:
        return _of_frame(X, X.columns.tolist())
    try:
        frame = nw.from_native(X, eager_only=True, pass_through=True)
    except DuplicateError as error:
        raise ValueError(f"X has columns of the same name. Rename them. {error}") from None
    if isinstance(frame, nw.DataFrame):
        return _of_frame(frame, frame.columns)
    if hasattr(X, "collect"):
        raise ValueError("X is a lazy frame, whose values are not known yet. Use X.collect().")
    if isinstance(X, dict) or (isinstance(X, list | tuple) and any(isinstance(row, dict) for row in X)):
        raise ValueError("X is a dict, or has dicts for rows. Make a data frame of it, as by pandas.DataFrame(X).")
    if isinstance(X, list | tuple):
        lengths = sorted({len(row) if isinstance(row, list | tuple) else -1 for row in X})
        if len(lengths) > 1 and lengths[0] >= 0:
            raise ValueError(
                f"X has rows of different lengths: {lengths[0]} and {lengths[-1]}. Give all the same columns."
            )
        # As objects, because numpy would turn the numbers beside texts into texts.
        plain = bool(X) and lengths == [-1]
        return _of_array(np.asarray(X) if plain else np.array(X, dtype=object))
    return _of_array(np.asarray(X))


def _of_array(array: NDArray[Any]) -> Table:
    if isinstance(array, np.ma.MaskedArray):
        mask = np.ma.getmaskarray(array)
        array = np.ma.getdata(array).astype(object)
        array[mask] = None
    array = np.asarray(array)
    if array.dtype.kind == "c":
        raise ValueError(f"Complex data not supported: X has the dtype {array.dtype}. Give real and imaginary parts.")
    if array.ndim != 2:
        raise ValueError(
            f"Expected 2D array, got {array.ndim}D array instead: X has shape {array.shape}, but (rows, columns) is "
            "needed. Reshape your data: X.reshape(-1, 1) if it has a single feature, X.reshape(1, -1) if a single "
            "sample."
        )
    if array.dtype.kind == "V":
        raise ValueError(f"X has the dtype {array.dtype}, but numbers, texts, dates or objects are needed.")
    _check_size(array.shape[0], array.shape[1])
    return Table(array, None)


def _of_frame(frame: Any, names: list[Any]) -> Table:
    _check_size(*frame.shape)
    texts = [isinstance(name, str) for name in names]
    if any(texts) and not all(texts):
        other = next(name for name, text in zip(names, texts, strict=True) if not text)
        raise ValueError(
            f"X has column names that are texts and others such as {other!r}. Make all texts: X.columns.astype(str)."
        )
    return Table(frame, names if all(texts) else None)


def _check_size(rows: int, columns: int) -> None:
    """Raise, in scikit-learn's words, if a table has no rows or no columns."""
    for count, what in ((columns, "feature"), (rows, "sample")):
        if count == 0:
            raise ValueError(
                f"Found array with 0 {what}(s) (shape=({rows}, {columns})) while a minimum of 1 is required."
            )


def match_columns(fitted: list[str], named: bool, names: list[str] | None, n_columns: int) -> list[int] | None:
    """Return where each training column is in the new data, None if the order is the same; else a ColumnsError.

    Columns are matched by name if the training data (`named`) and the new data both have names.
    """
    if names is None or not named:
        if n_columns != len(fitted):
            raise ColumnsError(fitted, n_columns, [], [])
        return None
    if names == fitted:
        return None
    place = {name: number for number, name in enumerate(names)}
    known = set(fitted)
    absent = [name for name in fitted if name not in place]
    extra = [name for name in names if name not in known]
    if absent or extra:
        raise ColumnsError(fitted, n_columns, absent, extra)
    return [place[name] for name in fitted]
