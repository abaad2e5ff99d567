"""`natpn predict`: a model and new rows → predictions, in constant memory."""

import re

import click

from natpn.cli.model_files import read_model
from natpn.cli.output_files import PREDICTIONS, TableWriter, check_output, is_parquet, open_output
from natpn.cli.predict_many import Request, Worker, are_many, predict_many
from natpn.cli.printing import Problem
from natpn.cli.reading import Reading, drop_option, opened, reading_options


def _read_columns(ctx: click.Context, option: click.Parameter, text: str | None) -> tuple[str, ...] | None:
    if text is None:
        return None
    names = tuple(dict.fromkeys(name.strip() for name in text.split(",") if name.strip()))
    if not names:
        raise click.BadParameter("expected names such as prediction,novel.", ctx, option)
    return names


def _read_shard(ctx: click.Context, option: click.Parameter, text: str | None) -> tuple[int, int] | None:
    if text is None:
        return None
    found = re.fullmatch(r"(\d+)/(\d+)", text)
    part, parts = map(int, found.groups()) if found else (0, 0)
    if not part < parts:
        raise click.BadParameter(f"expected i/n with 0 <= i < n, such as 0/4, got {text!r}.", ctx, option)
    return part, parts


@click.command("predict", short_help="Predict new rows, in constant memory.")
@click.argument("model")
@click.argument("data", nargs=-1, required=True)
@click.option(
    "--out", default="-", metavar="FILE", help="Where to write; .parquet is Parquet, - standard output; or a directory."
)
@click.option(
    "--id", "identifier", metavar="COLUMN", help="A column that names the rows, to keep beside the predictions."
)
@drop_option
@click.option(
    "--coverage",
    type=click.FloatRange(0, 1, min_open=True, max_open=True),
    default=0.9,
    show_default=True,
    help="Probability with which lower and upper hold the target.",
)
@reading_options
@click.option(
    "--format", "form", type=click.Choice(["csv", "parquet"]), help="What to write, if the name does not say."
)
@click.option("--columns", metavar="A,B,…", callback=_read_columns, help="Write only these columns of the predictions.")
@click.option("--jobs", type=click.IntRange(min=1), help="How many processes predict files.  [default: 1]")
@click.option(
    "--shard", metavar="I/N", callback=_read_shard, help="Predict every N-th file from the I-th, counted from 0."
)
def predict_command(
    model: str,
    data: tuple[str, ...],
    out: str,
    identifier: str | None,
    drop: tuple[str, ...],
    coverage: float,
    how: Reading,
    form: str | None,
    columns: tuple[str, ...] | None,
    jobs: int | None,
    shard: tuple[int, int] | None,
) -> None:
    """Predict the rows of DATA, a CSV, Parquet or Excel file (- reads standard input), with MODEL.

    Writes a row for each row, in the same order: the prediction, its interval or the probabilities of the classes, the
    noise (aleatoric), what is not known (epistemic), familiarity, and whether the row is novel. Rows are read,
    predicted and written in pieces: a file may be of any length. The target may be in DATA; it is not looked at. Values
    are taken to be written as in the file of the fit.

    DATA may also be a directory of Parquet files, a glob, or several of them: then --out is a directory that gets a
    file for each, under the same name. The same command again predicts only what is missing.

    \b
    Example:
      natpn predict rent new.csv --id flat --out predictions.csv
      cat new.csv | natpn predict rent - | head
      natpn predict rent flats/ --out predictions/ --jobs 4
    """
    request = Request(drop, identifier, coverage, columns)
    if are_many(data):
        if form == "csv":
            raise Problem("--format csv: predictions of many files are Parquet; leave the option out.")
        predict_many(Worker(model, request, how), read_model(model), data, out, jobs or 1, shard or (0, 1))
        return
    for option, value in (("jobs", jobs), ("shard", shard)):
        if value is not None:
            raise Problem(f"--{option}: {data[0]} is one file, and this is for many; leave the option out.")
    _predict_one(model, data[0], out, request, how, form)


def _predict_one(model: str, data: str, out: str, request: Request, how: Reading, form: str | None) -> None:
    check_output(out, PREDICTIONS, model, data)
    saved = read_model(model)
    request.check(saved)
    with opened(data, how, saved.written) as source:
        request.match(saved, source)
        mark = None if request.columns is None else ""
        with open_output(out, PREDICTIONS) as file, TableWriter(file, is_parquet(out, form), mark) as writer:
            for frame in request.predict(saved, source):
                writer.write(frame)
    source.tell_bad()
