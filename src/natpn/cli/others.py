"""`natpn serve` and `natpn export`: thin covers of modules that know how."""

import os
from importlib import import_module
from typing import Any

import click

from natpn.cli.model_files import read_model
from natpn.cli.printing import Problem, note, of_system, say
from natpn.outputs import check_apart


def part(module: str, name: str, extra: str) -> Any:
    """Return a function of a part of natpn that may not be installed.

    Raises:
        Problem: If it is not; with the command that installs it.
    """
    try:
        return getattr(import_module(module), name)
    except (ImportError, AttributeError) as error:
        missing = getattr(error, "name", None) if isinstance(error, ImportError) else None
        what = f"{missing} is not installed" if missing else f"this natpn has no {module}.{name}"
        raise Problem(f"{what}; in a clone of natpn, run: pip install '.[{extra}]'") from None


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
def serve_command(model: str, host: str, port: int, token: str | None, allow_hosts: tuple[str, ...]) -> None:
    """Answer requests over HTTP with MODEL, and show a page to try it.

    \b
    Example:
      natpn serve rent --port 8000
    """
    if token is None and "NATPN_TOKEN" in os.environ:
        # a token that was meant to be there and is not, as from a secret that was not found
        raise Problem("NATPN_TOKEN: expected a token, got an empty text; set it, or unset it to serve without one.")
    part("natpn.serve", "run", "serve")(model, host=host, port=port, token=token, allow_hosts=allow_hosts)


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
