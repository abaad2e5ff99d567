"""Tables on disk that need not fit into memory, read piece by piece.

    X = natpn.data.parquet("trips/")
    NatPNRegressor().fit(X, "fare")

pyarrow reads the files. What is added here is the order of the pieces, which does not depend on how many processes
share them, and errors that name the file.
"""

import errno
import glob
import hashlib
import os
import re
import shutil
import tempfile
import weakref
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from os import PathLike
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.parquet as pq

MEMORY = 2 * 2**30
"""Bytes that a fit may use."""

PARQUET, CSV = (".parquet", ".pq"), (".csv", ".csv.gz")

BATCH = 65_536
"""Rows that are read at once."""

NUMBER_BYTES, TEXT_BYTES = 40, 400
"""What a fit in memory needs for a cell."""

_PARTITION = re.compile(r"([^=/]+)=([^/]*)/")
_NOTHING = "__HIVE_DEFAULT_PARTITION__"  # what Hive writes for a missing value


@dataclass(frozen=True)
class Piece:
    """A row group of a file.

    Attributes:
        path: The file.
        group: The number of the row group.
        n_rows: Its rows.
    """

    path: str
    group: int
    n_rows: int


@dataclass(frozen=True)
class Files:
    """The rows of Parquet files, which are read when they are needed.

    Attributes:
        schema: The columns, those of Hive's partitions last.
        pieces: The row groups that have rows, sorted by the names of files.
        places: The values of partitions, by file and column.
        stamps: Size and time of each file when it was first looked at.
        memory: How many bytes a fit may use beyond what it has when it begins.
        scratch: The directory of files that were converted, which goes when nothing needs it any more.
        origin: A hash of the files that they were converted from.
    """

    schema: pa.Schema
    pieces: tuple[Piece, ...]
    places: dict[str, dict[str, Any]] = field(default_factory=dict, repr=False)
    stamps: dict[str, tuple[int, int]] = field(default_factory=dict, repr=False)
    memory: int = MEMORY
    scratch: "_Scratch | None" = field(default=None, repr=False)
    origin: str = field(default="", repr=False)

    @property
    def names(self) -> list[str]:
        """The names of the columns."""
        names: list[str] = self.schema.names
        return names

    @property
    def n_rows(self) -> int:
        """How many rows there are."""
        return sum(piece.n_rows for piece in self.pieces)

    @property
    def needed(self) -> int:
        """How many bytes a fit takes that reads all rows at once."""
        cells = [NUMBER_BYTES if pa.types.is_primitive(field.type) else TEXT_BYTES for field in self.schema]
        return self.n_rows * sum(cells)

    @property
    def fits(self) -> bool:
        """Whether these are at most `memory`."""
        return self.needed <= self.memory

    @property
    def paths(self) -> list[str]:
        """The files, in order."""
        return list(self.stamps)

    @property
    def fingerprint(self) -> str:
        """A hash of names, sizes and times of the files, to know them again."""
        return self.origin or hashlib.sha256(repr(sorted(self.stamps.items())).encode()).hexdigest()

    def select(self, names: Sequence[str], texts: Sequence[str] = ()) -> "Files":
        """Return some of the columns, of which some are read as texts."""
        kept = [self.schema.field(name) for name in names]
        return replace(self, schema=pa.schema([f.with_type(pa.string()) if f.name in texts else f for f in kept]))

    def of(self, path: str) -> "Files":
        """Return one of the files."""
        own = tuple(piece for piece in self.pieces if piece.path == path)
        return replace(self, pieces=own, places={path: self.places.get(path, {})}, stamps={path: self.stamps[path]})

    def batches(
        self, columns: Sequence[str] | None = None, pieces: Iterable[Piece] | None = None, size: int = BATCH
    ) -> Iterator[pa.Table]:
        """Yield the rows of some pieces, at most `size` at once.

        Args:
            columns: Which columns, in this order; all if None.
            pieces: Which row groups, in this order; all if None.
            size: How many rows at once.

        Raises:
            ValueError: If a file cannot be read, or has changed since it was first looked at.
        """
        names = self.names if columns is None else list(columns)
        wanted = pa.schema([self.schema.field(name) for name in names])
        for piece in self.pieces if pieces is None else pieces:
            self._check_unchanged(piece.path)
            values = self.places.get(piece.path, {})
            own = [name for name in names if name not in values]
            try:
                with pq.ParquetFile(piece.path, memory_map=False) as file:
                    for batch in file.iter_batches(size, [piece.group], own):
                        yield _conformed(pa.Table.from_batches([batch]), values, wanted)
            except (OSError, pa.ArrowException) as error:
                self._check_unchanged(piece.path)  # which is then the reason
                raise _unreadable(piece.path, error) from None
            self._check_unchanged(piece.path)

    def _check_unchanged(self, path: str) -> None:
        if _stamp(path) != self.stamps[path]:
            raise ValueError(f"{path}: the file changed while it was read; start again when nothing writes to it")


def parquet(path: str | PathLike[str] | Sequence[str | PathLike[str]], memory: int = MEMORY) -> Files:
    """Return the rows of Parquet files; only the ends of the files are read yet, which describe them.

    Args:
        path: A file, a directory with all below it, a glob such as `trips/2024-*.parquet`, or a list of these. Names
            that begin with a dot or an underscore are passed over in directories. Directories of the form
            `column=value` are columns.
        memory: How many bytes a fit may use beyond what it has when it begins.

    Raises:
        ValueError: If there is no such file, a file is damaged, or the files have different columns.
    """
    files = _all(path, PARQUET)
    stamps = {name: _stamp(name) for name in files}
    places = _partitions(files)
    pieces: list[Piece] = []
    schemas: dict[str, pa.Schema] = {}
    for name in files:
        try:
            with pq.ParquetFile(name) as file:
                described = file.metadata
                schemas[name] = file.schema_arrow.remove_metadata()
        except (OSError, pa.ArrowException) as error:
            raise _unreadable(name, error) from None
        groups = (Piece(name, i, described.row_group(i).num_rows) for i in range(described.num_row_groups))
        pieces += [piece for piece in groups if piece.n_rows]
    schema = _common(schemas)
    for column in next(iter(places.values()), {}):
        if column in schema.names:
            raise ValueError(f"{files[0]}: {column!r} is a column of the file and of its directory; rename one of them")
        kind = pa.int64() if all(isinstance(v[column], int | None) for v in places.values()) else pa.string()
        schema = schema.append(pa.field(column, kind))
    if not pieces:
        raise ValueError(f"{files[0]}: the files have no rows; give some that do")
    return Files(schema, tuple(pieces), places, stamps, memory)


def csv(path: str | PathLike[str] | Sequence[str | PathLike[str]], memory: int = MEMORY) -> Files:
    """Return the rows of CSV files with headers, which are converted to Parquet in a scratch directory first.

    Args:
        path: As for `parquet`.
        memory: How many bytes a fit may use beyond what it has when it begins.

    Raises:
        ValueError: If there is no such file, a file is damaged, or the files have different columns.
    """
    files = _all(path, CSV)
    schemas = {}
    for name in files:
        with _converting(name):
            schemas[name] = pacsv.open_csv(name).schema
    schema = _common(schemas)
    scratch = _Scratch()
    options = pacsv.ConvertOptions(column_types=schema, strings_can_be_null=True)
    made = []
    try:
        for number, name in enumerate(files):
            made.append(os.path.join(scratch.name, f"{number:06}-{os.path.basename(name)}.parquet"))
            with _converting(name), pq.ParquetWriter(made[-1], schema) as writer:
                for batch in pacsv.open_csv(name, convert_options=options):
                    writer.write_batch(batch.select(schema.names))
    except BaseException:
        scratch.remove()
        raise
    found = parquet(made, memory)
    # The names, sizes and times of the originals tell whether they are the same; the copies are made anew each time.
    stamps = repr([(name, _stamp(name)) for name in files])
    return replace(found, scratch=scratch, origin=hashlib.sha256(stamps.encode()).hexdigest())


def open_files(path: str | PathLike[str] | Sequence[str | PathLike[str]], memory: int = MEMORY) -> Files:
    """Return the rows of Parquet files, or of CSV files if their names end so.

    Raises:
        ValueError: As by `parquet` and `csv`, or if there are files of both kinds.
    """
    given = [path] if isinstance(path, (str, PathLike)) else list(path)
    names = [name for one in given for name in _listed(os.fspath(one), (*PARQUET, *CSV))]
    texts = [name for name in names if name.endswith(CSV)]
    if texts and len(texts) < len(names):
        other = next(name for name in names if not name.endswith(CSV))
        raise ValueError(f"{other}: it is not of the same kind as {texts[0]}; give Parquet files or CSV files")
    return csv(path, memory) if texts else parquet(path, memory)


class _Scratch:
    """A directory that goes with this object, or at the end of the process."""

    def __init__(self) -> None:
        self.name = tempfile.mkdtemp(prefix="natpn-csv-")
        self.remove = weakref.finalize(self, shutil.rmtree, self.name, ignore_errors=True)


@contextmanager
def _converting(path: str) -> Iterator[None]:
    try:
        yield
    except (OSError, pa.ArrowException) as error:
        if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
            where = f"scratch file in {tempfile.gettempdir()} (TMPDIR names another place)"
            raise OSError(error.errno, os.strerror(error.errno), where) from None
        reason = " ".join(str(error).split())[:300]
        raise ValueError(f"{path}: it cannot be read as CSV ({reason}); correct it, or leave it out") from None


def _all(path: str | PathLike[str] | Sequence[str | PathLike[str]], endings: tuple[str, ...]) -> list[str]:
    """Return all files, each once."""
    given = [path] if isinstance(path, (str, PathLike)) else list(path)
    return list(dict.fromkeys(name for one in given for name in _listed(os.fspath(one), endings)))


def _listed(path: str, endings: tuple[str, ...]) -> list[str]:
    """Return the files that a path stands for, sorted by name; in directories they need one of the endings."""
    if os.path.isdir(path):
        found = [
            str(file)
            for file in Path(path).rglob("*")
            if file.is_file() and not any(part.startswith((".", "_")) for part in file.relative_to(path).parts)
        ]
        other = next((name for name in sorted(found) if not name.endswith(endings)), None)
        if other is not None:
            raise ValueError(
                f"{other}: expected names that end with {' or '.join(endings)} in {path}; move it away, or give a glob "
                f"such as {os.path.join(path, '*' + endings[0])}"
            )
    elif os.path.exists(path):
        found = [path]
    else:
        found = [name for name in glob.glob(path, recursive=True) if os.path.isfile(name)]
    if not found:
        raise ValueError(f"{path}: there are no files; give a file, a directory or a glob such as 'trips/*.parquet'")
    return sorted(found)


def _partitions(files: list[str]) -> dict[str, dict[str, Any]]:
    """Return the values that the directories of files state, by file and column."""
    texts = {name: dict(_PARTITION.findall(os.path.dirname(name) + "/")) for name in files}
    columns = {tuple(values) for values in texts.values()}
    if columns == {()}:
        return {}
    if len(columns) > 1:
        first, other = (next(name for name in files if tuple(texts[name]) == own) for own in sorted(columns)[:2])
        raise ValueError(f"{other}: its directories name other columns than those of {first}; give one of them")
    whole = {
        column
        for column in columns.pop()
        if all(re.fullmatch(rf"-?\d{{1,18}}|{_NOTHING}", values[column]) for values in texts.values())
    }

    def value(column: str, text: str) -> Any:
        return None if text == _NOTHING else int(text) if column in whole else text

    return {name: {column: value(column, text) for column, text in own.items()} for name, own in texts.items()}


def _common(schemas: dict[str, pa.Schema]) -> pa.Schema:
    """Return the columns that all files have, with types that hold the values of all.

    Raises:
        ValueError: If a file has other columns, or values of another kind.
    """
    first = next(iter(schemas))
    kinds = {f.name: _plain(f.type) for f in schemas[first]}
    for name, schema in schemas.items():
        for column in [*kinds, *schema.names]:
            if column not in schema.names or column not in kinds:
                lacks, has = (name, first) if column not in schema.names else (first, name)
                raise ValueError(
                    f"{lacks}: it lacks the column {column!r} that {has} has; add it, with nulls if it is not known, "
                    "or leave the file out"
                )
            kind = _plain(schema.field(column).type)
            try:
                kinds[column] = _wider(kinds[column], kind)
            except TypeError:
                raise ValueError(
                    f"{name}: the column {column!r} is {kind}, but {kinds[column]} in {first}; write it with the same "
                    "type in all files"
                ) from None
    return pa.schema(list(kinds.items()))


def _plain(kind: pa.DataType) -> pa.DataType:
    """Return the usual type of texts in place of views, which few functions of pyarrow take."""
    return pa.string() if kind == pa.string_view() else kind


def _wider(one: pa.DataType, other: pa.DataType) -> pa.DataType:
    """Return the type that holds values of both.

    Raises:
        TypeError: If there is none that means the same.
    """
    if one == other:
        return one
    if pa.types.is_null(one) or pa.types.is_null(other):
        return other if pa.types.is_null(one) else one
    plain = [t.value_type if pa.types.is_dictionary(t) else t for t in (one, other)]
    if all(pa.types.is_string(t) or pa.types.is_large_string(t) for t in plain):
        return pa.string()
    if all(pa.types.is_integer(t) or pa.types.is_floating(t) for t in plain):
        return pa.int64() if all(pa.types.is_signed_integer(t) for t in plain) else pa.float64()
    if all(pa.types.is_timestamp(t) and t.tz == plain[0].tz for t in plain):
        return pa.timestamp("ns" if "ns" in (plain[0].unit, plain[1].unit) else "us", plain[0].tz)
    raise TypeError


def _conformed(table: pa.Table, values: dict[str, Any], schema: pa.Schema) -> pa.Table:
    """Return a batch with the columns of a schema, those of its partitions added."""
    columns = [
        pa.repeat(pa.scalar(values[f.name], f.type), len(table)) if f.name in values else table[f.name].cast(f.type)
        for f in schema
    ]
    return pa.table(columns, schema=schema)


def _stamp(path: str) -> tuple[int, int]:
    try:
        found = os.stat(path)
    except OSError as error:
        raise _unreadable(path, error) from None
    return found.st_size, found.st_mtime_ns


def _unreadable(path: str, error: Exception) -> ValueError:
    if isinstance(error, FileNotFoundError):
        return ValueError(f"{path}: the file is gone; start again when nothing changes the directory")
    reason = " ".join(str(error).split())[:200]
    return ValueError(f"{path}: it cannot be read as Parquet ({reason}); write it again, or leave it out")
