"""The bytes of a file: looked at before they are read, unpacked from gzip and zip files, and turned into UTF-8."""

import codecs
import contextlib
import gzip
import io
import os
import stat
import sys
import tempfile
import zipfile
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import IO, Any

from natpn.choices import listed
from natpn.cli.printing import Problem, of_system

GZIP, ZIP = b"\x1f\x8b", b"PK"
_PART = 1 << 20


class Stream(io.RawIOBase):
    """Bytes that a function hands out in parts.

    Args:
        part: Returns about as many of the next bytes as it is asked for, and none at the end.
    """

    def __init__(self, part: Callable[[int], bytes]) -> None:
        self._part, self._left, self._position = part, b"", 0

    def readable(self) -> bool:
        """Say that it can be read."""
        return True

    def tell(self) -> int:
        """Return how many bytes have been read."""
        return self._position

    def peek(self, size: int) -> bytes:
        """Return the next bytes and leave them to be read: as many as asked for, fewer only at the end."""
        while len(self._left) < size and (part := self._part(size - len(self._left))):
            self._left += part
        return self._left[:size]

    def read(self, size: int = -1) -> bytes:
        """Return as many bytes as asked for, fewer only at the end, all that are left if the size is negative."""
        parts, wanted = [], sys.maxsize if size < 0 else size
        while wanted and (part := self._left or self._part(min(wanted, _PART))):
            parts.append(part[:wanted])
            self._left = part[wanted:]
            wanted -= len(parts[-1])
        whole = b"".join(parts)
        self._position += len(whole)
        return whole

    def readinto(self, buffer: Any) -> int:
        """Fill a buffer as far as there is something, and return how far."""
        part = self.read(len(buffer))
        buffer[: len(part)] = part
        return len(part)


@dataclass(frozen=True)
class Content:
    """What a file holds, unpacked.

    Attributes:
        stream: Its bytes, to be read once.
        on_disk: Returns them as a file that can be read from its end.
        size: How many there are; None if that is not known.
        is_excel: Whether it is an Excel file.
    """

    stream: Stream
    on_disk: Callable[[], IO[bytes]]
    size: int | None = None
    is_excel: bool = False


def check_data(*paths: str | None) -> None:
    """Refuse directories in place of files, before they are compared with places to write to."""
    for path in paths:
        if path is not None and os.path.isdir(path):
            raise Problem(f"{path} is a directory; name a CSV, Parquet or Excel file in it.")


def as_input(path: str) -> str:
    """Return a name for the operating system, whose standard input may be a file too."""
    return "/dev/stdin" if path == "-" else path


def open_content(path: str, name: str, stack: contextlib.ExitStack) -> Content:
    """Open a file and unpack it if it is packed.

    Args:
        path: The file, "-" for standard input.
        name: What errors call it.
        stack: Closes what is opened.

    Raises:
        Problem: If it cannot be opened or unpacked.
    """
    raw = _open(path, stack)
    stream = Stream(raw.read)
    head = stream.peek(8)

    def on_disk() -> IO[bytes]:
        if path == "-" or not raw.seekable():
            return _copied(stream, stack)
        raw.seek(0)
        return raw

    if head.startswith(GZIP):
        unpacked = _unpacked(gzip.GzipFile(fileobj=stream), name, "gzip")
    elif head.startswith(ZIP):
        disk = on_disk()
        try:
            archive = stack.enter_context(zipfile.ZipFile(disk))
        except (zipfile.BadZipFile, OSError, ValueError) as error:
            raise _damaged(name, "zip", error) from None
        if "xl/workbook.xml" in archive.namelist():
            return Content(stream, lambda: disk, is_excel=True)
        unpacked = _only_file(archive, name)
    else:
        is_file = path != "-" and stat.S_ISREG(os.stat(path).st_mode)
        return Content(stream, on_disk, os.stat(path).st_size if is_file else None)
    return Content(unpacked, lambda: _copied(unpacked, stack))


def in_utf8(stream: Stream, encoding: str, name: str) -> Stream:
    """Return text of another encoding as UTF-8.

    Raises:
        Problem: When bytes are read that are not of that encoding.
    """
    if codecs.lookup(encoding).name == "utf-8":
        return stream
    decoder = codecs.getincrementaldecoder(encoding)()

    def part(size: int) -> bytes:
        text, raw = "", b"?"
        while raw and not text:  # a part of a character is no text yet
            raw = stream.read(max(size, 16))
            try:
                text = decoder.decode(raw, final=not raw)
            except UnicodeError:
                before = max(stream.tell() - len(raw), 0)
                raise Problem(
                    f"{name}: after byte {before:,} it is not text in {encoding}; say another --encoding."
                ) from None
        return text.encode()

    return Stream(part)


def _open(path: str, stack: contextlib.ExitStack) -> IO[bytes]:
    if path == "-":
        return sys.stdin.buffer
    check_data(path)
    try:
        return stack.enter_context(open(path, "rb"))
    except OSError as error:
        raise of_system(error, path) from None


def _copied(stream: Stream, stack: contextlib.ExitStack) -> IO[bytes]:
    """Return a stream as a file on the disk, for what is read from its end."""
    copy = stack.enter_context(tempfile.TemporaryFile())  # noqa: SIM115
    while part := stream.read(_PART):
        copy.write(part)
    copy.seek(0)
    return copy


def _only_file(archive: zipfile.ZipFile, name: str) -> Stream:
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
        return _unpacked(archive.open(files[0]), name, "zip")
    except (zipfile.BadZipFile, NotImplementedError) as error:
        raise _damaged(name, "zip", error) from None


def _is_hidden(path: str) -> bool:
    """Say whether a file is one that macOS puts beside others."""
    return path.startswith("__MACOSX/") or path.rsplit("/", 1)[-1].startswith(".")


def _unpacked(file: IO[bytes] | gzip.GzipFile, name: str, form: str) -> Stream:
    """Return what a packed file holds; damage is found when it is read."""

    def part(size: int) -> bytes:
        try:
            return file.read(size)
        except (EOFError, OSError, zlib.error, zipfile.BadZipFile) as error:
            raise _damaged(name, form, error) from None

    return Stream(part)


def _damaged(name: str, form: str, error: Exception) -> Problem:
    return Problem(f"{name} is a {form} file that was cut short or damaged ({error}); write or copy it again.")
