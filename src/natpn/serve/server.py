"""The server: one model, one process or several, connections with limits, and an orderly end.

A connection is closed if its request does not come in time, if the head of it is too large, or if its answer is not
taken in time. If there are too many, the one that has kept the server waiting longest is closed; a request that is
being answered is never cut short. So silent clients, however many, do not lock out others.
"""

import asyncio
import contextlib
import gc
import ipaddress
import itertools
import os
import sys
from collections.abc import Iterable
from os import PathLike
from typing import Any

import torch
import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from natpn.estimators.loading import load_saved
from natpn.estimators.saving import save
from natpn.model.files import check
from natpn.serve.app import MAX_BODY, MAX_ROWS, create_app
from natpn.serve.identity import Identity
from natpn.serve.metrics import Metrics
from natpn.serve.workers import Workers, check_workers, has_parent, listening
from natpn.tabular.texts import Written

HEAD_SECONDS = 5.0
# The application gives a body less time and answers 408; this is for bodies that it does not read.
REQUEST_SECONDS = 45.0
ANSWER_SECONDS = 120.0
HEAD_BYTES = 2**16
_SHUTDOWN_SECONDS = 60
_CONNECTIONS = 2_000
_OTHER_FILES = 100  # open files besides connections
# Longer than clients keep a connection, or a request could arrive while the server closes it.
_KEEP_ALIVE = 75
# The event loop and the predictions take turns; by default each may keep the other waiting for 5 ms.
_TURN = 0.001
_PLACES = itertools.count()  # the loop's clock has one time for all connections that come in one turn of it


def run(
    directory: str | PathLike[str],
    *,
    host: str = "127.0.0.1",
    port: int = 8000,
    token: str | None = None,
    max_body: int = MAX_BODY,
    max_rows: int = MAX_ROWS,
    allow_hosts: Iterable[str] = (),
    workers: int = 1,
    access_log: bool = False,
    learn: bool = False,
    learn_to: str | PathLike[str] | None = None,
) -> None:
    """Serve the model in a directory until SIGTERM or Ctrl-C, and print the address.

    Args:
        directory: What `save` wrote.
        host: The address to bind to; by default only this machine can reach it.
        port: The port; 0 takes a free one.
        token: What clients must send as `Authorization: Bearer …`; None asks for nothing.
        max_body: How many bytes a body may have.
        max_rows: How many rows a request may have.
        allow_hosts: Names by which the server may be asked, besides addresses, localhost and `host`, as a proxy before
            it has one. With a token and no names here, every name will do.
        workers: How many processes answer, at the same port. The model is loaded once.
        access_log: Whether to write a line to standard output for each request.
        learn: Whether the model learns from `POST /feedback`.
        learn_to: Where a model is saved each time it has learned; by default nowhere, and what it learned ends with the
            server.

    Raises:
        FileNotFoundError: If there is no model.
        ValueError: If the model cannot be read, or an argument is wrong.
        OSError: If the address is taken or is not one of this machine.
    """
    check_workers(workers)
    hosts = tuple(allow_hosts)
    names = hosts if token and not hosts else (host, *hosts)
    torch.set_num_threads(1)  # batches are small, and the other cores are left to others
    if learn_to is not None:
        check(learn_to)
    saved = load_saved(directory)
    app = create_app(
        saved.estimator,
        token=token,
        max_body=max_body,
        max_rows=max_rows,
        allow_hosts=names,
        written=Written.of_table(saved.table),
        identity=Identity.of(saved, directory),
        dropped=saved.dropped,
        access_log=access_log,
        workers=workers,
        learn=learn or learn_to is not None,
        keep=None if learn_to is None else lambda model: save(model, learn_to, saved.table),
    )
    config = uvicorn.Config(
        app,
        log_level="warning",
        access_log=False,
        server_header=False,
        http=Connection,
        limit_concurrency=_connections(),
        timeout_graceful_shutdown=_SHUTDOWN_SECONDS,
        timeout_keep_alive=_KEEP_ALIVE,
    )
    config.load()  # so that all is imported before there are copies
    sys.setswitchinterval(_TURN)
    gc.collect()
    gc.freeze()  # what exists now stays: collecting it again and again would stop the server for 100 ms each time
    with listening(host, port, workers) as listeners:
        shown = f"[{host}]" if ":" in host else host
        address = f"http://{shown}:{listeners[0].getsockname()[1]}/"
        by = f" with {workers} workers" if workers > 1 else ""
        print(f"natpn serves {directory} at {address} (Ctrl-C stops it){by}", flush=True)
        if token is None and not _is_loopback(host):
            print(
                "Anyone who reaches this address can ask: a token would ask who they are.", file=sys.stderr, flush=True
            )
        with contextlib.suppress(KeyboardInterrupt):
            if workers == 1:
                uvicorn.Server(config).run(sockets=[listeners[0]])
            else:
                parent = os.getpid()
                Workers(
                    lambda listener: Worker(config, app.metrics, parent).run(sockets=[listener]),
                    listeners,
                    app.metrics,
                    _SHUTDOWN_SECONDS + 10,
                ).run()
        print("Stopped.", flush=True)


class Worker(uvicorn.Server):
    """One of several servers: it ends if the process that started it is gone, and sends what it saw to the alarm.

    Args:
        config: Its settings.
        metrics: Where it counts.
        parent: The process that started it.
    """

    def __init__(self, config: uvicorn.Config, metrics: Metrics, parent: int) -> None:
        super().__init__(config)
        self._metrics, self._parent = metrics, parent

    async def on_tick(self, counter: int) -> bool:
        """Say whether it is to end; called ten times a second."""
        if counter % 10 == 0:
            self._metrics.drift.flush()
        return await super().on_tick(counter) or not has_parent(self._parent)


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
        self._place = 0  # in the order in which connections began to wait for their clients
        self._answered = False
        self._loose = 0  # bytes that are neither a whole head nor a part of a body

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Start the clock, and make room."""
        super().connection_made(transport)
        self._place = next(_PLACES)
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
        self._place = next(_PLACES)
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
            oldest = min(waiting, key=lambda connection: (connection._answered, connection._place))
            self.connections.discard(oldest)  # it is removed only in the next turn of the loop
            oldest.transport.abort()


def _connections() -> int:
    """Return how many connections may be open, after raising the limit of open files as far as the system allows."""
    try:
        import resource
    except ImportError:  # Windows has no such limit
        return _CONNECTIONS
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _CONNECTIONS + _OTHER_FILES
    if soft != resource.RLIM_INFINITY and soft < wanted:
        soft = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        with contextlib.suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        soft = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return _CONNECTIONS if soft == resource.RLIM_INFINITY else max(1, min(_CONNECTIONS, soft - _OTHER_FILES))


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
