"""A fit on files that need not fit into memory: two passes over the files, then training from disk.

1. *Survey*: each process summarises the columns of its row groups, and all together take a sample of the rows. The
   sample shows the family and the units of targets; labels are those of all rows.
2. *Encode*: rows become float32 in a scratch file. A few are held out to validate and calibrate, and kept in memory.
   A hash of its content says whether a row is held out: the split does not depend on files, their order or the number
   of processes, and no copy of a held-out row is trained on.

Rows whose target is missing are left out.
"""

import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import torch
from numpy.typing import NDArray

from natpn import parallel
from natpn.data import Files, Piece
from natpn.model import TableInputs
from natpn.tabular import CellError, TableParts
from natpn.training.data import FoldedRows, Rows
from natpn.training.stored import Store, StoredRows

SAMPLE = 200_000
"""Rows that show the family of targets and the quantiles of columns."""

HELD_OUT = 30_000
"""Rows that each network holds out, at most."""

EPOCH = 1_000_000
"""Rows of an epoch, at most."""

_SPLIT = 4  # row groups for each process, at least, if they are not divided further


@dataclass(frozen=True)
class Share:
    """The part of some files that this process reads.

    Attributes:
        files: The files.
        features: The columns to predict from.
        target: The column to predict.
    """

    files: Files
    features: list[str]
    target: str

    def parts(self) -> Iterator[tuple[Piece, NDArray[np.int64], pa.Table]]:
        """Yield this process's rows that have a target, batch by batch: their row group, their numbers, and they."""
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
                if pc.any(known).as_py():
                    yield pieces[number], index[known.to_numpy()], part.filter(known)


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
        sample: The targets of some rows, as Arrow has them.
        labels: The distinct targets of all rows; None if they are numbers.
        n_rows: How many rows have a target.
    """

    inputs: TableInputs
    sample: pa.ChunkedArray
    labels: pa.Array | None
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
    seen, samples, labels = TableParts(), [], []
    rate = SAMPLE / share.files.n_rows
    for _, index, part in share.parts():
        seen.add(part.select(share.features))
        labels += [pc.unique(part[share.target].combine_chunks())] if classes else []
        chosen = np.ones(len(part), bool) if rate >= 1 else mixed(index.astype(np.uint64) + np.uint64(seed)) < rate
        samples.append((index[chosen], part.filter(pa.array(chosen))))
    everyone = parallel.gather_objects((seen, samples, labels))
    total = TableParts()
    total.join(parts for parts, _, _ in everyone)
    if not total.n_rows:
        raise ValueError(f"{share.target}: no row of the files has a target; give files that have some")
    drawn = [pair for _, own, _ in everyone for pair in own]
    order = np.argsort(np.concatenate([index for index, _ in drawn]))  # the same however many processes there are
    sample = pa.concat_tables([table for _, table in drawn]).take(pa.array(order))
    inputs = TableInputs(total.transform(sample.select(share.features)))
    found = pc.unique(pa.chunked_array([part for _, _, own in everyone for part in own])) if classes else None
    return Survey(inputs, sample[share.target], found, total.n_rows)


@dataclass(frozen=True)
class Encoded:
    """Rows as training sees them.

    Attributes:
        train: The rows of this process, on disk.
        x: Inputs of the held-out rows of all processes.
        y: Their targets, as numbers.
        targets: Their targets, as training sees them.
        folds: The network that holds out each of them; `ASIDE` for rows that all hold out.
    """

    train: StoredRows
    x: torch.Tensor
    y: NDArray[np.float64]
    targets: torch.Tensor
    folds: torch.Tensor

    def validation(self, n_members: int) -> Rows:
        """Return what networks are validated on, each on its own fold."""
        rows = Rows(self.x, self.targets)
        members = [(self.folds == i).nonzero().flatten() for i in range(n_members)]
        return rows if n_members == 1 and bool((self.folds == 0).all()) else FoldedRows(rows, members)


ASIDE = 100
"""In place of the number of a network: all of them hold out the row."""


def encode(
    share: Share,
    found: Survey,
    numbers: Any,
    standardise: Any,
    n_members: int,
    fraction: float,
    aside: float,
    seed: int,
) -> Encoded:
    """Write all rows to disk as training sees them.

    Args:
        share: What to read.
        found: What the survey showed.
        numbers: Returns targets as numbers.
        standardise: Returns these as training sees them.
        n_members: How many networks hold out rows of their own.
        fraction: Which share of the rows each holds out.
        aside: Which share all hold out.
        seed: For the order of training.
    """
    store = Store(found.inputs.shape[0])
    folds, held_out = [], []
    for piece, _, part in share.parts():
        try:
            x = found.inputs.transform(part.select(share.features))
            y = numbers(part[share.target])
        except CellError as error:
            raise ValueError(f"{piece.path}, column {error.column!r}: {error.problem}") from None
        except ValueError as error:
            raise ValueError(f"{piece.path}: {error}") from None
        seen = standardise(y).numpy()
        key = content_key(x, seen)
        fold = fold_of(key, n_members, fraction, aside)
        trained = fold < ASIDE
        store.append(x[trained], seen[trained])
        folds.append(fold[trained])
        kept = fold >= 0
        held_out.append((key[kept].view(np.int64), fold[kept], x[kept], y[kept], seen[kept]))
    columns = [torch.from_numpy(np.concatenate(parts)) for parts in zip(*held_out, strict=True)]
    gathered = [parallel.gather_rows(column) for column in columns]
    order = torch.argsort(gathered[0], stable=True)  # the same however many processes there are
    _, fold, x, y, targets = (column[order] for column in gathered)
    row = 4 * (x.shape[1] + max(1, targets[:1].numel()))
    train = StoredRows(
        store,
        np.concatenate(folds),
        seed,
        buffer=share.files.memory // (8 * row),
        epoch=EPOCH,
        fingerprint=f"{share.files.fingerprint} {share.features} {share.target}",
    )
    return Encoded(train, x, y.double().numpy(), targets, fold.long())


def content_key(x: NDArray[np.float32], y: NDArray[np.float32]) -> NDArray[np.uint64]:
    """Return a number for each row that depends on its content alone, spread evenly over 64 bits."""
    words = np.concatenate([x, y.reshape(len(y), -1)], 1, dtype=np.float32).view(np.uint32).astype(np.uint64)
    factors = np.random.default_rng(0).integers(0, 2**63, words.shape[1], dtype=np.uint64) * 2 + 1
    return mixed_bits((words * factors).sum(1, dtype=np.uint64))


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


def fold_of(key: NDArray[np.uint64], n_members: int, fraction: float, aside: float) -> NDArray[np.int8]:
    """Return the network that holds out each row, -1 for none, `ASIDE` for all of them."""
    place = key / 2.0**64
    number = np.floor((place - aside) / fraction)
    fold = np.where(place < aside, ASIDE, np.where(number < n_members, number, -1))
    return fold.astype(np.int8)


def warn_of_missing(share: Share, n_rows: int) -> None:
    """Say how many rows have no target."""
    missing = share.files.n_rows - n_rows
    if missing and parallel.rank() == 0:
        warnings.warn(f"{missing:,} of {share.files.n_rows:,} rows have no {share.target!r} and are left out",
                      UserWarning, stacklevel=4)  # fmt: skip
