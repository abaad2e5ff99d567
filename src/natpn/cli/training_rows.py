"""The rows that a model is fitted on: of a table, or of files that need not fit into memory."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from natpn.cli.advice import remarks
from natpn.cli.cell_texts import as_categories, infer, is_text, usable
from natpn.cli.formats import Source, check_column
from natpn.cli.model_files import located
from natpn.cli.reading import Reading, opened
from natpn.cli.target_column import check_counted, check_support, fit_targets, task_hint, with_exposures
from natpn.cli.writing import Problem, column_lines, is_first_process, note, say
from natpn.tabular import TableTransform
from natpn.tabular.column_kinds import OTHER
from natpn.tabular.texts import PLAIN, Written


@dataclass(frozen=True)
class TrainingRows:
    """What a model is fitted on.

    Attributes:
        X: The features, as a pyarrow table; or `natpn.data.Files` with the target among them.
        y: The targets, float64 for numbers and else labels; of files the name of their column.
        target: The name of the column to predict.
        is_classes: Whether targets are labels.
        dropped: The columns that were left out.
        written: How the file of the table writes values.
        unit: The unit of the target, if it has one.
        example: Whether the model may keep one of them.
        exposure: The column of X that has the exposures, if there is one.
    """

    X: Any
    y: Any
    target: str
    is_classes: bool
    dropped: Sequence[str] = ()
    written: Written = PLAIN
    unit: str | None = None
    example: bool = True
    exposure: str | None = None

    @property
    def in_files(self) -> bool:
        """Whether they are read in pieces."""
        return isinstance(self.y, str)


def _features(
    names: Sequence[str], where: str, target: str, exposure: str | None, drop: Sequence[str], category: Sequence[str]
) -> list[str]:
    """Return the columns to predict from, after a look at what the options name."""
    roles = {"target": target} | ({} if exposure is None else {"exposure": exposure})
    for option, name in [*roles.items(), *(("drop", n) for n in drop), *(("category", n) for n in category)]:
        check_column(option, name, names, where)
    if exposure == target:
        raise Problem(f"--exposure {exposure}: it is the target; name the column that says how much was counted.")
    for role, name in roles.items():
        if name in drop:
            raise Problem(f"--drop {name}: it is the {role}; leave one of the options out.")
    found = [name for name in names if name not in {*drop, *roles.values()}]
    if not found:
        raise Problem(f"{where} has no columns to predict {target!r} from; add some.")
    return found


def rows_of_files(
    data: Sequence[str],
    target: str,
    exposure: str | None,
    drop: Sequence[str],
    category: Sequence[str],
    said: bool | None,
    memory: int,
) -> TrainingRows:
    """Return rows that are read in pieces; targets are numbers by their type, unless the options said otherwise."""
    import pyarrow.types as types

    from natpn.data import open_files

    files = open_files(list(data), memory)
    where = data[0] if len(data) == 1 else f"{data[0]} and others"
    features = _features(files.names, where, target, exposure, drop, category)
    files = files.select([*features, target, *([] if exposure is None else [exposure])], texts=category)
    kind = files.schema.field(target).type
    numbers = types.is_integer(kind) or types.is_floating(kind) or types.is_decimal(kind)
    if said is False and not numbers:
        raise Problem(f"--target {target}: expected numbers, got {kind}; say --task classes, or convert the column.")
    say(f"{len(files.paths):,} files, {files.n_rows:,} rows, {len(features):,} columns beside {target!r}")
    is_classes = not numbers if said is None else said
    check_counted(exposure, target, is_classes)
    return TrainingRows(files, target, target, is_classes, drop, exposure=exposure)


def rows_of_table(
    data: str,
    how: Reading,
    target: str,
    exposure: str | None,
    drop: Sequence[str],
    category: Sequence[str],
    said: bool | None,
    family: str,
) -> TrainingRows:
    """Return the rows of a file that have a target; tell how its columns are read, and what is probably not meant."""
    from natpn.estimators.regressor import choose_family

    source, X, column = read_training(data, how, target, drop, category, exposure)
    y, rows = fit_targets(column, target, source, said)
    source.tell_bad()
    if len(y) < 2:
        raise Problem(
            f"{source.name} has a {target!r} in {len(y)} of its rows; a model needs at least 2, better hundreds."
        )
    if len(rows) < X.num_rows:
        note(f"{X.num_rows - len(rows):,} of {X.num_rows:,} rows have no {target!r} and are left out")
        X = X.take(rows)
    is_classes = y.dtype.kind != "f"
    if is_classes and len(np.unique(y)) < 2:
        raise Problem(f"{source.name}: all rows have the same {target!r}, {y[0]!s}; there is nothing to tell apart.")
    check_counted(exposure, target, is_classes)
    if not is_classes:
        check_support(choose_family(family, y, exposure is not None), (y, rows), target, source)
        hint = task_hint(y, target) if said is None and exposure is None else None
        if hint:
            note(hint)
    everything = X
    if exposure is not None:
        everything, X = with_exposures(X, exposure, source, rows)
    if is_first_process():
        with located(source, rows):
            columns = TableTransform().fit(X).columns
            say(f"columns of {source.name}, as they are read:")
            for line in column_lines(columns, source.units):
                say(line)
            guessed = [c.name for c in columns if source.texts and c.kind == OTHER and c.name not in category]
            for remark in remarks(X, y, target, columns, guessed, source.written):
                note(remark)
    written = replace(source.written, units=source.units)
    unit = source.units.get(target)
    return TrainingRows(everything, y, target, is_classes, drop, written, unit, exposure=exposure)


def read_training(
    data: str,
    how: Reading,
    target: str,
    drop: Sequence[str] = (),
    category: Sequence[str] = (),
    exposure: str | None = None,
) -> tuple[Source, Any, Any]:
    """Return a file, its features with their types as a table, the exposure the last, and the column to predict."""
    import pyarrow as pa

    with opened(data, how) as source:
        names = _features(source.names, source.name, target, exposure, drop, category)
        names += [] if exposure is None else [exposure]
        tables = [table for _, table in source.batches([*names, target])]
    table = pa.concat_tables(tables).combine_chunks()
    column = usable(table[target], target, source)
    features = {name: usable(table[name], name, source) for name in names}
    for name, values in features.items():
        if name in category:
            features[name] = as_categories(values, source)
        elif is_text(values.type):
            features[name] = infer(values, name, source)
    return source, pa.table(features), column
