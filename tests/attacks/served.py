"""A small saved model, and a server for it in a process of its own."""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import natpn

MODEL = Path(__file__).parents[1] / "estimators" / "data" / "schema_1" / "model"
ROW: dict[str, Any] = {"number": 0.3, "colour": "red", "truth": True}
JSON = {"content-type": "application/json"}
CSV = {"content-type": "text/csv"}
CODE = "import sys, natpn.serve; natpn.serve.run(sys.argv[1], port=0)"
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(Path(natpn.__file__).parents[1]), "OMP_NUM_THREADS": "1"}


@contextmanager
def server_process(files: int = 20_000) -> Iterator[tuple[str, int]]:
    """Start a server that may have so many files open, if the system allows it; give its address and process number."""
    limited = f'ulimit -n {files} 2> /dev/null; exec "$@"'
    command = ["sh", "-c", limited, "sh", sys.executable, "-c", CODE, str(MODEL)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=ENVIRONMENT)
    try:
        yield process.stdout.readline().partition(" at ")[2].partition("/ (")[0], process.pid
    finally:
        process.kill()
        process.communicate()


def megabytes(pid: int, what: str) -> float:
    """Return `VmRSS`, the memory that a process has now, or `VmHWM`, the most that it ever had."""
    lines = dict(line.split(":", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines())
    return int(lines[what].split()[0]) / 1024
