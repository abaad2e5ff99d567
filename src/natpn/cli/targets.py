"""Targets: classes or numbers, for training and after it."""

import hashlib
import re
from typing import Any

import numpy as np
from numpy.typing import NDArray

from natpn.cli.columns import check_type, convert, truth_values
from natpn.cli.problems import Problem, listed
from natpn.cli.reading import Source

FEW = 20


def is_classes(column: Any, name: str, task: str | None, family: str | None) -> bool:
    """Say whether a target is one of classes: if it was said so, else if it holds texts or truth values.

    Raises:
        Problem: If the options contradict each other or the target.
    """
    import pyarrow as pa

    if family not in (None, "auto"):
        if task == "classes" and family != "categorical":
            raise Problem(f"--family {family} is for numbers, and --task says classes; leave one of them out.")
        if task == "numbers" and family == "categorical":
            raise Problem("--family categorical is for classes, and --task says numbers; leave one of them out.")
        return family == "categorical"
    if task:
        return task == "classes"
    kind = column.type
    if pa.types.is_temporal(kind) and not pa.types.is_duration(kind):
        raise Problem(f"--target {name}: it holds dates; predict a number, such as the days since then, or classes.")
    return not (
        pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind) or pa.types.is_null(kind)
    )


def check_labels(y: NDArray[Any], name: str) -> None:
    """Refuse texts of which nearly every row has another: nobody would call them classes.

    Raises:
        Problem: With one of them.
    """
    count = len(np.unique(y))
    if count > FEW and count > len(y) / 2:
        raise Problem(
            f"--target {name}: it holds {count:,} different texts in {len(y):,} rows, such as {str(y[0])!r}; make it "
            "one of numbers, or say --task classes if each is a class."
        )


def labels(column: Any) -> NDArray[Any]:
    """Return a column without missing values as labels: whole numbers, truth values, else texts."""
    import pyarrow as pa

    from natpn.tabular.objects import text_of

    if pa.types.is_boolean(column.type):
        return np.asarray(column.to_pylist(), np.bool_)
    values = column.to_pylist()
    if all(isinstance(v, (int, float)) and abs(v) < 2**53 and v == int(v) for v in values):
        return np.asarray(values, np.int64)
    return np.asarray([text_of(v) for v in values])


def numbers(column: Any, name: str, source: Source) -> NDArray[np.float64]:
    """Return a column as numbers, NaN where they are missing.

    Raises:
        Problem: If a value is no number.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    truths = truth_values(column) if pa.types.is_string(column.type) else None
    values = convert(column, "number", name, source.name, source.place) if truths is None else truths
    try:
        if pa.types.is_boolean(values.type):
            values = pc.cast(values, pa.int8())
        found = pc.cast(values, pa.float64(), safe=False).to_numpy(zero_copy_only=False)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        raise Problem(f"--target {name}: it holds {column.type}, not numbers; say --task classes.") from None
    array = np.asarray(found, np.float64)
    if np.isinf(array).any():
        row = int(np.flatnonzero(np.isinf(array))[0])
        raise Problem(
            f"{source.name}, {source.place(row)}, column {name!r}: it is infinite; correct it, or leave it empty."
        )
    return array


def check_support(family: Any, y: NDArray[np.float64], name: str, source: Source, rows: NDArray[np.intp]) -> None:
    """Raise if a family cannot have such targets.

    Raises:
        Problem: With the first that it cannot have.
    """
    import torch

    try:
        family.support.check(torch.tensor(y))
    except ValueError as error:
        found = re.search(r"(expected .+), got (\S+) at index \((\d+),\)", str(error))
        if not found:
            raise
        expected, got, row = found.groups()
        raise Problem(
            f"{source.name}, {source.place(int(rows[int(row)]))}, column {name!r}: {family!r} {expected}, got {got}; "
            "correct it, or choose another --family."
        ) from None


def known_labels(column: Any, classes: NDArray[Any], name: str, source: Source, rows: NDArray[np.intp]) -> NDArray[Any]:
    """Return labels as the model knows them.

    Raises:
        Problem: If one was not in training.
    """
    from natpn.tabular.objects import text_of

    def key(value: Any) -> str:
        text = text_of(value)
        return text.casefold() if classes.dtype.kind == "b" else text

    check_type(column, name, source.name)
    known = {key(label): place for place, label in enumerate(classes.tolist())}
    values = column.to_pylist()
    index = np.array([known.get(key(value), -1) for value in values], np.intp)
    if (index < 0).any():
        row = int(np.flatnonzero(index < 0)[0])
        shown = listed(list(map(str, classes.tolist())))
        raise Problem(
            f"{source.name}, {source.place(int(rows[row]))}, column {name!r}: the label {str(values[row])!r} was not "
            f"in training, where there were {shown}; correct it, or leave it empty."
        )
    found: NDArray[Any] = classes[index]
    return found


def targets_digest(y: NDArray[Any]) -> str:
    """Return a hash of targets in their order, to know the rows of a fit again."""
    return hashlib.sha256("\n".join(map(str, y.tolist())).encode()).hexdigest()


def hint(y: NDArray[np.float64], name: str) -> str | None:
    """Return a hint if numbers look like classes."""
    distinct = np.unique(y)
    if len(distinct) <= FEW and bool(np.all(distinct == np.floor(distinct))):
        return (
            f"{name!r} has {len(distinct)} distinct whole numbers, and is predicted as a number; if they stand for "
            "classes, say --task classes"
        )
    return None
