"""The process that serves: one socket, one model, and an end that finishes what was begun."""

import contextlib
import gc
import ipaddress
import socket
import sys
from os import PathLike

import torch
import uvicorn

from natpn.estimators import load
from natpn.serve.app import MAX_BODY, MAX_ROWS, create_app

_SHUTDOWN_SECONDS = 60
_CONNECTIONS = 1_000
# Longer than clients keep a connection: one that asks while the server hangs up would get no answer.
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
) -> None:
    """Serve the model in a directory until SIGTERM or Ctrl-C, and print the address.

    Args:
        directory: What `save` wrote.
        host: The address to bind to; by default only this machine can reach it.
        port: The port; 0 takes a free one.
        token: What clients must send as `Authorization: Bearer …`; None asks for nothing.
        max_body: How many bytes a body may have.
        max_rows: How many rows a request may have.

    Raises:
        FileNotFoundError: If there is no model.
        ValueError: If the model cannot be read, or an argument is wrong.
        OSError: If the address is taken or is not one of this machine.
    """
    app = create_app(load(directory), token=token, max_body=max_body, max_rows=max_rows)
    torch.set_num_threads(1)  # rows are few, and the other cores are for others
    sys.setswitchinterval(_TURN)
    gc.collect()
    gc.freeze()  # what is here stays; to look through all of it again and again would stop the server for 100 ms
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
            limit_concurrency=_CONNECTIONS,
            timeout_graceful_shutdown=_SHUTDOWN_SECONDS,
            timeout_keep_alive=_KEEP_ALIVE,
        )
        with contextlib.suppress(KeyboardInterrupt):
            uvicorn.Server(config).run(sockets=[listener])
        print("Stopped.", flush=True)


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
