"""Where batches come from: tensors in memory, shuffled by index, or any loader.

Every batch is (x, y, weight). With several processes each gets its share of every batch; all shuffle alike. Members of
an ensemble share their rows, or each holds out a fold of its own (`folded`).
"""

import hashlib
from collections.abc import Callable, Iterable, Iterator, Sequence, Sized
from typing import Any, Protocol, cast

import torch
from torch import Tensor
from torch.utils.data import TensorDataset

from natpn import parallel

Batch = tuple[Tensor, Tensor, Tensor]
Function = Callable[[Tensor], Tensor]
_CHUNK = 4096
_PREPARED = 2**28  # bytes of inputs that are prepared at once


class RowSource(Protocol):
    """Where batches come from: `Rows`, `LoadedRows`, or `natpn.training.stored.StoredRows`."""

    is_table: bool  # whether inputs are rows of numbers
    is_own: bool  # whether each process takes batches of rows of its own; else they share every batch

    @property
    def n_epochs(self) -> int:
        """How many epochs a pass over all rows has."""

    def __len__(self) -> int:
        """Return how many rows all processes have together."""

    def to(self, device: torch.device) -> "RowSource":
        """Return the rows on a device."""

    def of(self, member: int) -> "RowSource":
        """Return the rows of a member of an ensemble."""

    def prepared(self, function: Function) -> "RowSource":
        """Return the rows with a function of their inputs in place of these."""

    def steps(self, batch_size: int) -> int:
        """Return the number of batches in an epoch."""

    def batches(
        self, batch_size: int, generator: torch.Generator, n_members: int | None = None, epoch: int = 0
    ) -> Iterator[Batch]:
        """Yield an epoch of batches; for stacked members (M, B, …)."""

    def chunks(self, n_members: int | None = None) -> Iterator[Batch]:
        """Yield this process's rows in pieces; for stacked members (M, B, …)."""

    def sample(self, n: int) -> Tensor:
        """Return about n inputs."""


Data = Sequence[Tensor] | Iterable[Any] | RowSource


class Rows:
    """Inputs, targets and weights in memory; `function` is applied to inputs before they are handed out."""

    is_own = False
    n_epochs = 1

    def __init__(self, x: Tensor, y: Tensor, weight: Tensor | None = None, *, function: Function = lambda x: x) -> None:
        self.x, self.y, self.function = x, y, function
        self.is_table = x.ndim == 2
        self.weight = torch.ones(len(x), device=x.device) if weight is None else weight.to(torch.float32)
        if len(y) != len(x) or self.weight.shape != (len(x),):
            raise ValueError(
                f"data: expected as many targets and weights as inputs, got {len(x)} inputs, {len(y)} targets and "
                f"weights of shape {tuple(self.weight.shape)}"
            )
        if not len(x):
            raise ValueError("data: expected at least one row, got none")

    def __len__(self) -> int:
        return len(self.x)

    def to(self, device: torch.device) -> "Rows":
        """Return the rows on a device."""
        return Rows(*(t.to(device) for t in (self.x, self.y, self.weight)), function=self.function)

    def of(self, member: int) -> "Rows":
        """Return the rows of a member of an ensemble: all have the same."""
        return self

    def prepared(self, function: Function) -> "Rows":
        """Return the rows with a function applied to their inputs: at once, if the results are not too large."""
        first = self.x[:1]
        one = function(first)
        if one is first:
            return self
        if len(self) * one.nbytes > _PREPARED:
            return Rows(self.x, self.y, self.weight, function=function)
        return Rows(torch.cat([function(part) for part in self.x.split(_CHUNK)]), self.y, self.weight)

    def steps(self, batch_size: int) -> int:
        """Return the number of whole batches in an epoch; an epoch leaves out the rows of an incomplete one."""
        return max(1, len(self) // batch_size)

    def batches(
        self, batch_size: int, generator: torch.Generator, n_members: int | None = None, epoch: int = 0
    ) -> Iterator[Batch]:
        """Shuffle and yield an epoch of batches; for stacked members (M, B, …), each in its own order."""
        rows = self.steps(batch_size) * batch_size
        order = torch.stack([self._shuffled(i, generator)[:rows] for i in range(n_members or 1)]).to(self.x.device)
        # `index_select` takes whole rows several times as fast as brackets do
        for index in order.split(batch_size, 1):
            index = index[:, parallel.rank() :: parallel.world_size()]
            x, y, weight = (t.index_select(0, index.flatten()) for t in (self.x, self.y, self.weight))
            if n_members is not None:
                x, y, weight = (t.unflatten(0, index.shape) for t in (x, y, weight))
            yield self.function(x), y, weight

    def _shuffled(self, member: int, generator: torch.Generator) -> Tensor:
        return torch.randperm(len(self), generator=generator)

    def chunks(self, n_members: int | None = None) -> Iterator[Batch]:
        """Yield this process's rows in order, in pieces; for stacked members (M, B, …), the same rows for each."""
        parts = [parallel.share(t) for t in (self.x, self.y, self.weight)]
        for start in range(0, len(parts[0]), _CHUNK):
            x, y, weight = (t[start : start + _CHUNK] for t in parts)
            yield repeated((self.function(x), y, weight), n_members)

    def sample(self, n: int) -> Tensor:
        """Return about n of all inputs, evenly spaced."""
        return self.function(self.x[:: -(-len(self.x) // n)])


class FoldedRows(Rows):
    """Rows in memory of which each member of an ensemble has some: `members` are their indices."""

    def __init__(self, rows: Rows, members: Sequence[Tensor]) -> None:
        super().__init__(rows.x, rows.y, rows.weight, function=rows.function)
        if not all(len(index) for index in members):
            raise ValueError(
                f"data: expected at least one row for each of {len(members)} members, got {[*map(len, members)]}"
            )
        self.members = tuple(members)

    def __len__(self) -> int:
        return min(map(len, self.members))

    def to(self, device: torch.device) -> "FoldedRows":
        """Return the rows on a device."""
        return FoldedRows(super().to(device), [index.to(device) for index in self.members])

    def of(self, member: int) -> Rows:
        """Return the rows of a member."""
        index = self.members[member]
        return Rows(self.x[index], self.y[index], self.weight[index], function=self.function)

    def prepared(self, function: Function) -> "FoldedRows":
        """Return the rows with a function applied to their inputs."""
        whole = Rows(self.x, self.y, self.weight, function=self.function)
        return FoldedRows(whole.prepared(function), self.members)

    def _shuffled(self, member: int, generator: torch.Generator) -> Tensor:
        index = self.members[member]
        return index[torch.randperm(len(index), generator=generator)]

    def chunks(self, n_members: int | None = None) -> Iterator[Batch]:
        """Yield all rows, or for stacked members those of each, (M, B, …), filled up with rows of weight 0."""
        if n_members is None:
            yield from super().chunks()
            return
        index = torch.nn.utils.rnn.pad_sequence(list(self.members), batch_first=True)
        counts = torch.tensor([*map(len, self.members)], device=index.device)
        for start in range(0, index.shape[1], _CHUNK):
            part = index[:, start : start + _CHUNK]
            there = torch.arange(start, start + part.shape[1], device=part.device) < counts[:, None]
            yield self.function(self.x[part]), self.y[part], self.weight[part] * there


class LoadedRows:
    """Batches (x, y) or (x, y, weight) of a loader, which decides on size, order and this process's share."""

    is_own = False
    is_table = False
    n_epochs = 1

    def __init__(self, loader: Iterable[Any], device: torch.device, function: Function = lambda x: x) -> None:
        self.loader, self.device, self.function = loader, device, function
        self._length: int | None = None

    def __len__(self) -> int:
        if self._length is None:
            rows = torch.tensor(sum(len(weight) for _, _, weight in self.chunks()), device=self.device)
            self._length = int(parallel.total(rows))
        return self._length

    def to(self, device: torch.device) -> "LoadedRows":
        """Return the same loader, whose batches go to a device."""
        return LoadedRows(self.loader, device, self.function)

    def of(self, member: int) -> "LoadedRows":
        """Return the rows of a member of an ensemble: all have the same."""
        return self

    def prepared(self, function: Function) -> "LoadedRows":
        """Return the same loader with a function to apply to its inputs."""
        return LoadedRows(self.loader, self.device, function)

    def steps(self, batch_size: int) -> int:
        """Return the number of batches in an epoch."""
        try:
            return len(self.loader)  # type: ignore[arg-type]
        except TypeError:
            return max(1, len(self) // batch_size)

    def batches(
        self, batch_size: int, generator: torch.Generator, n_members: int | None = None, epoch: int = 0
    ) -> Iterator[Batch]:
        """Yield an epoch of batches; stacked members all get the same."""
        yield from self.chunks(n_members)

    def chunks(self, n_members: int | None = None) -> Iterator[Batch]:
        """Yield the loader's batches; for stacked members (M, B, …), the same for each."""
        for batch in self.loader:
            if not isinstance(batch, (tuple, list)) or len(batch) not in (2, 3):
                raise ValueError(f"data: expected batches (x, y) or (x, y, weight), got {type(batch).__name__}")
            moved = [t.to(self.device, non_blocking=True) for t in batch]
            x, y = moved[:2]
            weight = moved[2].float() if len(moved) == 3 else torch.ones(len(x), device=self.device)
            yield repeated((self.function(x), y, weight), n_members)

    def sample(self, n: int) -> Tensor:
        """Return about n inputs, from the first batches."""
        parts: list[Tensor] = []
        for x, _, _ in self.chunks():
            parts.append(x)
            if sum(map(len, parts)) >= n:
                break
        return torch.cat(parts)[:n]


def repeated(batch: Batch, n_members: int | None) -> Batch:
    """Return a batch once for each of the stacked members, if there are any."""
    if n_members is None:
        return batch
    x, y, weight = (t.expand(n_members, *t.shape) for t in batch)
    return x, y, weight


def folded(rows: RowSource, folds: Tensor, n_members: int) -> tuple[FoldedRows, FoldedRows]:
    """Return the rows that members train on, and those that they hold out; a row in fold -1 no one holds out."""
    if not isinstance(rows, Rows) or folds.shape != (len(rows),) or folds.is_floating_point():
        raise ValueError(
            f"validation: expected the number of a member for each row of train, which has to be tensors, got shape "
            f"{tuple(folds.shape)} of {folds.dtype}"
        )
    folds = folds.to(rows.x.device)
    return (
        FoldedRows(rows, [(folds != i).nonzero().flatten() for i in range(n_members)]),
        FoldedRows(rows, [(folds == i).nonzero().flatten() for i in range(n_members)]),
    )


def fingerprint(data: Data | Tensor) -> str:
    """Return a hash of data, by which other data are recognised.

    A loader is not read for it, since it may shuffle or change its rows each time: the hash is that of the tensors of
    its data set if that is a `TensorDataset`, else of the sizes.
    """
    if isinstance(data, Tensor):
        return digest(["folds"], [data])
    if isinstance(data, Rows):
        return digest([], [data.x, data.y, data.weight])
    if hasattr(data, "fingerprint"):
        return str(data.fingerprint)
    if isinstance(data, (tuple, list)):
        return digest([], data)
    rows = getattr(data, "dataset", None)
    sizes = [len(part) if isinstance(part, Sized) else None for part in (data, rows)]
    about = [type(data).__name__, type(rows).__name__, *map(str, sizes), str(getattr(data, "batch_size", None))]
    return digest(about, rows.tensors if isinstance(rows, TensorDataset) else ())


def digest(words: Iterable[str], tensors: Iterable[Tensor]) -> str:
    """Return a hash of words and of tensors, bit for bit."""
    found = hashlib.sha256("\n".join(words).encode())
    for tensor in tensors:
        plain = tensor.detach().cpu().contiguous()
        found.update(f"{plain.dtype} {tuple(plain.shape)}".encode())
        flat = plain.as_strided((plain.numel(),), (1,))  # a single number may have any stride
        found.update(flat.view(torch.uint8).numpy().data)
    return found.hexdigest()


def source(name: str, data: Data, device: torch.device) -> RowSource:
    """Return where batches come from: tensors, a loader or a source, given as the argument `name`."""
    if isinstance(data, (tuple, list)):
        if len(data) not in (2, 3) or not all(isinstance(t, Tensor) for t in data):
            raise ValueError(
                f"{name}: expected tensors (x, y) or (x, y, weight), got {[type(t).__name__ for t in data]}"
            )
        return Rows(*(t.to(device) for t in data))
    if hasattr(data, "batches"):
        return cast(RowSource, data).to(device)
    if not isinstance(data, Iterable) or isinstance(data, Tensor):
        raise ValueError(f"{name}: expected tensors (x, y) or a loader of batches, got {type(data).__name__}")
    return LoadedRows(data, device)
