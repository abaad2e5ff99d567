"""A line for each request, with nothing in it that is secret or that a client could forge."""

import re
import socket
from datetime import UTC, datetime

import httpx
import pytest

from natpn.serve import create_app
from natpn.serve.access_log import AccessLog, plain
from serve.serving import client_of, row, serving

LINE = re.compile(r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3})Z (\S+) (\S+) (\S+) (\d{3}) (\d+|-) (\d+\.\d)")


def fields(output):
    found = [LINE.fullmatch(line) for line in output.splitlines()]
    assert all(found), output
    return [match.groups() for match in found]


def test_one_line_a_request(regressor, capsys):
    with client_of(create_app(regressor, access_log=True)) as client:
        client.get("/health")
        client.post("/predict", json=row())
        client.post("/predict", json={"rows": [row()] * 3})
        client.post("/predict?coverage=2", json=row())
        client.get("/nowhere")
    found = fields(capsys.readouterr().out)
    assert [line[1:6] for line in found] == [
        ("127.0.0.1", "GET", "/health", "200", "-"),
        ("127.0.0.1", "POST", "/predict", "200", "1"),
        ("127.0.0.1", "POST", "/predict", "200", "3"),
        ("127.0.0.1", "POST", "/predict", "422", "-"),
        ("127.0.0.1", "GET", "/nowhere", "404", "-"),
    ]
    age = datetime.now(UTC) - datetime.fromisoformat(found[-1][0]).replace(tzinfo=UTC)
    assert 0 <= age.total_seconds() < 60
    assert 0 < float(found[1][6]) < 10_000


def test_no_secrets(regressor, capsys):
    with client_of(create_app(regressor, token="s3cret", access_log=True)) as client:
        client.post("/predict?key=s3cret", json=row(), headers={"authorization": "Bearer s3cret"})
        client.post("/predict", json=row() | {"s3cret": 1}, headers={"authorization": "Bearer wrong-s3cret"})
    output = capsys.readouterr().out
    assert [line[4] for line in fields(output)] == ["200", "401"]
    assert "s3cret" not in output


def test_it_is_off_unless_asked_for(client, capsys):
    client.get("/health")
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize("path", [b"/a%0A2026", b"/a\tb", b"/\xff\xfe", b"/" + b"x" * 1_000, "/ü".encode()])
def test_a_path_forges_no_line(regressor, capsys, path):
    with serving(create_app(regressor, access_log=True)) as address:
        url = httpx.URL(address)
        with socket.create_connection((url.host, url.port), timeout=10) as connection:
            connection.sendall(b"GET " + path + b" HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
            connection.recv(100)
    output = capsys.readouterr().out
    assert all(len(line[3]) < 700 and line[3].isprintable() for line in fields(output))


def test_fields_stay_fields():
    assert plain("a b\nc\x1b") == "a%20b%0Ac%1B"
    assert plain("") == "-"
    assert plain("x" * 201) == "x" * 200 + "…"


def test_a_log_that_no_one_reads_stops_nothing(monkeypatch):
    class Closed:
        def write(self, text):
            raise BrokenPipeError

    monkeypatch.setattr("sys.stdout", Closed())
    AccessLog().write({"method": "GET", "path": "/", "client": None}, 200, 0.001)
