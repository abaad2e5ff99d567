"""Models on disk, the rows of new files in the form that a model knows, and what it predicts for them.

`natpn fit` writes with the model which column was the target, which were left out, and how the file wrote its values,
so that the same file can be given to the other commands.
"""

import contextlib
import hashlib
import shlex
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from natpn.choices import check_choice, did_you_mean, listed
from natpn.cli.cell_texts import convert, usable
from natpn.cli.formats import FileOfMany, Source
from natpn.cli.writing import EXPLANATIONS, PREDICTIONS, Problem, as_input, system_errors
from natpn.outputs import Kind
from natpn.tabular import CellError, ColumnsError
from natpn.tabular.texts import PLAIN, Written, find_number


@dataclass(frozen=True)
class SavedModel:
    """A model with what is known about the table it was fitted on.

    Attributes:
        path: Where it is.
        estimator: The fitted estimator.
        target: The column that was the target; None if it was not `natpn fit` that wrote the model.
        dropped: The columns that were left out.
        fitted: A hash of the targets of the fit, to know its rows again; None if they were in several files.
        written: How its table wrote numbers, dates and missing values.
        unit: The unit of the target, if it has one.
    """

    path: str
    estimator: Any
    target: str | None = None
    dropped: tuple[str, ...] = ()
    fitted: str | None = None
    written: Written = PLAIN
    unit: str | None = None

    @property
    def table(self) -> Any:
        """What the model knows about the columns of its table."""
        return self.estimator.inputs_.table

    @property
    def columns(self) -> Any:
        """The columns that its rows have, that of exposures the last."""
        return self.estimator.model_.columns

    def digest(self) -> str:
        """Return a hash of the files of the model."""
        content = hashlib.sha256()
        for path in sorted(Path(self.path).iterdir()):
            if path.is_file():
                content.update(path.name.encode() + b"\0" + path.read_bytes())
        return content.hexdigest()


def check_model_place(out: str, *inputs: str) -> None:
    """Raise if a model cannot be written to a directory, before time is spent on it; "-" is standard input."""
    from natpn.model.files import check

    with system_errors(out):
        check(out, *map(as_input, inputs))


def write_model(saved: SavedModel) -> None:
    """Write a model, whole or not at all; one that is there is replaced."""
    from natpn.estimators.saving import save
    from natpn.model.files import iso_date

    table = {
        "target": saved.target,
        "unit": saved.unit,
        "dropped": list(saved.dropped),
        "fitted": saved.fitted,
        "written": saved.written.to_config(),
        "created": iso_date(time.time()),
    }
    with system_errors(saved.path):
        save(saved.estimator, saved.path, table)


def read_model(path: str) -> SavedModel:
    """Read a model."""
    from natpn.estimators.loading import load_saved
    from natpn.model import TableInputs

    read = load_saved(path)
    if not isinstance(read.estimator.inputs_, TableInputs):
        raise Problem(f"{path} is a model of images or other arrays; use natpn.load in Python.")
    notes = read.table or {}
    written = Written.of_table(read.table)
    return SavedModel(path, read.estimator, read.target, read.dropped, notes.get("fitted"), written, read.unit)


def match_features(saved: SavedModel, source: Source, drop: Sequence[str], keep: Sequence[str] = ()) -> list[str]:
    """Return the columns of a file that the model needs, in its order; those in `keep` are used for something else.

    A column of exposures is the last of them.
    """
    for name in drop:
        source.check_column("drop", name)
    needed = set(saved.table.feature_names) if saved.table.named else set()
    needed.difference_update(drop)
    exposure = [column.name for column in saved.columns[len(saved.table.columns) :]]
    others = {*drop, *keep, *saved.dropped, saved.target, *exposure} - needed
    for name in exposure:
        if name not in source.names:
            unknown = [other for other in source.names if other not in saved.table.feature_names]
            cure = did_you_mean(name, unknown) or "; add it."
            raise Problem(f"{source.name} lacks the column {name!r}, the exposure of each row{cure}")
    names = [name for name in source.names if name not in others]
    try:
        order = saved.table.match_columns(names, len(names))
    except ColumnsError as error:
        raise Problem(_unmatched(error, source, drop)) from None
    return [*(names if order is None else [names[place] for place in order]), *exposure]


def _unmatched(error: ColumnsError, source: Source, drop: Sequence[str]) -> str:
    """Word that the columns of a file are not those of the model."""
    absent, extra = error.absent, error.extra
    if absent and absent[0] in drop:
        return f"--drop {absent[0]}: the model was fitted on this column and needs it; leave the option out."
    if absent:
        others = [name for name in source.names if name not in error.fitted]
        cure = did_you_mean(absent[0], others) or "; add it, with empty cells if it is not known."
        which = f"the columns {listed(absent)}" if len(absent) > 1 else f"the column {absent[0]!r}"
        return f"{source.name} lacks {which} that the model was fitted on{cure}"
    if extra:
        options = " ".join(f"--drop {shlex.quote(name)}" for name in extra[:10])
        return (
            f"{source.name} has {'columns' if len(extra) > 1 else 'a column'} that the model was not fitted on, "
            f"{listed(extra)}; leave out with {options}, or say --id if it names the rows."
        )
    return (
        f"{source.name} has {error.n_columns} columns, but the model was fitted on {len(error.fitted)} without names; "
        "give as many, in the same order."
    )


def prepare_batch(saved: SavedModel, names: list[str], table: Any, source: Source, first: int) -> Any:
    """Return a batch, from row `first` of a file on, as the model knows it; `match_features` returned the names."""
    import pyarrow as pa

    columns = zip(names, saved.columns, strict=True)
    return pa.table({n: convert(usable(table[n], n, source), column, n, source, first) for n, column in columns})


@contextlib.contextmanager
def located(source: Source, rows: Sequence[int] | NDArray[np.intp]) -> Iterator[None]:
    """Word errors of the library about a table in terms of the file, in which its rows have these numbers."""
    try:
        yield
    except CellError as error:
        raise Problem(f"{source.place(int(rows[error.row]))}, column {error.column!r}: {error.problem}") from None
    except ValueError as error:
        raise Problem(f"{source.name}: {error}") from None


@dataclass(frozen=True)
class Request:
    """What is asked of a model, whatever the files.

    Attributes:
        drop: Columns to leave out.
        identifier: A column to keep beside the predictions.
        coverage: The probability with which intervals hold the target.
        columns: The columns of the predictions that are written, in this order; all if None.
        fast: Whether networks calculate in float32.
    """

    kind: ClassVar[Kind] = PREDICTIONS  # of the files that are written
    done: ClassVar[str] = "predicted"

    drop: tuple[str, ...] = ()
    identifier: str | None = None
    coverage: float = 0.9
    columns: tuple[str, ...] | None = None
    fast: bool = False

    def read_model(self, path: str) -> SavedModel:
        """Read a model that answers as fast as is asked for."""
        saved = read_model(path)
        return replace(saved, estimator=saved.estimator.fast()) if self.fast else saved

    def check(self, saved: SavedModel) -> None:
        """Raise if the predictions of a model have no such columns, before files are read."""
        if self.columns is not None:
            known = self.names(saved)
            for name in self.columns:
                check_choice("--columns", name, known)

    def match(self, saved: SavedModel, source: Source) -> list[str]:
        """Return the columns of a file that the model needs, in its order."""
        if self.identifier:
            source.check_column("id", self.identifier)
        return match_features(saved, source, self.drop, [self.identifier] if self.identifier else [])

    def predict(self, saved: SavedModel, source: Source) -> Iterator[Any]:
        """Yield tables of predictions of the rows of a file, in the same order."""
        names = self.match(saved, source)
        needed = dict.fromkeys([self.identifier, *names] if self.identifier else names)
        for first, batch in source.batches(list(needed), "predict"):
            table = prepare_batch(saved, names, batch, source, first)
            with located(source, range(first, first + batch.num_rows)):
                found = self._answer(saved, table)
            yield self._frame(found, table, batch)

    def predict_nothing(self, saved: SavedModel, source: FileOfMany) -> Any:
        """Return the table of predictions of no rows."""
        found = self._one(saved)
        none = source.files.schema.empty_table()
        return self._frame(found, none, none)

    def _answer(self, saved: SavedModel, table: Any) -> dict[str, Any]:
        """Return the columns that are asked for, of some rows."""
        found: dict[str, Any] = saved.estimator.predict_columns(table, self.coverage, self.columns)
        return found

    def names(self, saved: SavedModel) -> list[str]:
        """Return the names of all columns that a model has."""
        found: list[str] = saved.estimator.model_.column_names(self.coverage)
        return found

    def _one(self, saved: SavedModel) -> dict[str, Any]:
        """Return the columns that are asked for, of one row."""
        found: dict[str, Any] = saved.estimator.model_.columns_without_evidence(self.coverage, self.columns)
        return found

    def _frame(self, found: Any, table: Any, batch: Any) -> Any:
        """Return predictions as a table, with the column that names their rows before them."""
        from natpn.estimators.data_estimator import make_frame

        frame, name = make_frame(found, table).slice(0, batch.num_rows), self.identifier
        if not name:
            return frame
        if name in frame.column_names:
            raise Problem(f"--id {name}: a column of the predictions has that name; rename it in the file.")
        return frame.add_column(0, name, batch[name])


@dataclass(frozen=True)
class ExplainRequest(Request):
    """What is asked of a model whose rows are to be explained."""

    kind: ClassVar[Kind] = EXPLANATIONS
    done: ClassVar[str] = "explained"

    def _answer(self, saved: SavedModel, table: Any) -> dict[str, Any]:
        model = saved.estimator.model_
        found = model.explain(model.targets.without_exposures(table)).columns()
        return found if self.columns is None else {name: found[name] for name in self.columns}

    def names(self, saved: SavedModel) -> list[str]:
        """Return the names of all columns that a model has."""
        return [*saved.estimator.model_.explain_nothing().columns()]

    def _one(self, saved: SavedModel) -> dict[str, Any]:
        none = saved.estimator.model_.explain_nothing().columns()
        texts = {name for name, values in none.items() if values.dtype.kind == "O"}
        return {name: np.array(["" if name in texts else 0.0]) for name in (self.columns or none)}


def check_categories(saved: SavedModel, source: FileOfMany, names: list[str]) -> None:
    """Raise if files have numbers where training had names: each row would be unlike training, after hours of work."""
    import pyarrow.types as types

    for name, column in zip(names, saved.columns, strict=True):
        kind, levels = source.files.schema.field(name).type, getattr(column, "levels", [])
        is_number = types.is_integer(kind) or types.is_floating(kind) or types.is_decimal(kind)
        if is_number and levels and all(find_number(level, PLAIN, "") is None for level in levels):
            raise Problem(
                f"{source.name}: the column {name!r} is {kind}, but in training it had names such as {levels[0]!r}; "
                "write it as texts with these names."
            )
