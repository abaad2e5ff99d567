"""Targets: classes or numbers, for training and after it."""

import hashlib
import re
from collections import Counter
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from natpn.cli.bad_cells import BadCells
from natpn.cli.columns import check_type, read_texts, truth_values
from natpn.cli.distinct import is_text
from natpn.cli.looks import look
from natpn.cli.printing import note
from natpn.cli.problems import Problem, listed
from natpn.cli.source import Source
from natpn.tabular.written import Written

FEW = 20


def said_classes(task: str | None, family: str | None) -> bool | None:
    """Say whether a target is one of classes by the options, None if they leave it open.

    Raises:
        Problem: If the options contradict each other.
    """
    from natpn.families import FAMILIES

    if family is not None and family != "auto":
        of_classes = FAMILIES[family].is_classes
        if task == "classes" and not of_classes:
            raise Problem(f"--family {family} is for numbers, and --task says classes; leave one of them out.")
        if task == "numbers" and of_classes:
            raise Problem(f"--family {family} is for classes, and --task says numbers; leave one of them out.")
        return of_classes
    return task == "classes" if task else None


def holds_classes(column: Any, name: str) -> bool:
    """Say whether a target is one of classes by what it holds: texts or truth values.

    Raises:
        Problem: If it holds dates.
    """
    import pyarrow as pa

    kind = column.type
    if pa.types.is_temporal(kind) and not pa.types.is_duration(kind):
        raise Problem(f"--target {name}: it holds dates; predict a number, such as the days since then, or classes.")
    return not (
        pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind) or pa.types.is_null(kind)
    )


def check_labels(y: NDArray[Any], name: str, written: Written) -> None:
    """Refuse texts of which nearly every row has another: nobody would call them classes.

    Args:
        y: The labels.
        name: The name of the target.
        written: How their file writes values.

    Raises:
        Problem: With one of them.
    """
    count = len(np.unique(y))
    if count > FEW and count > len(y) / 2:
        seen = look(Counter(map(str, y.tolist())), written)
        if seen:
            raise Problem(f"--target {name}: it {seen}, or say --task classes if each is a class.")
        raise Problem(
            f"--target {name}: it holds {count:,} different texts in {len(y):,} rows, such as {str(y[0])!r}; make it "
            "one of numbers, or say --task classes if each is a class."
        )


def labels(column: Any, name: str, source: Source) -> tuple[NDArray[Any], NDArray[np.intp]]:
    """Return a column as labels, those that are not missing, and their rows.

    Labels stay what they are: 010 and 10 are two, and so are whole numbers that float64 cannot tell apart. Texts are
    whole numbers if all are written as such, and truth values if all are.
    """
    import pyarrow as pa

    column = _plain(column)
    values = column.to_pylist()
    if is_text(column.type) and source.texts:
        found = _labels_of_texts(values, name)
    elif pa.types.is_boolean(column.type) or pa.types.is_signed_integer(column.type):
        found = values
    else:
        found = _labels_of_values(values)
    kept = np.flatnonzero([value is not None for value in found])
    return np.asarray([found[row] for row in kept]), kept


def _labels_of_values(values: list[Any]) -> list[Any]:
    from natpn.tabular.cells import is_missing, text_of

    known = [None if is_missing(value) else value for value in values]
    whole = [v is None or (isinstance(v, int | float) and abs(v) < 2**53 and v == int(v)) for v in known]
    return [None if v is None else int(v) if all(whole) else text_of(v) for v in known]


def _labels_of_texts(values: list[str | None], name: str) -> list[Any]:
    """Return the labels that texts of a CSV file stand for."""
    from natpn.tabular.column_kinds import OTHER, kind_of_texts
    from natpn.tabular.texts import TRUTHS, is_mark

    texts = [None if text is None else text.strip() for text in values]
    counts = Counter(text for text in texts if text)
    kind, wrong = kind_of_texts(counts)
    if kind == OTHER or wrong:
        marks = [text for text in counts if is_mark(text)]
        if marks:
            note(
                f"{name!r} is {marks[0]!r} in {counts[marks[0]]:,} rows, which is taken for a class, as the others are "
                "texts; leave the cells empty if it is not known"
            )
        return [text or None for text in texts]
    texts = [None if text is None or is_mark(text) else text for text in texts]
    known = set(filter(None, texts))
    if {text.lower() for text in known} <= {"true", "false"}:
        return [None if text is None else TRUTHS[text.lower()] for text in texts]
    if all(_is_whole(text) for text in known):
        return [None if text is None else int(text) for text in texts]
    return texts


def _is_whole(text: str) -> bool:
    """Say whether a text is a whole number of 64 bits in the form that it is printed in: not 010, +1 or 1.0."""
    return re.fullmatch(r"0|-?[1-9][0-9]{0,18}", text) is not None and -(2**63) <= int(text) < 2**63


def _plain(column: Any) -> Any:
    """Return categories as what they are categories of."""
    import pyarrow as pa

    column = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    return column.cast(column.type.value_type) if pa.types.is_dictionary(column.type) else column


def numbers(
    column: Any, name: str, source: Source, bad: BadCells, cure: str = "say --bad-cells missing"
) -> NDArray[np.float64]:
    """Return a column as numbers, NaN where they are missing.

    Raises:
        Problem: If a value is no number; with the cure.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    from natpn.tabular import NumberColumn

    values = truth_values(_plain(column))
    if is_text(values.type):
        read = partial(NumberColumn.parse, written=source.written, unit=source.units.get(name, ""))
        values = read_texts(values, NumberColumn, read, name, source.name, source.place, bad, cure, source.written)
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

    from natpn.distributions import SupportError

    try:
        family.support.check(torch.tensor(y))
    except SupportError as error:
        place = source.place(int(rows[error.index[0]]))
        raise Problem(
            f"{source.name}, {place}, column {name!r}: {family!r} expected {error.expected}, got {error.got}; correct "
            "it, or choose another --family."
        ) from None


def known_labels(
    column: Any, classes: NDArray[Any], name: str, source: Source
) -> tuple[NDArray[Any], NDArray[np.intp]]:
    """Return labels as the model knows them, those that are not missing, and their rows.

    A text such as NA is a label if training had it as one, and else missing.

    Raises:
        Problem: If one was not in training.
    """
    from natpn.tabular.cells import is_missing, text_of
    from natpn.tabular.texts import is_mark

    fold = classes.dtype.kind == "b"
    known = {text_of(label).lower() if fold else text_of(label): place for place, label in enumerate(classes.tolist())}

    def place_of(value: Any) -> int | None:
        if is_missing(value):
            return None
        text = text_of(value).lower() if fold else text_of(value)
        place = known.get(text, known.get(text.strip()))
        return place if place is not None or is_mark(text) else -1

    check_type(column, name, source.name)
    values = column.to_pylist()
    places = [place_of(value) for value in values]
    if -1 in places:
        row = places.index(-1)
        shown = listed(list(map(str, classes.tolist())))
        raise Problem(
            f"{source.name}, {source.place(row)}, column {name!r}: the label {str(values[row])!r} was not "
            f"in training, where there were {shown}; correct it, or leave it empty."
        )
    kept = np.flatnonzero([place is not None for place in places])
    found: NDArray[Any] = classes[[place for place in places if place is not None]]
    return found, kept


def targets_digest(y: NDArray[Any]) -> str:
    """Return a hash of targets in their order, to know the rows of a fit again."""
    return hashlib.sha256("\n".join(map(str, y.tolist())).encode()).hexdigest()


def hint(y: NDArray[np.float64], name: str) -> str | None:
    """Return a hint if numbers look like classes."""
    distinct = np.unique(y)
    if distinct.tolist() == [0, 1]:
        return f"{name!r} is 0 or 1, and is predicted as a number; if they stand for no and yes, say --task classes"
    if len(distinct) <= FEW and bool(np.all(distinct == np.floor(distinct))):
        return (
            f"{name!r} has {len(distinct)} distinct whole numbers, and is predicted as a number; if they stand for "
            "classes, say --task classes"
        )
    return None
