"""gzip, both ways: what is packed is what is meant, and no more is unpacked than a body may have."""

import gzip
import json
import time
import tracemalloc
import zlib

import httpx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from natpn.serve import create_app
from natpn.serve.packing import PIECE, Unpacker, accepts_gzip, pack
from natpn.serve.request_rows import RequestError
from serve.serving import client_of, row

JSON = {"content-type": "application/json"}
PACKED = JSON | {"content-encoding": "gzip"}


def unpacked(chunks):
    unpacker = Unpacker("gzip")
    found = b"".join(piece for chunk in chunks for piece in unpacker.unpack(chunk))
    unpacker.finish()
    return found


@settings(max_examples=60, deadline=None, derandomize=True)
@given(st.lists(st.binary(max_size=200).map(lambda text: text * 50), min_size=1, max_size=4), st.integers(1, 300))
def test_what_is_packed_comes_back_however_it_is_cut(parts, size):
    whole = b"".join(map(gzip.compress, parts))
    assert unpacked(whole[start : start + size] for start in range(0, len(whole), size)) == b"".join(parts)


@pytest.mark.parametrize("length", [PIECE - 1, PIECE, PIECE + 1, 2 * PIECE, 3 * PIECE + 7])
def test_pieces_end_anywhere(length):
    assert unpacked([gzip.compress(b"a" * length)]) == b"a" * length
    assert gzip.decompress(pack(b"a" * length)) == b"a" * length


@pytest.mark.parametrize(
    ("header", "taken"),
    [
        ("", False),
        ("gzip", True),
        ("GZIP", True),
        ("deflate, gzip;q=0.5", True),
        ("br", False),
        ("gzip;q=0", False),
        ("gzip; q=0.000, br", False),
        ("*", True),
        ("*;q=0", False),
        ("gzip;q=0, *", False),
        ("identity, *;q=0.1", True),
    ],
)
def test_who_takes_gzip(header, taken):
    assert accepts_gzip(header) is taken


def test_answers_are_packed_for_those_who_take_it(client):
    many = {"rows": [row()] * 600}  # more than is packed at once
    for path, options in (("/model", {}), ("/", {}), ("/metrics", {}), ("/openapi.json", {}), ("/predict", many)):
        plain, packed = (
            client.post(path, json=options, headers={"accept-encoding": encoding})
            if options
            else client.get(path, headers={"accept-encoding": encoding})
            for encoding in ("identity", "gzip")
        )
        assert "content-encoding" not in plain.headers, path
        assert packed.headers["content-encoding"] == "gzip"
        assert plain.headers["vary"] == packed.headers["vary"] == "accept-encoding"
        assert int(packed.headers["content-length"]) < int(plain.headers["content-length"])
        if path != "/metrics":
            assert packed.content == plain.content


def test_small_answers_are_not_packed(client):
    answer = client.post("/predict", json=row(), headers={"accept-encoding": "gzip"})
    assert "content-encoding" not in answer.headers


def test_bodies_may_be_packed(client):
    body = json.dumps(row()).encode()
    plain = client.post("/predict", content=body, headers=JSON)
    for name in ("gzip", "x-gzip", "GZip"):
        headers = JSON | {"content-encoding": name}
        assert client.post("/predict", content=gzip.compress(body), headers=headers).json() == plain.json()
    halves = gzip.compress(body[:20]) + gzip.compress(body[20:])
    assert client.post("/predict", content=halves, headers=PACKED).json() == plain.json()
    csv = b"area,rooms,district,garden,built\n80,3,hills,false,1980-05-01\n"
    headers = {"content-type": "text/csv", "content-encoding": "gzip"}
    answer = client.post("/predict", content=gzip.compress(csv), headers=headers).json()["rows"]
    assert answer[0]["prediction"] == pytest.approx(plain.json()["prediction"])


@pytest.mark.parametrize(
    ("body", "status", "words"),
    [
        (b"{}", 400, "not gzip"),
        (b"", 400, "cut short"),
        (gzip.compress(b"{}")[:-1], 400, "cut short"),
        (gzip.compress(b"{}") + b"more", 400, "not gzip"),
        (gzip.compress(b"{}" * 100)[:15] + b"\xff" * 40, 400, "not gzip"),
        (gzip.compress(b"{}")[:-8] + b"\0" * 8, 400, "incorrect data check"),
        (zlib.compress(b"{}"), 400, "not gzip"),
        (gzip.compress(b"") * 1_001, 400, "more than 1000 parts"),
        (gzip.compress(b" " * 10_000), 413, "may have 5000 bytes"),
    ],
    ids=map(str, range(9)),  # gzip writes the time into a body, whose name would differ between test processes
)
def test_bodies_that_cannot_be_unpacked(regressor, body, status, words):
    with client_of(create_app(regressor, max_body=5_000 if status == 413 else 100_000)) as client:
        answer = client.post("/predict", content=body, headers=PACKED)
        assert (answer.status_code, words in answer.json()["error"]) == (status, True), answer.text
        assert client.get("/health").status_code == 200


@pytest.mark.parametrize("encoding", ["br", "deflate", "gzip, gzip", "zip\nbomb"[:3]])
def test_other_encodings_are_refused(client, encoding):
    answer = client.post("/predict", content=b"{}", headers=JSON | {"content-encoding": encoding})
    assert answer.status_code == 415
    assert "expected gzip or none" in answer.json()["error"]


def test_a_bomb_is_not_unpacked_beyond_the_limit():
    bomb = gzip.compress(b"\0" * 30_000_000, 1)
    assert len(bomb) < 200_000
    tracemalloc.start()
    unpacker, size = Unpacker("gzip"), 0
    for piece in unpacker.unpack(bomb):
        size += len(piece)
        if size > 1_000_000:
            break
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 3_000_000


def test_others_are_answered_while_a_bomb_is_refused(regressor):
    bomb = gzip.compress(b" " * 30_000_000, 1)
    with client_of(create_app(regressor)) as client, httpx.Client(base_url=client.base_url, trust_env=False) as other:
        for _ in range(3):
            assert client.post("/predict", content=bomb, headers=PACKED).status_code == 413
            start = time.monotonic()
            assert other.get("/health").status_code == 200
            assert time.monotonic() - start < 2


def test_the_error_is_one_of_requests():
    with pytest.raises(RequestError, match="expected gzip or none, got 'br'"):
        Unpacker("br")
