"""Where the files of a data set are, and whether their content is right.

A file is searched for in the ``directory`` argument, in the directory that the environment variable ``NATPN_DATA``
names, and in the cache (``$XDG_CACHE_HOME/natpn``, else ``~/.cache/natpn``). Downloads go to ``directory`` if it is
given, else to the cache: ``NATPN_DATA`` may be shared or read-only.

The hash of a file that ends in ``.gz`` is that of its content, which does not depend on how it was packed; a
``.tar.gz`` is hashed as it is. A file is hashed once in a process, unless it changes.
"""

import gzip
import hashlib
import os
import tarfile
import zipfile
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import IO, cast

BLOCK = 1 << 20


def roots(directory: Path | None = None) -> list[Path]:
    """Return the directories to search, in order."""
    named = [directory] if directory is not None else []
    shared = [Path(os.environ["NATPN_DATA"]).expanduser()] if os.environ.get("NATPN_DATA") else []
    return list(dict.fromkeys([*named, *shared, cache()]))


def cache() -> Path:
    """Return the directory of downloads; it need not exist."""
    home = os.environ.get("XDG_CACHE_HOME")
    return (Path(home) if home else Path.home() / ".cache") / "natpn"


def is_packed(name: str) -> bool:
    """Say whether the content of a file of this name is gzipped."""
    return name.endswith(".gz") and not name.endswith(".tar.gz")


def open_content(path: Path, packed: bool) -> IO[bytes]:
    """Open a file, and unpack it if it is gzipped."""
    return cast("IO[bytes]", gzip.open(path)) if packed else path.open("rb")


def read_content(path: Path) -> bytes:
    """Return the content of a file, unpacked if it is gzipped.

    Raises:
        DamagedData: If it cannot be unpacked.
    """
    try:
        with open_content(path, is_packed(path.name)) as file:
            return file.read()
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise DamagedData(path, f"it cannot be unpacked ({error})") from error


def read_members(path: Path, names: Sequence[str]) -> dict[str, bytes]:
    """Return the content of some members of a zip or tar archive.

    Raises:
        DamagedData: If the archive cannot be read or lacks a member.
    """
    try:
        if path.suffix == ".zip":
            with zipfile.ZipFile(path) as archive:
                return {name: archive.read(name) for name in names}
        found = {}
        with tarfile.open(path, "r|*") as stream:
            for member in stream:
                if member.name in names and (file := stream.extractfile(member)):
                    found[member.name] = file.read()
        return {name: found[name] for name in names}
    except KeyError as error:
        raise DamagedData(path, f"it has no member {error}") from error
    except (zipfile.BadZipFile, tarfile.TarError, EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise DamagedData(path, f"it cannot be unpacked ({error})") from error


@lru_cache(maxsize=4096)
def hash_once(path: Path, packed: bool, size: int, changed: int) -> str:
    """Return the SHA-256 of a file's content; size and time of change are part of the cache's key."""
    digest = hashlib.sha256()
    with open_content(path, packed) as file:
        while block := file.read(BLOCK):
            digest.update(block)
    return digest.hexdigest()


def check_hash(path: Path, expected: str | None, name: str = "") -> None:
    """Raise if a file does not have the expected hash.

    Args:
        path: The file.
        expected: The SHA-256 of its content; None if it is not known.
        name: The final name of the file, if it has a temporary one.

    Raises:
        DamagedData: If the hash is wrong, or the file cannot be unpacked.
    """
    if expected is None:
        return
    state = path.stat()
    try:
        found = hash_once(path, is_packed(name or path.name), state.st_size, state.st_mtime_ns)
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise DamagedData(path, f"it cannot be unpacked ({error})") from error
    if found != expected:
        raise DamagedData(path, f"its SHA-256 is {found}, but {expected} was expected")


def search(sources: "Sequence[Source]", directory: Path | None) -> Path | None:
    """Return the first of the files that exists, with its hash checked; None if none exists."""
    for root in roots(directory):
        for source in sources:
            path = root / source.path
            if path.exists():
                if path.is_file():
                    check_hash(path, source.sha256)
                return path
    return None


@dataclass(frozen=True)
class Source:
    """A file of a data set.

    Attributes:
        path: Its place in a data directory; it may also be a folder of pictures.
        url: Where to download it; empty if it has to be fetched by hand.
        sha256: The hash of its content, if it is known.
        home: The page of the data set, if there is no ``url``.
        terms: The terms of the licence, if it is not a free one.
    """

    path: str
    url: str = ""
    sha256: str | None = None
    home: str = ""
    terms: str = ""


class MissingData(FileNotFoundError):  # noqa: N818 - reads better without "Error"
    """A file of a data set was not found."""

    def __init__(self, sources: Sequence[Source], searched: Sequence[Path]) -> None:
        self.sources, self.searched = sources, searched
        self.names = " or ".join(source.path for source in sources)
        origin = next((s.url for s in sources if s.url), "") or next((s.home for s in sources if s.home), "")
        terms = next((f" ({s.terms})" for s in sources if s.terms), "")
        can = any(source.url for source in sources)
        cure = "Load with download=True, or put it" if can else "Fetch it there by hand, and put it"
        super().__init__(
            f"{self.names} was not found in {', '.join(map(str, searched))}. It comes from {origin}{terms}. "
            f"{cure} into one of these directories, or name the one that has it by directory=... or NATPN_DATA."
        )

    def __reduce__(self) -> tuple[type, tuple[object, ...]]:
        return type(self), (self.sources, self.searched)  # so that it can leave a worker process


class DamagedData(ValueError):  # noqa: N818 - reads better without "Error"
    """A file of a data set does not have the expected content."""

    def __init__(self, path: Path, problem: str) -> None:
        self.path, self.problem = path, problem
        super().__init__(f"{path}: {problem}. Delete the file and load with download=True, or fetch it again.")

    def __reduce__(self) -> tuple[type, tuple[object, ...]]:
        return type(self), (self.path, self.problem)
