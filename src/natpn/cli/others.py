"""`natpn report`, `natpn serve` and `natpn export`: thin covers of modules that know how."""

import os
import shutil
import tempfile
from importlib import import_module
from pathlib import Path
from typing import Any

import click

from natpn.cli.evaluate import read_all
from natpn.cli.models import check_model, load
from natpn.cli.printing import note, say
from natpn.cli.problems import Problem, of_system
from natpn.cli.writing import write_text


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


@click.command(short_help="Write a page about a model.")
@click.argument("model")
@click.argument("data")
@click.option("--out", required=True, metavar="FILE", help="Where to write the HTML page; - is standard output.")
@click.option("--target", metavar="COLUMN", help="The column that was predicted; by default that of the fit.")
@click.option("--ood", metavar="FILE", help="Rows unlike training.")
@click.option("--drop", multiple=True, metavar="COLUMN", help="Leave a column out. May be repeated.")
def report(model: str, data: str, out: str, target: str | None, ood: str | None, drop: tuple[str, ...]) -> None:
    """Write a page about MODEL and how it does on DATA: one HTML file that needs no network.

    \b
    Example:
      natpn report rent test.csv --ood other_city.csv --out report.html
    """
    render = part("natpn.report", "render", "report")
    saved, X, y, other = read_all(model, data, target, ood, drop)
    write_text(out, render(saved.model, X, y, ood=other))
    if out != "-":
        say(f"report  {out}")


@click.command(short_help="Answer requests over HTTP.")
@click.argument("model")
@click.option("--host", default="127.0.0.1", show_default=True, help="The address to listen at; 0.0.0.0 is every one.")
@click.option("--port", type=click.IntRange(0, 65535), default=8000, show_default=True, help="The port.")
@click.option(
    "--token", envvar="NATPN_TOKEN", help="What callers must send; or set NATPN_TOKEN, which no one else sees."
)
def serve(model: str, host: str, port: int, token: str | None) -> None:
    """Answer requests over HTTP with MODEL, and show a page to try it.

    \b
    Example:
      natpn serve rent --port 8000
    """
    check_model(model)
    part("natpn.serve", "run", "serve")(model, host=host, port=port, token=token)


@click.command(short_help="Write a model as ONNX.")
@click.argument("model")
@click.argument("out", metavar="FILE")
def export(model: str, out: str) -> None:
    """Write MODEL to FILE as ONNX, which other programs run without Python.

    \b
    Example:
      natpn export rent rent.onnx
    """
    export_onnx = part("natpn.export", "export_onnx", "onnx")
    saved = load(model)
    place = Path(out)
    if place.is_dir():
        raise Problem(f"{out} is a directory; name a file.")
    try:
        # In a directory of its own: large weights become a second file, whose name the first one holds.
        beside = Path(tempfile.mkdtemp(prefix=f".{place.name}.", dir=place.absolute().parent))
    except OSError as error:
        raise of_system(error, out) from None
    try:
        left_out = export_onnx(saved.model, beside / place.name)
        for path in beside.iterdir():
            os.replace(path, place.absolute().parent / path.name)
    except ImportError as error:
        raise Problem(
            f"{error.name or error} is not installed; in a clone of natpn, run: pip install '.[onnx]'"
        ) from None
    except OSError as error:
        raise of_system(error, out) from None
    finally:
        shutil.rmtree(beside, ignore_errors=True)
    for sentence in left_out:
        note(sentence)
    say(f"onnx    {out}")
