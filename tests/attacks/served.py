"""A small saved model, and a server for it in a process of its own."""

import os
import resource
import signal
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NoReturn

import natpn.serve

MODEL = Path(__file__).parents[1] / "estimators" / "data" / "schema_1" / "model"
ROW: dict[str, Any] = {"number": 0.3, "colour": "red", "truth": True}
JSON = {"content-type": "application/json"}
CSV = {"content-type": "text/csv"}


@contextmanager
def server_process(files: int = 20_000, **options: Any) -> Iterator[tuple[str, int]]:
    """Start a server that may have so many files open, if the system allows it; give its address and process number.

    It is a copy of this process, which has imported torch; options are those of `natpn.serve.run`.
    """
    told, tell = os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of forks beside threads
        pid = os.fork()
    if pid == 0:
        _serve(files, tell, options)
    os.close(tell)
    try:
        with os.fdopen(told) as lines:
            yield lines.readline().partition(" at ")[2].partition("/ (")[0], pid
    finally:
        with suppress(ChildProcessError, ProcessLookupError):  # a test has waited for its end
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)


def _serve(files: int, tell: int, options: dict[str, Any]) -> NoReturn:
    try:
        sys.stdout = os.fdopen(tell, "w", buffering=1)
        hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(files, hard), hard))
        natpn.serve.run(MODEL, port=0, **options)
    finally:
        os._exit(1)


def megabytes(pid: int, what: str) -> float:
    """Return `VmRSS`, the memory that a process has now, or `VmHWM`, the most that it ever had."""
    lines = dict(line.split(":", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines())
    return int(lines[what].split()[0]) / 1024
