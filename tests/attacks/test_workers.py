"""Several processes at one port: they answer as one, and the death of one is not noticed."""

import os
import re
import signal
import socket
import threading
import time
from contextlib import suppress
from pathlib import Path

import httpx
import pytest

import natpn
from attacks.served import MODEL, ROW, server_process
from natpn.serve.workers import check_workers, listening

pytestmark = pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="how workers are found, and ports dealt")
FAR = ROW | {"number": 1e6}


def children(pid):
    """Return the processes that one has started and that have not ended."""
    found = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            state, parent = path.read_text().rpartition(")")[2].split()[:2]
            if int(parent) == pid and state != "Z":
                found.append(int(path.parent.name))
    return sorted(found)


def until(condition, seconds=10.0):
    end = time.monotonic() + seconds
    while not (found := condition()):
        assert time.monotonic() < end
        time.sleep(0.02)
    return found


def ask(address, row=ROW):
    """Ask on a connection of its own."""
    return httpx.post(address + "/predict", json=row, trust_env=False, timeout=20)


def metrics(address):
    text = httpx.get(address + "/metrics", trust_env=False, timeout=20).text
    return {name: float(value) for name, value in re.findall(r"^(natpn_\S+) (\S+)$", text, re.MULTILINE)}


@pytest.mark.slow
def test_they_answer_as_one_and_count_as_one():
    right = natpn.load(MODEL).predict_frame(_frame([ROW]))["familiarity"][0]
    with server_process(workers=2) as (address, pid):
        first, second = until(lambda: len(found := children(pid)) == 2 and found)
        before = [_ticks(worker) for worker in (first, second)]
        for _ in range(60):
            assert ask(address).json()["familiarity"] == pytest.approx(right, rel=1e-9)
        for _ in range(40):
            assert ask(address, FAR).json()["familiarity"] < 0.01
        got = until(lambda: (found := metrics(address))["natpn_drift_rows_total"] == 100 and found)
        assert got['natpn_requests_total{path="/predict",status="200"}'] == got["natpn_rows_total"] == 100
        assert got["natpn_familiarity_total"] == pytest.approx(60 * right, rel=1e-3)
        assert got["natpn_drift_alarm"] == 1
        assert got["natpn_workers"] == 2
        # The system deals connections out, so both have worked.
        assert all(_ticks(worker) > ticks for worker, ticks in zip((first, second), before, strict=True))


def _frame(rows):
    import pandas as pd

    return pd.DataFrame(rows)


def _ticks(pid):
    """Return how long a process has worked."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return int(fields[11]) + int(fields[12])


@pytest.mark.slow
def test_one_that_is_killed_is_replaced_and_its_counts_stay(tally):
    stop, answered, refused = threading.Event(), [], []

    def client():
        while not stop.is_set():
            try:
                answered.append(ask(address).status_code)
            except httpx.TransportError as error:  # it was being answered by the one that died
                refused.append(error)

    with server_process(workers=2) as (address, pid):
        until(lambda: len(children(pid)) == 2)
        threads = [threading.Thread(target=client) for _ in range(4)]
        for thread in threads:
            thread.start()
        for _ in range(3):
            worker = children(pid)[0]
            before = len(answered)
            os.kill(worker, signal.SIGKILL)
            until(lambda worker=worker: len(found := children(pid)) == 2 and worker not in found)
            until(lambda before=before: len(answered) > before + 20)
        stop.set()
        for thread in threads:
            thread.join()
        got = metrics(address)
    assert set(answered) == {200}
    assert len(refused) <= 3 * 4  # at most what each client was waiting for
    assert got["natpn_rows_total"] >= len(answered)
    assert (got["natpn_workers"], got["natpn_worker_restarts_total"]) == (2, 3)
    assert 1 <= got["natpn_open_requests"] <= 2  # none of those that died with their workers
    tally(tried=3, answered=3)


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_the_end_finishes_open_requests_in_all_of_them(number):
    body = b'{"number": 1, "colour": "red", "truth": true}'
    head = b"POST /predict HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"
    with server_process(workers=2) as (address, pid):
        url = httpx.URL(address)
        until(lambda: len(children(pid)) == 2)
        connections = [socket.create_connection((url.host, url.port), timeout=20) for _ in range(8)]
        for connection in connections:
            connection.sendall(head % len(body) + body[:10])
        until(lambda: metrics(address)["natpn_open_requests"] == 9)
        os.kill(pid, number)
        time.sleep(0.5)
        assert os.waitpid(pid, os.WNOHANG) == (0, 0)
        with pytest.raises(OSError, match=r"refused|reset"):
            socket.create_connection((url.host, url.port)).recv(1)
        for connection in connections:
            connection.sendall(body[10:])
            answer = b"".join(iter(lambda connection=connection: connection.recv(65536), b""))
            connection.close()
            assert answer.startswith(b"HTTP/1.1 200")
        assert os.waitpid(pid, 0)[0] == pid


@pytest.mark.slow
def test_an_end_under_load_gives_whole_answers_or_none(tally):
    started, wrong = threading.Barrier(9), []

    def client():
        started.wait()
        with suppress(httpx.TransportError), httpx.Client(base_url=address, trust_env=False, timeout=20) as connection:
            while True:
                answer = connection.post("/predict", json=ROW)
                if answer.status_code != 200 or "familiarity" not in answer.json():
                    wrong.append(answer.text)

    with server_process(workers=2) as (address, pid):
        until(lambda: len(children(pid)) == 2)
        threads = [threading.Thread(target=client) for _ in range(8)]
        for thread in threads:
            thread.start()
        started.wait()
        time.sleep(0.5)
        os.kill(pid, signal.SIGTERM)
        for thread in threads:
            thread.join(20)
            assert not thread.is_alive()
        assert os.waitpid(pid, 0)[0] == pid
    assert wrong == []
    tally(tried=8, answered=8)


@pytest.mark.slow
def test_workers_end_with_the_process_that_started_them(tally):
    with server_process(workers=2) as (address, pid):
        workers = until(lambda: len(found := children(pid)) == 2 and found)
        assert ask(address).status_code == 200
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        until(lambda: not any(Path(f"/proc/{worker}").exists() and _is_ours(worker) for worker in workers))
    tally(tried=1, answered=1)


def _is_ours(pid):
    """Say whether a process still runs: where nothing reaps those without a parent, it stays in the list when dead."""
    with suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    return False


def test_a_port_that_other_workers_have():
    with listening("127.0.0.1", 0, 2) as listeners:
        ports = {listener.getsockname()[1] for listener in listeners}
        assert len(ports) == 1
        for workers in (1, 2):
            with pytest.raises(OSError, match="in use"), listening("127.0.0.1", *ports, workers):
                pass


def test_connections_wait_for_the_next_worker():
    """The system deals them out; those of a socket whose worker is gone are still there."""
    with listening("127.0.0.1", 0, 2) as listeners:
        clients = [socket.create_connection(listeners[0].getsockname()) for _ in range(40)]
        counts = []
        for listener in listeners:
            listener.settimeout(0.2)
            counts.append(0)
            with suppress(TimeoutError):
                while True:
                    listener.accept()[0].close()
                    counts[-1] += 1
        for client in clients:
            client.close()
    assert sum(counts) == 40
    assert min(counts) > 5


def test_how_many(monkeypatch):
    with pytest.raises(ValueError, match="workers: expected a number of at least 1, got 0"):
        check_workers(0)
    monkeypatch.setattr("multiprocessing.get_all_start_methods", lambda: ["spawn"])
    check_workers(1)
    with pytest.raises(ValueError, match="workers: expected 1 on this system"):
        check_workers(2)
