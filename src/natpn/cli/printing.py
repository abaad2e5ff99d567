"""What commands print: aligned lines on standard output, notes on standard error."""

import json
import math
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import click

from natpn.cli.problems import is_first_process
from natpn.cli.source import Source

KINDS = {
    "number": "numbers",
    "category": "categories",
    "boolean": "truth values",
    "date": "dates",
    "empty": "empty",
}
NAMED = 8  # columns of a kind


def say(line: str = "") -> None:
    """Print a line, in the first process only."""
    if is_first_process():
        click.echo(line)


def note(line: str) -> None:
    """Print a remark to standard error, in the first process only."""
    if is_first_process():
        click.echo(f"note: {line}", err=True)


def score_lines(scores: dict[str, float]) -> Iterator[str]:
    """Yield a line for each score: its name, its value, and what it means."""
    from natpn.report.scores import MEANINGS

    width = max(map(len, scores))
    for name, value in scores.items():
        yield f"  {name:<{width}}  {value:>10.4g}  {MEANINGS[name]}"


def column_lines(columns: Sequence[Any]) -> Iterator[str]:
    """Yield a line for each kind of column: how many there are, and what the first are called and hold.

    Args:
        columns: The columns of a fitted model (`natpn.tabular.Column`).
    """
    for kind, word in KINDS.items():
        found = [column for column in columns if column.kind == kind]
        if found:
            more = f" and {len(found) - NAMED:,} more" if len(found) > NAMED else ""
            yield f"  {word:<12}  {len(found):>6,}  {', '.join(map(_described, found[:NAMED]))}{more}"


def _described(column: Any) -> str:
    facts = [f"{column.n_levels:,} values"] if column.kind == "category" else []
    if column.missing and column.kind != "empty":
        facts.append(f"{100 * column.missing:.2g} % missing")
    name = column.name if len(column.name) <= 40 else column.name[:39] + "…"
    return f"{name} ({', '.join(facts)})" if facts else name


def as_json(values: dict[str, Any]) -> str:
    """Return JSON; what is no finite number is null there."""
    plain = {k: None if isinstance(v, float) and not math.isfinite(v) else v for k, v in values.items()}
    return json.dumps(plain, indent=1)


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
