"""`natpn reproduce`: the only way from the library to natpn-paper, which holds the command itself."""

from typing import Any

import click

from natpn.cli.problems import Problem


class Elsewhere(click.Command):
    """A command of natpn-paper, which is imported when it is called."""

    def make_context(self, *args: Any, **kwargs: Any) -> click.Context:
        """Return the context of the command itself, which is then the one that click runs.

        Raises:
            Problem: If natpn-paper is not installed; with the command that installs it.
        """
        try:
            from natpn_paper.reproduce import reproduce as command
        except ModuleNotFoundError as error:
            if error.name != "natpn_paper":
                raise
            raise Problem("natpn-paper is not installed; in a clone of natpn, run: pip install ./paper") from None
        return command.make_context(*args, **kwargs)


reproduce = Elsewhere("reproduce", short_help="Measure the paper's tables and figures again.")
