"""Rows on disk: more than fit into memory, encoded once, and read in blocks.

A `Store` is a scratch file of float32 rows (inputs, then targets). An epoch of `StoredRows` reads blocks in a random
order, a buffer of them at a time, and shuffles the rows of the buffer. A pass over all rows may be several epochs, so
that progress, validation and checkpoints come as often as for smaller data; the order depends on the seed and on the
number of the epoch alone, so that a run that was interrupted goes on where it was.
"""

import contextlib
import copy
import math
import os
import tempfile
from collections.abc import Iterator
from types import TracebackType
from typing import IO, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from natpn import parallel
from natpn.training.batches import Batch, Function, repeated

BLOCK = 8_192  # rows that are read at once
RUN = 256  # rows that stand beside each other in a sample
SAMPLED = 100_000  # rows of a sample, of all processes together


class Store:
    """A scratch file of inputs of one shape and their targets; it is gone when the process ends, however it does."""

    def __init__(self, shape: tuple[int, ...], directory: str | None = None) -> None:
        self.shape, self.n_inputs = shape, math.prod(shape)
        self.n_rows = 0
        self._width: int | None = None
        self._target: tuple[int, ...] = ()
        self._directory = directory or tempfile.gettempdir()
        self._file: IO[bytes] = tempfile.TemporaryFile(prefix="natpn-rows-", dir=directory)  # noqa: SIM115

    def append(self, x: NDArray[np.float32], y: NDArray[np.float32]) -> None:
        """Write rows at the end, or raise an OSError if there is no room."""
        self._target = y.shape[1:]
        rows = np.concatenate([x.reshape(len(x), -1), y.reshape(len(y), -1)], 1, dtype=np.float32)
        self._width = rows.shape[1]
        try:
            self._file.seek(0, os.SEEK_END)
            self._file.write(rows.data)
            self._file.flush()
        except OSError as error:
            where = f"scratch file in {self._directory} (TMPDIR names another place)"
            raise OSError(error.errno, error.strerror, where) from None
        self.n_rows += len(rows)

    def read(self, start: int, stop: int) -> tuple[Tensor, Tensor]:
        """Return inputs and targets of some rows."""
        return self.read_all([(start, stop)])

    def read_all(self, places: list[tuple[int, int]]) -> tuple[Tensor, Tensor]:
        """Return inputs and targets of rows from several places, in one piece of memory."""
        if self._width is None:
            raise ValueError("store: expected rows, got none")
        sizes = [min(stop, self.n_rows) - start for start, stop in places]
        rows = torch.empty(sum(sizes), self._width)
        for (start, _), part in zip(places, rows.split(sizes), strict=True):
            self._file.seek(4 * start * self._width)
            self._file.readinto(part.numpy().data)  # type: ignore[attr-defined]
        x, y = rows[:, : self.n_inputs], rows[:, self.n_inputs :]
        return x.unflatten(1, self.shape), y.unflatten(1, self._target) if self._target else y[:, 0]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        with contextlib.suppress(OSError):  # what did not fit is written once more, and is not needed
            self._file.close()


class Pool:
    """Rows of a buffer in a member's order, behind those that it had left before; nothing is copied until it is used.

    Args:
        x: Inputs.
        y: Targets.
        order: Which of them, in which order.
        before: What comes before them.
    """

    def __init__(self, x: Tensor, y: Tensor, order: Tensor, before: "Pool | None" = None) -> None:
        self._x, self._y, self._order, self._before = x, y, order, before
        self._n_before = 0 if before is None else len(before)

    def __len__(self) -> int:
        return self._n_before + len(self._order)

    def rows(self, start: int, stop: int) -> tuple[Tensor, Tensor]:
        """Return inputs and targets from one place to another."""
        own = self._order[max(start - self._n_before, 0) : max(stop - self._n_before, 0)]
        found = self._x.index_select(0, own), self._y.index_select(0, own)
        if self._before is None or start >= self._n_before:
            return found
        first = self._before.rows(start, min(stop, self._n_before))
        return torch.cat([first[0], found[0]]), torch.cat([first[1], found[1]])

    def after(self, start: int) -> "Pool":
        """Return a copy of what follows a place, which does not hold the buffer."""
        x, y = self.rows(start, len(self))
        return Pool(x, y, torch.arange(len(x)))


class StoredRows:
    """The rows of a store, for training; each process has a store, and batches, of its own.

    Args:
        store: The rows.
        folds: Which member of an ensemble holds out each row, -1 for none; None if no member does.
        seed: For the order of the rows.
        buffer: How many rows are shuffled at once.
        epoch: How many rows of all processes an epoch has.
        fingerprint: By what the rows are known again.
        member: The member whose fold is left out; None leaves all of them in.
        function: What is done with inputs before they are handed out.
    """

    is_own = True

    def __init__(
        self,
        store: Store,
        folds: NDArray[np.int8] | None,
        seed: int,
        buffer: int,
        epoch: int,
        fingerprint: str = "",
        member: int | None = None,
        function: Function = lambda x: x,
    ) -> None:
        self.store, self.folds, self.member, self.function = store, folds, member, function
        self.fingerprint, self.is_table = fingerprint, len(store.shape) == 1
        self.device = torch.device("cpu")
        self._seed, self._buffer, self._epoch = seed, max(buffer, BLOCK), epoch
        self._passed: tuple[int, NDArray[np.int64]] | None = None

    def __len__(self) -> int:
        """Return how many rows all processes have together."""
        return int(parallel.total(torch.tensor(self.store.n_rows)))

    @property
    def n_epochs(self) -> int:
        """How many epochs a pass over all rows has."""
        return max(1, round(len(self) / self._epoch))

    def to(self, device: torch.device) -> "StoredRows":
        """Return the rows, which go to a device when they are read."""
        found = copy.copy(self)
        found.device = device
        return found

    def of(self, member: int) -> "StoredRows":
        """Return the rows that a member of an ensemble trains on."""
        found = copy.copy(self)
        found.member = member
        return found

    def prepared(self, function: Function) -> "StoredRows":
        """Return the rows with a function of their inputs in place of these."""
        found = copy.copy(self)
        found.function = function
        return found

    def steps(self, batch_size: int) -> int:
        """Return the number of batches in an epoch, the same in all processes."""
        held_out = 0 if self.folds is None else int(np.bincount(self.folds[self.folds >= 0]).max(initial=0))
        counts = torch.zeros(parallel.world_size(), dtype=torch.long)
        counts[parallel.rank()] = self.store.n_rows - held_out  # the rows of the member with the fewest
        return max(1, int(parallel.total(counts).min()) // (self.n_epochs * batch_size))

    def batches(
        self, batch_size: int, generator: torch.Generator, n_members: int | None = None, epoch: int = 0
    ) -> Iterator[Batch]:
        """Yield an epoch of batches of this process's rows; for stacked members (M, B, …), each in its own order.

        The generator is for the order within a buffer. The next epoch reads on where this one ends.
        """
        members = [self.member] if n_members is None else list(range(n_members))
        left = self.steps(batch_size)
        rest: list[Pool | None] = [None] * len(members)
        for blocks in self._buffers(epoch, left * batch_size):
            x, y, folds = self._read(blocks)
            pools = []
            for before, member in zip(rest, members, strict=True):
                own = torch.arange(len(x)) if member is None or folds is None else (folds != member).nonzero().flatten()
                pools.append(Pool(x, y, own[torch.randperm(len(own), generator=generator)], before))
            whole = min(min(map(len, pools)) // batch_size, left)
            for i in range(whole):
                parts = [pool.rows(i * batch_size, (i + 1) * batch_size) for pool in pools]
                one, two = parts[0] if n_members is None else map(torch.stack, zip(*parts, strict=True))
                yield self._handed_out(one, two, 1 if n_members is None else 2)
            left -= whole
            if not left:
                return
            rest = [pool.after(whole * batch_size) for pool in pools]
            del x, y, pools  # before the next ones are read

    def _buffers(self, epoch: int, wanted: int) -> Iterator[NDArray[np.int64]]:
        """Yield the blocks of an epoch and then those that follow, as many at once as fit into the buffer."""
        per_pass, several = self.n_epochs, max(1, self._buffer // BLOCK)
        number, part = divmod(epoch, per_pass)
        order = self._order(number)
        start = part * len(order) // per_pass
        stop = (part + 1) * len(order) // per_pass
        planned = order[start:stop]
        # what is missing because blocks and folds are not all of one size comes from blocks that are read next
        for chosen in (planned, np.concatenate([order[stop:], order[:start]])):
            for first in range(0, len(chosen), several):
                yield chosen[first : first + several]
        raise AssertionError("an epoch has more rows than a pass")

    def _order(self, number: int) -> NDArray[np.int64]:
        """Return the blocks in the order of a pass."""
        if self._passed is None or self._passed[0] != number:
            lot = np.random.default_rng([self._seed, number, parallel.rank()])
            self._passed = number, lot.permutation(-(-self.store.n_rows // BLOCK))
        return self._passed[1]

    def _read(self, blocks: NDArray[np.int64]) -> tuple[Tensor, Tensor, Tensor | None]:
        starts = np.sort(blocks) * BLOCK
        x, y = self.store.read_all([(start, start + BLOCK) for start in starts.tolist()])
        if self.folds is None:
            return x, y, None
        folds = np.concatenate([self.folds[start : start + BLOCK] for start in starts])
        return x, y, torch.from_numpy(folds)

    def chunks(self, n_members: int | None = None) -> Iterator[Batch]:
        """Yield a sample of this process's rows, short runs of them evenly spaced: all that is asked of it."""
        for x, y in self._sampled(SAMPLED // parallel.world_size()):
            yield repeated(self._handed_out(x, y, 1), n_members)

    def _handed_out(self, x: Tensor, y: Tensor, n_dims: int) -> Batch:
        """Return a batch, in which every row counts the same, whose first dimensions are not those of rows."""
        x, y = x.to(self.device, non_blocking=True), y.to(self.device, non_blocking=True)
        return self.function(x), y, torch.ones(x.shape[:n_dims], device=self.device)

    def _sampled(self, n: int) -> Iterator[tuple[Tensor, Tensor]]:
        there = -(-self.store.n_rows // RUN)
        runs = min(-(-n // RUN), there)
        for start in (np.arange(runs) * there // runs * RUN).tolist():
            stop = start + RUN
            x, y = self.store.read(start, stop)
            if self.member is not None and self.folds is not None:
                kept = torch.from_numpy(self.folds[start:stop] != self.member)
                x, y = x[kept], y[kept]
            yield x, y

    def sample(self, n: int) -> Tensor:
        """Return about n inputs of this process, evenly spaced."""
        return self.function(torch.cat([x for x, _ in self._sampled(n)])[:n].to(self.device))
