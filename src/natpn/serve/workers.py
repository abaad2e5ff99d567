"""Several processes at one port: copies of the one that loaded the model, which starts, watches and ends them.

Each has a listening socket of its own at the same port (SO_REUSEPORT), among which the system deals connections out
evenly. The first process keeps all of these sockets open. So if a worker dies, connections that wait for it are not
lost: its successor takes them, and goes on counting where it stopped. Where the system cannot deal, they share one.
"""

import contextlib
import multiprocessing
import os
import signal
import socket
import sys
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from multiprocessing.connection import wait
from types import FrameType
from typing import TYPE_CHECKING

from natpn.serve.metrics import Metrics

if TYPE_CHECKING:  # Windows has no such class
    from multiprocessing.context import ForkProcess

BACKLOG = 2048
_STOPS = (signal.SIGTERM, signal.SIGINT)
# A worker that lived shorter would die again: not at once, so that the machine can do something else.
_SHORT_LIFE = 5.0
_PAUSE = 1.0

Work = Callable[[socket.socket], None]


def check_workers(workers: int) -> None:
    """Raise if so many processes cannot be started."""
    if workers < 1:
        raise ValueError(f"workers: expected a number of at least 1, got {workers}")
    if workers > 1 and "fork" not in multiprocessing.get_all_start_methods():
        raise ValueError(f"workers: expected 1 on this system, which cannot copy a process, got {workers}")


@contextlib.contextmanager
def listening(host: str, port: int, workers: int) -> Iterator[list[socket.socket]]:
    """Yield a listening socket for each worker, all at one port.

    Raises:
        OSError: If the address is taken, or is not one of this machine.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with contextlib.ExitStack() as stack:
        first = stack.enter_context(socket.create_server((host, port), family=family, backlog=BACKLOG))
        if workers == 1 or sys.platform != "linux":
            yield [first] * workers
            return
        # The first has found out that no one else is there: with SO_REUSEPORT alone, a second server would join in.
        port = first.getsockname()[1]
        first.close()
        yield [
            stack.enter_context(socket.create_server((host, port), family=family, backlog=BACKLOG, reuse_port=True))
            for _ in range(workers)
        ]


class Workers:
    """Runs workers until SIGTERM or Ctrl-C, and replaces those that end before.

    Args:
        work: What a worker does with its socket until SIGTERM, in a copy of this process.
        listeners: A socket for each.
        metrics: Where they count.
        patience: How many seconds they have to end.
    """

    def __init__(self, work: Work, listeners: Sequence[socket.socket], metrics: Metrics, patience: float) -> None:
        self._work, self._listeners, self._metrics, self._patience = work, listeners, metrics, patience
        self._processes: dict[int, ForkProcess] = {}  # by the place of the worker
        self._born: dict[int, float] = {}
        self._due: dict[int, float] = {}  # when the next one of a place is to start
        self._stopped_by: list[int] = []

    def run(self) -> None:
        """Start the workers, and return when all have ended; a second signal ends them at once."""
        before = {number: signal.signal(number, self._stop) for number in _STOPS}
        try:
            self._due = dict.fromkeys(range(len(self._listeners)), 0.0)
            while not self._stopped_by:
                self._start_those_due()
                self._wait(max(min(self._due.values()) - time.monotonic(), 0.0) if self._due else None)
                self._bury()
            self._end()
        finally:
            for process in self._processes.values():
                process.kill()
            for number, handler in before.items():
                signal.signal(number, handler)
        if self._stopped_by:
            signal.raise_signal(self._stopped_by[0])  # what a single process would have done after its last request

    def _stop(self, number: int, frame: FrameType | None) -> None:
        self._stopped_by.append(number)
        for listener in self._listeners:
            listener.close()  # else connections would be taken that no one answers
        for process in self._processes.values():
            if len(self._stopped_by) == 1:
                process.terminate()
            else:
                process.kill()

    def _wait(self, seconds: float | None) -> None:
        """Wait until a worker ends, and show the alarm what comes meanwhile."""
        reading = self._metrics.drift.reading
        sentinels = [process.sentinel for process in self._processes.values()]
        # Not without end: a signal may come just before this begins.
        found = wait([*sentinels, *([] if reading is None else [reading])], 1.0 if seconds is None else seconds)
        if reading in found:
            self._metrics.drift.collect()

    def _start_those_due(self) -> None:
        now = time.monotonic()
        for place in [place for place, due in self._due.items() if due <= now]:
            del self._due[place]
            self._start(place)
        self._metrics.say_alive(len(self._processes))

    def _start(self, place: int) -> None:
        process = multiprocessing.get_context("fork").Process(target=self._become, args=(place,), daemon=True)
        # Until a copy has handlers of its own, a signal to it would run those of this process.
        signal.pthread_sigmask(signal.SIG_BLOCK, _STOPS)
        try:
            if self._stopped_by:
                return
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", DeprecationWarning)  # of threads, of which numpy's wait for work
                process.start()
            self._processes[place], self._born[place] = process, time.monotonic()
        finally:
            signal.pthread_sigmask(signal.SIG_UNBLOCK, _STOPS)

    def _become(self, place: int) -> None:
        """Do the work of a worker, in its process."""
        for number in _STOPS:
            signal.signal(number, lambda *_: sys.exit(0))
        signal.pthread_sigmask(signal.SIG_UNBLOCK, _STOPS)
        own = self._listeners[place]
        for other in self._listeners:
            if other is not own:
                other.close()  # it would stay open after its worker has closed it
        self._metrics.work_as(place)
        self._work(own)

    def _bury(self) -> None:
        """Forget workers that have ended, and say when the next ones are to start."""
        ended = {place: process for place, process in self._processes.items() if not process.is_alive()}
        for place, process in ended.items():
            del self._processes[place]
            if self._stopped_by:
                continue
            lived = time.monotonic() - self._born[place]
            self._due[place] = time.monotonic() + (0.0 if lived > _SHORT_LIFE else _PAUSE)
            code = process.exitcode or 0
            how = f"was ended by signal {-code}" if code < 0 else f"ended with code {code}"
            print(f"Worker {process.pid} {how}; another takes its place.", file=sys.stderr, flush=True)
        if ended:
            self._metrics.say_alive(len(self._processes), len(ended))

    def _end(self) -> None:
        """Wait until all workers have ended, and end those that take too long."""
        last = time.monotonic() + self._patience
        while self._processes and time.monotonic() < last:
            self._wait(min(last - time.monotonic(), 1.0))
            self._bury()


def has_parent(parent: int) -> bool:
    """Say whether the process that started this one is there."""
    return os.getppid() == parent
