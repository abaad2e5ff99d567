"""A fit on files that need not fit into memory: two passes over the files, then training from disk.

1. *Survey*: each process summarises the columns of its row groups, and all together take a sample of the rows. The
   sample shows the family and the units of targets; labels are those of all rows.
2. *Encode*: rows become float32 in a scratch file. A few are held out to validate and calibrate, and kept in memory.
   A hash of its content says whether a row is held out: the split does not depend on files, their order or the number
   of processes, and no copy of a held-out row is trained on.

Rows whose target is missing are left out.
"""

import hashlib
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import torch
from numpy.typing import NDArray
from torch import Tensor

from natpn import parallel
from natpn.choices import listed, nearest
from natpn.data import Files, Piece
from natpn.estimators.rows import ENOUGH, Prepared
from natpn.families import SupportError
from natpn.model import TableInputs, Targets
from natpn.tabular import CellError, TableParts
from natpn.training import FoldedRows, Rows
from natpn.training.stored import Store, StoredRows

SAMPLE = 200_000
"""Rows that show the family of targets and the quantiles of columns; fewer if they would need much of the memory."""

LEAST = 200
"""Rows that files have to have: of fewer, too few would be held out."""

HELD_OUT = 30_000
"""Rows that each network holds out, at most."""

EPOCH = 1_000_000
"""Rows of an epoch, at most."""

ASIDE = 100
"""In place of the number of a network: all of them hold out the row."""

_SPLIT = 4  # row groups for each process, at least, if they are not divided further


@dataclass(frozen=True)
class Share:
    """The part of some files that this process reads.

    Attributes:
        files: The files.
        features: The columns to predict from.
        target: The column to predict.
        progress: Whether to show how far it is.
    """

    files: Files
    features: list[str]
    target: str
    progress: bool = False

    @classmethod
    def of(cls, files: Files, target: Any, progress: bool = False) -> "Share":
        """Return the share of this process.

        Raises:
            ValueError: If there is no such column to predict, or no other.
        """
        if not isinstance(target, str):
            raise ValueError(f"y: of files, expected the name of the column to predict, got {type(target).__name__}")
        if target not in files.names:
            near = nearest(target, files.names)
            cure = f"did you mean {near!r}?" if near else f"there are {listed(files.names)}"
            raise ValueError(f"y: the files have no column {target!r}; {cure}")
        features = [name for name in files.names if name != target]
        if not features:
            raise ValueError(f"X: expected a column beside {target!r} to predict it from, got none")
        return cls(files, features, target, progress)

    def parts(self, what: str) -> Iterator[tuple[Piece, NDArray[np.int64], pa.Table]]:
        """Yield this process's rows that have a target, batch by batch: their row group, their numbers, and they.

        Args:
            what: What a progress bar calls it.
        """
        from tqdm import tqdm

        show = self.progress and parallel.rank() == 0
        total = self.files.n_rows // parallel.world_size()
        with tqdm(total=total, desc=what, unit=" rows", unit_scale=True, disable=not show, leave=False) as bar:
            for piece, index, part, read in self._parts():
                bar.update(read)
                if len(part):
                    yield piece, index, part

    def whole(self) -> tuple[pa.Table, list[str]]:
        """Return all rows that have a target, and the file of each."""
        parts, paths = [], []
        for piece in self.files.pieces:
            for batch in self.files.batches([*self.features, self.target], [piece]):
                parts.append(batch.filter(pc.is_valid(_without_nan(batch[self.target]))))
                paths += [piece.path] * len(parts[-1])
        self.tell_missing(len(paths))
        return pa.concat_tables(parts).combine_chunks(), paths

    def tell_missing(self, n_rows: int) -> None:
        """Warn if there are rows without a target, given how many have one."""
        missing = self.files.n_rows - n_rows
        if missing and parallel.rank() == 0:
            warnings.warn(
                f"{missing:,} of {self.files.n_rows:,} rows have no {self.target!r} and are left out", stacklevel=6
            )

    def _parts(self) -> Iterator[tuple[Piece, NDArray[np.int64], pa.Table, int]]:
        pieces, size, rank = self.files.pieces, parallel.world_size(), parallel.rank()
        starts = np.cumsum([0, *(piece.n_rows for piece in pieces)])
        several = len(pieces) >= _SPLIT * size
        for number in _dealt(pieces, size)[rank] if several else range(len(pieces)):
            first = int(starts[number])
            for batch in self.files.batches([*self.features, self.target], [pieces[number]]):
                start, rows = (0, len(batch)) if several else _slice(len(batch), rank, size)
                index = np.arange(first + start, first + start + rows)
                first += len(batch)
                part = batch.slice(start, rows)
                known = pc.is_valid(_without_nan(part[self.target]))
                yield pieces[number], index[known.to_numpy()], part.filter(known), rows


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


@dataclass(frozen=True)
class Survey:
    """What one pass over all rows shows.

    Attributes:
        inputs: The columns.
        targets: Labels: the distinct ones of all rows. Numbers: those of a sample.
        n_rows: How many rows have a target.
    """

    inputs: TableInputs
    targets: pa.ChunkedArray
    n_rows: int


def survey(share: Share, classes: bool, seed: int) -> Survey:
    """Look at all rows once.

    Args:
        share: What to read.
        classes: Whether targets are classes.
        seed: For the sample.

    Raises:
        ValueError: If a column cannot be used, or no row has a target.
    """
    seen, samples, found = TableParts(), [], []
    rate = min(SAMPLE, max(10_000, share.files.memory // (64 * len(share.features)))) / share.files.n_rows
    for _, index, part in share.parts("survey"):
        seen.add(part.select(share.features))
        found += [pc.unique(part[share.target].combine_chunks())] if classes else []
        chosen = np.ones(len(part), bool) if rate >= 1 else mixed(index.astype(np.uint64) + np.uint64(seed)) < rate
        samples.append((index[chosen], part.filter(pa.array(chosen))))
    everyone = parallel.gather_objects((seen, samples, found))
    total = TableParts()
    total.join(parts for parts, _, _ in everyone)
    if total.n_rows < LEAST or not all(parts.n_rows for parts, _, _ in everyone):
        raise ValueError(
            f"X: expected files with at least {LEAST} rows that have a {share.target!r}, and some for each process, "
            f"got {total.n_rows}; fit a table of them in memory instead, in one process"
        )
    drawn = [pair for _, own, _ in everyone for pair in own]
    order = np.argsort(np.concatenate([index for index, _ in drawn]))  # the same however many processes there are
    sample = pa.concat_tables([table for _, table in drawn]).take(pa.array(order))
    inputs = TableInputs(total.transform(sample.select(share.features)))
    share.tell_missing(total.n_rows)
    if not classes:
        return Survey(inputs, sample[share.target], total.n_rows)
    labels = pa.chunked_array([part for _, _, own in everyone for part in own])
    return Survey(inputs, pa.chunked_array([pc.unique(labels)]), total.n_rows)


@dataclass(frozen=True)
class HeldOut:
    """Which shares of the rows are held out.

    Attributes:
        fold: By each network alone.
        aside: By all networks.
        n_folds: How many networks hold out rows of their own.
    """

    fold: float
    aside: float
    n_folds: int

    @classmethod
    def of(cls, n_rows: int, n_folds: int, fraction: float, calibrate: bool) -> "HeldOut":
        """Return the shares: as of a table in memory (`fold_rows`), but at most `HELD_OUT` rows each."""
        fold = fraction if n_folds * fraction >= 1 or n_folds == 1 else max(fraction / 2, ENOUGH / n_rows)
        most = HELD_OUT / n_rows
        return cls(min(fold, 1 / (n_folds + 1), most), min(fraction / 2, most) if calibrate else 0.0, n_folds)

    def folds(self, key: NDArray[np.uint64]) -> NDArray[np.int8]:
        """Return the network that holds out each row, -1 for none, `ASIDE` for all of them."""
        place = key / 2.0**64
        number = np.floor((place - self.aside) / self.fold)
        fold = np.where(place < self.aside, ASIDE, np.where(number < self.n_folds, number, -1))
        return fold.astype(np.int8)


@contextmanager
def located(path: str, paths: list[str] | None = None) -> Iterator[None]:
    """Let errors about rows name their file.

    Args:
        path: The file.
        paths: The file of each row, if there are several.

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


def check_targets(share: Share, numbers: Callable[[Any], NDArray[np.float64]]) -> None:
    """Raise in every process with the file in which the first target is that the family cannot have."""
    own = None
    try:
        for piece, _, part in share.parts("check"):
            with located(piece.path):
                numbers(part[share.target])
    except ValueError as error:
        own = str(error)
    for problem in parallel.gather_objects(own):
        if problem:
            raise ValueError(problem)


@contextmanager
def encode(
    share: Share,
    found: Survey,
    numbers: Callable[[Any], NDArray[np.float64]],
    targets: Targets,
    held_out: HeldOut,
    seed: int,
) -> Iterator[Prepared]:
    """Write all rows to disk as training sees them; they are gone afterwards.

    Args:
        share: What to read.
        found: What the survey showed.
        numbers: Returns targets as numbers.
        targets: Knows these as training sees them.
        held_out: Which rows to hold out.
        seed: For the order of training.
    """
    folds, kept = [], []
    with Store(found.inputs.shape[0]) as store:
        for piece, _, part in share.parts("encode"):
            with located(piece.path):
                x, y = found.inputs.transform(part.select(share.features)), numbers(part[share.target])
            seen = targets.standardise(y).numpy()
            key = row_keys(part)
            fold = held_out.folds(key)
            store.append(x[fold < ASIDE], seen[fold < ASIDE])
            folds.append(fold[fold < ASIDE])
            kept.append([column[fold >= 0] for column in (key.view(np.int64), fold, x, y, seen)])
        train = StoredRows(
            store,
            np.concatenate(folds),
            seed,
            buffer=share.files.memory // (32 * (store.n_inputs + 1)),
            epoch=EPOCH,
            fingerprint=f"{share.files.fingerprint} {share.features} {share.target}",
        )
        yield _with_held_out(train, [torch.from_numpy(np.concatenate(parts)) for parts in zip(*kept, strict=True)],
                             held_out)  # fmt: skip


def _with_held_out(train: StoredRows, own: list[Tensor], held_out: HeldOut) -> Prepared:
    """Add the held-out rows of all processes, given those of this one: key, fold, inputs, targets and as seen."""
    everyone = [parallel.gather_rows(column) for column in own]
    order = torch.argsort(everyone[0], stable=True)  # the same however many processes there are
    fold, x, y, seen = (column[order] for column in everyone[1:])
    members = [(fold == i).nonzero().flatten() for i in range(held_out.n_folds)]
    used = fold == ASIDE if held_out.aside else fold >= 0
    calibration = x[used], y[used].double().numpy()
    if held_out.n_folds == 1:
        return Prepared(train.of(0), Rows(x[members[0]], seen[members[0]]), *calibration, None)
    folds = None if held_out.aside else fold.long()
    return Prepared(train, FoldedRows(Rows(x, seen), members), *calibration, folds)


def row_keys(table: pa.Table) -> NDArray[np.uint64]:
    """Return a number for each row that depends on its content alone, spread evenly over 64 bits."""
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
            whole_numbers = pa.types.is_temporal(whole.type) or pa.types.is_boolean(whole.type)
            plain = whole.cast(pa.int64(), safe=False) if whole_numbers else whole
            bits = plain.cast(pa.float64(), safe=False).fill_null(np.nan).to_numpy().view(np.uint64)
        keys = mixed_bits(keys ^ mixed_bits(bits))
    return keys


def mixed_bits(key: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Return numbers whose bits all depend on all bits of the given ones, by splitmix64."""
    key = key + np.uint64(0x9E3779B97F4A7C15)
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        key = (key ^ (key >> np.uint64(shift))) * np.uint64(factor)
    return key ^ (key >> np.uint64(31))


def mixed(key: NDArray[np.uint64]) -> NDArray[np.float64]:
    """Return the same as shares between 0 and 1."""
    share: NDArray[np.float64] = mixed_bits(key) / 2.0**64
    return share
