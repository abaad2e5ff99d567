"""Inputs of every kind → tensors, piece by piece: tables, arrays of any shape, and torch data sets."""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sized
from typing import Any, Self

import narwhals as nw
import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.utils.data import DataLoader, Dataset

from natpn.choices import did_you_mean, listed
from natpn.model.groups import Groups
from natpn.tabular import CellError, Column, Table, TableParts, TableTransform, read_table

Floats = NDArray[np.float64]
Indices = NDArray[np.intp]

_AT_ONCE = 32_768  # rows of a table that are transformed together


class Inputs(ABC):
    """What was learned about inputs in training: how to turn them into what the network sees."""

    kind: str
    has_surprise = False  # whether the last number of a transformed input is its surprise, which encoders ignore

    @property
    def columns(self) -> list[Column] | None:
        """The columns of a table; None for other inputs."""
        return None

    @property
    def n_numbers(self) -> int | None:
        """How many first numbers of a transformed input are standardised numbers; None if it is no table."""
        return None

    @property
    def encoder_shape(self) -> tuple[int, ...]:
        """The shape of what an encoder reads of one transformed input."""
        return (self.shape[0] - 1,) if self.has_surprise else self.shape

    def read(self, X: Any) -> Any:
        """Return training inputs in a form that is fitted, transformed and taken from without being read again."""
        return X

    @abstractmethod
    def fit(self, X: Any) -> Self:
        """Learn from training inputs; their order does not matter."""

    @staticmethod
    @abstractmethod
    def parts() -> Any:
        """Return what parts of training inputs are added to."""

    @abstractmethod
    def fit_parts(self, parts: Any, sample: Any) -> Self:
        """Learn from inputs that were added to `parts`, and a sample of them."""

    @abstractmethod
    def transform(self, X: Any) -> NDArray[np.float32]:
        """Return inputs as the network sees them, one row each."""

    def forget(self, rows: NDArray[np.float32], X: Any, held_out: Indices, seen: Indices) -> None:  # noqa: B027
        """Let some transformed rows of X look as if only others had been in training; by default they do anyway."""

    def meeting(self, X: Any) -> Self:
        """Return inputs that met these rows after training; by default nothing is new in them."""
        return self

    def most_ordinary(self, X: Any, log_evidence: Floats) -> list[Any] | None:
        """Return the most ordinary of the rows that are known well, as JSON writes it; None without columns."""
        return None

    def groups_by(self, column: Any) -> Groups:
        """Return the groups of rows that are alike in one column, given its name or its number.

        Raises:
            ValueError: If inputs have no such column.
        """
        raise ValueError(
            f"groups: expected a column of a table, got {column!r} for inputs that are no table: leave it out"
        )

    @property
    @abstractmethod
    def shape(self) -> tuple[int, ...]:
        """The shape of one transformed input."""

    @abstractmethod
    def to_config(self) -> dict[str, Any]:
        """Return all of it as JSON can hold it."""

    @classmethod
    @abstractmethod
    def from_config(cls, config: dict[str, Any]) -> Self:
        """Return what `to_config` described."""

    def tensors(self, X: Any, size: int) -> Iterator[Tensor]:
        """Yield transformed inputs in pieces of at most `size` rows; a data set is read as it goes."""
        if isinstance(X, Dataset | DataLoader):
            for batch in X if isinstance(X, DataLoader) else DataLoader(X, batch_size=size):
                x = batch[0] if isinstance(batch, (tuple, list)) else batch
                yield torch.from_numpy(self.transform(as_array(x)))
            return
        if n_rows(X) <= size:
            yield torch.from_numpy(self.transform(X))
            return
        # A table is transformed column by column, which costs as much for a few rows as for some thousand.
        many = size * max(_AT_ONCE // size, 1) if self.kind == "table" else size
        for start in range(0, n_rows(X), many):
            try:
                rows = self.transform(take(X, slice(start, start + many)))
            except CellError as error:
                raise type(error)(error.column, start + error.row, error.problem) from None
            yield from torch.from_numpy(rows).split(size)


class TableInputs(Inputs):
    """Tables: arrays of two dimensions and data frames."""

    kind = "table"
    has_surprise = True

    def __init__(self, table: TableTransform | None = None) -> None:
        self.table = TableTransform() if table is None else table

    def read(self, X: Any) -> Table:
        """Read all cells."""
        return read_table(X).keep()

    def fit(self, X: Any) -> Self:
        """Learn the columns."""
        self.table = TableTransform().fit(X)
        return self

    @staticmethod
    def parts() -> TableParts:
        """Return what parts of a table are added to."""
        return TableParts()

    def fit_parts(self, parts: TableParts, sample: Any) -> Self:
        """Learn the columns."""
        self.table = parts.transform(sample)
        return self

    def transform(self, X: Any) -> NDArray[np.float32]:
        """Return numbers, indicators and the surprise."""
        return self.table.transform(X)

    def forget(self, rows: NDArray[np.float32], X: Any, held_out: Indices, seen: Indices) -> None:
        """Set the surprise."""
        rows[held_out, -1] = self.table.surprise_unseen(take(X, held_out), take(X, seen))

    def meeting(self, X: Any) -> Self:
        """Let nothing in these rows be an event beside training and the rows after it."""
        return type(self)(self.table.meeting(X))

    @property
    def columns(self) -> list[Column]:
        """The columns as training showed them."""
        return self.table.columns

    @property
    def n_numbers(self) -> int:
        """How many numbers come before the 0/1 columns."""
        return self.table.n_numbers

    def groups_by(self, column: Any) -> Groups:
        """Return the groups of rows that are alike in one column, given its name or its number."""
        names = self.table.feature_names
        if isinstance(column, str) and column in names:
            place = names.index(column)
        elif isinstance(column, (int, np.integer)) and not isinstance(column, bool) and 0 <= column < len(names):
            place = int(column)
        else:
            near = did_you_mean(column, names) if isinstance(column, str) else ""
            raise ValueError(
                f"groups: expected the name of a column of X, or its number from 0 to {len(names) - 1}, got {column!r}"
                + (near or f"; there are {listed(names)}")
            )
        return Groups(tuple(self.table.outputs_of(place)), self.table.columns[place].log_never)

    def most_ordinary(self, X: Any, log_evidence: Floats) -> list[Any]:
        """Return the row whose cells, all together, are the least unusual."""
        odd = np.square(self.table.oddness(X)).sum(0)
        known = log_evidence >= np.median(log_evidence)
        return self.table.as_json(X, int(np.flatnonzero(known)[odd[known].argmin()]))

    @property
    def shape(self) -> tuple[int, ...]:
        """The number of columns, the surprise included."""
        return (self.table.n_outputs,)

    @property
    def encoder_shape(self) -> tuple[int, ...]:
        """The number of columns without surprises."""
        return (self.table.n_encoded,)

    def to_config(self) -> dict[str, Any]:
        """Return the columns."""
        return self.table.to_config()

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> Self:
        """Return the table that was described."""
        return cls(TableTransform.from_config(config))


class ArrayInputs(Inputs):
    """Arrays of any number of dimensions, standardised: each column of a table, each channel of images, or all in one.

    Images are (rows, channels, height, width).
    """

    kind = "array"

    def fit(self, X: Any) -> Self:
        """Learn mean and standard deviation."""
        parts = self.parts()
        parts.add(X)
        return self.fit_parts(parts, None)

    @staticmethod
    def parts() -> "ArrayParts":
        """Return what parts of an array are added to."""
        return ArrayParts()

    def fit_parts(self, parts: "ArrayParts", sample: Any) -> Self:
        """Learn mean and standard deviation."""
        spread = np.sqrt(parts.variance)
        self._shape = parts.shape
        # Cut to fewer digits, because the last ones depend on the order of the rows.
        self.scale = np.where(spread > 0, spread, 1.0).astype(np.float32).astype(np.float64)
        self.mean = np.round(parts.mean / self.scale, 6) * self.scale
        return self

    def transform(self, X: Any) -> NDArray[np.float32]:
        """Standardise."""
        values = _finite(X)
        if values.shape[1:] != self._shape:
            raise ValueError(
                f"X: it has shape {values.shape}, but in training one input had shape {self._shape}: bring it to that"
            )
        return np.asarray((values - self.mean) / self.scale, dtype=np.float32)

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of one input."""
        return self._shape

    def to_config(self) -> dict[str, Any]:
        """Return shape, mean and scale."""
        return {"shape": list(self._shape), "mean": self.mean.tolist(), "scale": self.scale.tolist()}

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> Self:
        """Return the standardisation that was described."""
        inputs = cls()
        inputs._shape = tuple(config["shape"])
        inputs.mean, inputs.scale = np.asarray(config["mean"], float), np.asarray(config["scale"], float)
        return inputs


class ArrayParts:
    """Mean and variance of arrays, added up part by part: by column, by channel of images, or of all numbers."""

    def __init__(self) -> None:
        self.n_rows = 0
        self.shape: tuple[int, ...] = ()
        self.mean, self.variance = np.zeros(()), np.zeros(())

    def add(self, X: Any) -> None:
        """Add a part."""
        values = _finite(X)
        axes = {2: (0,), 4: (0, 2, 3)}.get(values.ndim, tuple(range(values.ndim)))
        mean = values.mean(axes, keepdims=True, dtype=np.float64)[0]
        variance = values.var(axes, keepdims=True, dtype=np.float64)[0]
        self._put(len(values), values.shape[1:], mean, variance)

    def join(self, others: Iterable["ArrayParts"]) -> None:
        """Add what others have seen."""
        for other in others:
            if other.n_rows:
                self._put(other.n_rows, other.shape, other.mean, other.variance)

    def _put(self, n_rows: int, shape: tuple[int, ...], mean: Floats, variance: Floats) -> None:
        if self.n_rows and shape != self.shape:
            raise ValueError(f"X: expected inputs of one shape, got {self.shape} and {shape}: bring them to the same")
        share = n_rows / (self.n_rows + n_rows)
        between = share * (1 - share) * np.square(mean - self.mean)
        self.variance = (1 - share) * self.variance + share * variance + between
        self.mean = self.mean + share * (mean - self.mean)
        self.n_rows, self.shape = self.n_rows + n_rows, shape


KINDS: dict[str, type[Inputs]] = {kind.kind: kind for kind in (TableInputs, ArrayInputs)}


def pairs(data: "Dataset[Any] | DataLoader[Any]", size: int = 1024) -> Iterator[tuple[NDArray[Any], NDArray[Any]]]:
    """Yield the batches of a loader, or those of a data set, as arrays of inputs and targets."""
    for batch in data if isinstance(data, DataLoader) else DataLoader(data, batch_size=size):
        if not isinstance(batch, (tuple, list)) or len(batch) != 2:
            raise ValueError(f"X: expected a data set with items (x, y), got items of type {type(batch).__name__}")
        yield np.asarray(batch[0]), np.asarray(batch[1])


def read_dataset(data: "Dataset[Any] | DataLoader[Any]") -> tuple[NDArray[Any], NDArray[Any]]:
    """Read a data set of pairs (x, y), or a loader of batches of them, into arrays."""
    batches = list(pairs(data)) if not isinstance(data, Sized) or len(data) else []
    if not batches:
        raise ValueError("X: expected a data set with a length above 0 and items (x, y), got one without")
    x, y = (np.concatenate([batch[i] for batch in batches]) for i in (0, 1))
    return x, y


def as_array(X: Any) -> Any:
    """Return tensors and nested lists of more than two dimensions as arrays, and everything else unchanged."""
    if isinstance(X, Tensor):
        return X.detach().cpu().numpy()
    deep = X
    for _ in range(2):
        deep = deep[0] if isinstance(deep, (list, tuple)) and deep else None
    return np.asarray(X) if isinstance(deep, (list, tuple)) or getattr(deep, "ndim", 0) > 0 else X


def evenly(n: int, most: int) -> Indices:
    """Return at most `most` indices below n, evenly spaced."""
    return np.arange(n) if n <= most else np.arange(most) * n // most


def n_rows(X: Any) -> int:
    """Return the number of rows of a table, an array or a data set."""
    return int(X.shape[0]) if hasattr(X, "shape") else len(X)


def take(X: Any, rows: slice | Indices) -> Any:
    """Return some rows of a table or an array."""
    if type(X) is np.ndarray:
        return X[rows]
    if isinstance(X, Table):
        return X.take(np.arange(X.shape[0])[rows])
    frame = nw.from_native(X, eager_only=True, pass_through=True)
    if isinstance(frame, nw.DataFrame):
        return frame[rows].to_native() if isinstance(rows, slice) else frame[rows.tolist()].to_native()
    return (
        X[rows] if hasattr(X, "shape") else [X[i] for i in (range(len(X))[rows] if isinstance(rows, slice) else rows)]
    )


def _finite(X: Any) -> NDArray[Any]:
    values = np.asarray(X)
    if values.dtype.kind not in "iufb":
        raise ValueError(f"X: expected numbers, got {values.dtype}")
    if values.dtype.kind == "f" and not np.isfinite(values).all():
        raise ValueError(
            "X: expected finite numbers, got NaN or infinity: impute them, or use a table without encoder="
        )
    return values
