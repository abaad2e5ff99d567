"""The server process: one socket, one model, and an orderly end."""

import contextlib
import gc
import ipaddress
import socket
import sys
from collections.abc import Iterable
from os import PathLike

import torch
import uvicorn

from natpn.estimators.loading import load_with_table
from natpn.serve.app import MAX_BODY, MAX_ROWS, create_app
from natpn.serve.connections import Connection
from natpn.tabular.texts import Written

_SHUTDOWN_SECONDS = 60
_CONNECTIONS = 2_000
_OTHER_FILES = 100  # open files besides connections
# Longer than clients keep a connection, or a request could arrive while the server closes it.
_KEEP_ALIVE = 75
# The event loop and the predictions take turns; by default each may keep the other waiting for 5 ms.
_TURN = 0.001


def run(
    directory: str | PathLike[str],
    *,
    host: str = "127.0.0.1",
    port: int = 8000,
    token: str | None = None,
    max_body: int = MAX_BODY,
    max_rows: int = MAX_ROWS,
    allow_hosts: Iterable[str] = (),
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

    Raises:
        FileNotFoundError: If there is no model.
        ValueError: If the model cannot be read, or an argument is wrong.
        OSError: If the address is taken or is not one of this machine.
    """
    hosts = tuple(allow_hosts)
    names = hosts if token and not hosts else (host, *hosts)
    model, table = load_with_table(directory)
    app = create_app(
        model,
        token=token,
        max_body=max_body,
        max_rows=max_rows,
        allow_hosts=names,
        written=Written.of_table(table),
    )
    torch.set_num_threads(1)  # batches are small, and the other cores are left to others
    sys.setswitchinterval(_TURN)
    gc.collect()
    gc.freeze()  # what exists now stays: collecting it again and again would stop the server for 100 ms each time
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.create_server((host, port), family=family, backlog=2048) as listener:
        shown = f"[{host}]" if ":" in host else host
        print(f"natpn serves {directory} at http://{shown}:{listener.getsockname()[1]}/ (Ctrl-C stops it)", flush=True)
        if token is None and not _is_loopback(host):
            print(
                "Anyone who reaches this address can ask: a token would ask who they are.", file=sys.stderr, flush=True
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
        with contextlib.suppress(KeyboardInterrupt):
            uvicorn.Server(config).run(sockets=[listener])
        print("Stopped.", flush=True)


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
