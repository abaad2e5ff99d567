"""The files that natpn writes, by one rule: only what natpn wrote is replaced, and what it reads never is.

A file is known by its content; each kind of output says what to look for (`Kind`). It is written beside its place under
a hidden name and then renamed, so that a file is whole or not there. A symbolic link is followed, and stays. What is no
ordinary file, such as a pipe or a terminal, is written as it comes.

A process keeps a lock on the hidden file that it writes. One without a lock was left by a process that was killed, and
is removed by the next that writes to the same directory.
"""

import contextlib
import os
import re
import secrets
import stat
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import IO

try:
    import fcntl
except ImportError:  # Windows: files are as whole, but what a kill leaves is not removed
    fcntl = None  # type: ignore[assignment]

HIDDEN = re.compile(r"\.natpn-[0-9a-f]{16}\.part")
_PLACE = "choose another place for the output"


@dataclass(frozen=True)
class Kind:
    """A kind of file that natpn writes."""

    name: str  # what errors call it
    is_ours: Callable[[IO[bytes]], bool]  # says by its content whether a file, open for reading, is of this kind


def check_apart(out: str | PathLike[str], *inputs: str | PathLike[str]) -> None:
    """Raise if an output is, holds or lies in something that is read, or is or holds the working or home directory.

    Paths are compared by what they lead to, so that links and other spellings count.
    """
    if is_special(out):
        return
    own, above = _identity(out), _identities(out)
    for guarded, name in ((os.curdir, "working"), (os.path.expanduser("~"), "home")):
        if own in _identities(guarded):
            raise ValueError(f"{out}: it is or holds the {name} directory; name a directory of its own")
    for path in inputs:
        identity = _identity(path)
        if identity is None:
            continue  # whoever reads it says so
        if identity == own:
            raise ValueError(f"{out}: it is the same file or directory as {path}, which is read; {_PLACE}")
        if identity in above:
            raise ValueError(f"{out}: it lies in {path}, which is read; {_PLACE}")
        if own in _identities(path):
            raise ValueError(f"{out}: it holds {path}, which is read; {_PLACE}")


def check_file(out: str | PathLike[str], kind: Kind) -> None:
    """Raise if there is something that is not of a kind: it would be lost. An empty file may be replaced."""
    if is_special(out) or not os.path.exists(out):
        return
    if os.path.isdir(out):
        raise ValueError(f"{out} is a directory; name a file")
    with open(out, "rb") as file:
        if os.fstat(file.fileno()).st_size and not kind.is_ours(file):
            raise ValueError(f"{out}: it exists and is not {kind.name}; choose another name, or move it away first")


def check_writable(path: Path) -> None:
    """Raise an OSError if no file can be made in a directory."""
    file, hidden = _hidden(path / "any")
    file.close()
    os.unlink(hidden)


@contextlib.contextmanager
def replacing(out: str | PathLike[str], kind: Kind) -> Iterator[IO[bytes]]:
    """Open a file for writing that appears under its name when the block ends well, and not at all otherwise.

    Raises:
        ValueError: If there is something that is not of this kind.
        OSError: If it cannot be written; what was there stays.
    """
    if is_special(out):
        with open(out, "wb") as stream:
            yield stream
        return
    check_file(out, kind)
    place = Path(os.path.realpath(out))
    sweep(place.parent)
    file, hidden = _hidden(place)
    try:
        with file:
            yield file
            file.flush()
            os.fsync(file.fileno())
            check_file(out, kind)  # the block may have taken hours
            if fcntl is None:
                file.close()
            os.replace(hidden, place)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(hidden)
        raise
    # Ask the disk to keep the new name, where it can be asked.
    with contextlib.suppress(OSError), _opened(place.parent, os.O_RDONLY) as number:
        os.fsync(number)


@contextlib.contextmanager
def directory(path: Path) -> Iterator[None]:
    """Make a directory if there is none, and let no one else into such a block for it until this one ends.

    If the block fails, directories that were made and are empty are removed.
    """
    made = [place for place in (path, *path.parents) if not place.exists()]
    number = _lock(path)
    try:
        yield
    except BaseException:
        for place in made:
            with contextlib.suppress(OSError):
                os.rmdir(place)
        raise
    finally:
        if number is not None:
            os.close(number)


def sweep(path: str | PathLike[str]) -> None:
    """Remove from a directory the hidden files of processes that were killed."""
    if fcntl is None:
        return
    with contextlib.suppress(OSError), os.scandir(path) as entries:
        for entry in entries:
            if HIDDEN.fullmatch(entry.name) and entry.is_file(follow_symlinks=False):
                # It stays if its writer is alive, or if it is another person's.
                with contextlib.suppress(OSError), _opened(entry.path, os.O_WRONLY | os.O_NOFOLLOW) as number:
                    fcntl.flock(number, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    os.unlink(entry.path)


def _hidden(place: Path) -> tuple[IO[bytes], Path]:
    """Open a new hidden file beside a place, with a lock on it and the permissions of what is in that place."""
    while True:
        path = place.parent / f".natpn-{secrets.token_hex(8)}.part"
        number = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)
        try:
            if fcntl is not None:
                with contextlib.suppress(OSError):  # some file systems have no locks, and then nothing is swept
                    fcntl.flock(number, fcntl.LOCK_EX | fcntl.LOCK_NB)
            with contextlib.suppress(OSError):
                os.chmod(path, stat.S_IMODE(place.stat().st_mode))
            if os.fstat(number).st_nlink:  # unless it was swept before it had its lock
                return os.fdopen(number, "wb"), path
        except BaseException:
            os.close(number)
            raise
        os.close(number)


def _lock(path: Path) -> int | None:
    while True:
        path.mkdir(parents=True, exist_ok=True)
        if fcntl is None:
            return None
        number = os.open(path, os.O_RDONLY)
        with contextlib.suppress(OSError):  # some file systems have no locks
            fcntl.flock(number, fcntl.LOCK_EX)
        if _identity(path) == _identity(number):  # unless it was removed by one that failed
            return number
        os.close(number)


@contextlib.contextmanager
def _opened(path: str | PathLike[str], flags: int) -> Iterator[int]:
    number = os.open(path, flags)
    try:
        yield number
    finally:
        os.close(number)


def is_special(path: str | PathLike[str]) -> bool:
    """Say whether something is there that is neither a file nor a directory."""
    try:
        mode = os.stat(path).st_mode
    except OSError:
        return False
    return not (stat.S_ISREG(mode) or stat.S_ISDIR(mode))


def _identity(path: str | PathLike[str] | int) -> tuple[int, int] | None:
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_dev, found.st_ino


def _identities(path: str | PathLike[str]) -> set[tuple[int, int] | None]:
    """Return what tells apart the directories above a path, and the path itself."""
    place = Path(os.path.realpath(path))
    return {_identity(one) for one in (path, place, *place.parents)} - {None}
