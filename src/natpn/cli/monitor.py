"""`natpn monitor`: a model and new rows in the order in which they came → whether they have drifted."""

import json
from typing import TYPE_CHECKING

import click

from natpn.cli.evaluate import ScoredRows, located_rows, read_file
from natpn.cli.model_files import read_model
from natpn.cli.reading import Reading, drop_option, reading_options
from natpn.cli.writing import say

if TYPE_CHECKING:  # it imports torch, which help does not need
    from natpn.model import DriftAlarm

RAISED = 3
"""The exit code of an alarm."""


@click.command("monitor", short_help="Watch new rows for drift.")
@click.argument("model")
@click.argument("data")
@click.option(
    "--target", metavar="COLUMN", help="The truth, where it is known: watch errors too, of rows that have it."
)
@click.option(
    "--level",
    type=click.FloatRange(0, 1, min_open=True, max_open=True),
    default=0.01,
    show_default=True,
    help="Probability of a false alarm, ever.",
)
@drop_option
@reading_options
@click.option("--json", "machine", is_flag=True, help="Print JSON.")
def monitor_command(
    model: str, data: str, target: str | None, level: float, drop: tuple[str, ...], how: Reading, machine: bool
) -> None:
    """Watch the rows of DATA, in the order in which they came, for drift from what MODEL was trained on.

    An alarm is raised when rows become less familiar, or familiar beyond chance, and with --target when errors change.
    Without drift the probability that an alarm is ever raised is at most --level, however many rows there are: it is
    a test that may be looked at all the time. The exit code is 3 if an alarm was raised, and 0 if none was.

    \b
    Example:
      natpn monitor rent last_month.csv
      natpn monitor rent last_month.csv --target rent --json
    """
    saved = read_model(model)
    rows = read_file(saved, data, how, drop, target)
    with located_rows(saved, rows):
        watch = saved.estimator.watch(rows.X, rows.y, level)
    if machine:
        say(json.dumps(watch.summary(), indent=1))
    else:
        share = 100 * watch.n_novel / watch.novelty.n_rows
        say(f"rows     {watch.novelty.n_rows:,}, of which {share:.1f} % are flagged as novel; about 5 % is usual")
        say(f"inputs   {_words(watch.novelty, rows)}")
        if rows.y is not None:
            say(f"errors   {_words(watch.errors, rows)}")
        say(
            f"An alarm is raised at {1 / level:,.0f}; without drift at most {100 * level:g} % of streams ever reach it."
        )
    if watch.is_raised:
        click.get_current_context().exit(RAISED)


def _words(alarm: "DriftAlarm", rows: ScoredRows) -> str:
    """Say whether an alarm was raised, and where."""
    value = f"{alarm.highest:,.3g}"
    if alarm.raised_at is None:
        return f"no alarm; the largest value was {value}"
    place = rows.source.place(int(rows.numbers[alarm.raised_at]))
    return f"ALARM at {place}, after {alarm.raised_at + 1:,} rows; the largest value was {value}"
