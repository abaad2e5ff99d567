"""Bodies of requests: of a limited number of bytes, in a limited time, and not too many at once."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from starlette.requests import Request

from natpn.serve.packing import PIECE, Unpacker
from natpn.serve.request_rows import RequestError, header

BODY_SECONDS = 30.0
# All bodies in memory together may be this many times the limit of one.
HELD = 16


class Bodies:
    """Reads bodies.

    Args:
        limit: How many bytes a body may have, packed and unpacked.
    """

    def __init__(self, limit: int) -> None:
        self._limit, self._held = limit, 0

    @asynccontextmanager
    async def read(self, request: Request) -> AsyncIterator[bytes]:
        """Yield the body, unpacked, and count its bytes while it is in use."""
        pieces: list[bytes] = []
        came = size = 0
        try:
            async with asyncio.timeout(BODY_SECONDS):
                if int(header(request.scope, b"content-length") or 0) > self._limit:
                    raise self._too_large()
                unpacker = Unpacker(header(request.scope, b"content-encoding"))
                async for chunk in request.stream():
                    came += len(chunk)
                    for piece in unpacker.unpack(chunk):
                        if len(piece) == PIECE:  # there may be many, and others wait
                            await asyncio.sleep(0)
                        size += len(piece)
                        self._held += len(piece)
                        if max(came, size) > self._limit:
                            raise self._too_large()
                        if self._held > HELD * self._limit:
                            raise RequestError(503, "Too many large requests are open. Try again in a second.")
                        pieces.append(piece)
                unpacker.finish()
            yield b"".join(pieces)
        except TimeoutError:
            raise RequestError(408, f"The body did not arrive within {BODY_SECONDS:g} s. Send it again.") from None
        finally:
            self._held -= size

    def _too_large(self) -> RequestError:
        return RequestError(413, f"A body may have {self._limit} bytes, this has more. Send it in several requests.")
