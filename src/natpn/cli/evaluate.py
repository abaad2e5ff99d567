"""`natpn evaluate`: a model and rows whose targets are known → scores."""

from collections.abc import Sequence
from typing import Any

import click
import numpy as np

from natpn.cli.bad_cells import BadCells, bad_cells_option
from natpn.cli.distinct import known
from natpn.cli.excel_files import sheet_option
from natpn.cli.fit import FEW_ROWS
from natpn.cli.models import Saved, features, load, located, prepared
from natpn.cli.printing import as_json, note, progress, say, score_lines
from natpn.cli.problems import Problem, near
from natpn.cli.reading import opened
from natpn.cli.targets import check_support, known_labels, numbers, targets_digest
from natpn.cli.written_options import written_as, written_options
from natpn.tabular.written import Written


@click.command(short_help="Score a model on rows whose target is known.")
@click.argument("model")
@click.argument("data")
@click.option("--target", metavar="COLUMN", help="The column that was predicted; by default that of the fit.")
@click.option("--ood", metavar="FILE", help="Rows unlike training: how well are they noticed?")
@click.option("--drop", multiple=True, metavar="COLUMN", help="Leave a column out. May be repeated.")
@bad_cells_option
@written_options
@sheet_option
@click.option("--json", "machine", is_flag=True, help="Print JSON.")
def evaluate(
    model: str,
    data: str,
    target: str | None,
    ood: str | None,
    drop: tuple[str, ...],
    bad_cells: str,
    said: dict[str, Any],
    sheet: str | None,
    machine: bool,
) -> None:
    """Score MODEL on DATA, a CSV, Parquet or Excel file with the target (- reads standard input).

    Values are taken to be written as in the file of the fit.

    \b
    Example:
      natpn evaluate rent test.csv
      natpn evaluate rent test.csv --ood other_city.csv --json
    """
    from natpn.report.same_answer import baselines
    from natpn.report.scores import scores

    saved, X, y, other = read_all(model, data, target, ood, drop, bad_cells, said, sheet)
    found, same = scores(saved.model, X, y, other), baselines(saved.model, y)
    if targets_digest(y) == saved.fitted:
        note("these are the rows of the fit: it has seen most of them, and predicts new ones worse")
    elif len(y) < FEW_ROWS:
        note(f"{len(y)} rows are few: scores of fewer than {FEW_ROWS} say little")
    if machine:
        rows = {"rows": len(y)} | ({} if other is None else {"ood_rows": other.num_rows})
        say(as_json(rows | found | {"baselines": same}))
        return
    say(f"{len(y):,} rows" + ("" if other is None else f", {other.num_rows:,} others from {ood}"))
    for line in score_lines(found, same, saved.model):
        say(line)


def read_all(
    model: str,
    data: str,
    target: str | None,
    ood: str | None,
    drop: Sequence[str],
    bad_cells: str,
    said: dict[str, Any],
    sheet: str | None,
) -> tuple[Saved, Any, Any, Any]:
    """Return the model, features and targets of a file, and the features of other rows if there are some."""
    saved = load(model)
    name = target or saved.target
    if name is None:
        raise Problem(f"{model} does not say which column was its target; say --target.")
    bad = BadCells(bad_cells)
    written = written_as(said, saved.written)
    X, column, source = read_features(saved, data, drop, name, bad, written, sheet)
    y: Any
    if hasattr(saved.model, "classes_"):
        y, kept = known_labels(column, saved.model.classes_, name, source)
    else:
        values = numbers(column, name, source, bad)
        kept = np.flatnonzero(~np.isnan(values))
        y = values[kept]
        check_support(saved.model.family_, y, name, source, kept)
    if not len(y):
        raise Problem(f"{source.name} has no row with a {name!r}; scores need some.")
    if len(kept) < X.num_rows:
        note(f"{X.num_rows - len(kept):,} of {X.num_rows:,} rows have no {name!r} and are left out")
        X = X.take(kept)
    other = None
    if ood is not None:
        other, _, _ = read_features(saved, ood, drop, None, bad, written, sheet)
    bad.tell()
    return saved, X, y, other


def read_features(
    saved: Saved,
    path: str,
    drop: Sequence[str],
    target: str | None,
    bad: BadCells,
    written: Written,
    sheet: str | None,
) -> tuple[Any, Any, Any]:
    """Read a file in the form that the model knows, with the target if one is asked for."""
    import pyarrow as pa

    with opened(path, written, sheet) as source:
        if target is not None and target not in source.names:
            raise Problem(
                f"{source.name} has no column {target!r}, the target"
                f"{near(target, source.names) or '; name another with --target.'}"
            )
        keep = [] if target is None else [target]
        drop = [name for name in drop if target is not None or name in source.names]
        names = features(saved, source, drop, keep)
        tables, targets, first = [], [], 0
        with progress(source, "read") as advance:
            for batch in source.batches(list(dict.fromkeys([*names, *keep]))):
                table = prepared(saved, names, batch, source, first, bad)
                with located(source, first):
                    saved.model.inputs_.table.transform(table)  # finds what does not fit, where its row is known
                tables.append(table)
                targets += [batch[target]] if target is not None else []
                first += batch.num_rows
                advance()
    if not tables:
        raise Problem(f"{source.name} has a header and no rows; add some.")
    X = pa.concat_tables(tables, promote_options="permissive").combine_chunks()
    if not targets:
        return X, None, source
    column = pa.chunked_array([chunk for t in targets for chunk in t.chunks]).combine_chunks()
    return X, known(column, written), source
