"""Rows of tables, as JSON and as CSV: a CSV is taken as `natpn predict` takes a file.

Its cells may be separated by commas, semicolons, tabs or bars, and it may have the target and columns that were left
out in training, which are not looked at. A column that names the rows is kept beside them.
"""

import codecs
import contextlib
import csv
import io
import re
from collections.abc import Iterable, Sequence
from typing import Any
from urllib.parse import quote

from natpn.choices import nearest
from natpn.serve.request_rows import FREE, Asked, Reader, RequestError, Row
from natpn.tabular import Column
from natpn.tabular.headers import column_names, separator_of
from natpn.tabular.texts import PLAIN, Written, brief

_HEAD = 2**20  # characters in which a header ends


class TableReader(Reader):
    """Reads bodies for a model that was trained on a table.

    Args:
        columns: Its columns; a row is written as {"name":0,…} or longer.
        max_rows: How many rows a request may have.
        written: How a CSV writes values; JSON has the same units, but is plain otherwise.
        unused: Columns that a CSV may have and that are not looked at, such as the target.
    """

    def __init__(
        self, columns: list[Column], max_rows: int, written: Written = PLAIN, unused: Iterable[str] = ()
    ) -> None:
        self._columns, self._names = columns, [column.name for column in columns]
        self._set = frozenset(self._names)
        self._unused = frozenset(unused) - self._set
        self._in_csv, self._in_json = written, Written(units=written.units)
        super().__init__(max_rows, 1, len(columns), sum(len(name.encode()) + 5 for name in self._names) + 2)

    def _row(self, data: Any, place: int | None) -> Row:
        if type(data) is not dict:
            raise RequestError(
                422,
                f"Expected an object with the features {_listed(self._names)}, got {brief(data)}. Send one row as "
                '{"feature": value, …}, or many as {"rows": [{…}, {…}]}.',
                row=place,
            )
        if data.keys() != self._set:
            raise self._wrong_names(list(data), place)
        return [_value(column, data[column.name], self._in_json, place) for column in self._columns]

    def csv(self, body: bytes, keep: Sequence[str] = (), drop: Sequence[str] = ()) -> Asked:
        """Return what a CSV with a header asks, as `natpn predict` takes it; an empty cell is a missing value."""
        text = self._decoded(body)
        separator = separator_of(next((line for line in re.split(r"[\r\n]+", text[:_HEAD]) if line.strip()), ""))
        width = len(self._names) + len(self._unused) + len(keep) + len(drop)
        self._count(body, separator.encode(), FREE + (self._max_rows + 1) * width, "cells")
        # Not splitlines, which also divides cells, as at U+2028.
        lines = csv.reader(io.StringIO(text, newline=""), delimiter=separator, strict=True)
        try:
            header = column_names(next(filter(any, lines), []))
            self._check_header(header, keep, drop)
            order = [(column, header.index(column.name)) for column in self._columns]
            kept: dict[str, list[str]] = {name: [] for name in keep}
            rows = list(self._rows(filter(None, lines), header, order, kept))
        except csv.Error as error:
            raise RequestError(400, f"The CSV cannot be read, line {lines.line_num}: {error}.") from None
        return Asked(rows, False, kept)

    def _decoded(self, body: bytes) -> str:
        """Return a CSV as text: in UTF-8, or else as the file of the fit was written."""
        try:
            return body.decode("utf-8-sig")
        except UnicodeDecodeError as error:
            if codecs.lookup(self._in_csv.encoding).name != "utf-8":
                with contextlib.suppress(UnicodeError):
                    return body.decode(self._in_csv.encoding)
            raise RequestError(400, f"The CSV is not UTF-8 ({error}). Save it as UTF-8.") from None

    def _check_header(self, header: list[str], keep: Sequence[str], drop: Sequence[str]) -> None:
        for option, names in (("id", keep), ("drop", drop)):
            absent = next((name for name in names if name not in header), None)
            if absent is not None:
                meant = nearest(absent[:100], header[:1000])
                cure = f"Did you mean {brief(meant)}?" if meant else f"It has {_listed(header)}."
                raise RequestError(422, f"{option}: the CSV has no column {brief(absent)}. {cure}", option)
        needed = next((name for name in drop if name in self._set), None)
        if needed is not None:
            raise RequestError(422, f"drop: the model needs the column {brief(needed)}. Leave it in.", "drop")
        others = {*self._unused, *keep, *drop} - self._set
        names = [name for name in header if name not in others]
        if set(names) != self._set:
            raise self._wrong_names(names, None, in_csv=True)
        if len(set(header)) < len(header):
            twice = next(name for place, name in enumerate(header) if name in header[:place])
            raise RequestError(422, f"The column {brief(twice)} is there twice. Leave one out.", twice)

    def _rows(
        self,
        lines: Iterable[list[str]],
        header: list[str],
        order: list[tuple[Column, int]],
        kept: dict[str, list[str]],
    ) -> Iterable[Row]:
        place = -1
        places = [(texts, header.index(name)) for name, texts in kept.items()]
        for place, cells in enumerate(lines):
            if place >= self._max_rows:
                raise self._too_many("more")
            if len(cells) != len(header):
                message = (
                    f"Row {place} has {len(cells)} cells, but the header has {len(header)}. Quote cells with commas."
                )
                raise RequestError(422, message, row=place)
            for texts, where in places:
                texts.append(cells[where])
            yield [_value(column, cells[where], self._in_csv, place) for column, where in order]
        if place < 0:
            raise RequestError(422, "The CSV has no rows below its header. Add at least one.")

    def _wrong_names(self, names: list[str], place: int | None, in_csv: bool = False) -> RequestError:
        row = "" if place is None else f" in row {place}"
        given = frozenset(names)
        unknown = [name for name in names if name not in self._set]
        missing = [name for name in self._names if name not in given]
        if unknown:
            meant = nearest(unknown[0][:100], (missing or self._names)[:1000])
            leave = "Leave it out." if len(unknown) == 1 else "Leave them out."
            if in_csv:
                name = quote(unknown[0][:100])
                leave = f"{leave[:-1]}, or ask /predict?id={name} if it names the rows, or ?drop={name}."
            cure = f"Did you mean {brief(meant)}?" if meant else leave
            message = f"Unknown features{row}: {_listed(unknown)}. {cure} The features are {_listed(self._names)}."
            return RequestError(422, message, unknown[0], place)
        cure = "Add them, with null (in CSV: an empty cell) for what is not known."
        return RequestError(422, f"Missing features{row}: {_listed(missing)}. {cure}", missing[0], place)


def _value(column: Column, value: Any, written: Written, place: int | None) -> Any:
    """Return a value of JSON or the text of a cell as the model takes it."""
    try:
        if type(value) is str:
            found = None if written.is_missing(value) else column.read_text(value, written)
        else:
            found = None if value is None else column.read_json(value)
        if found is None and column.required:
            raise RequestError(422, f"{brief(column.name)}: expected {column.expected}, got none.", column.name, place)
        return found
    except ValueError as error:
        problem = str(error)
        if type(value) is str:
            problem = f"expected {column.expected}, but {error}. Correct it, or leave the cell empty (in JSON: null)."
        where = "" if place is None else f" in row {place}"
        raise RequestError(422, f"{brief(column.name)}{where}: {problem}", column.name, place) from None


def _listed(names: Sequence[str]) -> str:
    """Return some names for a message, long ones shortened."""
    first = ", ".join(map(brief, names[:10]))
    return first + (f" and {len(names) - 10} more" if len(names) > 10 else "")
