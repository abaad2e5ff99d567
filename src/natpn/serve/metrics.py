"""What has happened since the server started, of all its workers together, as Prometheus reads it.

Each worker counts in a row of its own of a table that all processes share, so that whichever is asked can add them up,
and the counts of one that dies stay. Counters only grow, and Prometheus takes their rate. Two gauges show drift at a
glance: the share of rows flagged as novel and the mean familiarity, over about the last thousand rows of each worker:
m ← m + (x − m)·k/n for k rows of mean x, where n counts the rows so far, k included, but at most 1,000; workers weigh
as n. Two more are a test that may be looked at all the time: a martingale, and whether it has ever reached 100
(`natpn.model.drift`). There is one alarm about the rows of all workers: they send the scores of their rows to the
process that has it, in chunks, through a pipe. Which rows are in a chunk does not depend on their scores, so rows
without drift are as exchangeable as they were, and the bound on false alarms is that of one process.
"""

import mmap
import os
import platform
import select
import time
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from importlib.metadata import version
from typing import Any

import numpy as np
from numpy.typing import NDArray

from natpn.model import DriftAlarm

MEMORY = 1_000  # rows over which means run
BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)  # seconds
ROW_BUCKETS = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1_000, 2_000, 5_000, 10_000, 20_000, 50_000, 100_000)
OTHER = "other"  # the path under which all are counted that have no name
_STATUSES = 600
_TOGETHER = 256  # rows
_MOST_WAITING = 100_000  # rows
_NUMBER = np.float64  # which counts to 2⁵³, and is written at once

Table = NDArray[np.void]


class Metrics:
    """Counts, for all workers.

    Args:
        paths: The paths under which requests are counted; others are "other".
        alarm: What watches rows for drift.
        about: What is known about the model, by label.
        workers: How many processes count.
    """

    def __init__(
        self, paths: Iterable[str], alarm: DriftAlarm, about: Mapping[str, str] | None = None, workers: int = 1
    ) -> None:
        self._places = {path: place for place, path in enumerate((*sorted(paths), OTHER))}
        self._about = dict(about or {"name": "model"})
        layout = np.dtype(
            [
                ("requests", _NUMBER, (len(self._places), _STATUSES)),
                ("seconds", _NUMBER, (len(self._places), len(BUCKETS) + 2)),
                ("request_rows", _NUMBER, (1, len(ROW_BUCKETS) + 2)),
                *((name, _NUMBER, (1,)) for name in ("open", "batches", "rows", "novel", "familiarity")),
                *((name, _NUMBER, (1,)) for name in ("remembered", "novel_mean", "familiarity_mean")),
            ]
        )
        self._table: Table = _shared(workers, layout)
        self._server: Table = _shared(1, np.dtype([(name, _NUMBER) for name in ("alive", "ended")]))
        self.drift = Drift(alarm, workers > 1)
        self._started = time.time()
        self.work_as(0)
        self.say_alive(1)

    def work_as(self, worker: int) -> None:
        """Count in the row of a worker from now on, after one before it that may have ended in the middle."""
        own = self._table[worker]
        self._requests, self._seconds, self._row_counts = own["requests"], own["seconds"], own["request_rows"][0]
        self._own = {name: own[name] for name in own.dtype.names if own[name].shape == (1,)}
        self._own["open"][0] = 0

    def say_alive(self, workers: int, ended: int = 0) -> None:
        """Note how many workers there are, and how many have ended since the last time."""
        self._server["alive"] = workers
        self._server["ended"] += ended

    def begin(self) -> int:
        """Count a request that has come, and return how many are open in this process."""
        self._own["open"][0] += 1
        return int(self._own["open"][0])

    def end(self, path: str, status: int, seconds: float) -> None:
        """Count a request that was answered."""
        self._own["open"][0] -= 1
        place = self._places.get(path, self._places[OTHER])
        self._requests[place, status if 0 <= status < _STATUSES else 0] += 1
        _count(self._seconds[place], BUCKETS, seconds)

    def batch(self) -> None:
        """Count a prediction."""
        self._own["batches"][0] += 1

    def rows(self, answers: Sequence[Mapping[str, Any]], watched: bool = True) -> None:
        """Count rows that were answered, those flagged as novel, and the sum of their familiarity.

        Args:
            answers: What was answered.
            watched: Whether the alarm is to see them: not those of a person who tries out values.
        """
        own, count, novel = self._own, len(answers), sum(answer["novel"] for answer in answers)
        familiarity = sum(answer["familiarity"] for answer in answers)
        if watched:
            self.drift.add([-answer["epistemic"] for answer in answers])
        _count(self._row_counts, ROW_BUCKETS, count)
        own["rows"][0] += count
        own["novel"][0] += novel
        own["familiarity"][0] += familiarity
        n = own["remembered"][0] = min(own["remembered"][0] + count, MEMORY)
        for name, total in (("novel_mean", novel), ("familiarity_mean", familiarity)):
            own[name][0] += (total / count - own[name][0]) * min(count / n, 1.0)

    def text(self) -> str:
        """Return everything in Prometheus' text format."""
        self.drift.flush()
        return "\n".join(self._lines(self._table.copy())) + "\n"

    def _lines(self, table: Table) -> Iterator[str]:
        requests = table["requests"].sum(0)
        yield from _head("natpn_requests_total", "counter", "Requests answered, by path and status.")
        for path, place in sorted(self._places.items()):
            for status in np.flatnonzero(requests[place]):
                yield f'natpn_requests_total{{path="{path}",status="{status}"}} {int(requests[place, status])}'
        yield from _head("natpn_request_seconds", "histogram", "Time from a request to its answer.")
        seconds = table["seconds"].sum(0)
        for path, place in sorted(self._places.items()):
            if requests[place].any():
                yield from _histogram("natpn_request_seconds", BUCKETS, seconds[place], f'path="{path}"')
        yield from _head("natpn_request_rows", "histogram", "Rows of a request that was answered.")
        yield from _histogram("natpn_request_rows", ROW_BUCKETS, table["request_rows"].sum(0)[0])
        weights = table["remembered"].ravel() / max(table["remembered"].sum(), 1.0)
        last = f"about the last {MEMORY} rows of each worker"
        alive, ended = self._server[0]
        for name, kind, text, value in (
            ("natpn_batches_total", "counter", "Predictions made, each for all requests that waited.", "batches"),
            ("natpn_rows_total", "counter", "Rows answered.", "rows"),
            ("natpn_novel_rows_total", "counter", "Rows flagged as novel.", "novel"),
            ("natpn_familiarity_total", "counter", "Sum of the familiarity of all rows.", "familiarity"),
            ("natpn_open_requests", "gauge", "Requests that are being answered, this one too.", "open"),
            ("natpn_novel_share", "gauge", f"Share of {last} flagged as novel.", weights @ table["novel_mean"]),
            ("natpn_familiarity_mean", "gauge", f"Mean familiarity of {last}.", weights @ table["familiarity_mean"]),
            ("natpn_drift_martingale", "gauge", "Evidence of drift; 1 at the start.", self.drift.martingale),
            ("natpn_drift_alarm", "gauge", f"1 if it ever reached {1 / self.drift.level:g}.", self.drift.is_raised),
            ("natpn_drift_rows_total", "counter", "Rows that the alarm has seen.", self.drift.n_rows),
            ("natpn_workers", "gauge", "Processes that answer.", alive),
            ("natpn_worker_restarts_total", "counter", "Processes that ended and were replaced.", ended),
            ("natpn_start_time_seconds", "gauge", "When the server started, in seconds since 1970.", self._started),
        ):
            yield from _head(name, kind, text)
            yield f"{name} {_number(table[value].sum() if isinstance(value, str) else value)}"
        build = {"version": version("natpn"), "python": platform.python_version()}
        for name, text, labels in (
            ("natpn_build_info", "The version of natpn, and of Python.", build),
            ("natpn_model_info", "Which model answers.", self._about),
        ):
            yield from _head(name, "gauge", text)
            told = ",".join(f'{key}="{_escaped(value)}"' for key, value in labels.items())
            yield f"{name}{{{told}}} 1"


class Drift:
    """One alarm about the rows of all workers.

    Args:
        alarm: The alarm.
        sharing: Whether rows come from other processes, and go to the one that calls `collect`.
    """

    def __init__(self, alarm: DriftAlarm, sharing: bool = False) -> None:
        self._alarm, self.level = alarm, alarm.level
        self._scores: list[float] = []  # of rows that it has not seen yet: one call for many rows
        self._found: Table = _shared(1, np.dtype([(name, _NUMBER) for name in ("martingale", "raised", "rows")]))
        self._pipe = os.pipe() if sharing else None
        for end in self._pipe or ():
            os.set_blocking(end, False)
        self._publish()

    def refer_to(self, other: DriftAlarm) -> None:
        """Compare rows from now on with those that another alarm compares with; what was found so far stays."""
        self.flush()
        self._alarm.refer_to(other)

    @property
    def martingale(self) -> float:
        """Evidence of drift, 1 at the start."""
        return float(self._found["martingale"][0])

    @property
    def is_raised(self) -> bool:
        """Whether the alarm was ever raised."""
        return bool(self._found["raised"][0])

    @property
    def n_rows(self) -> int:
        """How many rows the alarm has seen."""
        return int(self._found["rows"][0])

    def summary(self) -> dict[str, Any]:
        """Return what the alarm says, as JSON can hold it."""
        self.flush()
        return {"raised": self.is_raised, "martingale": self.martingale, "level": self.level, "rows": self.n_rows}

    @property
    def reading(self) -> int | None:
        """The end of the pipe at which `collect` reads, if there is one."""
        return None if self._pipe is None else self._pipe[0]

    def add(self, scores: list[float]) -> None:
        """Take the scores of rows, in the order in which they came."""
        if len(self._scores) < _MOST_WAITING:  # else no one reads them, and memory would fill
            self._scores += scores
        if len(self._scores) >= _TOGETHER:
            self.flush()

    def flush(self) -> None:
        """Hand all scores to the alarm, or on their way to it."""
        if self._pipe is None:
            self._see(np.array(self._scores))
            self._scores = []
            return
        size = select.PIPE_BUF // 8  # so many arrive whole, whoever else writes
        while self._scores:
            try:
                os.write(self._pipe[1], np.array(self._scores[:size]).tobytes())
            except (BlockingIOError, BrokenPipeError):
                return
            self._scores = self._scores[size:]

    def collect(self) -> None:
        """Show the alarm what has come through the pipe."""
        if self._pipe is None:
            return
        try:
            while content := os.read(self._pipe[0], 2**16):
                self._see(np.frombuffer(content))
        except BlockingIOError:
            pass

    def _see(self, scores: NDArray[np.float64]) -> None:
        if len(scores):
            self._alarm.see(scores)
            self._publish()

    def _publish(self) -> None:
        self._found[0] = (self._alarm.value, self._alarm.is_raised, self._alarm.n_rows)


def _shared(rows: int, layout: np.dtype[np.void]) -> Table:
    """Return a table of zeros that processes share which are copies of this one."""
    return np.ndarray(rows, layout, buffer=mmap.mmap(-1, rows * layout.itemsize))


def _count(histogram: NDArray[np.float64], bounds: Sequence[float], value: float) -> None:
    histogram[bisect_left(bounds, value)] += 1
    histogram[-1] += value


def _histogram(name: str, bounds: Sequence[float], counts: NDArray[np.float64], label: str = "") -> Iterator[str]:
    total = 0
    for bound, inside in zip((*bounds, "+Inf"), counts, strict=False):
        total += int(inside)
        yield f'{name}_bucket{{{label}{"," if label else ""}le="{bound}"}} {total}'
    own = f"{{{label}}}" if label else ""
    yield f"{name}_sum{own} {_number(counts[-1])}"
    yield f"{name}_count{own} {total}"


def _head(name: str, kind: str, text: str) -> tuple[str, str]:
    return f"# HELP {name} {text}", f"# TYPE {name} {kind}"


def _number(value: float) -> str:
    value = float(np.asarray(value).item())
    return str(int(value)) if value.is_integer() and abs(value) < 2**53 else repr(value)


def _escaped(text: str) -> str:
    return text.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")
