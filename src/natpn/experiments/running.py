"""Runs → JSON lines, in this process, in several, or on a Ray cluster; what is stopped goes on where it was.

A line is written when its run ends, whole or not at all. A run that is in the file is not made again.
"""

import json
import os
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

from natpn.experiments.base import Run, execute
from natpn.experiments.registry import EXPERIMENTS

Line = dict[str, Any]
_KEY = ("experiment", "data", "model", "seed", "quick", "limit")


def read_lines(path: str | os.PathLike[str]) -> list[Line]:
    """Read all results that are whole; a last line that was cut off while it was written is left out.

    Raises:
        ValueError: If another line is not a result.
    """
    place = Path(path)
    if not place.exists():
        return []
    texts = place.read_text(encoding="utf-8").split("\n")
    lines: list[Line] = []
    for number, text in enumerate(texts, start=1):
        if not text.strip():
            continue
        try:
            line = json.loads(text)
            tuple(line[name] for name in _KEY)
        except (ValueError, KeyError, TypeError):
            if number == len(texts):
                break  # it has no end of line: its writer was killed
            raise ValueError(
                f"{place}, line {number}: expected a result of natpn reproduce, got {text[:60]!r}"
            ) from None
        lines.append(line)
    return lines


def missing(runs: Iterable[Run], lines: Iterable[Line]) -> list[Run]:
    """Return the runs that have no line yet."""
    done = {tuple(line[name] for name in _KEY) for line in lines}
    return [run for run in runs if tuple(getattr(run, name) for name in _KEY) not in done]


def run_all(
    runs: list[Run],
    results: str | os.PathLike[str],
    jobs: int = 1,
    backend: str | None = None,
    on_result: Callable[[Line], None] | None = None,
) -> int:
    """Make runs and append their lines to a file; returns how many failed.

    A run that fails is told of with its error, and the others go on.

    Args:
        runs: The runs.
        results: The file.
        jobs: How many at a time.
        backend: "ray" sends them to a Ray cluster; None uses processes of this machine.
        on_result: Called with each line, or with {"run": …, "error": …} if a run failed.
    """
    place = Path(results)
    place.parent.mkdir(parents=True, exist_ok=True)
    _mend(place)
    failed = 0
    for line in _lines(runs, jobs, backend):
        if "error" in line:
            failed += 1
        else:
            _append(place, line)
        if on_result is not None:
            on_result(line)
    return failed


def _lines(runs: list[Run], jobs: int, backend: str | None) -> Iterator[Line]:
    if jobs == 1 and backend is None:
        yield from map(_attempt, runs)
        return
    from joblib import Parallel, delayed, parallel_config

    if backend == "ray":
        from ray.util.joblib import register_ray

        register_ray()
        with parallel_config(backend="ray", n_jobs=jobs):
            # Ray's backend gives results in rounds
            for start in range(0, len(runs), jobs):
                yield from Parallel()(delayed(_attempt)(run) for run in runs[start : start + jobs])
        return
    yield from Parallel(n_jobs=jobs, return_as="generator_unordered")(delayed(_attempt)(run) for run in runs)


def _attempt(run: Run) -> Line:
    try:
        return execute(EXPERIMENTS[run.experiment], run)
    except Exception as error:
        return {"run": run, "error": error}


def _append(place: Path, line: Line) -> None:
    with place.open("a", encoding="utf-8") as file:
        file.write(json.dumps(line, ensure_ascii=False) + "\n")
        file.flush()
        os.fsync(file.fileno())


def _mend(place: Path) -> None:
    """Cut off a last line that has no end."""
    if not place.exists():
        return
    content = place.read_bytes()
    if content and not content.endswith(b"\n"):
        place.write_bytes(content[: content.rfind(b"\n") + 1])
