"""`natpn predict`: a model and new rows → predictions, in constant memory."""

import click

from natpn.cli.model_files import located, match_features, prepare_batch, read_model
from natpn.cli.output_files import PREDICTIONS, TableWriter, check_output, is_parquet, open_output
from natpn.cli.printing import Problem
from natpn.cli.reading import Reading, drop_option, opened, reading_options
from natpn.cli.streams import check_data


@click.command("predict", short_help="Predict new rows, in constant memory.")
@click.argument("model")
@click.argument("data")
@click.option("--out", default="-", metavar="FILE", help="Where to write; .parquet is Parquet, - standard output.")
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
def predict_command(
    model: str,
    data: str,
    out: str,
    identifier: str | None,
    drop: tuple[str, ...],
    coverage: float,
    how: Reading,
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
    check_data(data)
    check_output(out, PREDICTIONS, model, data)
    saved = read_model(model)
    keep = [identifier] if identifier else []
    with opened(data, how, saved.written) as source:
        for name in keep:
            source.check_column("id", name)
        names = match_features(saved, source, drop, keep)
        with open_output(out, PREDICTIONS) as file:
            writer = TableWriter(file, is_parquet(out, form))
            for first, batch in source.batches(list(dict.fromkeys([*keep, *names])), "predict"):
                table = prepare_batch(saved, names, batch, source, first)
                with located(source, range(first, first + batch.num_rows)):
                    frame = saved.estimator.predict_frame(table, coverage=coverage)
                for name in keep:
                    if name in frame.column_names:
                        raise Problem(f"--id {name}: a column of the predictions has that name; rename it in the file.")
                    frame = frame.add_column(0, name, batch[name])
                writer.write(frame)
            writer.close()
    source.tell_bad()
