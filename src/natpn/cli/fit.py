"""`natpn fit`: a table → a model."""

import contextlib
import io
import os
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import click
import numpy as np
from numpy.typing import NDArray

from natpn.cli.advice import remarks
from natpn.cli.bad_cells import BadCells, bad_cells_option
from natpn.cli.columns import categories, check_type, find_unit, infer, mended
from natpn.cli.distinct import is_text, known
from natpn.cli.excel_files import sheet_option
from natpn.cli.models import Saved, check_place, save
from natpn.cli.printing import column_lines, note, on_terminal, say, score_lines
from natpn.cli.problems import Problem, is_first_process, near
from natpn.cli.reading import read
from natpn.cli.source import Source
from natpn.cli.targets import (
    check_labels,
    check_support,
    hint,
    holds_classes,
    labels,
    numbers,
    said_classes,
    targets_digest,
)
from natpn.cli.written_options import written_as, written_options
from natpn.tabular.written import PLAIN, Written

FEW_ROWS = 50  # with fewer, not even 10 are held out


@click.command(short_help="Fit a model to a table.")
@click.argument("data")
@click.option("--target", required=True, metavar="COLUMN", help="The column to predict.")
@click.option("--out", required=True, metavar="DIRECTORY", help="Where to write the model.")
@click.option(
    "--task",
    type=click.Choice(["classes", "numbers"]),
    help="What the target is. Texts and truth values are classes, numbers are numbers, unless you say so.",
)
@click.option("--family", metavar="NAME", help="For numbers: normal, poisson, lognormal, …; auto (the default) picks.")
@click.option(
    "--prior",
    type=click.Choice(["marginal", "paper"]),
    default="marginal",
    show_default=True,
    help="What is said of rows unlike all others: what the targets say of any row, or the paper's wide prior.",
)
@click.option("--ensemble", type=click.IntRange(1), help="How many networks.  [default: 2]")
@click.option("--drop", multiple=True, metavar="COLUMN", help="Leave a column out. May be repeated.")
@click.option("--category", multiple=True, metavar="COLUMN", help="Read a column as names, not numbers. Repeatable.")
@bad_cells_option
@written_options
@sheet_option
@click.option(
    "--seed",
    type=click.IntRange(0, 2**31 - 1),
    default=0,
    show_default=True,
    help="The same seed gives the same model.",
)
@click.option("--max-epochs", type=click.IntRange(1), help="Stop training after so many epochs; fewer are quicker.")
@click.option("--device", default="auto", show_default=True, help="auto, cpu, cuda or cuda:1.")
def fit(
    data: str,
    target: str,
    out: str,
    task: str | None,
    family: str | None,
    prior: str,
    ensemble: int | None,
    drop: tuple[str, ...],
    category: tuple[str, ...],
    bad_cells: str,
    said: dict[str, Any],
    sheet: str | None,
    seed: int,
    max_epochs: int | None,
    device: str,
) -> None:
    """Fit a model to DATA, a CSV, Parquet or Excel file (- reads standard input).

    Prints how each column is read, the family of the target, the scores on rows that were held out, and where the model
    is. The model remembers how DATA is written.

    \b
    Example:
      natpn fit flats.csv --target rent --drop id --out rent
      torchrun --nproc-per-node 4 -m natpn.cli fit big.parquet --target rent --out rent
    """
    from natpn.estimators.numbers import choose_family

    if data == "-" and int(os.environ.get("WORLD_SIZE", "1")) > 1:
        raise Problem("Several processes cannot share standard input; give torchrun a file.")
    if is_first_process():
        check_place(out, data)
    check_family(family)
    source, table = read(data, written_as(said), sheet)
    bad = BadCells(bad_cells)
    X = typed(source, table, target, drop, category, bad)
    task = task or ("classes" if target in category else None)
    y, kept = target_of(known(table[target], source.written), target, source, task, family, bad)
    bad.tell()
    if len(y) < 2:
        raise Problem(f"{source.name} has {len(y)} rows with a {target!r}; a model needs at least 2, better hundreds.")
    if len(kept) < table.num_rows:
        note(f"{table.num_rows - len(kept):,} of {table.num_rows:,} rows have no {target!r} and are left out")
        X = X.take(kept)
    options: dict[str, Any] = {
        "prior": prior,
        "ensemble_size": ensemble or "auto",
        "max_epochs": max_epochs,
        "random_state": seed,
        "device": device,
    }
    if y.dtype.kind == "f":
        options["family"] = family or "auto"
        check_support(choose_family(options["family"], y), y, target, source, kept)
        suggestion = None if task or family else hint(y, target)
        if suggestion:
            note(suggestion)
    elif len(np.unique(y)) < 2:
        raise Problem(f"{source.name}: all rows have the same {target!r}, {y[0]!s}; there is nothing to tell apart.")
    if is_first_process():
        tell_columns(source, X, y, target, category)
    train(X, y, target, drop, options, out, replace(source.written, units=source.units))


def tell_columns(source: Source, X: Any, y: NDArray[Any], target: str, category: Sequence[str]) -> None:
    """Print how each column is read, and what is probably not meant."""
    from natpn.tabular import TableTransform
    from natpn.tabular.column_kinds import OTHER

    columns = TableTransform().fit(X).columns
    say(f"columns of {source.name}, as they are read:")
    for line in column_lines(columns, source.units):
        say(line)
    guessed = [c.name for c in columns if source.texts and c.kind == OTHER and c.name not in category]
    for remark in remarks(X, y, target, columns, guessed, source.written):
        note(remark)


def check_family(family: str | None) -> None:
    """Raise if there is no such family, or its targets are vectors.

    Raises:
        Problem: With the choices.
    """
    from natpn.families import FAMILIES, has_vectors

    if has_vectors(family):
        raise Problem(f"--family {family} has vectors as targets, which are not in one column; use NatPNRegressor.")
    names = ["auto", *(name for name in FAMILIES if not has_vectors(name))]
    if family is not None and family not in names:
        raise Problem(f"--family {family}: there is no such family; known are {', '.join(names)}{near(family, names)}")


def typed(source: Source, table: Any, target: str, drop: Sequence[str], category: Sequence[str], bad: BadCells) -> Any:
    """Return the features with their types.

    Raises:
        Problem: If a column is missing, or cannot be used.
    """
    import pyarrow as pa

    for option, name in [("target", target), *(("drop", n) for n in drop), *(("category", n) for n in category)]:
        if name not in source.names:
            raise Problem(f"--{option} {name}: {source.name} has no such column{_choices(name, source.names)}")
    if target in drop:
        raise Problem(f"--drop {target}: it is the target; leave one of the options out.")
    check_type(table[target], target, source.name)
    left_out = {*drop, target}
    names = [name for name in source.names if name not in left_out]
    if not names:
        raise Problem(f"{source.name} has no columns to predict {target!r} from; add some.")
    return pa.table({name: _feature(table[name], name, source, name in category, bad) for name in names})


def _feature(values: Any, name: str, source: Source, is_category: bool, bad: BadCells) -> Any:
    import pyarrow as pa

    check_type(values, name, source.name)
    values = known(values, source.written)
    if is_category:
        return categories(values) if source.texts else values.cast(pa.string()).dictionary_encode()
    if not is_text(values.type):
        return values
    return (infer if source.texts else mended)(values, name, source, bad)


def _choices(name: str, names: list[str]) -> str:
    shown = ", ".join(map(repr, names[:8])) + (", …" if len(names) > 8 else "")
    return near(name, names) or f"; it has {shown}"


def target_of(
    column: Any, name: str, source: Source, task: str | None, family: str | None, bad: BadCells
) -> tuple[NDArray[Any], NDArray[np.intp]]:
    """Return the targets that are not missing, and their rows."""
    said = said_classes(task, family)
    classes = said
    if said is None:
        # Counted below, where the cells are read for good.
        bad_once = BadCells(bad.option)
        found = infer(column, name, source, bad_once) if source.texts else column
        classes = holds_classes(found, name)
    if classes:
        y, kept = labels(column, name, source)
        if said is None:
            check_labels(y, name, source.written)
        return y, kept
    if said is not None:
        find_unit(column, name, source)
    values = numbers(column, name, source, bad, "say --task classes")
    kept = np.flatnonzero(~np.isnan(values))
    return values[kept], kept


def train(
    X: Any,
    y: NDArray[Any],
    target: str,
    drop: Sequence[str],
    options: dict[str, Any],
    out: str,
    written: Written = PLAIN,
) -> Saved | None:
    """Fit, save and tell; returns None in all processes but the first."""
    import torch

    from natpn import parallel
    from natpn.estimators import NatPNClassifier, NatPNRegressor
    from natpn.report.same_answer import baselines
    from natpn.report.scores import scores

    if "OMP_NUM_THREADS" not in os.environ:
        torch.set_num_threads(1)  # more do not make tables quicker, and on a busy machine wait for each other
    classes = y.dtype.kind != "f"
    model = (NatPNClassifier if classes else NatPNRegressor)(**options, verbose=int(on_terminal()))
    try:
        with contextlib.redirect_stdout(io.StringIO()):  # the family is told below
            model.fit(X, y)
    finally:
        parallel.stop()
    if not is_first_process():
        return None
    model.verbose = 0
    saved = Saved(out, model, target, tuple(drop), targets_digest(y), written)
    held_out = model.held_out_
    scored = held_out if len(held_out) else np.arange(len(y))
    if model.folds_:
        judged = [scores(model.member(i), X.take(rows), y[rows]) for i, rows in enumerate(model.folds_)]
        found = {name: float(np.mean([each[name] for each in judged])) for name in judged[0]}
    else:
        found = scores(model, X.take(scored), y[scored])
    save(saved)
    unit = f" in {written.units[target]}" if target in written.units else ""
    what = f"{len(model.classes_)} classes" if classes else f"numbers{unit}"
    why = f", for {model.family_.suits}" if options.get("family") == "auto" else ""
    say(f"target  {target}: {what}, family {model.family_!r}{why}")
    if model.folds_:
        rows = f"{model.n_rows_:,} to fit, {len(held_out):,} held out by one network or another"
    else:
        rows = f"{model.n_rows_:,} to fit, {len(held_out) or 'none'} held out"
    say(f"rows    {rows}; {X.num_columns:,} columns")
    if model.folds_:
        say("scores of single networks, on the rows that each held out; together they mostly do better:")
    elif len(held_out):
        say("scores on the rows that were held out, which also told when to stop:")
    else:
        say("scores on the rows of the fit, not on held-out ones: new rows will be predicted worse:")
    dates = [field.name for field in X.schema if str(field.type).startswith(("date", "timestamp"))]
    if dates and len(held_out):
        say(f"(their {dates[0]!r} is between that of other rows; score later ones by natpn evaluate)")
    for line in score_lines(found, baselines(model, y[scored]), model):
        say(line)
    if len(y) < FEW_ROWS:
        note(
            f"{len(y)} rows are few: scores of {len(scored)} rows say little, and intervals and alarms are rough below "
            f"{FEW_ROWS}; add rows, or try the model on others with natpn evaluate"
        )
    say(f"model   {out}")
    return saved
