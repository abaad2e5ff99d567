"""gzip, both ways: answers for clients that take it, and bodies, whose size is known only when they are unpacked.

A body of a few kilobytes may hold gigabytes. So it is unpacked in pieces as it comes, and no further than the limit.
"""

import zlib
from collections.abc import Iterator

from natpn.serve.request_rows import RequestError

LEAST = 1_024  # bytes: a smaller answer fits into a packet anyway
PIECE = 2**18  # bytes that are unpacked at once, which takes a millisecond
_LEVEL = 3
_MOST_PARTS = 1_000  # of a body: to begin one takes longer than to read its bytes
_GZIP = 16 + zlib.MAX_WBITS


def pack(content: bytes) -> bytes:
    """Return bytes packed by gzip."""
    packer = zlib.compressobj(_LEVEL, wbits=_GZIP)
    return packer.compress(content) + packer.flush()


def accepts_gzip(header: str) -> bool:
    """Say whether a client takes gzip, by its Accept-Encoding."""
    if not header:
        return False
    found = {}
    for part in header.lower().split(","):
        name, _, weight = part.partition(";")
        found[name.strip()] = weight.replace(" ", "") not in ("q=0", "q=0.0", "q=0.00", "q=0.000")
    return found.get("gzip", found.get("x-gzip", found.get("*", False)))


class Unpacker:
    """Unpacks a body that comes in chunks.

    Args:
        encoding: Its Content-Encoding; "" and "identity" are not packed.
    """

    def __init__(self, encoding: str) -> None:
        name = encoding.strip().lower()
        if name not in ("", "identity", "gzip", "x-gzip"):
            raise RequestError(
                415, f"Content-Encoding: expected gzip or none, got {encoding[:40]!r}. Send the body plain."
            )
        self._packed = name.endswith("gzip")
        if self._packed:
            self._stream, self._parts = zlib.decompressobj(_GZIP), 1

    def unpack(self, chunk: bytes) -> Iterator[bytes]:
        """Yield what a chunk holds, in pieces; parts that were packed one by one follow each other."""
        if not self._packed:
            yield chunk
            return
        while chunk:
            if self._stream.eof:
                self._stream, self._parts = zlib.decompressobj(_GZIP), self._parts + 1
                if self._parts > _MOST_PARTS:
                    raise _damaged(f"it has more than {_MOST_PARTS} parts")
            try:
                piece = self._stream.decompress(chunk, PIECE)
            except zlib.error as error:
                raise _damaged(str(error)) from None
            chunk = self._stream.unused_data if self._stream.eof else self._stream.unconsumed_tail
            yield piece

    def finish(self) -> None:
        """Raise if the body ended in the middle."""
        if self._packed and not self._stream.eof:
            raise _damaged("it was cut short")


def _damaged(why: str) -> RequestError:
    return RequestError(400, f"The body is not gzip, as its Content-Encoding says ({why}). Pack it again.")
