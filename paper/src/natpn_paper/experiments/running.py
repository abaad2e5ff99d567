"""Runs → JSON lines, in this process, in several, or on a Ray cluster; stopped work is resumed.

A line is written in one step when its run ends. A run that is in the file is not made again.
"""

import json
import os
import pickle
import signal
import threading
import time
from collections.abc import Callable, Generator, Iterable, Mapping
from contextlib import closing
from functools import cache
from itertools import islice
from pathlib import Path
from typing import Any

from natpn_paper.experiments.base import Experiment, Run, execute
from natpn_paper.experiments.registry import EXPERIMENTS

Line = dict[str, Any]
Lines = Generator[Line, None, None]
Task = tuple[Experiment, Run]
_BEGINNING = b'{"experiment": '  # of every line
_KEY = ("experiment", "data", "model", "seed", "quick", "limit", "epochs")


def read_lines(path: str | os.PathLike[str]) -> list[Line]:
    """Read all results; a last line that was cut off while it was written is left out.

    Raises:
        ValueError: If any other line is not a result.
    """
    place = Path(path)
    if not place.exists():
        return []
    texts = place.read_bytes().split(b"\n")
    lines: list[Line] = []
    for number, text in enumerate(texts, start=1):
        if not text.strip():
            continue
        try:
            line = {"epochs": None} | json.loads(text)
            tuple(line[name] for name in _KEY)
        except (ValueError, KeyError, TypeError):
            if number == len(texts) and (text.startswith(_BEGINNING) or _BEGINNING.startswith(text)):
                break  # it has no end of line: its writer was killed
            raise ValueError(
                f"{place}, line {number}: expected a result of natpn reproduce, got "
                f"{text[:60].decode(errors='replace')!r}; name another file"
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
    jobs: int | None = None,
    backend: str | None = None,
    on_result: Callable[[Line], None] | None = None,
    experiments: Mapping[str, Experiment] = EXPERIMENTS,
) -> int:
    """Make runs, append their lines to a file, and return how many failed.

    If a run fails, `on_result` gets its error, and the other runs are made.

    Args:
        runs: The runs.
        results: The file.
        jobs: How many runs at a time; None is one on this machine, and one for each processor of a Ray cluster.
        backend: "ray" sends runs to a Ray cluster; None uses processes of this machine.
        on_result: Called with each line, or with {"run": …, "error": …} if a run failed.
        experiments: Whose runs, by name.

    Raises:
        ChildProcessError: If a worker process is killed; finished runs are in the file.
    """
    place = Path(results)
    place.parent.mkdir(parents=True, exist_ok=True)
    _mend(place)
    failed = 0
    with closing(_lines(runs, jobs, backend, experiments)) as lines:
        for line in lines:
            if "error" in line:
                failed += 1
            else:
                _append(place, line)
            if on_result is not None:
                on_result(line)
    return failed


def _lines(runs: list[Run], jobs: int | None, backend: str | None, experiments: Mapping[str, Experiment]) -> Lines:
    tasks = [(experiments[run.experiment], run) for run in runs]
    if backend == "ray":
        return _on_ray(tasks, jobs)
    return _in_processes(tasks, jobs) if jobs is not None and jobs > 1 else (_attempt(*task) for task in tasks)


def _in_processes(tasks: list[Task], jobs: int) -> Lines:
    from joblib import Parallel, delayed
    from joblib.externals.loky import get_reusable_executor
    from joblib.externals.loky.process_executor import TerminatedWorkerError

    try:
        parallel = Parallel(n_jobs=jobs, return_as="generator_unordered")
        yield from parallel(delayed(_attempt_for)(os.getpid(), *task) for task in tasks)
    except TerminatedWorkerError:
        raise ChildProcessError(
            "a worker process was killed, most likely because memory ran out; use fewer jobs and start again: finished "
            "runs are kept"
        ) from None
    finally:
        # at once: idle workers would wait for more work, and unfinished runs are of no use
        get_reusable_executor(reuse=True).shutdown(wait=True, kill_workers=True)


def _on_ray(tasks: list[Task], jobs: int | None) -> Lines:
    """Keep a number of runs going on a cluster; Ray repeats a run that loses its machine."""
    import ray

    if not ray.is_initialized():
        ray.init(log_to_driver=False)  # at RAY_ADDRESS if that is set, else a cluster of this machine
    at_once = jobs or int(ray.cluster_resources().get("CPU", 1))
    attempt = ray.remote(num_cpus=1)(_attempt)
    left = iter(tasks)
    going: dict[Any, Run] = {}
    try:
        while True:
            for task in islice(left, at_once - len(going)):
                going[attempt.remote(*task)] = task[1]
            if not going:
                return
            ended, _ = ray.wait(list(going))
            for one in ended:
                run = going.pop(one)
                try:
                    yield ray.get(one)
                except ray.exceptions.RayError as error:
                    yield {"run": run, "error": error}
    finally:
        for one in going:
            ray.cancel(one, force=True)


def _attempt_for(parent: int, experiment: Experiment, run: Run) -> Line:
    _end_with(parent)
    return _attempt(experiment, run)


@cache
def _end_with(parent: int) -> None:
    """End this process when its parent has ended, since nothing would read its results, and leave Ctrl-C to the parent.

    A terminal sends Ctrl-C to both, and a worker that is between two runs would print where it was.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(1)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


def _attempt(experiment: Experiment, run: Run) -> Line:
    try:
        return execute(experiment, run)
    except Exception as error:
        return {"run": run, "error": _portable(error)}


def _portable(error: Exception) -> Exception:
    """Return an error that can leave a worker process."""
    try:
        pickle.loads(pickle.dumps(error))
    except Exception:
        return RuntimeError(f"{type(error).__name__}: {error}")
    return error


def _append(place: Path, line: Line) -> None:
    with place.open("a", encoding="utf-8") as file:
        file.write(json.dumps(line, ensure_ascii=False) + "\n")
        file.flush()
        os.fsync(file.fileno())


def _mend(place: Path) -> None:
    """Remove an incomplete last line; a file that holds something else is left as it is.

    Raises:
        ValueError: If it holds something else.
    """
    read_lines(place)
    if not place.is_file():
        return
    content = place.read_bytes()
    if content and not content.endswith(b"\n"):
        os.truncate(place, content.rfind(b"\n") + 1)
