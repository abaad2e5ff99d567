"""Options that say how a file writes its values, and how the model remembers them."""

from collections.abc import Callable
from dataclasses import replace
from functools import wraps
from typing import Any

import click

from natpn.cli.problems import Problem
from natpn.tabular.written import PLAIN, Written

_OPTIONS = (
    click.option("--decimal", metavar="SIGN", help="The sign before decimals, . or a comma."),
    click.option("--thousands", metavar="SIGN", help="The sign between thousands, as a comma; '' is none."),
    click.option("--dates", metavar="FORM", help="How dates are written: day-first, month-first or as %d.%m.%Y."),
    click.option("--na", multiple=True, metavar="TEXT", help="A text that stands for missing values. Repeatable."),
    click.option("--encoding", metavar="NAME", help="How characters are written, if not in UTF-8, as cp1252."),
)


def written_options(function: Callable[..., None]) -> Callable[..., None]:
    """Add the options to a command, which gets what was said as `said`."""

    @wraps(function)
    def command(
        *arguments: Any,
        decimal: str | None,
        thousands: str | None,
        dates: str | None,
        na: tuple[str, ...],
        encoding: str | None,
        **others: Any,
    ) -> None:
        given = {"decimal": decimal, "thousands": thousands, "dates": dates, "na": na or None, "encoding": encoding}
        function(*arguments, said={name: value for name, value in given.items() if value is not None}, **others)

    for option in reversed(_OPTIONS):
        command = option(command)
    return command


def written_as(said: dict[str, Any], remembered: Written = PLAIN) -> Written:
    """Return how a file is written: as the options say, and where they say nothing as in the fit.

    Raises:
        Problem: If an option makes no sense.
    """
    try:
        return replace(remembered, **said)
    except ValueError as error:
        raise Problem(f"--{error}.") from None
