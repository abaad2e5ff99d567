"""Every call by which a process changes files, counted, so that something can happen right before or after it."""

import os
import signal
import traceback
from typing import Any

CALLS = ("open", "mkdir", "rmdir", "replace", "rename", "link", "unlink", "remove", "fsync", "truncate", "chmod")


class Steps:
    """Count the calls in a block, twice each: before and after. A write counts once more, when half of it is done.

    Args:
        at: The step at which to act; 0 for none.
        act: What to do; by default the process is killed.
    """

    def __init__(self, at: int = 0, act: Any = lambda: os.kill(os.getpid(), signal.SIGKILL)) -> None:
        self.at, self.act, self.count = at, act, 0

    def tick(self) -> None:
        self.count += 1
        if self.count == self.at:
            self.act()

    def __enter__(self) -> "Steps":
        self._kept = {name: getattr(os, name) for name in (*CALLS, "fdopen")}
        for name in CALLS:
            setattr(os, name, self._counted(self._kept[name]))
        os.fdopen = lambda *arguments: _File(self._kept["fdopen"](*arguments), self)
        return self

    def __exit__(self, *_: Any) -> None:
        for name, function in self._kept.items():
            setattr(os, name, function)

    def _counted(self, function: Any) -> Any:
        def call(*arguments: Any, **options: Any) -> Any:
            self.tick()
            result = function(*arguments, **options)
            self.tick()
            return result

        return call


class _File:
    """A file whose writes are counted."""

    def __init__(self, file: Any, steps: Steps) -> None:
        self._file, self._steps = file, steps

    def write(self, content: bytes) -> int:
        self._steps.tick()
        self._file.write(content[: len(content) // 2])
        self._file.flush()
        self._steps.tick()
        self._file.write(content[len(content) // 2 :])
        self._steps.tick()
        return len(content)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)

    def __enter__(self) -> "_File":
        return self

    def __exit__(self, *_: Any) -> None:
        self._file.close()


def forked(function: Any) -> int:
    """Run a function in a process of its own, and return the status with which that ended; 0 is well."""
    child = os.fork()
    if child == 0:
        try:
            function()
        except BaseException:
            traceback.print_exc()
            os._exit(3)
        os._exit(0)
    return os.waitpid(child, 0)[1]
