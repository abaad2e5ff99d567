"""All commands together: how they start, and how each ends in at most one sentence, whatever happens.

Exit codes: 0 done, 2 bad input or a place that cannot be written (one line on standard error, with the cure), 3 if
`natpn monitor` raises an alarm, 130 after Ctrl-C, 141 when the reader of a pipe went away, 1 for a mistake of natpn's
own, which `natpn --debug` shows in full.
"""

import os
import signal
import sys
import traceback
import warnings
from types import FrameType
from typing import Any

import click

from natpn.cli.demo import demo_command
from natpn.cli.evaluate import evaluate_command, report_command
from natpn.cli.explain import explain_command
from natpn.cli.fit import fit_command
from natpn.cli.model_files import read_model
from natpn.cli.monitor import monitor_command
from natpn.cli.predict import predict_command
from natpn.cli.suggest import suggest_command
from natpn.cli.update import update_command
from natpn.cli.writing import Problem, is_first_process, note, of_system, part, say
from natpn.outputs import check_apart


class Group(click.Group):
    """A group of commands that ends in one sentence, whatever happens."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the commands in the order in which they are used."""
        return list(self.commands)

    def invoke(self, ctx: click.Context) -> Any:
        """Run a command, and answer here what click would answer with a line or a code of its own."""
        try:
            return super().invoke(ctx)
        except (KeyboardInterrupt, BrokenPipeError) as error:
            ctx.exit(_exit_code(error))

    def main(self, *args: Any, **kwargs: Any) -> Any:
        """Run a command and leave with its exit code."""
        try:
            result = super().main(*args, **(kwargs | {"standalone_mode": False}))
            sys.stdout.flush()
        except BaseException as error:
            if "--debug" in sys.argv[1:2]:
                raise
            code = _exit_code(error)
            traceback.clear_frames(error.__traceback__)  # so that scratch files go with what needed them
            sys.exit(code)
        # click returns the code of an early exit, as after --help, and the command's own value otherwise
        sys.exit(result if isinstance(result, int) else 0)


@click.command("serve", short_help="Answer requests over HTTP.")
@click.argument("model")
@click.option(
    "--host", default="127.0.0.1", show_default=True, help="The address to listen at; 0.0.0.0 is all of them."
)
@click.option("--port", type=click.IntRange(0, 65535), default=8000, show_default=True, help="The port.")
@click.option(
    "--token", envvar="NATPN_TOKEN", help="The token that callers must send; NATPN_TOKEN sets it unseen by other users."
)
@click.option(
    "--allow-host",
    "allow_hosts",
    multiple=True,
    metavar="NAME",
    help="Another host name to answer to, such as that of a proxy. May be repeated.",
)
@click.option(
    "--workers", type=click.IntRange(1), default=1, show_default=True, help="How many processes answer, at the port."
)
@click.option("--access-log", is_flag=True, help="Write a line to standard output for each request.")
@click.option("--learn", is_flag=True, help="Learn from rows with their truth at /feedback, until the server ends.")
@click.option("--learn-to", metavar="DIRECTORY", help="The same, and save the model there each time it has learned.")
def serve_command(model: str, token: str | None, **options: Any) -> None:
    """Answer requests over HTTP with MODEL, and show a page to try it.

    \b
    Example:
      natpn serve rent --port 8000
      NATPN_TOKEN=… natpn serve rent --host 0.0.0.0 --workers 4 --access-log
    """
    if token is None and "NATPN_TOKEN" in os.environ:
        # a token that was meant to be there and is not, as from a secret that was not found
        raise Problem("NATPN_TOKEN: expected a token, got an empty text; set it, or unset it to serve without one.")
    part("natpn.serve", "run", "serve")(model, token=token, **options)


@click.command("export", short_help="Write a model as ONNX.")
@click.argument("model")
@click.argument("out", metavar="FILE")
def export_command(model: str, out: str) -> None:
    """Write MODEL to FILE as ONNX, which other programs run without Python.

    \b
    Example:
      natpn export rent rent.onnx
    """
    export_onnx = part("natpn.export", "export_onnx", "onnx")
    check_apart(out, model)
    saved = read_model(model)
    try:
        left_out = export_onnx(saved.estimator, out)
    except ImportError as error:
        raise Problem(
            f"{error.name or error} is not installed; in a clone of natpn, run: pip install '.[onnx]'"
        ) from None
    except OSError as error:
        raise of_system(error, out) from None
    for sentence in left_out:
        note(sentence)
    say(f"onnx    {out}")


class PaperCommand(click.Command):
    """A command of natpn-paper, which is imported when it is called."""

    def make_context(self, *args: Any, **kwargs: Any) -> click.Context:
        """Return the context of the command itself, which click then runs."""
        try:
            from natpn_paper.reproduce import reproduce as command
        except ModuleNotFoundError as error:
            if error.name != "natpn_paper":
                raise
            raise Problem("natpn-paper is not installed; in a clone of natpn, run: pip install ./paper") from None
        return command.make_context(*args, **kwargs)


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


for _command in (
    *(fit_command, predict_command, explain_command, evaluate_command, report_command, monitor_command),
    *(suggest_command, update_command, serve_command, export_command, demo_command),
    PaperCommand("reproduce", short_help="Measure the paper's tables and figures again."),
):
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


def _exit_code(error: BaseException) -> int:
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
    """Return what to say of an error, and the exit code."""
    if isinstance(error, click.UsageError) and not isinstance(error, click.FileError):
        path = error.ctx.command_path if error.ctx else "natpn"
        message = error.format_message()
        return f"{message}{'' if message.endswith(('.', '?')) else '.'} See: {path} --help", 2
    if isinstance(error, click.ClickException):
        return error.format_message(), 2
    if isinstance(error, FileNotFoundError) and error.errno is None:  # the library's own, about a model
        return f"{error}; name a directory that natpn fit wrote.", 2
    if isinstance(error, OSError):
        return of_system(error).format_message(), 2
    if isinstance(error, MemoryError):
        return "There is not enough memory; use fewer rows or columns, or a larger machine.", 2
    if isinstance(error, ValueError) or type(error).__name__ == "TrainingError":
        message = str(error) or type(error).__name__
        return message if message.endswith((".", "?")) else f"{message}.", 2
    return (
        f"natpn itself went wrong, with {type(error).__name__}: {error}; `natpn --debug …` shows where, please report "
        "it.",
        1,
    )
