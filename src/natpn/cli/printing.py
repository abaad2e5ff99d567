"""What commands print: aligned lines on standard output, notes on standard error."""

import json
import math
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import click

from natpn.cli.problems import is_first_process
from natpn.cli.source import Source

LISTED = 30  # columns
_LONGEST = 40  # characters of a name


def say(line: str = "") -> None:
    """Print a line, in the first process only."""
    if is_first_process():
        click.echo(line)


def note(line: str) -> None:
    """Print a remark to standard error, in the first process only."""
    if is_first_process():
        click.echo(f"note: {line}", err=True)


def score_lines(scores: dict[str, float], same: dict[str, float], model: Any) -> Iterator[str]:
    """Yield a line for each score: its name, its value, what the same answer for every row scores, and what it means.

    Args:
        scores: The scores of a model.
        same: The baselines, by the same names.
        model: The model.
    """
    from natpn.report.same_answer import baseline_words
    from natpn.report.scores import METRICS

    width = max(map(len, scores))
    yield f"  {'':<{width}}  {'model':>10}  {'baseline':>10}"
    for name, value in scores.items():
        other = f"{same[name]:.4g}" if name in same else ""
        yield f"  {name:<{width}}  {value:>10.4g}  {other:>10}  {METRICS[name].meaning}"
    yield f"  The baseline is the same answer for every row: {baseline_words(model)}."
    if "precision" in scores:
        yield f"  Of the two classes, {str(model.classes_[1])!r} is the second."


def column_lines(columns: Sequence[Any], units: Mapping[str, str]) -> Iterator[str]:
    """Yield a line for each of the first columns: its name, kind, what it holds and the share missing; then the rest.

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
    """Return a text of a file that stays in its line and does nothing to a terminal."""
    return "".join(sign if sign.isprintable() else " " for sign in text)


def _missing(column: Any) -> str:
    return f"{100 * column.missing:.2g} % missing" if 0 < column.missing < 1 else ""


def as_json(values: dict[str, Any]) -> str:
    """Return JSON; what is no finite number is null there."""
    return json.dumps(_finite(values), indent=1)


def _finite(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _finite(inner) for name, inner in value.items()}
    return None if isinstance(value, float) and not math.isfinite(value) else value


def on_terminal() -> bool:
    """Say whether a person watches, so that a progress bar makes sense."""
    return is_first_process() and sys.stderr.isatty()


@contextmanager
def progress(source: Source, what: str) -> Iterator[Any]:
    """Show how much of a file has been read; call the result after each batch."""
    from tqdm import tqdm

    scale = source.unit == "B"
    with tqdm(
        total=source.size, unit=source.unit, unit_scale=scale, desc=what, disable=not on_terminal(), leave=False
    ) as bar:
        yield lambda: bar.update(source.position - bar.n)
