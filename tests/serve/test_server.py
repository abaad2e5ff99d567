"""The process: many clients at once, an end that finishes what was begun, and errors before it starts."""

import gc
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import numpy as np
import pytest
import torch

import natpn
import natpn.serve
from natpn.serve import server

CODE = "import sys, natpn.serve; natpn.serve.run(sys.argv[1], port=0)"
NAMES = ["x0", "x1", "x2", "x3"]


@pytest.fixture(scope="module")
def saved(classifier, tmp_path_factory):
    place = tmp_path_factory.mktemp("served") / "model"
    classifier.save(place)
    return place


@pytest.fixture(scope="module")
def process(saved):
    environment = {**os.environ, "PYTHONPATH": str(Path(natpn.__file__).parent.parent), "OMP_NUM_THREADS": "1"}
    started = subprocess.Popen(
        [sys.executable, "-c", CODE, str(saved)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment,
    )
    line = started.stdout.readline()
    started.address = line.partition(" at ")[2].partition("/ (")[0]
    assert started.address.startswith("http://127.0.0.1:"), line
    yield started
    started.kill()
    started.communicate()


def test_64_clients_get_what_the_model_says(process, classifier):
    X = np.random.default_rng(2).normal(size=(64, 10, 4)) * np.linspace(1, 5, 64)[:, None, None]
    expected = classifier.predict_frame(X.reshape(-1, 4))
    probabilities = expected[["p_high", "p_low", "p_mid"]].to_numpy().reshape(64, 10, 3)
    familiarity = expected["familiarity"].to_numpy().reshape(64, 10)
    barrier = threading.Barrier(64)

    def client(k):
        with httpx.Client(base_url=process.address, trust_env=False, timeout=60) as connection:
            barrier.wait()
            answers = [connection.post("/predict", json=dict(zip(NAMES, x, strict=True))).json() for x in X[k].tolist()]
        return [list(a["probabilities"].values()) for a in answers], [a["familiarity"] for a in answers]

    with ThreadPoolExecutor(64) as pool:
        for k, (shares, weights) in enumerate(pool.map(client, range(64))):
            np.testing.assert_allclose(shares, probabilities[k], rtol=1e-9)
            np.testing.assert_allclose(weights, familiarity[k], rtol=1e-9)
    text = httpx.get(process.address + "/metrics", trust_env=False).text
    batches = float(text.partition("\nnatpn_batches_total ")[2].partition("\n")[0])
    assert "\nnatpn_rows_total 640\n" in text
    assert batches < 400


def test_sigterm_finishes_open_requests(process):
    """The last test of the process."""
    url = httpx.URL(process.address)
    body = b'{"x0": 1, "x1": 1, "x2": 1, "x3": 1}'
    with socket.create_connection((url.host, url.port)) as connection:
        connection.settimeout(20)
        head = (
            b"POST /predict HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"
        )
        connection.sendall(head % len(body) + body[:10])
        assert httpx.get(process.address + "/health", trust_env=False).status_code == 200  # so the first is being read
        process.send_signal(signal.SIGTERM)
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(0.5)
        with pytest.raises(OSError, match=r"refused|reset"):
            socket.create_connection((url.host, url.port)).recv(1)
        connection.sendall(body[10:])
        answer = b"".join(iter(lambda: connection.recv(65536), b""))
    assert answer.startswith(b"HTTP/1.1 200")
    assert b'"probabilities"' in answer
    assert "Traceback" not in process.communicate(timeout=20)[1]


def test_ctrl_c_stops_it(saved, capfd):
    """In this process, whose settings `run` changes for the server."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]

    def interrupt():
        while True:
            try:
                assert httpx.get(f"http://127.0.0.1:{port}/health", trust_env=False).status_code == 200
            except httpx.ConnectError:
                time.sleep(0.05)
            else:
                break
        os.kill(os.getpid(), signal.SIGINT)

    turn, threads = sys.getswitchinterval(), torch.get_num_threads()
    thread = threading.Thread(target=interrupt, daemon=True)
    thread.start()
    try:
        natpn.serve.run(saved, port=port)
    finally:
        gc.unfreeze()
        sys.setswitchinterval(turn)
        torch.set_num_threads(threads)
    output, errors = capfd.readouterr()
    assert output.endswith("(Ctrl-C stops it)\nStopped.\n")
    assert "Traceback" not in errors


def test_a_port_that_is_taken(saved):
    with socket.create_server(("127.0.0.1", 0)) as taken, pytest.raises(OSError, match="in use"):
        natpn.serve.run(saved, port=taken.getsockname()[1])


def test_no_model(tmp_path):
    with pytest.raises(FileNotFoundError, match="no model there"):
        natpn.serve.run(tmp_path)


@pytest.mark.parametrize(
    ("host", "loopback"),
    [("127.0.0.1", True), ("localhost", True), ("::1", True), ("0.0.0.0", False), ("example.org", False)],
)
def test_who_can_reach_it(host, loopback):
    assert server._is_loopback(host) is loopback
