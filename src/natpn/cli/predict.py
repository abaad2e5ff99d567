"""`natpn predict`: a model and new rows → predictions, in constant memory."""

from typing import Any

import click

from natpn.cli.bad_cells import BadCells, bad_cells_option
from natpn.cli.excel_files import sheet_option
from natpn.cli.models import features, load, located, prepared
from natpn.cli.printing import progress
from natpn.cli.problems import Problem
from natpn.cli.reading import opened
from natpn.cli.writing import PREDICTIONS, TableWriter, check_out, is_parquet, replacing
from natpn.cli.written_options import written_as, written_options


@click.command(short_help="Predict new rows, in constant memory.")
@click.argument("model")
@click.argument("data")
@click.option("--out", default="-", metavar="FILE", help="Where to write; .parquet is Parquet, - standard output.")
@click.option("--id", "identifier", metavar="COLUMN", help="A column to keep, that names the rows.")
@click.option("--drop", multiple=True, metavar="COLUMN", help="Leave a column out. May be repeated.")
@click.option(
    "--coverage",
    type=click.FloatRange(0, 1, min_open=True, max_open=True),
    default=0.9,
    show_default=True,
    help="Probability with which lower and upper hold the target.",
)
@bad_cells_option
@written_options
@sheet_option
@click.option(
    "--format", "form", type=click.Choice(["csv", "parquet"]), help="What to write, if the name does not say."
)
def predict(
    model: str,
    data: str,
    out: str,
    identifier: str | None,
    drop: tuple[str, ...],
    coverage: float,
    bad_cells: str,
    said: dict[str, Any],
    sheet: str | None,
    form: str | None,
) -> None:
    """Predict the rows of DATA, a CSV, Parquet or Excel file (- reads standard input), with MODEL.

    Writes a row for each row, in the same order: the prediction, its interval or the probabilities of the classes, the
    noise (aleatoric), what is not known (epistemic), familiarity, and whether the row is novel. Rows are read,
    predicted and written in pieces: a file may be of any length. The target may be in DATA; it is not looked at. Values
    are taken to be written as in the file of the fit.

    \b
    Example:
      natpn predict rent new.csv --id flat --out predictions.csv
      cat new.csv | natpn predict rent - | head
    """
    check_out(out, PREDICTIONS, model, data)
    saved = load(model)
    keep = [identifier] if identifier else []
    bad = BadCells(bad_cells)
    with opened(data, written_as(said, saved.written), sheet) as source:
        names = features(saved, source, drop, keep)
        first = 0
        with replacing(out, PREDICTIONS) as file, progress(source, "predict") as advance:
            writer = TableWriter(file, is_parquet(out, form))
            for batch in source.batches(list(dict.fromkeys([*keep, *names]))):
                table = prepared(saved, names, batch, source, first, bad)
                with located(source, first):
                    frame = saved.model.predict_frame(table, coverage=coverage)
                for name in keep:
                    if name in frame.column_names:
                        raise Problem(f"--id {name}: a column of the predictions has that name; rename it in the file.")
                    frame = frame.add_column(0, name, batch[name])
                writer.write(frame)
                first += batch.num_rows
                advance()
            if not first:
                raise Problem(f"{source.name} has a header and no rows; add some.")
            writer.close()
    bad.tell()
