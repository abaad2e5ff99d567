"""`natpn predict --shifted-to`: intervals that hold for rows of another distribution of inputs."""

import warnings
from dataclasses import replace

import click

from natpn.cli.evaluate import located_rows, read_file
from natpn.cli.model_files import Request, SavedModel
from natpn.cli.reading import Reading
from natpn.cli.writing import Problem, note

shifted_option = click.option(
    "--shifted-to",
    metavar="FILE",
    help="Rows like those to predict, unlike training; DATA itself will do. Intervals are weighted to hold for them.",
)


def adapted(saved: SavedModel, path: str, how: Reading, request: Request) -> SavedModel:
    """Return a model whose intervals hold for rows like those of a file."""
    if saved.estimator.model_.calibration.features is None:
        raise Problem(
            f"--shifted-to {path}: {saved.path} keeps no calibration rows to weight; fit it with --calibrate conformal."
        )
    if saved.estimator.family_.is_classes:
        raise Problem(
            f"--shifted-to {path}: {saved.path} predicts classes, whose probabilities stay as they are; in Python, "
            "model.adapt(X).predict_set(X) has sets that hold."
        )
    features = saved.table.feature_names
    others = [name for name in (request.identifier,) if name is not None and name not in features]
    rows = read_file(saved, path, how, (*request.drop, *others), None)
    with located_rows(saved, rows), warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        estimator = saved.estimator.adapt(rows.X)
    calibration = estimator.calibration_
    counted = f"the {len(calibration.scores):,} calibration rows count as {calibration.effective_rows:.1f}"
    warned = [str(each.message).removeprefix("X: ") for each in told if issubclass(each.category, UserWarning)]
    note(next(iter(warned), f"{counted} for rows like those of {rows.source.name}"))
    return replace(saved, estimator=estimator)
