"""Streams of bytes: read ahead, unpacked from gzip and zip files, and from other encodings to UTF-8."""

import codecs
import contextlib
import gzip
import io
import tempfile
import zipfile
import zlib
from collections.abc import Callable
from typing import IO, Any

from natpn.cli.problems import Problem, listed

GZIP, ZIP = b"\x1f\x8b", b"PK"
_PART = 1 << 20


class Stream(io.RawIOBase):
    """What was read ahead, and then the rest."""

    def __init__(self, head: bytes, rest: Callable[[int], bytes]) -> None:
        self._head, self._rest, self._position = head, rest, 0

    def readable(self) -> bool:
        """Say that it can be read."""
        return True

    def tell(self) -> int:
        """Return how many bytes have been read."""
        return self._position

    def read(self, size: int = -1) -> bytes:
        """Return as many bytes as asked for, fewer only at the end, all that are left if the size is negative."""
        parts, wanted = [self._head[:size] if size >= 0 else self._head], size
        self._head = self._head[len(parts[0]) :]
        wanted -= len(parts[0])
        while (size < 0 or wanted > 0) and (part := self._rest(_PART if size < 0 else wanted)):
            parts.append(part)
            wanted -= len(part)
        whole = b"".join(parts)
        self._position += len(whole)
        return whole

    def readinto(self, buffer: Any) -> int:
        """Fill a buffer as far as there is something, and return how far."""
        part = self.read(len(buffer))
        buffer[: len(part)] = part
        return len(part)


def in_utf8(file: Stream, encoding: str, name: str) -> Stream:
    """Return text of another encoding as UTF-8.

    Raises:
        Problem: When bytes are read that are not of that encoding.
    """
    decoder = codecs.getincrementaldecoder(encoding)()

    def rest(size: int) -> bytes:
        text, part = "", b"?"
        while part and not text:  # a part of a character is no text yet
            part = file.read(max(size, 16))
            try:
                text = decoder.decode(part, final=not part)
            except UnicodeError:
                before = max(file.tell() - len(part), 0)
                raise Problem(
                    f"{name}: after byte {before:,} it is not text in {encoding}; say another --encoding."
                ) from None
        return text.encode()

    # What is decoded may be longer than what was asked for; the next call has the rest.
    return _Buffered(rest)


class _Buffered(Stream):
    """Parts of any length, handed out as they are asked for."""

    def __init__(self, part: Callable[[int], bytes]) -> None:
        super().__init__(b"", self._some)
        self._part, self._left = part, b""

    def _some(self, size: int) -> bytes:
        found = self._left or self._part(size)
        self._left = found[size:]
        return found[:size]


def unpacked_gzip(file: Stream, name: str) -> Stream:
    """Return what a gzip file holds.

    Raises:
        Problem: When a part is read that is damaged.
    """
    return _guarded(gzip.GzipFile(fileobj=file), name, "gzip")


def unpacked_zip(archive: zipfile.ZipFile, name: str) -> Stream:
    """Return the one file that a zip file holds.

    Raises:
        Problem: If there is another number of them, it has a password, or it is damaged.
    """
    files = [one for one in archive.infolist() if not one.is_dir() and not _is_hidden(one.filename)]
    if len(files) != 1:
        held = f"holds {len(files)} files, {listed([one.filename for one in files])}" if files else "holds no file"
        raise Problem(f"{name} {held}; expected one: unpack it and name the file to read.")
    if files[0].flag_bits & 1:
        raise Problem(f"{name} has a password; unpack it and name the file to read.")
    try:
        return _guarded(archive.open(files[0]), name, "zip")
    except (zipfile.BadZipFile, NotImplementedError) as error:
        raise _damaged(name, "zip", error) from None


def open_zip(file: IO[bytes], name: str) -> zipfile.ZipFile:
    """Open a zip file, which must be seekable.

    Raises:
        Problem: If it is damaged.
    """
    try:
        return zipfile.ZipFile(file)
    except (zipfile.BadZipFile, OSError, ValueError) as error:
        raise _damaged(name, "zip", error) from None


def seekable(file: Stream, stack: contextlib.ExitStack) -> IO[bytes]:
    """Return a stream as a file on the disk, for what is read from its end."""
    spool = stack.enter_context(tempfile.TemporaryFile())  # noqa: SIM115
    while part := file.read(_PART):
        spool.write(part)
    spool.seek(0)
    return spool


def _guarded(file: IO[bytes] | gzip.GzipFile, name: str, form: str) -> Stream:
    """Return a stream whose damage is said in one sentence."""

    def rest(size: int) -> bytes:
        try:
            return file.read(size)
        except (EOFError, OSError, zlib.error, zipfile.BadZipFile) as error:
            raise _damaged(name, form, error) from None

    return Stream(b"", rest)


def _damaged(name: str, form: str, error: Exception) -> Problem:
    return Problem(f"{name} is a {form} file that was cut short or damaged ({error}); write or copy it again.")


def _is_hidden(path: str) -> bool:
    """Say whether a file is one that macOS puts beside others."""
    return path.startswith("__MACOSX/") or path.rsplit("/", 1)[-1].startswith(".")
