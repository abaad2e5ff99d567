"""Texts → columns of numbers, truth values and dates: by what they hold in training, by what the model says after it.

| a column of a CSV file holds | it is |
|---|---|
| numbers, and nothing else | numbers |
| true and false, in any case | truth values |
| dates such as 2024-12-31 or 2024-12-31T23:59:00, all with or all without a time zone | dates |
| anything else | categories |

A column of which at least nine values in ten are numbers is taken for one of numbers with mistakes, and refused; so is
one of numbers with a decimal comma, which some programs write for thousands. Empty cells and the usual signs, such as
NA and null, are missing values. Parquet has types of its own.
"""

from collections.abc import Callable
from typing import Any

from natpn.cli.problems import Problem

MOSTLY = 0.9
Place = Callable[[int], str]  # row → where that is in the file


def infer(values: Any, name: str, where: str, place: Place) -> Any:
    """Return a column of texts as what it holds.

    Raises:
        Problem: If it is nearly one of numbers; with the first that is none.
    """
    import pyarrow.compute as pc

    texts = trimmed(values)
    known = len(texts) - texts.null_count
    if not known:
        return texts
    numbers, bad = _numbers(texts)
    if not len(bad):
        return numbers
    truths = truth_values(texts)
    if truths is not None:
        return truths
    dates = _dates(texts)
    if dates is not None:
        return dates
    if known - len(bad) >= MOSTLY * known:
        row = bad[0]
        raise Problem(
            f"{where}, {place(row)}, column {name!r}: {texts[row].as_py()!r} is not a finite number, but most of the "
            f"column is; correct it, leave it empty, or say --category {name} if they are names."
        )
    commas = pc.match_substring_regex(texts, r"^[+-]?\d+,\d+$").fill_null(False).to_numpy(zero_copy_only=False)
    if commas.sum() + known - len(bad) >= MOSTLY * known:
        row = int(commas.argmax())
        text = texts[row].as_py()
        raise Problem(
            f"{where}, {place(row)}, column {name!r}: {text!r} has a decimal comma; write {text.replace(',', '.')}, or "
            f"say --category {name} if they are names."
        )
    return texts


def convert(values: Any, kind: str, name: str, where: str, place: Place, *, trim: bool = True) -> Any:
    """Return a column as the model knows it; what it can read itself is left as it is.

    Args:
        values: The column.
        kind: "number", "boolean", "category", "date" or "empty".
        name: Its name.
        where: The file.
        place: Where in it a row is.
        trim: Whether spaces around categories mean nothing, as in a CSV file.

    Raises:
        Problem: If a value is not a number where numbers are needed.
    """
    import pyarrow as pa

    check_type(values, name, where)
    if not (pa.types.is_string(values.type) or pa.types.is_large_string(values.type)):
        return values
    texts = trimmed(values)
    if kind == "number":
        numbers, bad = _numbers(texts)
        if len(bad):
            raise Problem(
                f"{where}, {place(bad[0])}, column {name!r}: {texts[bad[0]].as_py()!r} is not a finite number, as the "
                "model needs there; correct it, or leave it empty."
            )
        return numbers
    if kind == "date":
        dates = _dates(texts)
        return texts if dates is None else dates
    return texts if trim else values


def trimmed(values: Any) -> Any:
    """Return texts without spaces around them, and null where nothing is left."""
    import pyarrow as pa
    import pyarrow.compute as pc

    whole = values.combine_chunks() if isinstance(values, pa.ChunkedArray) else values
    texts = pc.utf8_trim_whitespace(whole.cast(pa.string()))
    return pc.if_else(pc.equal(texts, ""), pa.scalar(None, pa.string()), texts)


def truth_values(texts: Any) -> Any:
    """Return truth values, or None if texts are something else than true and false."""
    import pyarrow.compute as pc

    lower = pc.utf8_lower(texts)
    return pc.equal(lower, "true") if set(pc.unique(lower).to_pylist()) <= {"true", "false", None} else None


def check_type(values: Any, name: str, where: str) -> None:
    """Refuse columns whose cells are neither numbers nor texts nor dates.

    Raises:
        Problem: With the column and its type.
    """
    import pyarrow as pa

    inner = values.type.value_type if pa.types.is_dictionary(values.type) else values.type
    if pa.types.is_nested(inner) or pa.types.is_binary(inner) or pa.types.is_fixed_size_binary(inner):
        raise Problem(
            f"{where}: column {name!r} holds {values.type}, not numbers, texts or dates; turn it into such columns, or "
            f"say --drop {name}."
        )


def _numbers(texts: Any) -> tuple[Any, list[int]]:
    """Return numbers, and the rows that are not finite ones."""
    import numpy as np
    import pyarrow as pa
    import pyarrow.compute as pc

    try:
        numbers = pc.cast(texts, pa.float64())
    except pa.ArrowInvalid:
        encoded = pc.dictionary_encode(texts)
        table = pa.array([_number(text) for text in encoded.dictionary.to_pylist()], pa.float64())
        numbers = table.take(encoded.indices)
    finite = pc.is_finite(numbers).fill_null(True).to_numpy(zero_copy_only=False)
    return numbers, np.flatnonzero(~finite).tolist()


def _number(text: str) -> float:
    try:
        return float(text) if "_" not in text else float("nan")
    except ValueError:
        return float("nan")


def _dates(texts: Any) -> Any:
    """Return instants, in UTC if all have a time zone; None if some are no dates or only some have one."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if not pc.all(pc.match_substring_regex(texts, r"^\d{4}-\d{2}-\d{2}")).as_py():
        return None
    for zone in (None, "UTC"):
        try:
            return pc.cast(texts, pa.timestamp("us", zone))
        except pa.ArrowInvalid:
            continue
    return None
