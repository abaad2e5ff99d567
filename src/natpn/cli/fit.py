"""`natpn fit`: a table, or files that need not fit into memory → a model."""

import contextlib
import io
import os
import re
import warnings
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import click
import numpy as np

from natpn.cli.cluster import check_cluster, ray_option
from natpn.cli.formats import check_column
from natpn.cli.model_files import SavedModel, check_model_place, write_model
from natpn.cli.reading import Reading, are_many, drop_option, reading_options
from natpn.cli.target_column import said_classes, targets_digest
from natpn.cli.training_rows import TrainingRows, rows_of_files, rows_of_table
from natpn.cli.writing import Problem, column_lines, is_first_process, note, on_terminal, say, score_lines
from natpn.tabular import DateColumn

FEW_ROWS = 50  # with fewer, not even 10 are held out
Told = tuple[list[str], list[str]]  # notes and lines
_SIZES = {"": 1, "K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40}


@click.command("fit", short_help="Fit a model to a table.")
@click.argument("data", nargs=-1, required=True)
@click.option("--target", required=True, metavar="COLUMN", help="The column to predict.")
@click.option(
    "--exposure", metavar="COLUMN", help="For counts: over how long, or among how many, each row was counted."
)
@click.option("--unit", metavar="TEXT", help="The unit of the target, for people who read answers: kWh, €, ….")
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
@click.option(
    "--calibrate",
    type=click.Choice(["conformal"]),
    help="Hold out rows to calibrate intervals, so that they hold exactly for rows like those of DATA.",
)
@click.option("--groups", metavar="COLUMN", help="With --calibrate: let them hold for each value of a column.")
@click.option("--ensemble", "ensemble_size", type=click.IntRange(1), help="How many networks.  [default: 2]")
@drop_option
@click.option("--category", multiple=True, metavar="COLUMN", help="Read a column as names, not numbers. Repeatable.")
@reading_options
@click.option(
    "--seed",
    "random_state",
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
@click.option(
    "--checkpoint", "checkpoint_dir", metavar="DIRECTORY", help="Where to note how far training is, and to go on from."
)
@click.option(
    "--example/--no-example",
    default=True,
    show_default=True,
    help="Whether the model keeps one ordinary row, with which its page begins.",
)
@ray_option
@click.option("--workers", type=click.IntRange(1), help="With --ray: how many processes.  [default: one for each CPU]")
def fit_command(
    data: tuple[str, ...],
    target: str,
    exposure: str | None,
    unit: str | None,
    out: str,
    task: str | None,
    family: str | None,
    drop: tuple[str, ...],
    category: tuple[str, ...],
    how: Reading,
    memory: str,
    example: bool,
    ray: str | None,
    workers: int | None,
    **options: Any,
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
      natpn fit /shared/trips/ --target fare --out /shared/fare --ray auto
    """
    most = bytes_of(memory)
    if ray is not None:
        data = tuple(check_cluster(data, how))
        if options["device"] not in ("auto", "cpu"):
            raise Problem(f"--device {options['device']}: a cluster fits on CPUs; leave --device or --ray out.")
    elif workers is not None:
        raise Problem("--workers: it says how many processes a cluster runs; say --ray, too, or use torchrun.")
    if "-" in data and len(data) > 1:
        raise Problem("Standard input cannot be one of several files; give files.")
    if data[0] == "-" and int(os.environ.get("WORLD_SIZE", "1")) > 1:
        raise Problem("Several processes cannot share standard input; give torchrun a file.")
    said = said_classes(task or ("classes" if target in category else None), family)
    in_files = ray is not None or are_many(data) or _is_large(data[0], most)
    if in_files and how != Reading():
        raise Problem("Options that say how values are written are for single files; leave them out.")
    if is_first_process():
        check_model_place(out, *data)
    family, groups = family or "auto", options["groups"]
    if groups is not None and (options["calibrate"] is None or groups in (target, *drop)):
        cure = "say --calibrate conformal, too" if options["calibrate"] is None else "name one to predict from"
        raise Problem(f"--groups {groups}: expected a column by which intervals are calibrated; {cure}.")
    if in_files:
        rows = rows_of_files(data, target, exposure, drop, category, said, most)
    else:
        rows = rows_of_table(data[0], how, target, exposure, drop, category, said, family)
    if groups is not None:
        names = [*(rows.X.names if rows.in_files else rows.X.column_names)]
        check_column("groups", groups, [name for name in names if name not in (target, exposure)], data[0])
    if unit is not None:
        if rows.is_classes:
            raise Problem(f"--unit {unit}: {target!r} holds classes, which have no unit; leave the option out.")
        rows = replace(rows, unit=unit)
    rows = replace(rows, example=example)
    options["ensemble_size"] = options["ensemble_size"] or "auto"
    options |= {} if rows.is_classes else {"family": family}
    if ray is not None:
        _train_on_cluster(rows, options, out, workers, ray)
        return
    from natpn import parallel

    try:
        train(rows, options, out)
    finally:
        parallel.stop()


def bytes_of(size: str) -> int:
    """Return what a text such as "2GB" or "500M" stands for."""
    parts = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([KMGT]?)I?B?\s*", size.upper())
    if parts is None:
        raise Problem(f"--memory {size}: expected a size such as 2GB or 500MB.")
    found = round(float(parts[1]) * _SIZES[parts[2]])
    if found < 2**26:
        raise Problem(f"--memory {size}: expected at least 64MB, better 1GB.")
    return found


def _is_large(path: str, memory: int) -> bool:
    """Say whether it is a Parquet file too large for memory."""
    if not path.endswith((".parquet", ".pq")) or not os.path.isfile(path):
        return False
    from natpn.data import parquet

    try:
        return not parquet(path, memory).fits
    except ValueError:
        return False  # whoever reads it says why


def train(rows: TrainingRows, options: dict[str, Any], out: str) -> SavedModel | None:
    """Fit a model with parameters of the estimator, save it, tell its scores and return it, in the first process."""
    saved, told = _fitted(rows, options, out)
    if saved is not None:
        _tell(told, out)
    return saved


def _fitted(rows: TrainingRows, options: dict[str, Any], out: str) -> tuple[SavedModel | None, Told]:
    """Fit a model, and save it in the first process; return it there, with what to tell: notes and lines."""
    import torch

    from natpn.estimators import NatPNClassifier, NatPNRegressor

    if "OMP_NUM_THREADS" not in os.environ:
        torch.set_num_threads(1)  # more do not make tables quicker, and on a busy machine wait for each other
    model = (NatPNClassifier if rows.is_classes else NatPNRegressor)(**options, verbose=int(on_terminal()))
    # The family is told below.
    with warnings.catch_warnings(record=True) as told, contextlib.redirect_stdout(io.StringIO()):
        warnings.filterwarnings("default", category=UserWarning, module="natpn")
        model.fit(rows.X, rows.y, **({} if rows.exposure is None else {"exposure": rows.exposure}))
    if not is_first_process():
        return None, ([], [])
    notes = [str(warning.message) for warning in told]
    model.verbose = 0
    fitted = None if rows.in_files else targets_digest(rows.y)
    saved = SavedModel(out, model, rows.target, tuple(rows.dropped), fitted, rows.written, rows.unit)
    lines = list(_summary(saved, rows, options.get("family") == "auto"))
    write_model(saved if rows.example else replace(saved, estimator=model.without_example()))
    if not rows.in_files and len(rows.y) < FEW_ROWS:
        notes.append(
            f"{len(rows.y)} rows are few: scores of {len(model.held_out_) or len(rows.y)} rows say little, and "
            f"intervals and alarms are rough below {FEW_ROWS}; add rows, or try the model on others with natpn evaluate"
        )
    return saved, (notes, lines)


def _tell(told: Told, out: str) -> None:
    """Print the notes and the lines about a model, and where it is."""
    notes, lines = told
    for remark in notes:
        note(remark)
    for line in lines:
        say(line)
    say(f"model   {out}")


def _train_on_cluster(rows: TrainingRows, options: dict[str, Any], out: str, workers: int | None, address: str) -> None:
    """Fit a model in the processes of a cluster, each as one that torchrun starts, and tell what the first found."""
    from natpn.ray import run_together

    if options["checkpoint_dir"] is not None:
        options |= {"checkpoint_dir": os.path.abspath(options["checkpoint_dir"])}
    told = run_together(_take_part, rows, options, os.path.abspath(out), workers=workers, address=address)
    _tell(told, out)


def _take_part(rows: TrainingRows, options: dict[str, Any], out: str) -> Told:
    """Do the part of one process of a cluster, which knows no errors of the command line."""
    try:
        return _fitted(rows, options, out)[1]
    except click.ClickException as error:
        raise ValueError(error.format_message()) from None


def _summary(saved: SavedModel, rows: TrainingRows, picked: bool) -> Iterator[str]:
    """Yield what a model predicts, by a family that the targets may have picked, its rows and its scores."""
    from natpn.report.scores import baselines, judge_answers, totals

    model, columns, unit = saved.estimator, saved.table.columns, saved.unit
    if rows.in_files:
        yield "columns, as they are read:"
        yield from column_lines(columns, {})
    what = f"{len(model.classes_)} classes" if rows.is_classes else f"numbers in {unit}" if unit else "numbers"
    why = f", for {model.family_.suits}" if picked else ""
    yield f"target  {rows.target}: {what}, family {model.family_!r}{why}"
    if rows.exposure is not None:
        known = model.targets_.exposure
        yield f"exposure  {rows.exposure}: {known.described.facts}, {known.mean:.6g} on average; counts grow with it"
    x, truth, folds = model.held_out_rows_
    exposure = model.held_out_exposure_
    number = f"{model.n_held_out_:,}" if model.n_held_out_ else "none"
    by_whom = "" if folds is None else " by one network or another"
    yield f"rows    {model.n_rows_:,} to fit, {number} held out{by_whom}; {len(columns):,} columns"
    if folds is None:
        judged = [totals(judge_answers([model.model_.answer_encoded(x, exposure)], truth))]
    else:
        judged = []
        for i, own in enumerate(folds == i for i in range(model.n_networks_)):
            some = None if exposure is None else exposure[own]
            answers = model.model_.member(i).answer_encoded(x[own], some)
            judged.append(totals(judge_answers([answers], truth[own])))
    if folds is not None:
        yield "scores of single networks, on the rows that each held out; together they mostly do better:"
    elif model.n_held_out_:
        yield "scores on the rows that were held out, which also told when to stop:"
    else:
        yield "scores on the rows of the fit, not on held-out ones: new rows will be predicted worse:"
    dates = [column.name for column in columns if isinstance(column, DateColumn)]
    if dates and model.n_held_out_:
        yield f"(they are no later in {dates[0]!r} than the others; score later rows with natpn evaluate)"
    found = {name: float(np.mean([each[name] for each in judged])) for name in judged[0]}
    yield from score_lines(found, baselines(model, truth), model)
