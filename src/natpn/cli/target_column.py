"""The column to predict: classes or numbers, in a fit by the options and what it holds, after it as the model says."""

import hashlib
import re
from collections import Counter
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from natpn.choices import check_choice, listed
from natpn.cli.advice import lookalike
from natpn.cli.cell_texts import infer, is_text, read_texts, texts_of
from natpn.cli.formats import Source
from natpn.cli.writing import Problem, note
from natpn.tabular import BooleanColumn, NumberColumn
from natpn.tabular.cells import is_missing, text_of
from natpn.tabular.column_kinds import OTHER, kind_of_texts
from natpn.tabular.texts import TRUTHS, Written, is_mark, unit_of_texts

FEW = 20
_MISSING, _UNKNOWN = -1, -2  # instead of the place of a label
Targets = tuple[NDArray[Any], NDArray[np.intp]]  # those that are not missing, and their rows


def said_classes(task: str | None, family: str | None) -> bool | None:
    """Say by the options whether a target is one of classes, None if they leave it open."""
    from natpn.families import FAMILIES, has_vectors

    if has_vectors(family):
        raise Problem(f"--family {family} has vectors as targets, which are not in one column; use NatPNRegressor.")
    if family is None or family == "auto":
        return task == "classes" if task else None
    check_choice("--family", family, ["auto", *(name for name in FAMILIES if not has_vectors(name))])
    is_classes = FAMILIES[family].is_classes
    if task is not None and is_classes != (task == "classes"):
        kind = "classes" if is_classes else "numbers"
        raise Problem(f"--family {family} is for {kind}, and --task says {task}; leave one of them out.")
    return is_classes


def fit_targets(column: Any, name: str, source: Source, said: bool | None) -> Targets:
    """Return the targets of a fit: labels, or numbers as float64; by the options, if they said which."""
    import pyarrow.types as types

    if said is None:
        column = infer(column, name, source) if source.texts else column
        kind = column.type
        if types.is_temporal(kind) and not types.is_duration(kind):
            raise Problem(f"--target {name}: it holds dates; predict a number, as the days since then, or classes.")
        numeric = (types.is_integer, types.is_floating, types.is_decimal, types.is_null)
        if any(fits(kind) for fits in numeric):
            return number_targets(column, name, source)
        found = _label_targets(column, name, source)
        _refuse_free_texts(found[0], name, source.written)
        return found
    if said:
        return _label_targets(column, name, source)
    return number_targets(column, name, source, in_fit=True)


def number_targets(column: Any, name: str, source: Source, in_fit: bool = False) -> Targets:
    """Return a column as numbers; true is 1. In a fit texts are numbers because the options say so, and show a unit."""
    import pyarrow as pa
    import pyarrow.compute as pc

    values = _without_categories(column)
    if is_text(values.type):
        counts = texts_of(values, name, source.place).counts
        unit = unit_of_texts(counts) if in_fit else source.units.get(name, "")
        source.units.update({name: unit} if unit else {})
        kind = BooleanColumn if kind_of_texts(counts) == (BooleanColumn.kind, []) else NumberColumn
        read = partial(kind.parse, written=source.written, unit=unit)
        cure = "say --task classes" if in_fit else "say --bad-cells missing"
        values = read_texts(values, name, source, kind, read, cure=cure)
    try:
        values = pc.cast(values, pa.int8()) if pa.types.is_boolean(values.type) else values
        found = pc.cast(values, pa.float64(), safe=False).to_numpy(zero_copy_only=False)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        raise Problem(f"--target {name}: it holds {column.type}, not numbers; say --task classes.") from None
    rows = np.flatnonzero(~np.isnan(found))
    return np.asarray(found, np.float64)[rows], rows


def check_counted(exposure: str | None, target: str, is_classes: bool) -> None:
    """Raise if classes are to have an exposure."""
    if exposure is not None and is_classes:
        raise Problem(f"--exposure {exposure}: {target!r} holds classes, and only counts have one; leave it out.")


def with_exposures(X: Any, name: str, source: Source, rows: NDArray[np.intp]) -> tuple[Any, Any]:
    """Return a table whose last column are exposures as numbers above 0, and the table without them."""
    import pyarrow as pa
    import pyarrow.compute as pc

    from natpn.model.exposure import EXPECTED

    column = X[name]
    if not any(fits(column.type) for fits in (pa.types.is_integer, pa.types.is_floating, pa.types.is_decimal)):
        shown = next((value for value in column.to_pylist() if value is not None), None)
        raise Problem(f"--exposure {name}: expected numbers above 0, got values such as {shown!r}; convert the column.")
    values = pc.cast(column, pa.float64(), safe=False).to_numpy(zero_copy_only=False)
    wrong = ~(np.isfinite(values) & (values > 0))
    if wrong.any():
        row = int(np.argmax(wrong))
        got = "an empty cell" if np.isnan(values[row]) else f"{values[row]:g}"
        raise Problem(
            f"{source.place(int(rows[row]))}, column {name!r}: expected {EXPECTED}, the exposure, got {got}; correct "
            "it, or leave the row out."
        )
    features = X.drop_columns([name])
    return features.append_column(name, pa.array(values)), features


def _label_targets(column: Any, name: str, source: Source) -> Targets:
    """Return a column as labels.

    Labels stay what they are: 010 and 10 are two, and so are whole numbers that float64 cannot tell apart. Texts are
    whole numbers if all are written as such, and truth values if all are.
    """
    import pyarrow as pa

    column = _without_categories(column)
    found = column.to_pylist()
    if is_text(column.type) and source.texts:
        labels = _labels_of_texts(texts_of(column, name, source.place).counts, name)
        found = [labels.get(text) for text in found]
    elif not pa.types.is_boolean(column.type) and not pa.types.is_signed_integer(column.type):
        known = [None if is_missing(value) else value for value in found]
        whole = all(v is None or (isinstance(v, int | float) and abs(v) < 2**53 and v == int(v)) for v in known)
        found = [None if v is None else int(v) if whole else text_of(v) for v in known]
    rows = np.flatnonzero([label is not None for label in found])
    return np.asarray([found[row] for row in rows]), rows


def _labels_of_texts(counts: dict[str, int], name: str) -> dict[str, Any]:
    """Return the labels that texts of a CSV file stand for."""
    kind, wrong = kind_of_texts(counts)
    marks = [text for text in counts if text.strip() and is_mark(text)]
    if kind == OTHER or wrong:
        if marks:
            note(
                f"{name!r} is {marks[0].strip()!r} in {counts[marks[0]]:,} rows, which is taken for a class, as the "
                f"others are texts; say --na {marks[0].strip()!r} if it means that nothing is known"
            )
        marks = []
    plain = {text: text.strip() for text in counts if text.strip() and text not in marks}
    if {text.lower() for text in plain.values()} <= {"true", "false"}:
        return {text: TRUTHS[label.lower()] for text, label in plain.items()}
    if all(map(_is_whole, plain.values())):
        return {text: int(label) for text, label in plain.items()}
    return plain


def _is_whole(text: str) -> bool:
    """Say whether a text is a whole number of 64 bits in the form that it is printed in: not 010, +1 or 1.0."""
    return re.fullmatch(r"0|-?[1-9][0-9]{0,18}", text) is not None and -(2**63) <= int(text) < 2**63


def _refuse_free_texts(y: NDArray[Any], name: str, written: Written) -> None:
    """Refuse texts of which nearly every row has another: nobody would call them classes."""
    count = len(np.unique(y))
    if count > FEW and count > len(y) / 2:
        seen = lookalike(Counter(map(str, y.tolist())), written)
        if seen:
            raise Problem(f"--target {name}: it {seen}, or say --task classes if each is a class.")
        raise Problem(
            f"--target {name}: it holds {count:,} different texts in {len(y):,} rows, such as {str(y[0])!r}; make it "
            "one of numbers, or say --task classes if each is a class."
        )


def _without_categories(column: Any) -> Any:
    """Return categories as what they are categories of."""
    import pyarrow as pa

    return column.cast(column.type.value_type) if pa.types.is_dictionary(column.type) else column


def known_labels(column: Any, classes: NDArray[Any], name: str, source: Source) -> Targets:
    """Return labels as the model knows them.

    A text such as NA is a label if training had it as one, and else missing.
    """
    places = {text_of(label): place for place, label in enumerate(classes.tolist())}

    def place_of(value: Any) -> int:
        if is_missing(value):
            return _MISSING
        truth = TRUTHS.get(str(value).strip().lower()) if classes.dtype.kind == "b" else None
        text = text_of(value if truth is None else truth)
        return places.get(text, places.get(text.strip(), _MISSING if is_mark(text) else _UNKNOWN))

    found = _without_categories(column).dictionary_encode()
    distinct = found.dictionary.to_pylist()
    table = np.array([*map(place_of, distinct), _MISSING])
    codes = found.indices.fill_null(len(distinct)).to_numpy()
    labels = table[codes]
    if (labels == _UNKNOWN).any():
        row = int(np.argmax(labels == _UNKNOWN))
        raise Problem(
            f"{source.place(row)}, column {name!r}: the label {str(distinct[codes[row]])!r} was not in training, where "
            f"there were {listed(list(map(str, classes.tolist())))}; correct it, or leave it empty."
        )
    rows = np.flatnonzero(labels != _MISSING)
    return classes[labels[rows]], rows


def check_support(family: Any, targets: Targets, name: str, source: Source) -> None:
    """Raise if a family cannot have such targets."""
    import torch

    from natpn.families import SupportError

    y, rows = targets
    try:
        family.support.check(torch.tensor(y))
    except SupportError as error:
        raise Problem(
            f"{source.place(int(rows[error.index[0]]))}, column {name!r}: {family!r} expected {error.expected}, got "
            f"{error.got}; correct it, or choose another --family."
        ) from None


def targets_digest(y: NDArray[Any]) -> str:
    """Return a hash of targets in their order, to know the rows of a fit again."""
    return hashlib.sha256("\n".join(map(str, y.tolist())).encode()).hexdigest()


def task_hint(y: NDArray[np.float64], name: str) -> str | None:
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
