"""Data of flats, and servers in a thread of the tests, on a real socket."""

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import httpx
import numpy as np
import pandas as pd
import uvicorn


def flats(n: int = 400) -> tuple[pd.DataFrame, Any]:
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(
        {
            "area": rng.uniform(30, 150, n).round(1),
            "rooms": rng.integers(1, 6, n),
            "district": rng.choice(["old town", "harbour", "hills"], n),
            "garden": rng.random(n) < 0.3,
            "built": pd.Timestamp("1950-01-01") + pd.to_timedelta(rng.integers(0, 25_000, n), unit="D"),
        }
    )
    frame.loc[::9, "area"] = np.nan
    rent = 200 + 9 * frame["area"].fillna(80) + 150 * (frame["district"] == "hills") + 15 * rng.normal(size=n)
    return frame, rent


def row(**changes: Any) -> dict[str, Any]:
    """A usual row of the flats."""
    usual = {"area": 80, "rooms": 3, "district": "hills", "garden": False, "built": "1980-05-01"}
    return usual | changes


@contextmanager
def serving(app: Any, **options: Any) -> Iterator[str]:
    """Serve an application in a thread with uvicorn's options, and give its address."""
    listener = socket.create_server(("127.0.0.1", 0))
    options = {"log_level": "critical", "access_log": False, "timeout_keep_alive": 75} | options
    server = uvicorn.Server(uvicorn.Config(app, **options))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, daemon=True)
    thread.start()
    while not server.started:
        time.sleep(0.01)
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join(10)
        listener.close()


@contextmanager
def client_of(app: Any, **options: Any) -> Iterator[httpx.Client]:
    with serving(app) as address, httpx.Client(base_url=address, trust_env=False, timeout=30, **options) as client:
        yield client
