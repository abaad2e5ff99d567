"""All commands together, and how they start and end."""

import os
import signal
import sys
import warnings
from types import FrameType

import click

from natpn.cli.demo import demo
from natpn.cli.evaluate import evaluate
from natpn.cli.fit import fit
from natpn.cli.others import export, report, serve
from natpn.cli.predict import predict
from natpn.cli.problems import Group
from natpn.cli.reproduce import reproduce


@click.group(
    "natpn",
    cls=Group,
    invoke_without_command=True,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.version_option(package_name="natpn", prog_name="natpn")
@click.option("--debug", is_flag=True, help="Show where an error comes from. Goes before the command.")
@click.pass_context
def cli(ctx: click.Context, debug: bool) -> None:
    """Predict a full distribution, and say how much is known.

    \b
    First steps:
      natpn demo                                     see what it does, in a minute
      natpn demo --tables .                          write flats.csv and three more tables to try it on
      natpn fit flats.csv --target rent --drop flat --out rent
      natpn predict rent new.csv --id flat --out predictions.csv
      natpn COMMAND --help                           what a command takes, with an example
    """
    if ctx.invoked_subcommand is None:
        click.echo(ctx.get_help())


for _command in (fit, predict, evaluate, report, serve, export, demo, reproduce):
    cli.add_command(_command)


def main() -> None:
    """Run the command line."""
    warnings.simplefilter("ignore")  # what a person can act on is an error or a note
    signal.signal(signal.SIGTERM, _terminated)
    try:
        cli.main(prog_name="natpn")
    except SystemExit as end:
        if not end.code:
            raise
        # At once: all that was begun is undone, and Python would wait for threads that still read, or crash on them.
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(end.code if isinstance(end.code, int) else 1)


def _terminated(number: int, frame: FrameType | None) -> None:
    """End as after Ctrl-C, so that nothing half-written stays."""
    sys.exit(128 + number)
