"""`natpn fit` on a directory or several files: a model of more rows than fit into memory."""

import contextlib
import io
import os
import re
import warnings
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from natpn.choices import did_you_mean
from natpn.cli.model_files import SavedModel, write_model
from natpn.cli.printing import Problem, column_lines, is_first_process, note, on_terminal, say, score_lines
from natpn.outputs import is_special

_SIZES = {"": 1, "K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40}
_CELL = 40  # bytes that a fit in memory needs for a cell


def bytes_of(size: str) -> int:
    """Return what a text such as "2GB" or "500M" stands for.

    Raises:
        Problem: If it is no size, or too small to work with.
    """
    parts = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([KMGT]?)I?B?\s*", size.upper())
    if parts is None:
        raise Problem(f"--memory {size}: expected a size such as 2GB or 500MB.")
    found = round(float(parts[1]) * _SIZES[parts[2]])
    if found < 2**26:
        raise Problem(f"--memory {size}: expected at least 64MB, better 1GB.")
    return found


def is_many(data: Sequence[str], memory: int) -> bool:
    """Say whether it is a directory, several files, a pattern of names, or one Parquet file too large for memory."""
    path = data[0]
    if len(data) > 1 or os.path.isdir(path) or (not os.path.lexists(path) and any(sign in path for sign in "*?[")):
        return True
    if not path.endswith((".parquet", ".pq")) or not os.path.isfile(path) or is_special(path):
        return False
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        described = pq.read_metadata(path)
    except (OSError, pa.ArrowException):
        return False  # whoever reads it says why
    return bool(described.num_rows * described.num_columns * _CELL > memory)


def fit_files(
    data: Sequence[str],
    target: str,
    out: str,
    classes: bool | None,
    drop: Sequence[str],
    category: Sequence[str],
    options: dict[str, Any],
    memory: int,
) -> None:
    """Fit a model to files, save it and tell its scores.

    Args:
        data: Directories, patterns and files.
        target: The column to predict.
        out: Where to write the model.
        classes: Whether targets are classes; None leaves it to their type.
        drop: Columns to leave out.
        category: Columns of names.
        options: Parameters of the estimator.
        memory: How many bytes the fit may use.

    Raises:
        Problem: If a column is missing.
        ValueError: If a file cannot be read.
    """
    import pyarrow.types as types
    import torch

    from natpn import parallel
    from natpn.data import open_files
    from natpn.estimators import NatPNClassifier, NatPNRegressor

    if "OMP_NUM_THREADS" not in os.environ:
        torch.set_num_threads(1)
    files = open_files(list(data), memory)
    what = data[0] if len(data) == 1 else f"{data[0]} and others"
    for option, name in [("target", target), *(("drop", n) for n in drop), *(("category", n) for n in category)]:
        if name not in files.names:
            cure = did_you_mean(name, files.names) or f"; it has {', '.join(files.names[:20])}."
            raise Problem(f"--{option} {name}: {what} has no such column{cure}")
    if target in drop:
        raise Problem(f"--drop {target}: it is the target; leave one of the options out.")
    files = files.select([name for name in files.names if name not in drop], texts=category)
    kind = files.schema.field(target).type
    numbers = types.is_integer(kind) or types.is_floating(kind) or types.is_decimal(kind)
    is_classes = not numbers if classes is None else classes
    if not is_classes and not numbers:
        raise Problem(f"--target {target}: expected numbers, got {kind}; say --task classes, or convert the column.")
    say(f"{len(files.paths):,} files, {files.n_rows:,} rows, {len(files.names) - 1:,} columns beside {target!r}")
    picked = options.get("family") in (None, "auto") and not is_classes
    if is_classes:
        options = {name: value for name, value in options.items() if name != "family"}
    model = (NatPNClassifier if is_classes else NatPNRegressor)(**options, verbose=int(on_terminal()))
    try:
        with warnings.catch_warnings(record=True) as told, contextlib.redirect_stdout(io.StringIO()):
            warnings.simplefilter("always", UserWarning)
            model.fit(files, target)
    finally:
        parallel.stop()
    for warning in told:
        note(str(warning.message))
    if not is_first_process():
        return
    model.verbose = 0
    saved = SavedModel(out, model, target, tuple(drop))
    lines = list(_summary(saved, picked))
    write_model(saved)
    for line in lines:
        say(line)
    say(f"model   {out}")


def _summary(saved: SavedModel, picked: bool) -> Iterator[str]:
    """Yield how columns are read, what the model predicts, and its scores on rows that were held out."""
    from natpn.report.scores import baselines, judge_answers, totals

    model = saved.estimator
    yield "columns, as they are read:"
    yield from column_lines(model.inputs_.table.columns, {})
    what = f"{len(model.classes_)} classes" if hasattr(model, "classes_") else "numbers"
    why = f", for {model.family_.suits}" if picked else ""
    yield f"target  {saved.target}: {what}, family {model.family_!r}{why}"
    x, y, folds = model.held_out_rows
    yield f"rows    {model.n_rows_:,} to fit, {len(y):,} of them held out by one network or all"
    if folds is None:
        yield "scores on rows that were held out, which also told when to stop:"
        found = totals(judge_answers([model.model_.answer_encoded(x)], y))
    else:
        yield "scores of single networks, on the rows that each held out; together they mostly do better:"
        parts = [(model.model_.member(i), (folds == i).numpy()) for i in range(model.n_networks_)]
        each = [totals(judge_answers([member.answer_encoded(x[own])], y[own])) for member, own in parts]
        found = {name: float(np.mean([one[name] for one in each])) for name in each[0]}
    yield from score_lines(found, baselines(model, y), model)
