"""Finding files, or fetching them by downloads that can be interrupted.

A download is written to a ``.part`` file, checked, and then renamed. A second attempt continues where the first ended,
if the server can (``Range``) and its file has not changed (``If-Range``). Processes that want the same file wait for
the first of them.
"""

import contextlib
import http.client
import os
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence
from pathlib import Path

from natpn_paper.datasets.files import BLOCK, DamagedData, MissingData, Source, cache, check_hash, roots, search

ATTEMPTS = 3
TIMEOUT = 60.0  # seconds without a byte


def find(sources: Source | Sequence[Source], directory: Path | None, download: bool = False) -> Path:
    """Return the path of a file, and download it if that was asked for.

    Args:
        sources: The file, or alternatives of which one is enough. The first that has a ``url`` is downloaded.
        directory: Where to search first, and where to download to.
        download: Whether to download a file that is missing.

    Returns:
        The path, whose hash has been checked where it is known.

    Raises:
        MissingData: If it is not found.
        DamagedData: If its hash is wrong.
        DownloadError: If it could not be downloaded.
    """
    listed = [sources] if isinstance(sources, Source) else list(sources)
    found = search(listed, directory)
    if found is not None:
        return found
    offered = [source for source in listed if source.url]
    if not (download and offered):
        raise MissingData(listed, roots(directory))
    source = offered[0]
    target = (directory if directory is not None else cache()) / source.path
    fetch(source.url, target, source.sha256)
    return target


def fetch(url: str, target: Path, sha256: str | None = None) -> None:
    """Download a file.

    Args:
        url: Where it comes from.
        target: Where it goes; it appears there only when it is complete.
        sha256: The hash of its content, if it is known.

    Raises:
        DownloadError: If the server does not answer, or breaks off too often. The part file is kept.
        DamagedData: If the hash is wrong. The part file is deleted.
    """
    target.parent.mkdir(parents=True, exist_ok=True)
    part = target.with_name(f"{target.name}.part")
    with alone(part):
        if target.exists():
            return
        for attempt in range(ATTEMPTS):
            try:
                grow(url, part)
                break
            except urllib.error.HTTPError as error:
                error.close()
                if error.code < 500 or attempt == ATTEMPTS - 1:
                    raise DownloadError(url, target, f"the server answered {error.code} {error.reason}") from error
            except (OSError, http.client.HTTPException) as error:
                if attempt == ATTEMPTS - 1:
                    raise DownloadError(url, target, str(getattr(error, "reason", "") or error)) from error
            time.sleep(0.5 * attempt)
        try:
            check_hash(part, sha256, target.name)
        except DamagedData as error:
            discard(part)
            raise DamagedData(target, f"{error.problem}; the download from {url} was deleted") from error
        validator(part).unlink(missing_ok=True)
        os.replace(part, target)


def grow(url: str, part: Path) -> None:
    """Download what the part file lacks."""
    from tqdm import tqdm

    start = part.stat().st_size if part.exists() else 0
    headers = {"User-Agent": "natpn", "Accept-Encoding": "identity"}
    if start:
        headers["Range"] = f"bytes={start}-"
        if validator(part).exists():
            headers["If-Range"] = validator(part).read_text()
    try:
        response = urllib.request.urlopen(urllib.request.Request(url, headers=headers), timeout=TIMEOUT)
    except urllib.error.HTTPError as error:
        if error.code != 416 or not start:
            raise
        error.close()
        if error.headers.get("Content-Range") == f"bytes */{start}":
            return None  # it was complete already
        discard(part)
        return grow(url, part)
    with response:
        if response.status != 206:
            start = 0  # the server sends the whole file
        length = response.headers.get("Content-Length")
        total = start + int(length) if length else None
        tag = response.headers.get("ETag") or response.headers.get("Last-Modified")
        if tag and not tag.startswith("W/"):
            validator(part).write_text(tag)
        with (
            part.open("ab" if start else "wb") as file,
            tqdm(
                total=total, initial=start, desc=part.stem, unit="B", unit_scale=True, disable=None, leave=False
            ) as bar,
        ):
            while block := response.read(BLOCK):
                file.write(block)
                bar.update(len(block))
            size = file.tell()
    if total is not None and size < total:
        raise ConnectionError(f"the connection ended after {size:,} of {total:,} bytes")
    return None


def validator(part: Path) -> Path:
    """Return the path of the file that holds the server's version tag."""
    return part.with_name(f"{part.name}.version")


def discard(part: Path) -> None:
    """Delete a part file and its version."""
    part.unlink(missing_ok=True)
    validator(part).unlink(missing_ok=True)


@contextlib.contextmanager
def alone(part: Path) -> Iterator[None]:
    """Lock the part file against other processes; the lock ends with the process, however that ends."""
    try:
        import fcntl
    except ImportError:  # Windows: there the part file cannot be renamed while another process writes to it
        yield
        return
    lock = part.with_name(f"{part.name}.lock")
    with lock.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
        lock.unlink(missing_ok=True)


class DownloadError(OSError):
    """A download did not succeed."""

    def __init__(self, url: str, target: Path, problem: str) -> None:
        self.url, self.target, self.problem = url, target, problem
        super().__init__(
            f"{url} could not be downloaded: {problem}. Try again later, which continues the download, or fetch it by "
            f"hand and put it at {target}."
        )

    def __reduce__(self) -> tuple[type, tuple[object, ...]]:
        return type(self), (self.url, self.target, self.problem)
