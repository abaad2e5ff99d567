"""What commands say: results on standard output, notes on standard error, and problems that end them."""

import errno
import json
import math
import os
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import click

LISTED = 30  # columns
_LONGEST = 40  # characters of a name
_CURES = {
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
    """Bad input: the command ends with this sentence and exit code 2."""

    exit_code = 2


def of_system(error: OSError, path: str | None = None) -> Problem:
    """Return an error of the operating system as a sentence with the cure."""
    where = path or error.filename
    cure = _CURES.get(error.errno or 0, error.strerror or str(error))
    return Problem(f"{where}: {cure}." if where else f"{cure}.")


def is_first_process() -> bool:
    """Say whether this process prints and writes: the only one, or the first of those that `torchrun` started."""
    return os.environ.get("RANK", "0") == "0"


def on_terminal() -> bool:
    """Say whether a person watches, so that a progress bar makes sense."""
    return is_first_process() and sys.stderr.isatty()


def say(line: str = "") -> None:
    """Print a line, in the first process only."""
    if is_first_process():
        click.echo(line)


def note(line: str) -> None:
    """Print a remark to standard error, in the first process only."""
    if is_first_process():
        click.echo(f"note: {line}", err=True)


def score_lines(scores: dict[str, float], same: dict[str, float], model: Any) -> Iterator[str]:
    """Yield a line for each score: its name, its value, that of the baseline, and what it means.

    Args:
        scores: The scores of a model.
        same: Those of the same answer for every row, by the same names.
        model: The model.
    """
    from natpn.report.scores import METRICS, baseline_words

    width = max(map(len, scores))
    yield f"  {'':<{width}}  {'model':>10}  {'baseline':>10}"
    for name, value in scores.items():
        other = f"{same[name]:.4g}" if name in same else ""
        yield f"  {name:<{width}}  {value:>10.4g}  {other:>10}  {METRICS[name].meaning}"
    yield f"  The baseline is the same answer for every row: {baseline_words(model)}."
    if "precision" in scores:
        yield f"  Of the two classes, {str(model.classes_[1])!r} is the second."


def column_lines(columns: Sequence[Any], units: Mapping[str, str]) -> Iterator[str]:
    """Yield a line for each of the first columns: its name, its kind, what it holds and the share missing; then a sum.

    Args:
        columns: The columns of a table (`natpn.tabular.Column`).
        units: The units of those that have one, by name.
    """
    kinds = [c.words[0] + (f", in {units[c.name]}" if c.name in units else "") for c in columns[:LISTED]]
    cells = [(_short(c.name), kind, _printable(c.facts), _missing(c)) for c, kind in zip(columns, kinds, strict=False)]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    for row in cells:
        yield "  " + "  ".join(f"{cell:<{width}}" for cell, width in zip(row, widths, strict=True)).rstrip()
    rest = Counter(column.words for column in columns[LISTED:])
    if rest:
        counts = ", ".join(f"{number:,} {words[number > 1]}" for words, number in rest.items())
        yield f"  and {rest.total():,} more: {counts}"


def _short(name: str) -> str:
    plain = _printable(name)
    return plain if len(plain) <= _LONGEST else plain[: _LONGEST - 1] + "…"


def _printable(text: str) -> str:
    """Return a text of a file so that it stays in its line and does nothing to a terminal."""
    return "".join(sign if sign.isprintable() else " " for sign in text)


def _missing(column: Any) -> str:
    return f"{100 * column.missing:.2g} % missing" if 0 < column.missing < 1 else ""


def finite_json(values: dict[str, Any]) -> str:
    """Return JSON, with null for numbers that are not finite."""
    return json.dumps(_null_if_infinite(values), indent=1)


def _null_if_infinite(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _null_if_infinite(inner) for name, inner in value.items()}
    return None if isinstance(value, float) and not math.isfinite(value) else value
