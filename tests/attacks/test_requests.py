"""Requests made to cost much, to reach a server from another site, or to run in a spreadsheet."""

import json
import os
import shutil
import subprocess
import threading
import time
from pathlib import Path

import httpx
import pyarrow as pa
import pytest
from click.testing import CliRunner

import natpn
from attacks.served import CSV, JSON, MODEL, ROW, megabytes, server_process
from natpn.cli import cli
from natpn.cli.writing import TableWriter
from natpn.serve import create_app
from serve.serving import client_of

MEBI = 2**20
SIZE = 16 * MEBI - 100
LARGE = {  # made when they are sent: together they have 128 MB
    "lists": (JSON, lambda: b"[" + b"[]," * (SIZE // 3) + b"[]]"),
    "objects": (JSON, lambda: b"[" + b"{}," * (SIZE // 3) + b"{}]"),
    "rows": (JSON, lambda: b'{"rows":[' + b"[]," * (SIZE // 3) + b"[]]}"),
    "deep lists": (JSON, lambda: b'{"rows":[' + b",".join([b"[" * 1000 + b"]" * 1000] * 8_000) + b"]}"),
    "texts": (JSON, lambda: b"[" + b'"a",' * (SIZE // 4) + b"1]"),
    "keys": (JSON, lambda: b"{" + b",".join(b'"%x":1' % i for i in range(1_300_000)) + b"}"),
    "cells": (CSV, lambda: b"," * SIZE),
    "a wide row": (CSV, lambda: b"number,colour,truth\n" + b"a," * (SIZE // 2)),
}


@pytest.fixture(scope="module")
def model():
    return natpn.load(MODEL)


@pytest.fixture(scope="module")
def client(model):
    with client_of(create_app(model)) as client:
        yield client


def test_what_is_large_and_nothing_is_refused_before_it_is_parsed(tally):
    """No one waits for it, and it takes no more memory than its bytes and a few copies of them."""
    waited, stop = [0.0], threading.Event()
    with server_process() as (address, pid), httpx.Client(base_url=address, trust_env=False, timeout=60) as client:
        assert client.post("/predict", json=ROW).status_code == 200
        before = megabytes(pid, "VmRSS")

        def other():
            with httpx.Client(base_url=address, trust_env=False, timeout=60) as one:
                while not stop.is_set():
                    start = time.monotonic()
                    assert one.get("/health").status_code == 200
                    waited.append(time.monotonic() - start)
                    time.sleep(0.01)

        thread = threading.Thread(target=other)
        thread.start()
        try:
            for name, (headers, body) in LARGE.items():
                answer = client.post("/predict", content=body(), headers=headers)
                assert (answer.status_code, "need no more" in answer.json()["error"]) == (413, True), name
                tally(tried=1, refused=1)
        finally:
            stop.set()
            thread.join()
        assert max(waited) < 1
        assert megabytes(pid, "VmHWM") - before < 200


def test_brackets_and_commas_in_texts_are_no_structure(client, tally):
    strange = '[{,,\\"]' * 20
    rows = [ROW | {"colour": strange}] * 20_000
    answer = client.post("/predict", json={"rows": rows})
    assert (answer.status_code, len(answer.json()["rows"])) == (200, 20_000)
    cells = '"' + strange.replace('"', '""') + '"'
    text = "number,colour,truth\n" + f"0.3,{cells},true\n" * 20_000
    assert len(client.post("/predict", content=text, headers=CSV).json()["rows"]) == 20_000
    tally(tried=2, answered=2)


@pytest.mark.parametrize("sign", ["\u2028", "\x0b", "\x1c", "\x85"])
def test_only_ends_of_lines_end_a_row(client, tally, sign):
    """Python knows more ends of lines than CSV has."""
    answer = client.post("/predict", content=f"number,colour,truth\n1,re{sign}d,true\n".encode(), headers=CSV)
    assert (answer.status_code, len(answer.json().get("rows", []))) == (200, 1)
    tally(tried=1, answered=1)


HOSTS = {
    "localhost": True,
    "LOCALHOST:8000": True,
    "127.0.0.1": True,
    "127.0.0.1:80": True,
    "[::1]": True,
    "[::1]:8000": True,
    "192.168.0.7:8000": True,
    "rent.example": True,
    "rent.example.:443": True,
    "evil.example": False,
    "evil.example:8000": False,
    "localhost.evil.example": False,
    "127.0.0.1.evil.example": False,
    "evil.rent.example": False,
    "[evil.example]": False,
    "": False,
}


@pytest.fixture(scope="module")
def named(model):
    with client_of(create_app(model, allow_hosts=["Rent.example"])) as client:
        yield client


@pytest.mark.parametrize("path", ["/", "/health", "/model", "/predict"])
@pytest.mark.parametrize("host", HOSTS)
def test_a_name_of_another_site_is_not_answered(named, tally, host, path):
    """A page there could have its name lead here, and read what this server says to its visitor."""
    method = "POST" if path == "/predict" else "GET"
    answer = named.request(method, path, json=ROW, headers={"host": host})
    assert answer.status_code == (200 if HOSTS[host] else 421)
    if not HOSTS[host]:
        assert answer.json()["error"].startswith("Host: expected")
        assert "--allow-host" in answer.json()["error"]
    tally(tried=1, refused=int(not HOSTS[host]), answered=int(HOSTS[host]))


def test_with_a_token_every_name_will_do(model):
    right = {"host": "rent.example", "authorization": "Bearer s3cret"}
    with client_of(create_app(model, token="s3cret")) as client:
        assert client.post("/predict", json=ROW, headers=right).status_code == 200
    with client_of(create_app(model, token="s3cret", allow_hosts=["other.example"])) as client:
        assert client.post("/predict", json=ROW, headers=right).status_code == 421


@pytest.mark.parametrize("arguments", [[], ["--token", ""]])
def test_an_empty_token_opens_no_server(monkeypatch, tally, arguments):
    monkeypatch.setenv("NATPN_TOKEN", "")
    monkeypatch.setattr("natpn.serve.server.uvicorn.Server.run", lambda *_, **__: None)
    result = CliRunner().invoke(cli, ["serve", str(MODEL), "--port", "0", *arguments])
    assert result.exit_code == 2, result.output
    assert "token" in result.stderr.lower()
    assert "natpn serves" not in result.output
    tally(tried=1, refused=1)


FORMULAS = ["=1+1", "+cmd|' /C calc'!A0", "-2+3", "@SUM(A1)", "\t=1", "\r=1", "\n=1", "=", "-", "-a7", "+49 30 1"]
PLAIN = ["f1", "a=1", "-3.5", "-7", "+12", "1e-9", "-1.5e+3", "'quoted", "", "5-3", "−3"]


def test_texts_that_a_spreadsheet_would_run(tmp_path, tally):
    """They are written after an apostrophe; numbers stay what they are."""
    texts = FORMULAS + PLAIN
    table = pa.table({
        "=name": texts,
        "label": pa.array(texts).dictionary_encode(),
        "large": pa.array(texts, pa.large_string()),
        "number": [-3.5] * len(texts),
    })  # fmt: skip
    with (tmp_path / "out.csv").open("wb") as file, TableWriter(file, parquet=False) as writer:
        writer.write(table)
    import csv

    with (tmp_path / "out.csv").open(newline="") as file:
        header, *rows = csv.reader(file)
    assert header == ["'=name", "label", "large", "number"]
    expected = [f"'{text}" for text in FORMULAS] + PLAIN
    for place in range(3):
        assert [row[place] for row in rows] == expected
    assert {row[3] for row in rows} == {"-3.5"}
    tally(tried=3 * len(texts), refused=3 * len(FORMULAS), answered=3 * len(PLAIN))


def test_ids_in_the_predictions(tmp_path, tally):
    """As CSV they are safe to open; as Parquet they are as they came."""
    data = tmp_path / "new.csv"
    data.write_text("id,number,colour,truth\n=1+1,1,red,true\n-7,1,red,true\n")
    for form, first in (("csv", "'=1+1"), ("parquet", "=1+1")):
        out = tmp_path / f"out.{form}"
        result = CliRunner().invoke(cli, ["predict", str(MODEL), str(data), "--id", "id", "--out", str(out)])
        assert result.exit_code == 0, result.output
        if form == "csv":
            ids = [line.split(",")[0] for line in out.read_text().splitlines()[1:]]
        else:
            import pyarrow.parquet as pq

            ids = pq.read_table(out)["id"].to_pylist()
        assert ids == [first, "-7"]
    tally(tried=2, refused=1, answered=1)


@pytest.mark.skipif(
    shutil.which("node") is None, reason="node is not installed; tests/serve/test_page.py has a browser"
)
def test_the_page_writes_cells_likewise(tally):
    script = (Path(natpn.__file__).parent / "serve" / "page" / "rows.js").read_text()
    function = script[script.index("function csvCell") : script.index("function list")]
    code = (
        f"{function};console.log(JSON.stringify({json.dumps(FORMULAS + PLAIN)}.map(csvCell).concat([csvCell(-3.5)])))"
    )
    done = subprocess.run(["node", "-e", code], capture_output=True, text=True, check=True, env=dict(os.environ))
    cells = json.loads(done.stdout)
    expected = [f'"\'{t}"' if any(c in t for c in '",\r\n') else f"'{t}" for t in FORMULAS]
    assert cells == [*expected, *PLAIN, "-3.5"]
    tally(tried=len(FORMULAS + PLAIN), refused=len(FORMULAS), answered=len(PLAIN))
