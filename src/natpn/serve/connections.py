"""Connections: how long a client may keep the server waiting, and how many may be open.

A connection is closed if its request does not come in time, if the head of it is too large, or if its answer is not
taken in time. If there are too many, the one that has kept the server waiting longest is closed; a request that is
being answered is never cut short. So silent clients, however many, do not lock out others.
"""

import asyncio
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

HEAD_SECONDS = 5.0
# The application gives a body less time and answers 408; this is for bodies that it does not read.
REQUEST_SECONDS = 45.0
ANSWER_SECONDS = 120.0
HEAD_BYTES = 2**16


class Connection(HttpToolsProtocol):
    """uvicorn's protocol with limits; `limit_concurrency` of its settings is how many connections may be open.

    uvicorn would refuse requests beyond that number, those for `/health` too; here the oldest connection that waits for
    its client goes instead.
    """

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._limit, self.limit_concurrency = self.limit_concurrency, None
        self._reading: asyncio.TimerHandle | None = None  # runs while a request is awaited or comes in
        self._writing: asyncio.TimerHandle | None = None
        self._since = 0.0
        self._answered = False
        self._loose = 0  # bytes that are neither a whole head nor a part of a body

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Start the clock, and make room."""
        super().connection_made(transport)
        self._since = self.loop.time()
        self._await(HEAD_SECONDS)
        if self._limit is not None and len(self.connections) > self._limit:
            self._make_room()

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop the clocks."""
        super().connection_lost(exc)
        for timer in (self._reading, self._writing):
            if timer is not None:
                timer.cancel()

    def data_received(self, data: bytes) -> None:
        """Take bytes, and refuse a head that is too large."""
        if self._reading is None:
            self._await(HEAD_SECONDS)
        self._loose += len(data)
        super().data_received(data)
        if self._loose > HEAD_BYTES and not self.transport.is_closing():
            self.send_400_response(f"The head of a request may have {HEAD_BYTES} bytes, this has more.")

    def on_message_begin(self) -> None:
        """Start the clock for a request that follows another in the same bytes."""
        super().on_message_begin()
        if self._reading is None:
            self._await(HEAD_SECONDS)

    def on_headers_complete(self) -> None:
        """Start the clock for the body."""
        self._loose = 0
        self._await(REQUEST_SECONDS)
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        """Take a part of the body."""
        self._loose = 0
        super().on_body(body)

    def on_message_complete(self) -> None:
        """Stop the clock while the server answers."""
        self._loose = 0
        if self._reading is not None:
            self._reading.cancel()
            self._reading = None
        super().on_message_complete()

    def on_response_complete(self) -> None:
        """Start the clock for the client to take the answer."""
        self._since = self.loop.time()
        self._answered = True
        if self._writing is None and self.transport.get_write_buffer_size():
            self._writing = self.loop.call_later(ANSWER_SECONDS, self._stop_writing)
        super().on_response_complete()

    def _await(self, seconds: float) -> None:
        if self._reading is not None:
            self._reading.cancel()
        self._reading = self.loop.call_later(seconds, self._stop_reading)

    def _stop_reading(self) -> None:
        if self.flow.read_paused:  # the server did not listen: a request before this one is still being answered
            self._await(REQUEST_SECONDS)
        else:
            self.transport.abort()

    def _stop_writing(self) -> None:
        self._writing = None
        if self.transport.get_write_buffer_size():
            self.transport.abort()

    def _is_answering(self) -> bool:
        """Whether a whole request is here and its answer is not yet written."""
        cycle = self.cycle
        return bool(self.pipeline) or not (cycle is None or cycle.response_complete or cycle.more_body)

    def _make_room(self) -> None:
        """Close the connection that has waited for its client longest, those first that never asked anything."""
        waiting = [
            connection
            for connection in self.connections
            if isinstance(connection, Connection) and connection is not self and not connection._is_answering()
        ]
        if waiting:
            oldest = min(waiting, key=lambda connection: (connection._answered, connection._since))
            self.connections.discard(oldest)  # it is removed only in the next turn of the loop
            oldest.transport.abort()
