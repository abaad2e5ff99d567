"""How fast the server answers single rows over loopback, what that costs, and whether every answer is the model's.

    python benchmarks/serve.py [--requests 100000] [--seconds 60] [--columns mixed] [--workers 2] [--clients 1 16 64]

Each client has its own connection, on which it waits for an answer before it asks again. The run ends after the given
number of requests in all, or after the given seconds for each number of clients, whichever comes first. The clients
share the machine with the server, and it may have other work: so each line also says how many milliseconds of CPU time
all processes of the server took for a request, and how much work the machine had (the load, in cores). Goals on 2
cores: at least 1,000 requests a second and a p99 of at most 60 ms at 64 clients with two workers, and no wrong answer
in 100,000.
"""

import argparse
import asyncio
import math
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import orjson
import pandas as pd
import torch
import uvloop

from natpn import NatPNRegressor, load

CLIENTS = (1, 16, 64)
DISTINCT = 1_000
SERVER = "import sys, natpn.serve; natpn.serve.run(sys.argv[1], port=0, workers=int(sys.argv[2]))"


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
    start, used = time.perf_counter(), time.process_time()
    frames = [model.predict_frame(rows.iloc[[i]]) for i in range(len(rows))]
    seconds, used = (time.perf_counter() - start) / len(rows), (time.process_time() - used) / len(rows)
    print(f"in process, predict_frame a row: {1 / seconds:5.0f} a second, {1e3 * used:.1f} ms of CPU each")
    # Why a row is novel is said by the server only where it is asked.
    answers: list[dict[str, Any]] = pd.concat(frames).drop(columns="reason").to_dict("records")
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


class Run:
    """What clients share: what is left to ask, and what came back.

    Args:
        requests: The bytes of each distinct request.
        right: The answer to each.
        count: How many to ask.
        seconds: How long to ask.
    """

    def __init__(self, requests: list[bytes], right: list[dict[str, Any]], count: int, seconds: float) -> None:
        self.requests, self._right, self.left = requests, right, count
        self.end = time.perf_counter() + seconds
        self.times: list[float] = []
        self.wrong = self.lost = 0
        # An answer that was found right once need not be read again: a client has to be lighter than the server.
        self._known: list[set[bytes]] = [set() for _ in requests]

    def check(self, place: int, answer: bytes) -> None:
        head, _, body = answer.partition(b"\r\n\r\n")
        if body in self._known[place] and head.startswith(b"HTTP/1.1 200 "):
            return
        if not head.startswith(b"HTTP/1.1 200 ") or is_wrong(orjson.loads(body), self._right[place]):
            self.wrong += 1
        else:
            self._known[place].add(body)


class Client(asyncio.Protocol):
    """Asks, and asks again when the answer is there."""

    def __init__(self, run: Run) -> None:
        self._run, self.done = run, asyncio.get_running_loop().create_future()
        self._received, self._length = b"", 0

    def connection_made(self, transport: Any) -> None:
        self._transport = transport
        self._ask()

    def _ask(self) -> None:
        run = self._run
        if run.left <= 0 or time.perf_counter() >= run.end:
            self._transport.close()
            return
        run.left -= 1
        self._place = run.left % len(run.requests)
        self._start = time.perf_counter()
        self._transport.write(run.requests[self._place])

    def data_received(self, data: bytes) -> None:
        self._received += data
        if not self._length:
            head, found, _ = self._received.partition(b"\r\n\r\n")
            if not found:
                return
            length = head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0]
            self._length = len(head) + 4 + int(length)
        if len(self._received) >= self._length:
            self._run.times.append(time.perf_counter() - self._start)
            answer, self._received, self._length = self._received, b"", 0
            self._run.check(self._place, answer)
            self._ask()

    def connection_lost(self, error: Exception | None) -> None:
        self._run.lost += error is not None
        self.done.set_result(None)


def cpu_seconds(parent: int) -> float:
    """Return the CPU time of a process and of those that it started; 0 where the system does not tell."""
    total = 0.0
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = path.read_text().rpartition(")")[2].split()
        except OSError:  # it has just ended
            continue
        if parent in (int(path.parent.name), int(fields[1])):
            total += (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    return total


def work_of_machine() -> float:
    """Return how many cores' seconds all processes together have taken; 0 where the system does not tell."""
    try:
        user, nice, system, *_ = map(int, Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:4])
    except OSError:
        return 0.0
    return (user + nice + system) / os.sysconf("SC_CLK_TCK")


async def load_server(
    address: tuple[str, int], server: int, rows: pd.DataFrame, right: list[dict[str, Any]], options: argparse.Namespace
) -> None:
    bodies = [orjson.dumps(row) for row in rows.to_dict("records")]
    requests = [
        b"POST /predict HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%b"
        % (len(body), body)
        for body in bodies
    ]
    loop = asyncio.get_running_loop()
    left, wrong, asked = options.requests, 0, 0
    for place, number in enumerate(options.clients):
        run = Run(requests, right, max(left // (len(options.clients) - place), 1), options.seconds)
        start, used, own = time.perf_counter(), cpu_seconds(server), time.process_time()
        work = work_of_machine()
        clients = [(await loop.create_connection(lambda run=run: Client(run), *address))[1] for _ in range(number)]
        await asyncio.gather(*(client.done for client in clients))
        took, count = time.perf_counter() - start, len(run.times)
        used, own, work = cpu_seconds(server) - used, time.process_time() - own, work_of_machine() - work
        left, asked, wrong = left - count, asked + count, wrong + run.wrong + run.lost
        p50, p99 = 1e3 * np.quantile(run.times, [0.5, 0.99])
        print(
            f"{number:>2} clients: {count / took:6.0f} requests a second, p50 {p50:5.1f} ms, p99 {p99:5.1f} ms "
            f"({count} requests); CPU a request: server {1e3 * used / count:.2f} ms, client {1e3 * own / count:.2f} ms;"
            f" cores busy: {used / took:.1f} server, {own / took:.1f} client, {(work - used - own) / took:.1f} others",
            flush=True,
        )
    print(f"wrong answers: {wrong} of {asked}")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--requests", type=int, default=100_000)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--columns", choices=["numbers", "mixed"], default="numbers")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--clients", type=int, nargs="+", default=CLIENTS)
    options = parser.parse_args()
    torch.set_num_threads(1)
    frame, y = problem(options.columns, 2_000, 0)
    rows, _ = problem(options.columns, DISTINCT, 1)
    rows.loc[::20, "x0"] *= 20
    with tempfile.TemporaryDirectory() as place:
        NatPNRegressor(max_epochs=20, random_state=0).fit(frame, y).save(f"{place}/model")
        right = expected(load(f"{place}/model"), rows)
        command = [sys.executable, "-c", SERVER, f"{place}/model", str(options.workers)]
        server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        try:
            line = server.stdout.readline() if server.stdout else ""
            address = ("127.0.0.1", int(line.rpartition("/ (")[0].rpartition(":")[2]))
            uvloop.run(load_server(address, server.pid, rows, right, options))
        finally:
            server.terminate()
            server.wait()


if __name__ == "__main__":
    main()
