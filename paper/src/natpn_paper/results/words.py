"""Scores and facts about runs as text: the same in a terminal, in Markdown and on the page."""

import math
from collections.abc import Iterable, Sequence

from natpn_paper.experiments.base import shortened
from natpn_paper.experiments.published import Score
from natpn_paper.results.tables import DECIMALS, Cell, Line

LEGEND = "Mean ± standard error over seeds; the paper’s score is in brackets."
QUICK = "These are quick runs, on few rows and for few epochs: they show that everything runs, not how good a model is."


def number(value: float) -> str:
    """Return a score as the paper prints it.

    Examples:
        >>> number(98.456), number(1e9), number(float("nan"))
        ('98.46', '1.0e+09', 'nan')
    """
    return f"{value:.{DECIMALS}f}" if abs(value) < 1e6 or not math.isfinite(value) else f"{value:.1e}"


def ours(cell: Cell) -> str:
    """Return our mean, or an empty text."""
    return "" if cell.mean is None else number(cell.mean)


def spread(error: float | None) -> str:
    """Return a standard error, or an empty text."""
    return "" if error is None else f"±{number(error)}"


def paper(score: Score | None, with_error: bool = True) -> str:
    """Return the paper's score in brackets, or an empty text."""
    if score is None:
        return ""
    value, error = score
    both = [number(value), spread(error)] if with_error else [number(value)]
    return f"({' '.join(filter(None, both))})"


def duration(seconds: float) -> str:
    """Return a time in seconds, minutes or hours.

    Examples:
        >>> duration(7.3), duration(200), duration(9000)
        ('7 s', '3 min', '2 h 30 min')
    """
    if seconds < 90:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 90 else f"{minutes // 60} h {minutes % 60} min"


def heading(name: str, lines: Sequence[Line]) -> str:
    """Return the heading of a table or figure: its name, and what part of the data it is of if that is a small one.

    Examples:
        >>> run = {"limit": 300, "epochs": None}
        >>> heading("mnist", [run]), heading("mnist", [run, {"limit": None, "epochs": None}])
        ('mnist (at most 300 rows of each part)', 'mnist (some runs: at most 300 rows of each part)')
    """
    parts = [", ".join(filter(None, [line.get("part"), *shortened(line["limit"], line["epochs"])])) for line in lines]
    told = "; ".join(_unique(parts))
    return f"{name} ({'' if all(parts) else 'some runs: '}{told})" if told else name


def about(lines: Sequence[Line]) -> list[str]:
    """Say how a table was measured: seeds, runs, time, dates, versions, and what differs from the paper."""
    runs = "1 run" if len(lines) == 1 else f"{len(lines)} runs"
    took = duration(sum(line.get("seconds", 0.0) for line in lines))
    versions = [", ".join(f"{k} {v}" for k, v in line.get("versions", {}).items()) for line in lines]
    facts = [f"{_seeds(lines)}; {runs}, {took} in all", _dates(lines), "; ".join(_unique(versions))]
    return ["; ".join(fact for fact in facts if fact) + ".", *_notes(lines)]


def _seeds(lines: Sequence[Line]) -> str:
    seeds: dict[tuple[str, str], set[int]] = {}
    for line in lines:
        seeds.setdefault((line["data"], line["model"]), set()).add(line["seed"])
    counts = {row: len(values) for row, values in seeds.items()}
    least, most = min(counts.values()), max(counts.values())
    if least == most:
        return "1 seed" if most == 1 else f"{most} seeds"
    fewer = _unique(f"{model} {count}" for (_, model), count in counts.items() if count < most)
    return f"{most} seeds ({', '.join(fewer)})"


def _dates(lines: Sequence[Line]) -> str:
    days = sorted(_unique(line.get("date", "") for line in lines))
    return "" if not days else days[0] if days[0] == days[-1] else f"{days[0]} to {days[-1]}"


def _notes(lines: Sequence[Line]) -> list[str]:
    """Return the notes of runs, each with its models unless it is true of all."""
    models = _unique(line["model"] for line in lines)
    sentences = []
    for note in _unique(line.get("note", "") for line in lines):
        having = _unique(line["model"] for line in lines if line.get("note", "") == note)
        only = "" if having == models else f" ({', '.join(having)})"
        sentences.append(f"{note[0].upper()}{note[1:]}{only}.")
    return sentences


def _unique(texts: Iterable[str]) -> list[str]:
    return [text for text in dict.fromkeys(texts) if text]
