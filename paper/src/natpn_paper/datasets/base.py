"""What all data sets share: the request, the splits, and the way from one to the other.

Splits are the paper's (Appendix F). A data set with a test set of its own keeps it, and the rest is split 80 % / 20 %
into training and validation rows. Any other is split 70 % / 15 % / 15 %. The seed decides which rows go where.

Out-of-domain inputs ("OODom") are the inputs of the first OOD set times 255, or the test inputs if there is none. The
paper calls them "not normalized in [0, 1]" (Section 4.1): an image keeps its bytes of 0 to 255, and a table is scaled
by the same factor. It does not say of which set. But it prints the areas of models that rank every OODom input above
every test input: 23.59 for Sensorless Drive and 15.8 for CIFAR-10, as with the left-out classes and with SVHN. Scale
them with the moments of the training rows, like all other inputs.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from natpn_paper.datasets.files import MissingData

Array = NDArray[Any]
Pair = tuple[Array, Array]
Convert = Callable[[Array], Array]


def check_whole(argument: str, value: object, least: int) -> None:
    """Raise unless ``value`` is a whole number of at least ``least``.

    Raises:
        ValueError: Otherwise.
    """
    if not isinstance(value, (int, np.integer)) or isinstance(value, bool) or value < least:
        raise ValueError(f"{argument}: expected a whole number of at least {least}, got {value!r}")


def check_size(argument: str, value: tuple[int, int]) -> None:
    """Raise unless ``value`` is (height, width) of an image.

    Raises:
        ValueError: Otherwise.
    """
    if not isinstance(value, (tuple, list)) or len(value) != 2:
        raise ValueError(f"{argument}: expected (height, width), such as (480, 640), got {value!r}")
    for side in value:
        check_whole(argument, side, 1)


def same(rows: Array) -> Array:
    """Return the rows as they are."""
    return rows


def pixels(images: Array) -> Array:
    """Turn bytes, shape (N, H, W) or (N, H, W, C), into float32 in [0, 1], shape (N, C, H, W)."""
    channels_first = images[:, None] if images.ndim == 3 else images.transpose(0, 3, 1, 2)
    return np.ascontiguousarray(channels_first).astype(np.float32) / np.float32(255)


def choose(n_rows: int, limit: int | None, seed: int) -> NDArray[np.intp]:
    """Choose at most ``limit`` rows by the seed; a larger limit adds rows and drops none."""
    order = np.random.default_rng(seed).permutation(n_rows)
    return np.sort(order[:limit]) if limit is not None else np.arange(n_rows)


def divide(n_rows: int, share: float, seed: int) -> tuple[Array, Array]:
    """Split row numbers in two; the second part has the given share, rounded up."""
    from sklearn.model_selection import train_test_split

    if n_rows < 2:
        raise ValueError(f"directory: expected at least 2 rows to split, got {n_rows}; put more files into it")
    first, second = train_test_split(np.arange(n_rows), test_size=share, random_state=seed)
    return first, second


def out_of_domain(ood: Mapping[str, Array], test: Array) -> Array:
    """Return out-of-domain inputs, from the inputs of OOD sets and of the test set."""
    return 255 * next(iter(ood.values()), test)


def assemble(
    name: str,
    rest: "Rows",
    request: "Request",
    *,
    test: "Rows | None" = None,
    ood: Mapping[str, Callable[[], "Rows"]] | None = None,
    n_classes: int | None = None,
    columns: tuple[str, ...] | None = None,
) -> "Splits":
    """Split rows, read what the limit leaves of them, and add the OOD sets.

    Args:
        name: The name of the data set.
        rest: All rows, or all but the test set.
        request: What the user asked for.
        test: The test set, if the data set has one.
        ood: For each OOD set a function that finds its rows. An OOD set whose files are missing is left out.
        n_classes: The number of classes; None for regression.
        columns: The names of a table's columns.

    Returns:
        The splits. The note says what differs from the full data set.
    """
    numbers, seed = np.arange(len(rest.X)), request.seed
    if test is None:
        numbers, held_out = divide(len(rest.X), 0.15, seed)
        test, share = rest.only(held_out), 0.15 / 0.85
    else:
        share = 0.2
    first, second = divide(len(numbers), share, seed)
    parts = [rest.only(numbers[first]), rest.only(numbers[second]), test]
    train, validation, tested = (part.read(request) for part in parts)
    unfamiliar, notes = {}, [rest.note, test.note if test.note != rest.note else ""]
    for other, find in (ood or {}).items():
        try:
            found = find()
        except MissingData as error:
            notes.append(f"{other} left out: {error.names} not found")
            continue
        unfamiliar[other] = found.read(request)[0]
        notes.append(f"{other}: {found.note}" if found.note else "")
    unfamiliar["OODom"] = out_of_domain(unfamiliar, tested[0])
    note = "; ".join(n for n in notes if n)
    return Splits(name, train, validation, tested, unfamiliar, n_classes, columns, note)


@dataclass(frozen=True)
class Request:
    """What the user asked for; see ``natpn_paper.datasets.load``."""

    seed: int = 0
    directory: Path | None = None
    download: bool = False
    limit: int | None = None


@dataclass(frozen=True)
class Rows:
    """Inputs and targets that are not split yet, and how to turn some of them into arrays.

    Attributes:
        X: One entry a row: its values, or where to read them.
        y: The same for the targets.
        inputs: Turns entries of ``X`` into arrays.
        targets: Turns entries of ``y`` into arrays.
        note: What differs from the full data set.
    """

    X: Array
    y: Array
    inputs: Convert = same
    targets: Convert = same
    note: str = ""

    def only(self, numbers: Array) -> "Rows":
        """Keep the rows with these numbers, or where a mask is true."""
        return Rows(self.X[numbers], self.y[numbers], self.inputs, self.targets, self.note)

    def read(self, request: Request) -> Pair:
        """Return inputs and targets of as many rows as the limit allows."""
        chosen = self.only(choose(len(self.X), request.limit, request.seed))
        return chosen.inputs(chosen.X), chosen.targets(chosen.y)


@dataclass(frozen=True)
class Splits:
    """A data set, split.

    Attributes:
        name: The name of the data set.
        train: Inputs and targets to train on.
        validation: Inputs and targets for early stopping.
        test: Inputs and targets to report on.
        ood: Inputs of each OOD set, by the paper's name for it. "OODom" is the first of them times 255.
        n_classes: The number of classes; None for regression.
        columns: The names of a table's columns; None for images and tables without names.
        note: What differs from the full data set; empty if nothing does.
    """

    name: str
    train: Pair = field(repr=False)
    validation: Pair = field(repr=False)
    test: Pair = field(repr=False)
    ood: dict[str, Array] = field(repr=False)
    n_classes: int | None = None
    columns: tuple[str, ...] | None = None
    note: str = ""
