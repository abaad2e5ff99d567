"""Rows that are read in parts, from files, data sets and loaders of torch, and the share of them that a process reads.

Rows whose target is missing are left out of files.
"""

import hashlib
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sized
from contextlib import contextmanager
from dataclasses import dataclass
from math import prod
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from torch.utils.data import DataLoader, Dataset

from natpn import parallel
from natpn.choices import listed, nearest
from natpn.data import MEMORY, NUMBER_BYTES, Files, Piece
from natpn.families import SupportError
from natpn.model.inputs import pairs, read_dataset
from natpn.tabular import CellError
from natpn.training.batches import fingerprint

Keys = NDArray[np.uint64]
_SPLIT = 4  # row groups for each process, at least, if they are not divided further


@dataclass(frozen=True)
class Part:
    """Some rows.

    Attributes:
        where: The file that they are from, or the argument.
        index: Their numbers.
        X: Their inputs.
        y: Their targets.
        keys: Returns a number for each that depends on its content alone, spread evenly over 64 bits.
    """

    where: str
    index: NDArray[np.int64]
    X: Any
    y: Any
    keys: Callable[[], Keys]


@dataclass(frozen=True, kw_only=True)
class Share(ABC):
    """The rows that this process reads of all.

    Attributes:
        features: The names of the columns; None if they have none.
        n_features: How many cells or numbers an input has.
        n_dims: The dimensions of an array of rows.
        n_rows: How many rows all processes have.
        memory: How many bytes a fit may use.
        what: What errors call a target.
        progress: Whether to show how far it is.
    """

    features: list[str] | None
    n_features: int
    n_dims: int
    n_rows: int
    memory: int
    what: str
    progress: bool

    kind: ClassVar[str]  # what errors call all of it

    @property
    @abstractmethod
    def fits(self) -> bool:
        """Whether all rows fit into memory."""

    @abstractmethod
    def whole(self) -> tuple[Any, Any, list[str] | None]:
        """Return the inputs and targets of all rows, and where each is from, if that differs."""

    @property
    @abstractmethod
    def fingerprint(self) -> str:
        """By what the rows are known again."""

    @abstractmethod
    def _parts(self) -> Iterator[tuple[Part, int]]:
        """Yield rows, and how many were read for them."""

    def parts(self, what: str) -> Iterator[Part]:
        """Yield this process's rows, a few thousand at a time; a progress bar calls it `what`."""
        from tqdm import tqdm

        show = self.progress and parallel.rank() == 0
        total = self.n_rows // parallel.world_size()
        with tqdm(total=total, desc=what, unit=" rows", unit_scale=True, disable=not show, leave=False) as bar:
            for part, read in self._parts():
                bar.update(read)
                if len(part.index):
                    yield part

    def tell_missing(self, n_rows: int) -> None:
        """Warn if there are rows without a target, given how many have one."""
        missing = self.n_rows - n_rows
        if missing and parallel.rank() == 0:
            warnings.warn(f"{missing:,} of {self.n_rows:,} rows have no {self.what} and are left out", stacklevel=7)


@dataclass(frozen=True, kw_only=True)
class FileShare(Share):
    """The rows of files.

    Attributes:
        files: The files.
        features: The columns to predict from.
        target: The column to predict.
        exposure: The column of exposures, if there is one: a target is then a pair, (rows, 2).
    """

    kind = "files"

    files: Files
    features: list[str]
    target: str
    exposure: str | None = None

    @classmethod
    def of(cls, files: Files, target: Any, progress: bool = False, exposure: Any = None) -> "FileShare":
        """Return the share of this process.

        Raises:
            ValueError: If there is no such column to predict, or of exposures, or no other.
        """
        named = {"y": target, **({} if exposure is None else {"exposure": exposure})}
        for argument, name in named.items():
            what = "of exposures" if argument == "exposure" else "to predict"
            if not isinstance(name, str):
                raise ValueError(
                    f"{argument}: of files, expected the name of the column {what}, got {type(name).__name__}"
                )
            if name not in files.names:
                near = nearest(name, files.names)
                cure = f"did you mean {near!r}?" if near else f"there are {listed(files.names)}"
                raise ValueError(f"{argument}: the files have no column {name!r}; {cure}")
        features = [name for name in files.names if name not in named.values()]
        if not features:
            raise ValueError(f"X: expected a column beside {target!r} to predict it from, got none")
        return cls(
            features=features,
            n_features=len(features),
            n_dims=2,
            n_rows=files.n_rows,
            memory=files.memory,
            what=repr(target),
            progress=progress,
            files=files,
            target=target,
            exposure=exposure,
        )

    @property
    def fits(self) -> bool:
        """Whether the files fit into memory."""
        return self.files.fits

    @property
    def fingerprint(self) -> str:
        """The files and the columns."""
        return f"{self.files.fingerprint} {self.features} {self.target}" + (
            f" {self.exposure}" if self.exposure else ""
        )

    @property
    def _columns(self) -> list[str]:
        return [*self.features, self.target, *([self.exposure] if self.exposure else [])]

    def _targets(self, table: pa.Table) -> Any:
        """Return targets, or pairs of them and their exposures, of which none may be missing."""
        if self.exposure is None:
            return table[self.target]
        columns = (pc.cast(table[name], pa.float64(), safe=False) for name in (self.target, self.exposure))
        return np.stack([column.to_numpy(zero_copy_only=False) for column in columns], 1)

    def whole(self) -> tuple[pa.Table, pa.ChunkedArray, list[str]]:
        """Return all rows that have a target, and the file of each."""
        parts, paths = [], []
        for piece in self.files.pieces:
            for batch in self.files.batches(self._columns, [piece]):
                parts.append(batch.filter(pc.is_valid(_without_nan(batch[self.target]))))
                paths += [piece.path] * len(parts[-1])
        self.tell_missing(len(paths))
        table = pa.concat_tables(parts).combine_chunks()
        return table.select(self.features), self._targets(table), paths

    def _parts(self) -> Iterator[tuple[Part, int]]:
        pieces, size, rank = self.files.pieces, parallel.world_size(), parallel.rank()
        starts = np.cumsum([0, *(piece.n_rows for piece in pieces)])
        several = len(pieces) >= _SPLIT * size
        for number in _dealt(pieces, size)[rank] if several else range(len(pieces)):
            first = int(starts[number])
            for batch in self.files.batches(self._columns, [pieces[number]]):
                start, rows = (0, len(batch)) if several else _slice(len(batch), rank, size)
                index = np.arange(first + start, first + start + rows)
                first += len(batch)
                part = batch.slice(start, rows)
                known = pc.is_valid(_without_nan(part[self.target]))
                yield self._part(pieces[number].path, index[known.to_numpy()], part.filter(known)), rows

    def _part(self, path: str, index: NDArray[np.int64], rows: pa.Table) -> Part:
        return Part(path, index, rows.select(self.features), self._targets(rows), lambda: row_keys(rows))


@dataclass(frozen=True, kw_only=True)
class LoaderShare(Share):
    """The rows of a data set or a loader of torch, which is read again for each pass.

    Attributes:
        data: Where batches come from.
    """

    kind = "data sets larger than memory"

    data: "Dataset[Any] | DataLoader[Any]"

    @classmethod
    def of(cls, data: "Dataset[Any] | DataLoader[Any]", progress: bool = False) -> "LoaderShare":
        """Return the share of this process; what has no length is read once to count its rows.

        Raises:
            ValueError: If there are no rows.
        """
        rows = getattr(data, "dataset", data)
        first = next(pairs(data, 1), None) if not isinstance(rows, Sized) or len(rows) else None
        if first is None:
            raise ValueError("X: expected a data set with a length above 0 and items (x, y), got one without")
        count = len(rows) if isinstance(rows, Sized) else sum(len(x) for x, _ in pairs(data))
        return cls(
            features=None,
            n_features=prod(first[0].shape[1:]),
            n_dims=first[0].ndim,
            n_rows=count,
            memory=MEMORY,
            what="target",
            progress=progress,
            data=data,
        )

    @property
    def fits(self) -> bool:
        """Whether the rows fit into memory."""
        return self.n_rows * self.n_features * NUMBER_BYTES <= self.memory

    @property
    def fingerprint(self) -> str:
        """Sizes and, of tensors, their content."""
        return fingerprint(self.data)  # type: ignore[arg-type]

    def whole(self) -> tuple[NDArray[Any], NDArray[Any], None]:
        """Return all rows."""
        return *read_dataset(self.data), None

    def _parts(self) -> Iterator[tuple[Part, int]]:
        first = 0
        for x, y in pairs(self.data):
            start, rows = _slice(len(x), parallel.rank(), parallel.world_size())
            index = np.arange(first + start, first + start + rows)
            first += len(x)
            yield self._part(index, x[start : start + rows], y[start : start + rows]), rows

    def _part(self, index: NDArray[np.int64], x: NDArray[Any], y: NDArray[Any]) -> Part:
        return Part("X", index, x, y, lambda: array_keys(x, y))


@contextmanager
def located(path: str, paths: list[str] | None = None) -> Iterator[None]:
    """Let errors about rows name their file, or that of each row if there are several.

    Raises:
        ValueError: With the file, the column and the cure.
    """
    try:
        yield
    except CellError as error:
        where = path if paths is None else paths[error.row]
        raise ValueError(f"{where}, column {error.column!r}: {error.problem}") from None
    except SupportError as error:
        where = path if paths is None else paths[error.index[0]]
        raise ValueError(
            f"{where}: y: expected {error.expected}, got {error.got}; correct it, or choose another family"
        ) from None
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from None


def _dealt(pieces: tuple[Piece, ...], size: int) -> list[list[int]]:
    """Deal row groups to processes, the largest first, each to the one that has the fewest rows."""
    dealt: list[list[int]] = [[] for _ in range(size)]
    rows = [0] * size
    for number in sorted(range(len(pieces)), key=lambda i: (-pieces[i].n_rows, i)):
        poorest = rows.index(min(rows))
        dealt[poorest].append(number)
        rows[poorest] += pieces[number].n_rows
    return [sorted(numbers) for numbers in dealt]


def _slice(rows: int, rank: int, size: int) -> tuple[int, int]:
    start = rows * rank // size
    return start, rows * (rank + 1) // size - start


def _without_nan(column: pa.ChunkedArray) -> pa.ChunkedArray:
    return pc.if_else(pc.is_nan(column), None, column) if pa.types.is_floating(column.type) else column


def row_keys(table: pa.Table) -> Keys:
    """Return a number for each row of a table that depends on its content alone, spread evenly over 64 bits."""
    keys = np.zeros(len(table), np.uint64)
    for column in table.columns:
        whole = column.combine_chunks()
        if pa.types.is_dictionary(whole.type) or pa.types.is_string(whole.type) or pa.types.is_large_string(whole.type):
            coded = whole if pa.types.is_dictionary(whole.type) else whole.dictionary_encode()
            texts = [
                hashlib.blake2b(str(text).encode(), digest_size=8).digest() for text in coded.dictionary.to_pylist()
            ]
            places = coded.indices.fill_null(len(texts)).to_numpy(zero_copy_only=False).astype(np.intp)
            bits = np.frombuffer(b"".join(texts) + bytes(8), np.uint64)[places]
        else:
            plain = whole.cast(pa.int64()) if pa.types.is_boolean(whole.type) else whole
            if pa.types.is_temporal(whole.type):  # not all of them can be cast to numbers
                plain = whole.view(pa.int32() if whole.type.bit_width == 32 else pa.int64())
            bits = plain.cast(pa.float64(), safe=False).fill_null(np.nan).to_numpy().view(np.uint64)
        keys = mixed_bits(keys ^ mixed_bits(bits))
    return keys


def array_keys(*arrays: NDArray[Any]) -> Keys:
    """Return the same for rows of arrays of numbers."""
    flat = [np.asarray(values, np.float64).reshape(len(values), -1) for values in arrays]
    bits = np.concatenate(flat, 1).view(np.uint64)
    factor = mixed_bits(np.arange(bits.shape[1], dtype=np.uint64)) | np.uint64(1)
    return mixed_bits((mixed_bits(bits) * factor).sum(1, dtype=np.uint64))


def mixed_bits(key: Keys) -> Keys:
    """Return numbers whose bits all depend on all bits of the given ones, by splitmix64."""
    key = key + np.uint64(0x9E3779B97F4A7C15)
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        key = (key ^ (key >> np.uint64(shift))) * np.uint64(factor)
    return key ^ (key >> np.uint64(31))
