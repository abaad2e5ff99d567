"""`natpn reproduce --choose`: settings from the paper's grid, by the likelihood of held-out rows."""

import json
import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from natpn.choices import did_you_mean
from natpn.cli.writing import Problem, note, say, write_text
from natpn.outputs import Kind
from natpn_paper.experiments import Run, missing, read_lines, run_all
from natpn_paper.experiments.grid import CHOICE, ERROR, PARTS, SCORE, TABLES, Measured, Point, search
from natpn_paper.experiments.table_rows import CHOSEN
from natpn_paper.reproduce.progress import teller

SETTINGS = Kind("settings that natpn reproduce chose", lambda file: file.read(1) == b"{")


def parts_of(names: Sequence[str]) -> list[str]:
    """Return the data sets of names, which may also be names of tables.

    Raises:
        Problem: If a name is unknown.
    """
    found: list[str] = []
    tables = {table.name: table.data for table in TABLES}
    for name in names:
        if name not in tables and name not in PARTS:
            hint = did_you_mean(name, [*tables, *PARTS]) or f"; there are {', '.join(PARTS)}."
            raise Problem(f"--choose: there is no grid for {name!r}{hint}")
        found += tables.get(name, (name,)) if name not in PARTS else (name,)
    return list(dict.fromkeys(found))


def choose(
    names: Sequence[str], results: str, out: str, seeds: int, epochs: int | None, jobs: int | None, backend: str | None
) -> None:
    """Make the runs of a search for each data set, print them, and write what was chosen to a file.

    Args:
        names: The data sets, or tables.
        results: The file of runs; those in it are not made again.
        out: The directory for the chosen settings; those of other data sets in the file there are kept.
        seeds: How many seeds.
        epochs: The most epochs; None for as many as early stopping takes.
        jobs: Runs at a time.
        backend: Where runs are made.
    """
    for part in parts_of(names):
        training = PARTS[part]
        setting = training.settings.get(part, training.setting)
        start = Point(setting.learning_rate, setting.flow, setting.latent_dim, setting.budget)

        def measure(points: Sequence[Point], part: str = part) -> dict[Point, Measured]:
            runs = [Run(CHOICE.name, part, p.name, seed, epochs=epochs) for seed in range(seeds) for p in points]
            todo = missing(runs, read_lines(results))
            experiments = {CHOICE.name: CHOICE}
            if todo:
                run_all(todo, results, jobs, backend, teller(len(todo), experiments), experiments)
            return _means(read_lines(results), part, points, epochs)

        best, tried = search(part, start, measure)
        means = _means(read_lines(results), part, tried, epochs)
        say()
        for point in sorted(means, key=lambda point: means[point]):
            score, error = means[point]
            say(f"{part}  {SCORE} {score:.4f} ±{error:.4f}  {point.name}{'  chosen' if point == best else ''}")
        _keep(out, part, asdict(best))


def _means(
    lines: Sequence[Mapping[str, Any]], part: str, points: Sequence[Point], epochs: int | None
) -> dict[Point, Measured]:
    found: dict[Point, Measured] = {}
    for point in points:
        key = (CHOICE.name, part, point.name, epochs)
        own = {
            line["seed"]: line["scores"]
            for line in lines
            if (line["experiment"], line["data"], line["model"], line["epochs"]) == key
        }
        if own:
            score, error = (sum(scores[name] for scores in own.values()) / len(own) for name in (SCORE, ERROR))
            found[point] = Measured(score, error / math.sqrt(len(own)))
    return found


def _keep(out: str, part: str, fields: Mapping[str, Any]) -> None:
    path = os.path.join(out, CHOSEN)
    os.makedirs(out, exist_ok=True)
    known = json.loads(Path(path).read_text("utf-8")) if os.path.exists(path) else {}
    write_text(path, json.dumps(known | {part: fields}, indent=1, sort_keys=True) + "\n", SETTINGS)
    note(f"the settings for {part} are in {path}; the tables read those beside natpn_paper/experiments/table_rows.py")
