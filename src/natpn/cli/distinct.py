"""Columns of files by their distinct texts, of which there are few: each is read once."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from natpn.tabular.written import Written

Place = Callable[[int], str]  # row → where that is in the file


@dataclass(frozen=True)
class Texts:
    """A column of texts of a file.

    Attributes:
        name: The name of the column.
        distinct: Its distinct texts, as they are written.
        codes: The place of each row's text among them, null where there is none.
        where: The file.
        place: Where in it a row is.
    """

    name: str
    distinct: list[str]
    codes: Any
    where: str
    place: Place

    def counts(self) -> dict[str, int]:
        """Return how often there is each text."""
        import numpy as np

        codes = self.codes.drop_null().to_numpy()
        return dict(zip(self.distinct, np.bincount(codes, minlength=len(self.distinct)).tolist(), strict=True))

    def row_of(self, texts: list[str]) -> int:
        """Return the first row that has one of some texts."""
        import numpy as np

        wanted = set(texts)
        places = [place for place, text in enumerate(self.distinct) if text in wanted]
        return int(np.argmax(np.isin(self.codes.fill_null(-1).to_numpy(), places)))

    def at(self, texts: list[str]) -> tuple[str, str]:
        """Return where the first of some texts is, and which it is."""
        row = self.row_of(texts)
        text = self.distinct[self.codes[row].as_py()]
        return f"{self.where}, {self.place(row)}, column {self.name!r}", text

    def mapped(self, values: dict[str, Any], kind: Any) -> Any:
        """Return a column in which each text is replaced; those without a value are missing."""
        import pyarrow as pa

        return pa.array([values.get(text) for text in self.distinct], kind).take(self.codes)


def is_text(kind: Any) -> bool:
    """Say whether a type is that of texts."""
    import pyarrow as pa

    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))


def encoded(values: Any) -> Any:
    """Return a column as texts, each distinct one once, and where it is."""
    import pyarrow as pa

    whole = values.combine_chunks() if isinstance(values, pa.ChunkedArray) else values
    return whole.cast(pa.string()).dictionary_encode()


def texts_of(values: Any, name: str, where: str, place: Place) -> Texts:
    """Return a column of a file as texts."""
    found = encoded(values)
    return Texts(name, found.dictionary.to_pylist(), found.indices, where, place)


def known(values: Any, written: Written) -> Any:
    """Return a column of any type without the values that stand for missing ones in its file."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if not written.na:
        return values
    if pa.types.is_dictionary(values.type):
        return known(values.cast(values.type.value_type), written).dictionary_encode()
    if is_text(values.type):
        texts = texts_of(values, "", "", str)
        return texts.mapped({t: t for t in texts.distinct if not written.is_missing(t)}, pa.string())
    if pa.types.is_integer(values.type) or pa.types.is_floating(values.type):
        distinct = pc.unique(values).drop_null()
        missing = [value for value in distinct.to_pylist() if value in written.missing_numbers]
        return pc.if_else(pc.is_in(values, pa.array(missing, values.type)), pa.scalar(None, values.type), values)
    return values
