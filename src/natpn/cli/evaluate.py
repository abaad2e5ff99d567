"""`natpn evaluate` and `natpn report`: a model and rows whose targets are known → scores, or a page about them."""

import contextlib
import json
import math
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import click
import numpy as np
from numpy.typing import NDArray

from natpn.cli.cell_texts import usable
from natpn.cli.fit import FEW_ROWS
from natpn.cli.formats import Source
from natpn.cli.model_files import SavedModel, located, match_features, prepare_batch, read_model
from natpn.cli.reading import Reading, check_data, drop_option, opened, reading_options
from natpn.cli.target_column import Targets, check_support, known_labels, number_targets, targets_digest
from natpn.cli.writing import PAGE, Problem, check_output, note, part, say, score_lines, write_text


@dataclass(frozen=True)
class ScoredRows:
    """Rows of a file as the model knows them: features, numbers in the file, and targets and names if asked for."""

    X: Any
    y: Any
    source: Source
    numbers: NDArray[np.intp]
    ids: list[Any] | None = None


def scoring_options(function: Callable[..., None]) -> Callable[..., None]:
    """Add the arguments and options that say on which rows a model is scored."""
    for option in (
        reading_options,
        drop_option,
        click.option("--ood", metavar="FILE", help="Rows unlike those of training, to see whether the model notices."),
        click.option("--target", metavar="COLUMN", help="The column that was predicted; by default that of the fit."),
        click.argument("data"),
        click.argument("model"),
    ):
        function = option(function)
    return function


@click.command("evaluate", short_help="Score a model on rows whose target is known.")
@scoring_options
@click.option("--json", "machine", is_flag=True, help="Print JSON.")
def evaluate_command(
    model: str, data: str, target: str | None, ood: str | None, drop: tuple[str, ...], how: Reading, machine: bool
) -> None:
    """Score MODEL on DATA, a CSV, Parquet or Excel file with the target (- reads standard input).

    Values are taken to be written as in the file of the fit.

    \b
    Example:
      natpn evaluate rent test.csv
      natpn evaluate rent test.csv --ood other_city.csv --json
    """
    from natpn.report.scores import baselines, scores

    saved, rows, other = read_rows(model, data, target, ood, drop, how)
    estimator, y = saved.estimator, rows.y
    with located_rows(saved, rows, other):
        found = scores(estimator, rows.X, y, other and other.X)
    same = baselines(estimator, y)
    if targets_digest(y) == saved.fitted:
        note("these are the rows of the fit: the model has seen most of them, and predicts new ones worse")
    elif len(y) < FEW_ROWS:
        note(f"{len(y)} rows are few: scores of fewer than {FEW_ROWS} say little")
    if machine:
        counts = {"rows": len(y)} | ({} if other is None else {"ood_rows": other.X.num_rows})
        finite = [{n: x if math.isfinite(x) else None for n, x in each.items()} for each in (found, same)]
        say(json.dumps(counts | finite[0] | {"baselines": finite[1]}, indent=1))
        return
    say(f"{len(y):,} rows" + ("" if other is None else f", {other.X.num_rows:,} others from {ood}"))
    for line in score_lines(found, same, estimator):
        say(line)


@click.command("report", short_help="Write a page about a model.")
@click.option("--out", required=True, metavar="FILE", help="Where to write the HTML page; - is standard output.")
@click.option("--id", "identifier", metavar="COLUMN", help="A column that names the rows; by default they are counted.")
@click.option("--title", metavar="TEXT", help="The heading of the page.")
@scoring_options
def report_command(
    model: str,
    data: str,
    out: str,
    identifier: str | None,
    title: str | None,
    target: str | None,
    ood: str | None,
    drop: tuple[str, ...],
    how: Reading,
) -> None:
    """Write a page about MODEL and how it does on DATA: one HTML file that needs no network.

    \b
    Example:
      natpn report rent test.csv --id flat --ood other_city.csv --out report.html
    """
    render = part("natpn.report", "render", "report")
    check_data(data, ood)
    check_output(out, PAGE, model, data, ood)
    saved, rows, other = read_rows(model, data, target, ood, drop, how, identifier)
    with located_rows(saved, rows, other):
        page = render(
            saved.estimator,
            rows.X,
            rows.y,
            ood=other and other.X,
            title=title,
            name=os.path.basename(os.path.abspath(model)),
            target=target or saved.target,
            unit=saved.unit,
            source="standard input" if data == "-" else os.path.basename(data),
            ids=rows.ids,
        )
    write_text(out, page, PAGE)
    if out != "-":
        say(f"report  {out}")


def read_rows(
    model: str,
    data: str,
    target: str | None,
    ood: str | None,
    drop: Sequence[str],
    how: Reading,
    identifier: str | None = None,
) -> tuple[SavedModel, ScoredRows, ScoredRows | None]:
    """Read a model, rows with their targets and names, and rows unlike training if there are some."""
    saved = read_model(model)
    name = target or saved.target
    if name is None:
        raise Problem(f"{model} does not say which column was its target; say --target.")
    rows = read_file(saved, data, how, drop, name, identifier)
    if identifier is not None and identifier not in saved.table.feature_names:
        drop = [*drop, identifier]  # which the other file may have, too
    return saved, rows, None if ood is None else read_file(saved, ood, how, drop, None)


def read_file(
    saved: SavedModel, path: str, how: Reading, drop: Sequence[str], target: str | None, identifier: str | None = None
) -> ScoredRows:
    """Read the rows of a file, those that have a target if one is asked for."""
    import pyarrow as pa

    with opened(path, how, saved.written) as source:
        keep = [] if target is None else [target]
        names_rows = [] if identifier is None else [identifier]
        for option, named in (("target", keep), ("id", names_rows)):
            for name in named:
                source.check_column(option, name)
        there = drop if target is not None else [name for name in drop if name in source.names]
        names = match_features(saved, source, there, [*keep, *names_rows])
        tables, targets, ids = [], [], []
        for first, batch in source.batches(list(dict.fromkeys([*names, *keep, *names_rows]))):
            tables.append(prepare_batch(saved, names, batch, source, first))
            targets += [chunk for name in keep for chunk in batch[name].chunks]
            ids += [value for name in names_rows for value in batch[name].to_pylist()]
    X = pa.concat_tables(tables, promote_options="permissive").combine_chunks()
    y, rows = None, np.arange(X.num_rows)
    if target is not None:
        y, rows = _targets(usable(pa.chunked_array(targets), target, source), target, source, saved.estimator)
        if len(rows) < X.num_rows:
            note(f"{X.num_rows - len(rows):,} of {X.num_rows:,} rows have no {target!r} and are left out")
            X = X.take(rows)
    source.tell_bad()
    return ScoredRows(X, y, source, rows, [ids[row] for row in rows] if ids else None)


def _targets(column: Any, name: str, source: Source, estimator: Any) -> Targets:
    """Return the targets that the model knows, and their rows."""
    if hasattr(estimator, "classes_"):
        y, rows = known_labels(column, estimator.classes_, name, source)
    else:
        y, rows = number_targets(column, name, source)
        check_support(estimator.family_, (y, rows), name, source)
    if not len(y):
        raise Problem(f"{source.name} has no row with a {name!r}; scores need some.")
    return y, rows


@contextlib.contextmanager
def located_rows(saved: SavedModel, *parts: ScoredRows | None) -> Iterator[None]:
    """Word errors of the library about rows in terms of their file."""
    try:
        yield
    except ValueError:
        # Only an error is worth encoding the rows once more, to learn which file it is about.
        for rows in filter(None, parts):
            with located(rows.source, rows.numbers):
                X, _ = saved.estimator.targets_.read_exposures(rows.X, None)
                saved.table.transform(X)
        raise
