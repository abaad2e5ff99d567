"""`natpn explain`: a model and new rows → what makes each row unfamiliar."""

from typing import Any

import click

from natpn.cli.model_files import ExplainRequest
from natpn.cli.predict import answer, file_options
from natpn.cli.reading import Reading


@click.command("explain", short_help="Say what makes new rows unfamiliar.")
@file_options
def explain_command(
    model: str,
    data: tuple[str, ...],
    out: str,
    how: Reading,
    form: str | None,
    jobs: int | None,
    shard: tuple[int, int] | None,
    **asked: Any,
) -> None:
    """Say of the rows of DATA, a CSV, Parquet or Excel file (- reads standard input), what is unfamiliar to MODEL.

    Writes a row for each row, in the same order: its surprise (0 is ordinary, 1 the first percentile of held-out rows),
    the column that adds the most to it, the value there, a value that would be more familiar, the reason in words, and
    what each column adds. Files are read and written as by natpn predict.

    \b
    Example:
      natpn explain rent new.csv --id flat --out reasons.csv
      natpn explain rent new.csv --columns surprise,reason
    """
    answer(ExplainRequest(**asked), model, data, out, how, form, jobs, shard)
