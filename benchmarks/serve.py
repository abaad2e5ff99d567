"""How fast the server answers single rows over loopback, and whether every answer equals the model's in process.

    python benchmarks/serve.py [--requests 100000] [--seconds 60] [--columns mixed]

There are 1, 16 and 64 clients, each with its own connection, on which it waits for an answer before it asks again. The
run ends after the given number of requests in all, or after the given seconds for each number of clients, whichever
comes first. The clients share the machine with the server. Goals on 2 cores: at least 1,000 requests a second, p99 of
at most 50 ms at 16 clients, no wrong answer in 100,000.
"""

import argparse
import asyncio
import math
import subprocess
import sys
import tempfile
import time
from typing import Any

import numpy as np
import orjson
import pandas as pd
import torch

from natpn import NatPNRegressor, load

CLIENTS = (1, 16, 64)
DISTINCT = 1_000


def problem(kind: str, n: int, seed: int) -> tuple[pd.DataFrame, np.ndarray]:
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame({f"x{i}": rng.normal(size=n) for i in range(8)})
    y = (frame["x0"] * frame["x1"] + rng.normal(size=n) / 4).to_numpy()
    if kind == "mixed":
        frame["x6"] = rng.choice(["red", "green", "blue"], n)
        frame["x7"] = rng.random(n) < 0.3
    return frame, y


def expected(model: NatPNRegressor, rows: pd.DataFrame) -> list[dict[str, Any]]:
    """Return the model's answers in process, one row at a time, and print how long that takes."""
    model.predict_frame(rows.iloc[[0]])
    start = time.perf_counter()
    frames = [model.predict_frame(rows.iloc[[i]]) for i in range(len(rows))]
    seconds = (time.perf_counter() - start) / len(rows)
    print(f"in process, predict_frame a row: {1 / seconds:5.0f} a second, {1e3 * seconds:.1f} ms each")
    answers: list[dict[str, Any]] = pd.concat(frames).to_dict("records")
    start = time.perf_counter()
    model.predict_frame(rows)
    print(f"in process, all rows at once:    {len(rows) / (time.perf_counter() - start):5.0f} rows a second")
    return answers


def is_wrong(got: dict[str, Any], right: dict[str, Any]) -> bool:
    if got.keys() != right.keys():
        return True
    for name, value in right.items():
        if isinstance(value, float) and math.isfinite(value):
            if got[name] is None or not math.isclose(got[name], value, rel_tol=1e-9, abs_tol=1e-12):
                return True
        elif got[name] != (None if isinstance(value, float) else value):
            return True
    return False


async def client(
    port: int, requests: list[bytes], right: list[dict[str, Any]], work: "list[int]", end: float, times: list[float]
) -> int:
    """Ask until the work or the time is up; return the number of wrong answers."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    wrong = 0
    while work[0] > 0 and time.perf_counter() < end:
        work[0] -= 1
        place = work[0] % len(requests)
        start = time.perf_counter()
        writer.write(requests[place])
        head = await reader.readuntil(b"\r\n\r\n")
        length = int(head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0])
        body = await reader.readexactly(length)
        times.append(time.perf_counter() - start)
        wrong += not head.startswith(b"HTTP/1.1 200") or is_wrong(orjson.loads(body), right[place])
    writer.close()
    return wrong


async def load_server(port: int, rows: pd.DataFrame, right: list[dict[str, Any]], count: int, seconds: float) -> None:
    bodies = [orjson.dumps(row) for row in rows.to_dict("records")]
    requests = [
        b"POST /predict HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%b"
        % (len(body), body)
        for body in bodies
    ]
    left, wrong, asked = count, 0, 0
    for number in CLIENTS:
        work = [max(left // (len(CLIENTS) - CLIENTS.index(number)), 1)]
        times: list[float] = []
        start = time.perf_counter()
        tasks = [client(port, requests, right, work, start + seconds, times) for _ in range(number)]
        wrong += sum(await asyncio.gather(*tasks))
        took = time.perf_counter() - start
        left, asked = left - len(times), asked + len(times)
        p50, p99 = 1e3 * np.quantile(times, [0.5, 0.99])
        print(
            f"{number:>2} clients: {len(times) / took:6.0f} requests a second, p50 {p50:5.1f} ms, p99 {p99:5.1f} ms "
            f"({len(times)} requests)",
            flush=True,
        )
    print(f"wrong answers: {wrong} of {asked}")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--requests", type=int, default=100_000)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--columns", choices=["numbers", "mixed"], default="numbers")
    options = parser.parse_args()
    torch.set_num_threads(1)
    frame, y = problem(options.columns, 2_000, 0)
    rows, _ = problem(options.columns, DISTINCT, 1)
    rows.loc[::20, "x0"] *= 20
    with tempfile.TemporaryDirectory() as place:
        NatPNRegressor(max_epochs=20, random_state=0).fit(frame, y).save(f"{place}/model")
        right = expected(load(f"{place}/model"), rows)
        code = "import sys, natpn.serve; natpn.serve.run(sys.argv[1], port=0)"
        server = subprocess.Popen([sys.executable, "-c", code, f"{place}/model"], stdout=subprocess.PIPE, text=True)
        try:
            line = server.stdout.readline() if server.stdout else ""
            port = int(line.rpartition("/ (")[0].rpartition(":")[2])
            asyncio.run(load_server(port, rows, right, options.requests, options.seconds))
        finally:
            server.terminate()
            server.wait()


if __name__ == "__main__":
    main()
