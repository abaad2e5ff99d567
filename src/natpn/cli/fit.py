"""`natpn fit`: a table → a model."""

import contextlib
import io
import os
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import click
import numpy as np
from numpy.typing import NDArray

from natpn.cli.advice import remarks
from natpn.cli.cell_texts import as_categories, infer, is_text, usable
from natpn.cli.fit_files import bytes_of, fit_files, is_many
from natpn.cli.formats import Source
from natpn.cli.model_files import SavedModel, check_model_place, located, write_model
from natpn.cli.printing import Problem, column_lines, is_first_process, note, on_terminal, say, score_lines
from natpn.cli.reading import Reading, drop_option, opened, reading_options
from natpn.cli.streams import check_data
from natpn.cli.target_column import check_support, fit_targets, said_classes, targets_digest, task_hint
from natpn.tabular import TableTransform
from natpn.tabular.column_kinds import OTHER
from natpn.tabular.written import PLAIN, Written

FEW_ROWS = 50  # with fewer, not even 10 are held out


@click.command("fit", short_help="Fit a model to a table.")
@click.argument("data", nargs=-1, required=True)
@click.option("--target", required=True, metavar="COLUMN", help="The column to predict.")
@click.option("--out", required=True, metavar="DIRECTORY", help="Where to write the model.")
@click.option(
    "--task",
    type=click.Choice(["classes", "numbers"]),
    help="What the target holds; by default texts and truth values are classes, and numbers are numbers.",
)
@click.option("--family", metavar="NAME", help="For numbers: normal, poisson, lognormal, …; auto (the default) picks.")
@click.option(
    "--prior",
    type=click.Choice(["marginal", "paper"]),
    default="marginal",
    show_default=True,
    help="The answer for rows unlike all others: what the targets as a whole say, or the paper's wide prior.",
)
@click.option("--ensemble", type=click.IntRange(1), help="How many networks.  [default: 2]")
@drop_option
@click.option("--category", multiple=True, metavar="COLUMN", help="Read a column as names, not numbers. Repeatable.")
@reading_options
@click.option(
    "--seed",
    type=click.IntRange(0, 2**31 - 1),
    default=0,
    show_default=True,
    help="The same seed gives the same model.",
)
@click.option("--max-epochs", type=click.IntRange(1), help="Stop training after so many epochs; fewer are quicker.")
@click.option("--device", default="auto", show_default=True, help="auto, cpu, cuda or cuda:1.")
@click.option(
    "--memory",
    default="2GB",
    show_default=True,
    metavar="SIZE",
    help="How much memory may be used; more data than that is read in pieces.",
)
@click.option("--checkpoint", metavar="DIRECTORY", help="Where to note how far training is, and to go on from.")
def fit_command(
    data: tuple[str, ...],
    target: str,
    out: str,
    task: str | None,
    family: str | None,
    prior: str,
    ensemble: int | None,
    drop: tuple[str, ...],
    category: tuple[str, ...],
    how: Reading,
    seed: int,
    max_epochs: int | None,
    device: str,
    memory: str,
    checkpoint: str | None,
) -> None:
    """Fit a model to DATA, a CSV, Parquet or Excel file (- reads standard input).

    Prints how each column is read, the family of the target, the scores on rows that were held out, and where the model
    is. The model remembers how DATA is written.

    DATA may also be a directory of Parquet or CSV files, a pattern such as 'trips/*.parquet', or several files. They
    are read in pieces and need not fit into memory; numbers and dates have to be written plainly there.

    \b
    Example:
      natpn fit flats.csv --target rent --drop id --out rent
      natpn fit trips/ --target fare --out fare --checkpoint fare-run
      torchrun --nproc-per-node 4 -m natpn fit trips/ --target fare --out fare
    """
    from natpn.estimators.numbers import choose_family

    path, most = data[0], bytes_of(memory)
    if "-" in data and len(data) > 1:
        raise Problem("Standard input cannot be one of several files; give files.")
    if path == "-" and int(os.environ.get("WORLD_SIZE", "1")) > 1:
        raise Problem("Several processes cannot share standard input; give torchrun a file.")
    said = said_classes(task or ("classes" if target in category else None), family)
    options: dict[str, Any] = {
        "prior": prior,
        "ensemble_size": ensemble or "auto",
        "max_epochs": max_epochs,
        "random_state": seed,
        "device": device,
        "checkpoint_dir": checkpoint,
    }
    if is_many(data, most):
        if how != Reading():
            raise Problem("Options that say how values are written are for single files; leave them out.")
        if is_first_process():
            check_model_place(out, *data)
        fit_files(data, target, out, said, drop, category, options | {"family": family or "auto"}, most)
        return
    check_data(path)
    if is_first_process():
        check_model_place(out, path)
    source, X, column = read_training(path, how, target, drop, category)
    y, rows = fit_targets(column, target, source, said)
    source.tell_bad()
    if len(y) < 2:
        raise Problem(
            f"{source.name} has a {target!r} in {len(y)} of its rows; a model needs at least 2, better hundreds."
        )
    if len(rows) < X.num_rows:
        note(f"{X.num_rows - len(rows):,} of {X.num_rows:,} rows have no {target!r} and are left out")
        X = X.take(rows)
    if y.dtype.kind == "f":
        options["family"] = family or "auto"
        check_support(choose_family(options["family"], y), (y, rows), target, source)
        hint = task_hint(y, target) if said is None else None
        if hint:
            note(hint)
    elif len(np.unique(y)) < 2:
        raise Problem(f"{source.name}: all rows have the same {target!r}, {y[0]!s}; there is nothing to tell apart.")
    if is_first_process():
        with located(source, rows):
            tell_columns(source, X, y, target, category)
    train(X, y, target, drop, options, out, replace(source.written, units=source.units))


def read_training(
    data: str, how: Reading, target: str, drop: Sequence[str] = (), category: Sequence[str] = ()
) -> tuple[Source, Any, Any]:
    """Return a file, its features with their types as a table, and the column to predict.

    Raises:
        Problem: If the file cannot be read, or a column is missing or cannot be used.
    """
    import pyarrow as pa

    with opened(data, how) as source:
        for option, name in [("target", target), *(("drop", n) for n in drop), *(("category", n) for n in category)]:
            source.check_column(option, name)
        if target in drop:
            raise Problem(f"--drop {target}: it is the target; leave one of the options out.")
        names = [name for name in source.names if name not in {*drop, target}]
        if not names:
            raise Problem(f"{source.name} has no columns to predict {target!r} from; add some.")
        tables = [table for _, table in source.batches([*names, target])]
    table = pa.concat_tables(tables).combine_chunks()
    column = usable(table[target], target, source)
    return source, pa.table({name: _feature(table[name], name, source, name in category) for name in names}), column


def _feature(values: Any, name: str, source: Source, is_category: bool) -> Any:
    values = usable(values, name, source)
    if is_category:
        return as_categories(values, source)
    return infer(values, name, source) if is_text(values.type) else values


def tell_columns(source: Source, X: Any, y: NDArray[Any], target: str, category: Sequence[str]) -> None:
    """Print how each column is read, and what is probably not meant."""
    columns = TableTransform().fit(X).columns
    say(f"columns of {source.name}, as they are read:")
    for line in column_lines(columns, source.units):
        say(line)
    guessed = [c.name for c in columns if source.texts and c.kind == OTHER and c.name not in category]
    for remark in remarks(X, y, target, columns, guessed, source.written):
        note(remark)


def train(
    X: Any,
    y: NDArray[Any],
    target: str,
    drop: Sequence[str],
    options: dict[str, Any],
    out: str,
    written: Written = PLAIN,
) -> SavedModel | None:
    """Fit a model, save it and tell its scores.

    Args:
        X: The features, as a pyarrow table.
        y: The targets: float64 for numbers, and else labels.
        target: Their name.
        drop: The columns that were left out.
        options: Parameters of the estimator.
        out: Where to write the model.
        written: How the file of the table writes values.

    Returns:
        The model; None in all processes but the first.
    """
    import torch

    from natpn import parallel
    from natpn.estimators import NatPNClassifier, NatPNRegressor

    if "OMP_NUM_THREADS" not in os.environ:
        torch.set_num_threads(1)  # more do not make tables quicker, and on a busy machine wait for each other
    model = (NatPNRegressor if y.dtype.kind == "f" else NatPNClassifier)(**options, verbose=int(on_terminal()))
    try:
        with contextlib.redirect_stdout(io.StringIO()):  # the family is told below
            model.fit(X, y)
    finally:
        parallel.stop()
    if not is_first_process():
        return None
    model.verbose = 0
    saved = SavedModel(out, model, target, tuple(drop), targets_digest(y), written)
    lines = list(_summary(saved, X, y, options.get("family") == "auto"))
    write_model(saved)
    for line in lines:
        say(line)
    if len(y) < FEW_ROWS:
        note(
            f"{len(y)} rows are few: scores of {len(model.held_out_) or len(y)} rows say little, and intervals and "
            f"alarms are rough below {FEW_ROWS}; add rows, or try the model on others with natpn evaluate"
        )
    say(f"model   {out}")
    return saved


def _summary(saved: SavedModel, X: Any, y: NDArray[Any], picked: bool) -> Iterator[str]:
    """Yield what a model predicts, how many rows it was fitted on, and its scores.

    Args:
        saved: The model.
        X: The features of the fit.
        y: The targets.
        picked: Whether the family was picked by the targets.
    """
    from natpn.report.scores import baselines, scores

    model, units = saved.estimator, saved.written.units
    unit = f" in {units[saved.target]}" if saved.target is not None and saved.target in units else ""
    what = f"numbers{unit}" if y.dtype.kind == "f" else f"{len(model.classes_)} classes"
    why = f", for {model.family_.suits}" if picked else ""
    yield f"target  {saved.target}: {what}, family {model.family_!r}{why}"
    held_out = model.held_out_
    by_whom = " by one network or another" if model.folds_ else ""
    number = f"{len(held_out):,}" if len(held_out) else "none"
    yield f"rows    {model.n_rows_:,} to fit, {number} held out{by_whom}; {X.num_columns:,} columns"
    scored = held_out if len(held_out) else np.arange(len(y))
    if model.folds_:
        yield "scores of single networks, on the rows that each held out; together they mostly do better:"
        judged = [scores(model.member(i), X.take(rows), y[rows]) for i, rows in enumerate(model.folds_)]
        found = {name: float(np.mean([each[name] for each in judged])) for name in judged[0]}
    else:
        if len(held_out):
            yield "scores on the rows that were held out, which also told when to stop:"
        else:
            yield "scores on the rows of the fit, not on held-out ones: new rows will be predicted worse:"
        found = scores(model, X.take(scored), y[scored])
    dates = [field.name for field in X.schema if str(field.type).startswith(("date", "timestamp"))]
    if dates and len(held_out):
        yield f"(they are no later in {dates[0]!r} than the others; score later rows with natpn evaluate)"
    yield from score_lines(found, baselines(model, y[scored]), model)
