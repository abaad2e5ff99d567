"""`natpn suggest`: a model and unlabelled rows → which of them to label next."""

from typing import IO, Any

import click

from natpn.cli.model_files import Request, located, prepare_batch, read_model
from natpn.cli.reading import Reading, drop_option, opened, reading_options
from natpn.cli.writing import TableWriter, check_output, columns_and_mark, note, open_output
from natpn.outputs import Kind

_COLUMNS = ["row", "teaches", "familiarity", "novelty_p"]


def _are_suggestions(file: IO[bytes]) -> bool:
    names, _ = columns_and_mark(file)
    return names[-len(_COLUMNS) :] == _COLUMNS and len(names) <= len(_COLUMNS) + 1


SUGGESTIONS = Kind("a file of suggestions that natpn wrote", _are_suggestions)


@click.command("suggest", short_help="Say which rows to label next.")
@click.argument("model")
@click.argument("data")
@click.option("-n", "number", type=click.IntRange(1), default=20, show_default=True, help="How many rows to label.")
@click.option("--out", default="-", metavar="FILE", help="Where to write; .parquet is Parquet, - standard output.")
@click.option(
    "--id", "identifier", metavar="COLUMN", help="A column that names the rows, to keep beside their numbers."
)
@drop_option
@reading_options
def suggest_command(
    model: str, data: str, number: int, out: str, identifier: str | None, drop: tuple[str, ...], how: Reading
) -> None:
    """Say which rows of DATA, a CSV, Parquet or Excel file without labels (- reads standard input), to label next.

    Writes a row for each, the one whose label would teach MODEL most first: its number in DATA from 1 on, the share
    of what is not known of all rows that its label would take away (teaches, in %), its familiarity and novelty_p.
    Noise is not counted. The rows differ from each other, and are like many others. Label them, add them to the rows
    of the fit, and fit again. Of more than 3,000 rows, 3,000 are compared, drawn at random.

    \b
    Example:
      natpn suggest rent unlabelled.csv -n 20 --id flat --out label.csv
    """
    import pyarrow as pa

    check_output(out, SUGGESTIONS, model, data)
    saved, request = read_model(model), Request(drop=drop, identifier=identifier)
    tables: list[Any] = []
    names_of_rows: list[Any] = []
    with opened(data, how, saved.written) as source:
        names = request.match(saved, source)
        needed = dict.fromkeys([identifier, *names] if identifier else names)
        for first, batch in source.batches(list(needed)):
            tables.append(prepare_batch(saved, names, batch, source, first))
            names_of_rows += [batch[identifier]] if identifier else []
    X = pa.concat_tables(tables, promote_options="permissive").combine_chunks()
    if number > X.num_rows:
        note(f"{source.name} has {X.num_rows:,} rows, fewer than -n {number:,}; all of them are ranked")
    with located(source, range(X.num_rows)):
        found = saved.estimator.suggestions(X, min(number, X.num_rows))
        answers = saved.estimator.model_.answer(X.take(found.rows))  # whatever the exposures
    columns: dict[str, Any] = {}
    if identifier:
        columns[identifier] = pa.concat_tables([pa.table({"id": part}) for part in names_of_rows])["id"].take(
            found.rows
        )
    values = (found.rows + 1, 100 * found.shares, answers.familiarity, answers.novelty_p)
    columns |= dict(zip(_COLUMNS, values, strict=True))
    source.tell_bad()
    with open_output(out, SUGGESTIONS) as file, TableWriter(file, out.endswith((".parquet", ".pq"))) as writer:
        writer.write(pa.table(columns))
