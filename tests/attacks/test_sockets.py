"""Clients that say nothing, too little, too much or too slowly: others are answered meanwhile."""

import resource
import socket
import threading
import time
from contextlib import ExitStack, contextmanager, suppress

import httpx
import pytest

import natpn
from attacks.served import JSON, MODEL, ROW, server_process
from natpn.model import Model
from natpn.serve import bodies, create_app, gate, server
from natpn.serve.server import Connection
from serve.serving import serving

POST = b"POST /predict HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"


@pytest.fixture(scope="module")
def model():
    return natpn.load(MODEL)


@pytest.fixture
def many_files():
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard < 2_000:
        pytest.skip(f"this system allows {hard} open files")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, 2_000), hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@contextmanager
def connected(address, count=1):
    """Open sockets that have said nothing yet."""
    url = httpx.URL(address)
    with ExitStack() as stack:
        found = [stack.enter_context(socket.create_connection((url.host, url.port), timeout=10)) for _ in range(count)]
        yield found


def get(address, path="/health"):
    return httpx.get(address + path, trust_env=False, timeout=5).status_code


def seconds_until_closed(connection, trickle=None):
    """Wait until the server hangs up, saying a little now and then."""
    start = time.monotonic()
    connection.settimeout(0.05)
    while time.monotonic() < start + 8:
        try:
            if trickle is not None:
                connection.sendall(trickle)
            if not connection.recv(65536):
                break
        except TimeoutError:
            continue
        except OSError:
            break
    return time.monotonic() - start


@pytest.mark.parametrize("files", [512, pytest.param(20_000, marks=pytest.mark.slow)])
def test_1010_silent_sockets_stop_no_one(many_files, tally, files):
    with server_process(files) as (address, _), connected(address, 1010):
        start = time.monotonic()
        assert get(address) == 200
        assert httpx.post(address + "/predict", json=ROW, trust_env=False, timeout=5).status_code == 200
        assert time.monotonic() - start < 3
    tally(tried=1010, refused=1010)


@pytest.mark.parametrize("trickle", [None, b"x", b"\r\n"])
@pytest.mark.parametrize("head", [b"", b"GET /health HT", b"GET /health HTTP/1.1\r\nHost: localhost\r\nX: "])
def test_a_head_that_does_not_come(model, monkeypatch, tally, head, trickle):
    if head.endswith(b"X: ") and trickle == b"\r\n":
        trickle = b"y"  # an empty line would end the head
    monkeypatch.setattr(server, "HEAD_SECONDS", 0.3)
    with serving(create_app(model), http=Connection) as address, connected(address) as (connection,):
        connection.sendall(head)
        assert seconds_until_closed(connection, trickle) < 3
    tally(tried=1, refused=1)


def test_a_second_head_that_does_not_come(model, monkeypatch, tally):
    """After an answer a connection may rest, but a head that was begun has to end."""
    monkeypatch.setattr(server, "HEAD_SECONDS", 0.3)
    with serving(create_app(model), http=Connection) as address, connected(address) as (connection,):
        connection.sendall(b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert connection.recv(65536).startswith(b"HTTP/1.1 200")
        time.sleep(0.6)
        connection.sendall(b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert connection.recv(65536).startswith(b"HTTP/1.1 200")
        assert seconds_until_closed(connection, b"\r\n") < 3
    tally(tried=1, refused=1)


def test_a_body_that_trickles(model, monkeypatch, tally):
    monkeypatch.setattr(bodies, "BODY_SECONDS", 0.3)
    with serving(create_app(model), http=Connection) as address, connected(address) as (connection,):
        connection.sendall(POST % 1_000_000)
        assert seconds_until_closed(connection, b" ") < 3
    tally(tried=1, refused=1)


def test_a_body_that_no_one_reads_trickles(model, monkeypatch, tally):
    """`/health` is answered at once, and the body that follows must not keep the connection."""
    monkeypatch.setattr(server, "REQUEST_SECONDS", 0.3)
    with serving(create_app(model), http=Connection) as address, connected(address) as (connection,):
        connection.sendall(b"GET /health HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000000\r\n\r\n")
        assert seconds_until_closed(connection, b" ") < 3
    tally(tried=1, refused=1)


@pytest.mark.parametrize(
    "start",
    [
        b"GET /",
        b"GET /health HTTP/1.1\r\nX: ",
        b"GET /health HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nX: ",
    ],
    ids=["address", "header", "trailer"],
)
def test_a_head_without_end(model, tally, start):
    sent = 0
    with serving(create_app(model), http=Connection) as address, connected(address) as (connection,):
        connection.sendall(start)
        with suppress(ConnectionError):
            while sent < 50_000_000:
                connection.sendall(b"a" * 10_000)
                sent += 10_000
    assert sent < 10_000_000  # what the buffers between hold
    tally(tried=1, refused=1)


def test_beyond_the_limit_the_oldest_silent_socket_makes_room(model, tally):
    with (
        serving(create_app(model), http=Connection, limit_concurrency=20) as address,
        httpx.Client(base_url=address, trust_env=False, timeout=5) as client,
        ExitStack() as stack,
    ):
        assert client.get("/health").status_code == 200
        silent = stack.enter_context(connected(address, 60))
        assert get(address) == 200
        # The connection that was answered before them all is still there.
        assert client.get("/health").status_code == 200
        assert seconds_until_closed(silent[0]) < 1
        silent[-1].sendall(b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert silent[-1].recv(65536).startswith(b"HTTP/1.1 200")
    tally(tried=60, refused=60)


def test_a_request_that_is_being_answered_is_not_cut_short(model, monkeypatch):
    go = threading.Event()
    answers = Model.answers

    def waiting(*args):
        go.wait(10)
        return answers(*args)

    monkeypatch.setattr(Model, "answers", waiting)
    body = b'{"number": 1, "colour": "red", "truth": true}'
    with (
        serving(create_app(model), http=Connection, limit_concurrency=3) as address,
        connected(address) as (asking,),
    ):
        asking.sendall(POST % len(body) + body)
        time.sleep(0.1)
        with connected(address, 20):
            assert get(address) == 200
            go.set()
            assert asking.recv(65536).startswith(b"HTTP/1.1 200")


def test_health_answers_when_too_many_requests_are_open(model, monkeypatch, tally):
    monkeypatch.setattr(gate, "MAX_REQUESTS", 2)
    with serving(create_app(model), http=Connection) as address, connected(address, 2) as others:
        for other in others:
            other.sendall(POST % 100 + b"{")
        time.sleep(0.2)
        refused = httpx.post(address + "/predict", json=ROW, trust_env=False)
        assert (refused.status_code, refused.headers["retry-after"]) == (503, "1")
        assert "Try again" in refused.json()["error"]
        assert get(address) == 200
    tally(tried=2, refused=2)


def test_an_answer_that_no_one_takes(model, monkeypatch, tally):
    monkeypatch.setattr(server, "ANSWER_SECONDS", 0.3)
    closed = threading.Event()
    lost = Connection.connection_lost
    monkeypatch.setattr(Connection, "connection_lost", lambda *args: (lost(*args), closed.set()))
    body = b"number,colour,truth\n" + b"1,red,true\n" * 50_000
    with serving(create_app(model), http=Connection) as address, connected(address) as (connection,):
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        connection.sendall((POST % len(body)).replace(b"application/json", b"text/csv") + body)
        assert closed.wait(20)
    tally(tried=1, refused=1)


def test_a_client_that_hangs_up_is_no_fault_of_the_server(model, caplog, tally):
    with serving(create_app(model), http=Connection, log_level="info") as address:
        with connected(address) as (connection,):
            connection.sendall(POST % 100 + b"{")
            assert get(address) == 200
        time.sleep(0.2)
        text = httpx.get(address + "/metrics", trust_env=False).text
    assert [record for record in caplog.records if record.exc_info or record.levelname == "ERROR"] == []
    assert 'status="5' not in text
    assert 'natpn_requests_total{path="/predict",status="499"} 1' in text
    tally(tried=1, refused=1)


def test_hosts_are_checked_before_bodies_are_read(model, tally):
    """A refusal does not wait for the rest."""
    with serving(create_app(model), http=Connection) as address, connected(address) as (connection,):
        connection.sendall((POST % 100).replace(b"localhost", b"evil.example"))
        assert connection.recv(65536).startswith(b"HTTP/1.1 421")
    headers = {**JSON, "host": "evil.example"}
    with serving(create_app(model), http=Connection) as address:
        assert httpx.post(address + "/predict", json=ROW, headers=headers, trust_env=False).status_code == 421
    tally(tried=2, refused=2)
