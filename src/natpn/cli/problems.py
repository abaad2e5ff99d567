"""Every error that ends a command, in one sentence.

Exit codes: 0 done, 2 bad input or a place that cannot be written (one line on standard error, with the cure), 130 after
Ctrl-C, 141 when the reader of a pipe went away, 1 for a mistake of natpn's own, which `natpn --debug` shows in full.
"""

import difflib
import errno
import os
import sys
from collections.abc import Iterable, Sequence
from typing import Any

import click

CURES = {
    errno.ENOSPC: "the disk is full; free some space or write elsewhere",
    errno.EDQUOT: "your quota on the disk is used up; free some space or write elsewhere",
    errno.EACCES: "permission denied; change its permissions or choose another place",
    errno.EPERM: "not permitted; change its permissions or choose another place",
    errno.EROFS: "the file system is read-only; choose another place",
    errno.ENOENT: "there is no such file or directory; check the path",
    errno.EISDIR: "it is a directory; name a file",
    errno.ENOTDIR: "a part of the path is a file, not a directory; check the path",
    errno.ENAMETOOLONG: "the name is too long; choose a shorter one",
}


class Problem(click.ClickException):
    """Bad input: exit code 2 and one sentence."""

    exit_code = 2


def is_first_process() -> bool:
    """Say whether this process prints and writes: the only one, or the first of those that `torchrun` started."""
    return os.environ.get("RANK", "0") == "0"


def near(name: str, names: Iterable[str]) -> str:
    """Return the question whether another name was meant, or nothing."""
    found = difflib.get_close_matches(name, list(names), n=1)
    folded = [other for other in names if other.casefold().strip() == name.casefold().strip()]
    best = (folded or found)[:1]
    return f"; did you mean {best[0]!r}?" if best else ""


def listed(names: Sequence[str]) -> str:
    """Return names in quotes, the first ten of them."""
    shown = ", ".join(map(repr, names[:10]))
    return shown if len(names) <= 10 else f"{shown} and {len(names) - 10} more"


def of_system(error: OSError, path: str | None = None) -> Problem:
    """Word an error of the operating system."""
    where = path or error.filename
    cure = CURES.get(error.errno or 0, error.strerror or str(error))
    return Problem(f"{where}: {cure}." if where else f"{cure[0].upper()}{cure[1:]}.")


class Group(click.Group):
    """A group of commands that ends in one sentence, whatever happens."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the commands in the order of their use, not of the alphabet."""
        return list(self.commands)

    def invoke(self, ctx: click.Context) -> Any:
        """Run a command; what click would answer with a line or a code of its own ends here."""
        try:
            return super().invoke(ctx)
        except (KeyboardInterrupt, BrokenPipeError) as error:
            ctx.exit(_end(error))

    def main(self, *args: Any, **kwargs: Any) -> Any:
        """Run a command and leave with its exit code."""
        try:
            result = super().main(*args, **(kwargs | {"standalone_mode": False}))
            sys.stdout.flush()
        except BaseException as error:
            if "--debug" in sys.argv[1:2]:
                raise
            sys.exit(_end(error))
        # click returns the code of an early exit, as after --help, and the command's own value otherwise
        sys.exit(result if isinstance(result, int) else 0)


def _end(error: BaseException) -> int:
    """Print the sentence for an error and return the exit code."""
    if isinstance(error, SystemExit):
        return error.code if isinstance(error.code, int) else 0
    if isinstance(error, (KeyboardInterrupt, click.Abort)):
        return 130
    if isinstance(error, BrokenPipeError):
        # What is still in the buffer has no reader, and Python would complain when it ends.
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        return 141
    message, code = _sentence(error)
    if is_first_process():
        click.echo(f"Error: {' '.join(message.split())}", err=True)
    return code


def _sentence(error: BaseException) -> tuple[str, int]:
    if isinstance(error, click.UsageError) and not isinstance(error, click.FileError):
        path = error.ctx.command_path if error.ctx else "natpn"
        message = error.format_message()
        return f"{message}{'' if message.endswith(('.', '?')) else '.'} See: {path} --help", 2
    if isinstance(error, click.ClickException):
        return error.format_message(), 2
    if isinstance(error, OSError):
        return of_system(error).format_message(), 2
    if isinstance(error, MemoryError):
        return "There is not enough memory; use fewer rows or columns, or a larger machine.", 2
    if isinstance(error, ValueError) or type(error).__name__ == "TrainingError":
        return str(error) or type(error).__name__, 2
    return (
        f"natpn itself went wrong, with {type(error).__name__}: {error}; `natpn --debug …` shows where, please report "
        "it.",
        1,
    )
