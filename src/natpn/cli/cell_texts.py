"""Texts of files → columns of any kind (`natpn.tabular.KINDS`): in a fit by what they hold, after it as the model says.

`natpn.tabular.texts` says how one text is read, on every way into a model; here whole columns of files are read. A CSV
file has texts alone, and a column of it is of the kind that all its texts are of. Parquet has types of its own, and
texts there are categories.

A column of which at least nine texts in ten are of one kind, or all but such as "-", is one of that kind with mistakes
in it: the first is named and the file refused, or they count as missing values, as `--bad-cells` says. So is a column
of numbers with decimal commas or separators of thousands, unless `--decimal` and `--thousands` say how to read them.
Numbers may have a unit sign, the same in all of the column: it is found in training and remembered.
"""

import shlex
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

import numpy as np

from natpn.cli.advice import number_form, number_options
from natpn.cli.formats import Source
from natpn.cli.writing import Problem
from natpn.tabular import Column
from natpn.tabular.column_kinds import OTHER, column_type, kind_of_texts
from natpn.tabular.texts import (
    MOSTLY,
    PLACEHOLDER,
    Written,
    is_mark,
    number_of_text,
    separator_advice,
    split_unit,
    unit_of_texts,
)


@dataclass(frozen=True)
class Texts:
    """A column of texts by its distinct ones, of which there are few: each is read once.

    Attributes:
        name: The name of the column.
        distinct: Its distinct texts, as they are written.
        codes: The place of each row's text among them, null where there is none.
        place: Says where in a file a row is.
    """

    name: str
    distinct: list[str]
    codes: Any
    place: Callable[[int], str]

    @cached_property
    def counts(self) -> dict[str, int]:
        """How often there is each text."""
        codes = self.codes.drop_null().to_numpy()
        return dict(zip(self.distinct, np.bincount(codes, minlength=len(self.distinct)).tolist(), strict=True))

    def first(self, texts: list[str]) -> tuple[str, str]:
        """Return where the first of some texts is, and which it is."""
        wanted = set(texts)
        places = [place for place, text in enumerate(self.distinct) if text in wanted]
        row = int(np.argmax(np.isin(self.codes.fill_null(-1).to_numpy(), places)))
        return f"{self.place(row)}, column {self.name!r}", self.distinct[self.codes[row].as_py()]

    def mapped(self, values: dict[str, Any], kind: Any) -> Any:
        """Return a column in which each text is replaced; those without a value are missing."""
        import pyarrow as pa

        return pa.array([values.get(text) for text in self.distinct], kind).take(self.codes)


def texts_of(values: Any, name: str, place: Callable[[int], str]) -> Texts:
    """Return a column of a file as texts."""
    import pyarrow as pa

    found = values.cast(pa.string()).dictionary_encode()
    return Texts(name, found.dictionary.to_pylist(), found.indices, place)


def is_text(kind: Any) -> bool:
    """Say whether a type is that of texts."""
    import pyarrow as pa

    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))


def usable(values: Any, name: str, source: Source) -> Any:
    """Return a column of any type, in one piece, without the values that stand for missing ones in its file."""
    import pyarrow as pa
    import pyarrow.compute as pc
    import pyarrow.types as types

    if types.is_dictionary(values.type):
        return usable(values.cast(values.type.value_type), name, source).dictionary_encode()
    if isinstance(values, pa.ChunkedArray):
        values = values.chunk(0) if values.num_chunks == 1 else values.combine_chunks()  # which copies
    known = (types.is_floating, types.is_integer, types.is_decimal, types.is_boolean, types.is_null, types.is_temporal)
    if not is_text(values.type) and (types.is_interval(values.type) or not any(fits(values.type) for fits in known)):
        raise Problem(
            f"{source.name}: column {name!r} holds {values.type}, not numbers, texts or dates; turn it into such "
            f"columns, or say --drop {shlex.quote(name)}."
        )
    if not source.written.na:
        return values
    if is_text(values.type):
        texts = texts_of(values, name, source.place)
        return texts.mapped({t: t for t in texts.distinct if not source.written.is_missing(t)}, pa.string())
    if types.is_integer(values.type) or types.is_floating(values.type):
        missing = [v for v in pc.unique(values).drop_null().to_pylist() if v in source.written.missing_numbers]
        return pc.if_else(pc.is_in(values, pa.array(missing, values.type)), pa.scalar(None, values.type), values)
    return values


def as_categories(values: Any, source: Source) -> Any:
    """Return a column as categories; texts of CSV lose the spaces around them, and are missing if nothing is left."""
    import pyarrow as pa

    found = values.cast(pa.string()).dictionary_encode()
    if not source.texts:
        return found
    plain = [text.strip() or None for text in found.dictionary.to_pylist()]
    return pa.array(plain, pa.string()).take(found.indices).dictionary_encode()


def infer(values: Any, name: str, source: Source) -> Any:
    """Return a column of texts as what it holds, and put down the unit of numbers in the source.

    Texts of Parquet are categories, unless nearly all are numbers.
    """
    written = source.written
    numbers = _plain_numbers(values, written) if source.texts else None
    if numbers is not None:
        return numbers
    texts = texts_of(values, name, source.place)
    unit = unit_of_texts(texts.counts) if source.texts else ""
    kind, wrong = kind_of_texts(texts.counts, written, unit)
    column = column_type(kind)
    if not source.texts and not (column.numeric and wrong):
        return as_categories(values, source)
    if column.numeric or kind == OTHER:
        _refuse_separators(texts, written, unit)
    if kind == OTHER:
        return as_categories(values, source)
    if column.numeric and unit:
        source.units[name] = unit

    def complaint(text: str) -> str:
        na = f"say --na {text.strip()!r}, " if PLACEHOLDER.fullmatch(text.strip()) else ""
        return (
            f"{column.why_unlike(text, written, unit)}, but most of the column is; correct it, leave it empty, {na}say "
            f"--bad-cells missing, or say --category {shlex.quote(name)} if they are names."
        )

    return _typed(texts, column, partial(column.parse, written=written, unit=unit), wrong, source, complaint)


def convert(values: Any, column: Column, name: str, source: Source, first: int = 0) -> Any:
    """Return a column as the model knows it, from row `first` on; what the model reads itself is left as it is."""
    if not is_text(values.type) or column.keeps_texts:
        return values
    read = partial(column.read_text, written=source.written)
    found = read_texts(values, name, source, type(column), read, first)
    # One type in every batch, also where all dates are missing.
    kind = _arrow(column.arrow)
    return found if found.type == kind else found.cast(kind)


def read_texts(
    values: Any,
    name: str,
    source: Source,
    kind: type[Column],
    read: Callable[[str], Any],
    first: int = 0,
    cure: str = "say --bad-cells missing",
) -> Any:
    """Return texts, from row `first` on, as values of a kind; `read` reads one, or raises a ValueError."""
    numbers = _plain_numbers(values, source.written) if kind.numeric else None
    if numbers is not None:
        return numbers
    texts = texts_of(values, name, lambda row: source.place(first + row))
    wrong = [text for text in texts.distinct if _fails(read, text)]
    needed = f"as is needed there; correct it, leave it empty, or {cure}."
    return _typed(texts, kind, read, wrong, source, lambda text: f"{_fails(read, text)}, {needed}")


def _fails(read: Callable[[str], Any], text: str) -> str | None:
    """Return why a text cannot be read, None if it can."""
    try:
        read(text)
    except ValueError as error:
        return str(error)
    return None


def _typed(
    texts: Texts,
    kind: type[Column],
    read: Callable[[str], Any],
    wrong: list[str],
    source: Source,
    complaint: Callable[[str], str],
) -> Any:
    """Return texts as values; those that are wrong are refused with a complaint, or counted and missing."""
    if wrong:
        spot, first = texts.first(wrong)
        if not source.bad_are_missing:
            raise Problem(f"{spot}: {complaint(first)}")
        source.count_bad(texts.name, sum(texts.counts[text] for text in wrong), first.strip())
    left_out = set(wrong)
    found = {text: read(text) for text in texts.distinct if text not in left_out}
    return texts.mapped(found, _arrow(kind.arrow_of(value for value in found.values() if value is not None)))


def _arrow(stated: tuple[str, ...]) -> Any:
    """Return the type of Arrow that a column states."""
    import pyarrow as pa

    function, *arguments = stated
    return getattr(pa, function)(*arguments)


def _refuse_separators(texts: Texts, written: Written, unit: str) -> None:
    """Refuse a column that is mostly numbers with decimal commas or separators of thousands that no option names."""
    counts = texts.counts
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
    sure = [text for text in separated if number_form([split_unit(text)[0]]) == Written(",")]
    spot, text = texts.first(sure or separated)
    said = advice[text] if written.has_plain_numbers else "is not written as the options say; correct it"
    options = number_options([split_unit(text)[0] for text in (*separated, *plain)])
    cure = f", say {options}" if options else ""
    names = f"say --category {shlex.quote(texts.name)} if they are names"
    raise Problem(f"{spot}: {text.strip()!r} {said}{cure}, or {names}.")


def _plain_numbers(values: Any, written: Written) -> Any:
    """Return finite numbers in plain form, None if a text is anything else: the quick way, with the same result."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if written.decimal != ".":
        return None
    numbers = _as_floats(values)
    if numbers is None:  # perhaps only for spaces and empty cells
        trimmed = pc.ascii_trim_whitespace(values.cast(pa.string()))
        numbers = _as_floats(pc.if_else(pc.equal(trimmed, ""), pa.scalar(None, pa.string()), trimmed))
    if numbers is None or numbers.null_count == len(numbers):
        return None
    return numbers if pc.all(pc.is_finite(numbers)).as_py() else None


def _as_floats(texts: Any) -> Any:
    import pyarrow as pa

    try:
        return texts.cast(pa.float64())
    except pa.ArrowInvalid:
        return None
