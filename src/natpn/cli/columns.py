"""Texts → columns of any kind (`natpn.tabular.KINDS`): by what they hold in training, after it by the model.

How one text is read says `natpn.tabular.texts`, for every way into a model; here whole columns of files are. A CSV file
has texts alone, and a column of it is of the kind that all its texts are of. Parquet has types of its own, and texts
there are categories.

A column of which at least nine texts in ten are of one kind, or all but such as "-", is one of that kind with mistakes
in it: the first is named and the file refused, or they count as missing values, as `--bad-cells` says. So is a column
of numbers with decimal commas or separators of thousands, unless `--decimal` and `--thousands` say how to read them.
Numbers may have a unit sign, the same in all of the column: it is found in training and remembered.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

from natpn.cli.bad_cells import BadCells
from natpn.cli.distinct import Place, Texts, encoded, is_text, texts_of
from natpn.cli.looks import number_options
from natpn.cli.problems import Problem
from natpn.cli.source import Source
from natpn.tabular import Column
from natpn.tabular.written import PLAIN, Written

_MISSING = "say --bad-cells missing"


def infer(values: Any, name: str, source: Source, bad: BadCells) -> Any:
    """Return a column of texts as what it holds; the unit of numbers is put down in the source.

    Args:
        values: The column.
        name: Its name.
        source: The file.
        bad: What to do with cells that are not of the column's kind.

    Raises:
        Problem: If it is nearly one of numbers, truth values or dates; with the first text that is not.
    """
    from natpn.tabular.column_kinds import OTHER, column_type, kind_of_texts
    from natpn.tabular.texts import unit_of_texts

    written = source.written
    numbers = _plain_numbers(values, written)
    if numbers is not None:
        return numbers
    texts = texts_of(values, name, source.name, source.place)
    counts = texts.counts()
    unit = unit_of_texts(counts)
    kind, wrong = kind_of_texts(counts, written, unit)
    column = column_type(kind)
    if column.numeric or kind == OTHER:
        _refuse_separators(texts, written, unit)
    if kind == OTHER:
        return categories(values)
    if wrong and not bad.are_missing:
        spot, text = texts.at(wrong)
        fact = column.why_unlike(text, written, unit)
        raise Problem(f"{spot}: {fact}, but most of the column is; correct it, {_cures(name, text)}")
    if column.numeric and unit:
        source.units[name] = unit
    return _typed(texts, column, partial(column.parse, written=written, unit=unit), wrong, bad)


def find_unit(values: Any, name: str, source: Source) -> None:
    """Put down in the source which unit a column has, whose texts have to be numbers.

    Args:
        values: The column.
        name: Its name.
        source: The file.
    """
    from natpn.tabular.texts import unit_of_texts

    if is_text(values.type) and _plain_numbers(values, source.written) is None:
        unit = unit_of_texts(texts_of(values, name, source.name, source.place).counts())
        source.units.update({name: unit} if unit else {})


def mended(values: Any, name: str, source: Source, bad: BadCells) -> Any:
    """Return texts that have a type of their own, as in Parquet: as categories, unless nearly all are numbers.

    Args:
        values: The column.
        name: Its name.
        source: The file.
        bad: What to do with cells that are not of the column's kind.

    Raises:
        Problem: If nearly all are numbers; with the first text that is not.
    """
    from natpn.tabular.column_kinds import column_type, kind_of_texts

    texts = texts_of(values, name, source.name, source.place)
    kind, wrong = kind_of_texts(texts.counts(), source.written)
    if not column_type(kind).numeric or not wrong:
        return encoded(values)
    return infer(values, name, source, bad)


def convert(
    values: Any, column: Any, name: str, where: str, place: Place, bad: BadCells, written: Written = PLAIN
) -> Any:
    """Return a column as the model knows it; what the model reads itself is left as it is.

    Args:
        values: The column.
        column: The column of the model.
        name: Its name in the file.
        where: The file.
        place: Where in it a row is.
        bad: What to do with cells that are not of the column's kind.
        written: How the file writes values.

    Raises:
        Problem: If a text is not of the column's kind.
    """
    check_type(values, name, where)
    if not is_text(values.type) or column.keeps_texts:
        return values
    read = partial(column.read_text, written=written)
    found = read_texts(values, type(column), read, name, where, place, bad, written=written)
    # One type in every batch, also where all dates are missing.
    kind = _arrow(column.arrow)
    return found if found.type == kind else found.cast(kind)


def read_texts(
    values: Any,
    kind: type[Column],
    read: Callable[[str], Any],
    name: str,
    where: str,
    place: Place,
    bad: BadCells,
    cure: str = _MISSING,
    written: Written = PLAIN,
) -> Any:
    """Return texts as values of a kind of column.

    Raises:
        Problem: If one is not of that kind; with the cure.
    """
    numbers = _plain_numbers(values, written) if kind.numeric else None
    if numbers is not None:
        return numbers
    texts = texts_of(values, name, where, place)
    wrong = [text for text in texts.distinct if _fails(read, text)]
    if wrong and not bad.are_missing:
        spot, text = texts.at(wrong)
        raise Problem(f"{spot}: {_fails(read, text)}, as is needed there; correct it, leave it empty, or {cure}.")
    return _typed(texts, kind, read, wrong, bad)


def categories(values: Any) -> Any:
    """Return texts of a CSV file as categories: without spaces around them, and missing where nothing is left."""
    import pyarrow as pa

    found = encoded(values)
    plain = [text.strip() or None for text in found.dictionary.to_pylist()]
    return pa.array(plain, pa.string()).take(found.indices).dictionary_encode()


def truth_values(values: Any) -> Any:
    """Return texts that are all true, false or missing as truth values, and anything else as it is."""
    import pyarrow as pa

    from natpn.tabular.texts import is_mark, truth_of_text

    if not is_text(values.type):
        return values
    texts = texts_of(values, "", "", str)
    plain = {text.strip().lower() for text in texts.distinct if not is_mark(text)}
    if not plain or not plain <= {"true", "false"}:
        return values
    return texts.mapped({text: truth_of_text(text) for text in texts.distinct}, pa.bool_())


def check_type(values: Any, name: str, where: str) -> None:
    """Refuse columns whose cells are neither numbers nor texts nor dates.

    Raises:
        Problem: With the column and its type.
    """
    import pyarrow as pa

    inner = values.type.value_type if pa.types.is_dictionary(values.type) else values.type
    if is_text(inner):
        return
    known = (pa.types.is_floating, pa.types.is_integer, pa.types.is_decimal, pa.types.is_boolean, pa.types.is_null)
    others = (pa.types.is_timestamp, pa.types.is_date, pa.types.is_time, pa.types.is_duration)
    if not any(fits(inner) for fits in (*known, *others)):
        raise Problem(
            f"{where}: column {name!r} holds {values.type}, not numbers, texts or dates; turn it into such columns, or "
            f"say --drop {name}."
        )


def _cures(name: str, text: str) -> str:
    from natpn.tabular.texts import PLACEHOLDER

    na = f"say --na {text.strip()!r}, " if PLACEHOLDER.fullmatch(text.strip()) else ""
    return f"leave it empty, {na}{_MISSING}, or say --category {name} if they are names."


def _fails(read: Callable[[str], Any], text: str) -> str | None:
    """Return why a text cannot be read, None if it can."""
    try:
        read(text)
    except ValueError as error:
        return str(error)
    return None


def _typed(texts: Texts, kind: type[Column], read: Callable[[str], Any], wrong: list[str], bad: BadCells) -> Any:
    """Return texts as values, and those that are wrong as missing ones."""
    left_out = set(wrong)
    found = {text: read(text) for text in texts.distinct if text not in left_out}
    if wrong:
        counts = texts.counts()
        bad.count(texts.name, sum(counts[text] for text in wrong), texts.at(wrong)[1].strip())
    return texts.mapped(found, _arrow(kind.arrow_of(value for value in found.values() if value is not None)))


def _arrow(stated: tuple[str, ...]) -> Any:
    """Return the type of Arrow that a column states."""
    import pyarrow as pa

    function, *arguments = stated
    return getattr(pa, function)(*arguments)


def _refuse_separators(texts: Texts, written: Written, unit: str) -> None:
    """Refuse numbers with decimal commas or separators of thousands that are not those of the file, if they make it up.

    Raises:
        Problem: With one whose meaning is sure, if there is one, and what to do.
    """
    from natpn.tabular.texts import MOSTLY, is_mark, number_of_text, separator_advice
    from natpn.tabular.written import split_unit

    counts = texts.counts()
    marked = [text for text in texts.distinct if not is_mark(text)]
    plain = [text for text in marked if not _fails(partial(number_of_text, written=written, unit=unit), text)]
    others = set(marked).difference(plain)
    if unit:  # numbers in another one are none, whatever their separators
        others = {text for text in others if split_unit(text)[1] in ("", unit)}
    advice = {text: separator_advice(text) for text in texts.distinct if text in others}
    # In a plain file, what is a number in plain form is none of the others.
    read = None if written.has_plain_numbers else partial(number_of_text, unit=unit)
    separated = [text for text in advice if advice[text] or (read is not None and not _fails(read, text))]
    if not separated or sum(counts[text] for text in (*separated, *plain)) < MOSTLY * sum(counts[t] for t in marked):
        return
    sure = [text for text in separated if "decimal comma" in str(advice[text])]
    spot, text = texts.at(sure or separated)
    said = advice[text] if written.has_plain_numbers else "is not written as the options say; correct it"
    options = number_options([split_unit(text)[0] for text in (*separated, *plain)])
    cure = f", say {options}" if options else ""
    raise Problem(f"{spot}: {text.strip()!r} {said}{cure}, or say --category {texts.name} if they are names.")


def _plain_numbers(values: Any, written: Written) -> Any:
    """Return finite numbers in plain form, None if a text is anything else: the quick way, with the same result."""
    import numpy as np
    import pyarrow as pa

    if written.decimal != ".":
        return None
    texts = values.combine_chunks() if isinstance(values, pa.ChunkedArray) else values
    numbers = _as_floats(texts)
    if numbers is None:  # perhaps only for spaces and empty cells
        numbers = _as_floats(_trimmed(texts))
    if numbers is None or numbers.null_count == len(numbers):
        return None
    known = numbers.drop_null() if numbers.null_count else numbers
    return numbers if np.isfinite(known.to_numpy()).all() else None


def _as_floats(texts: Any) -> Any:
    import pyarrow as pa

    try:
        return texts.cast(pa.float64())
    except pa.ArrowInvalid:
        return None


def _trimmed(texts: Any) -> Any:
    """Return texts without ASCII spaces around them, null where nothing is left."""
    import pyarrow as pa
    import pyarrow.compute as pc

    trimmed = pc.ascii_trim_whitespace(texts.cast(pa.string()))
    return pc.if_else(pc.equal(trimmed, ""), pa.scalar(None, pa.string()), trimmed)
