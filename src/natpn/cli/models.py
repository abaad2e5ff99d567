"""Models on disk, and new tables brought to the form that they know.

`natpn fit` writes with the model which column was the target, which were left out, and how the file wrote its values,
so that the same file can be given to the other commands.
"""

import contextlib
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from natpn.cli.bad_cells import BadCells
from natpn.cli.columns import convert
from natpn.cli.distinct import known
from natpn.cli.problems import Problem, listed, near, of_system
from natpn.cli.source import Source
from natpn.cli.writing import as_input
from natpn.tabular.written import PLAIN, Written


@dataclass(frozen=True)
class Saved:
    """A model with what is known about the table it was fitted on.

    Attributes:
        path: Where it is.
        model: The estimator.
        target: The column that was the target; None if it was not `natpn fit` that wrote the model.
        dropped: The columns that were left out.
        fitted: A hash of the targets of the fit, to know its rows again.
        written: How its table wrote numbers, dates and missing values.
    """

    path: str
    model: Any
    target: str | None = None
    dropped: tuple[str, ...] = ()
    fitted: str | None = None
    written: Written = PLAIN

    @property
    def columns(self) -> list[Any]:
        """The features as the model knows them, in order."""
        columns: list[Any] = self.model.inputs_.table.columns
        return columns


def check_place(out: str, *inputs: str) -> None:
    """Raise if a model cannot be written there, before time is spent on it.

    Args:
        out: The directory.
        inputs: The files that are read, "-" for standard input.

    Raises:
        Problem: If its directory cannot be written.
        ValueError: If something else is there, or it is, holds or lies in what is read.
    """
    from natpn.model.files import check

    try:
        check(out, *map(as_input, inputs))
    except OSError as error:
        raise of_system(error, out) from None


def save(saved: Saved) -> None:
    """Write a model, whole or not at all; one that is there is replaced."""
    from natpn.estimators.saving import save as save_model

    try:
        table = {
            "target": saved.target,
            "dropped": list(saved.dropped),
            "fitted": saved.fitted,
            "written": saved.written.to_config(),
        }
        save_model(saved.model, saved.path, table)
    except OSError as error:
        raise of_system(error, saved.path) from None


def check_model(path: str) -> None:
    """Raise if there is no model.

    Raises:
        Problem: With what is there instead.
    """
    from natpn.model.files import find

    if find(path) is not None:
        return
    if not os.path.exists(path):
        raise Problem(f"{path}: there is no such model; name a directory that natpn fit wrote.")
    if not os.path.isdir(path):
        raise Problem(f"{path} is a file, not a model; name a directory that natpn fit wrote.")
    raise Problem(f"{path} is a directory, but not a model; name one that natpn fit wrote.")


def load(path: str) -> Saved:
    """Read a model.

    Raises:
        Problem: If there is none, it is damaged, or it does not take tables.
    """
    check_model(path)
    from natpn.estimators.loading import load_with_table
    from natpn.model import TableInputs

    try:
        model, table = load_with_table(path)
    except FileNotFoundError as error:
        raise Problem(str(error)) from None
    if not isinstance(model.inputs_, TableInputs):
        raise Problem(f"{path} is a model of images or other arrays; use natpn.load in Python.")
    notes = table or {}
    dropped = tuple(notes.get("dropped", ()))
    return Saved(path, model, notes.get("target"), dropped, notes.get("fitted"), Written.of_table(table))


def features(saved: Saved, source: Source, drop: Sequence[str] = (), keep: Sequence[str] = ()) -> list[str]:
    """Return the columns of a file that the model needs, in its order.

    Args:
        saved: The model.
        source: The file.
        drop: Columns to leave out.
        keep: Columns that are used for something else.

    Raises:
        Problem: If one is missing, or there is one too many.
    """
    for name in (*drop, *keep):
        if name not in source.names:
            raise Problem(
                f"{source.name} has no column {name!r}{near(name, source.names) or '; leave the option out.'}"
            )
    others = {*drop, *keep, *saved.dropped, *([saved.target] if saved.target else [])}
    known = [column.name for column in saved.columns]
    if not saved.model.inputs_.table.named:
        rest = [name for name in source.names if name not in others]
        if len(rest) != len(known):
            raise Problem(
                f"{source.name} has {len(rest)} columns, but the model was fitted on {len(known)} without names; give "
                "as many, in the same order."
            )
        return rest
    needed, there = set(known), set(source.names)
    extra = [name for name in source.names if name not in needed]
    for name in known:
        if name not in there:
            absent = [n for n in known if n not in there]
            cure = near(name, extra) or "; add it, with empty cells if it is not known."
            many = f"the columns {listed(absent)} that" if len(absent) > 1 else f"the column {name!r} that"
            raise Problem(f"{source.name} lacks {many} the model was fitted on{cure}")
        if name in drop:
            raise Problem(f"--drop {name}: the model was fitted on this column and needs it; leave the option out.")
    unknown = [name for name in extra if name not in others]
    if unknown:
        options = " ".join(f"--drop {name!r}" if " " in name else f"--drop {name}" for name in unknown[:10])
        raise Problem(
            f"{source.name} has {'columns' if len(unknown) > 1 else 'a column'} that the model was not fitted on, "
            f"{listed(unknown)}; leave out with {options}, or say --id if it names the rows."
        )
    return known


def prepared(saved: Saved, names: list[str], table: Any, source: Source, first: int, bad: BadCells) -> Any:
    """Return a batch as the model knows it.

    Args:
        saved: The model.
        names: The columns that `features` returned.
        table: A batch with these columns, at least.
        source: The file.
        first: The number of the first row in the file.
        bad: What to do with cells that are not of their column's kind.
    """
    import pyarrow as pa

    def place(row: int) -> str:
        return source.place(first + row)

    def brought(name: str, column: Any) -> Any:
        return convert(known(table[name], source.written), column, name, source.name, place, bad, source.written)

    return pa.table({name: brought(name, column) for name, column in zip(names, saved.columns, strict=True)})


@contextlib.contextmanager
def located(source: Source, first: int) -> Iterator[None]:
    """Word errors of the model about a batch in terms of the file.

    Raises:
        Problem: With the place in the file.
    """
    from natpn.tabular import CellError

    try:
        yield
    except CellError as error:
        where = source.place(first + error.row)
        raise Problem(f"{source.name}, {where}, column {error.column!r}: {error.problem}") from None
    except ValueError as error:
        raise Problem(f"{source.name}: {error}") from None
