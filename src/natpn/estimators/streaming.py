"""Fits on rows that do not fit into memory: two passes, and then training from disk.

1. *Survey*: what each part shows of the inputs, added up, a sample of the rows, and the labels of all of them. Sums,
   ranges and counts are those of all rows.
2. *Encode*: rows become float32 in a scratch file. A few are held out to validate and calibrate, and kept in memory.
   A hash of its content says whether a row is held out: the split does not depend on files, their order or the number
   of processes, and no copy of a held-out row is trained on.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import torch
from numpy.typing import NDArray
from torch import Tensor

from natpn import parallel
from natpn.estimators.arrays import read_targets
from natpn.estimators.rows import CANDIDATES, ENOUGH, Prepared
from natpn.estimators.shares import Share, located, mixed_bits
from natpn.model import Inputs, Targets
from natpn.model.inputs import evenly, take
from natpn.training import FoldedRows, Rows
from natpn.training.stored import Store, StoredRows

SAMPLE = 200_000
"""Rows that show the family of targets and the quantiles of columns; fewer if they would need much of the memory."""

LEAST = 200
"""Rows that there have to be: of fewer, too few would be held out."""

HELD_OUT = 30_000
"""Rows that each network holds out, at most."""

EPOCH = 1_000_000
"""Rows of an epoch, at most."""

ASIDE = 100
"""In place of the number of a network: all of them hold out the row."""


@dataclass(frozen=True)
class Survey:
    """What one pass over all rows shows.

    Attributes:
        inputs: The inputs.
        targets: Labels: the distinct ones of all rows. Numbers: those of a sample.
        n_rows: How many rows have a target.
        some: Some rows as they came.
    """

    inputs: Inputs
    targets: Any
    n_rows: int
    some: Any


def survey(share: Share, inputs: Inputs, classes: bool, seed: int) -> Survey:
    """Look at all rows once.

    Args:
        share: What to read.
        inputs: What learns the inputs.
        classes: Whether targets are classes.
        seed: For the sample.

    Raises:
        ValueError: If a column cannot be used, or no row has a target.
    """
    seen, samples = inputs.parts(), []
    labels: dict[Any, None] = {}
    rate = min(SAMPLE, max(10_000, share.memory // (64 * share.n_features))) / share.n_rows
    for part in share.parts("survey"):
        with located(part.where):
            seen.add(part.X)
            y = read_targets(part.y)
        labels |= dict.fromkeys(y.tolist()) if classes else {}
        chosen = np.flatnonzero(mixed_bits(part.index.astype(np.uint64) + np.uint64(seed)) / 2.0**64 <= rate)
        samples.append((part.index[chosen], take(part.X, chosen), y[chosen]))
    everyone = parallel.gather_objects((seen, samples, labels))
    total = inputs.parts()
    total.join(parts for parts, _, _ in everyone)
    if total.n_rows < LEAST or not all(parts.n_rows for parts, _, _ in everyone):
        raise ValueError(
            f"X: expected at least {LEAST} rows that have a {share.what}, and some for each process, got "
            f"{total.n_rows}; fit them in memory, in one process"
        )
    drawn = [own for _, some, _ in everyone for own in some]
    index, X, y = (_joined([own[i] for own in drawn]) for i in range(3))
    order = np.argsort(index)  # the same however many processes there are
    fitted = inputs.fit_parts(total, take(X, order))
    share.tell_missing(total.n_rows)
    distinct = list(dict.fromkeys(label for _, _, own in everyone for label in own))
    some = take(X, order[evenly(len(order), CANDIDATES)])
    return Survey(fitted, distinct if classes else y[order], total.n_rows, some)


def _joined(parts: list[Any]) -> Any:
    return pa.concat_tables(parts) if isinstance(parts[0], pa.Table) else np.concatenate(parts)


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


def check_targets(share: Share, numbers: Callable[[Any], NDArray[np.float64]]) -> None:
    """Raise in every process with the file in which the first target is that the family cannot have."""
    own = None
    try:
        for part in share.parts("check"):
            with located(part.where):
                numbers(part.y)
    except ValueError as error:
        own = str(error)
    for problem in parallel.gather_objects(own):
        if problem:
            raise ValueError(problem)


@contextmanager
def encode(
    share: Share,
    inputs: Inputs,
    numbers: Callable[[Any], NDArray[np.float64]],
    targets: Targets,
    held_out: HeldOut,
    seed: int,
) -> Iterator[Prepared]:
    """Write all rows to disk as training sees them; they are gone afterwards.

    Args:
        share: What to read.
        inputs: What the survey showed.
        numbers: Returns targets as numbers.
        targets: Knows these as training sees them.
        held_out: Which rows to hold out.
        seed: For the order of training.
    """
    folds, kept = [], []
    with Store(inputs.shape) as store:
        for part in share.parts("encode"):
            with located(part.where):
                x, y = inputs.transform(part.X), numbers(part.y)
            seen = targets.standardise(y).numpy()
            key = part.keys()
            fold = held_out.folds(key)
            store.append(x[fold < ASIDE], seen[fold < ASIDE])
            folds.append(fold[fold < ASIDE])
            kept.append([column[fold >= 0] for column in (key.view(np.int64), fold, x, y, seen)])
        train = StoredRows(
            store,
            np.concatenate(folds),
            seed,
            buffer=share.memory // (32 * (store.n_inputs + 1)),
            epoch=EPOCH,
            fingerprint=share.fingerprint,
        )
        own = [torch.from_numpy(np.concatenate(columns)) for columns in zip(*kept, strict=True)]
        yield _with_held_out(train, own, held_out)


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
