"""Whatever is sent, the answer is a sentence with the field and the cure, and the server lives on."""

import socket
import time

import httpx
import numpy as np
import pytest

from natpn.serve import bodies, create_app
from serve.serving import client_of, row, serving

JSON = {"content-type": "application/json"}
CSV = {"content-type": "text/csv"}
HEADER = "area,rooms,district,garden,built\n"


@pytest.mark.parametrize(
    ("body", "status", "field", "words"),
    [
        (b"", 400, None, "Send an object"),
        (b"{", 400, None, "not JSON"),
        (b'{"area": NaN}', 400, None, "write null"),
        (b'{"area": -Infinity}', 400, None, "write null"),
        (b"\xff\xfe", 400, None, "not JSON"),
        (b"[" * 100_000, 400, None, "not JSON"),
        (b"5", 422, None, "Expected an object"),
        (b"[1, 2]", 422, None, '{"rows": ['),
        (b"{}", 422, "area", "Missing features: 'area', 'rooms'"),
        (b'{"rows": []}', 422, "rows", "at least one row"),
        (b'{"rows": 3}', 422, "rows", "Unknown features: 'rows'"),
    ],
)
def test_bad_json(client, body, status, field, words):
    answer = client.post("/predict", content=body, headers=JSON)
    assert (answer.status_code, answer.json()["field"]) == (status, field)
    assert words in answer.json()["error"]


@pytest.mark.parametrize(
    ("changes", "field", "words"),
    [
        ({"area": "large"}, "area", "'large' is not a finite number"),
        ({"area": True}, "area", "expected a number"),
        ({"area": [80]}, "area", "got list"),
        ({"area": {"value": 80}}, "area", "got dict"),
        ({"district": 5}, "district", "expected a text, got 5"),
        ({"district": True}, "district", "expected a text"),
        ({"garden": 1}, "garden", "expected true or false"),
        ({"garden": "yes"}, "garden", "expected true or false"),
        ({"built": "yesterday"}, "built", "such as 2024-12-31"),
        ({"built": 1980}, "built", "such as 2024-12-31"),
        ({"built": "2000-01-01T00:00:00Z"}, "built", "without a time zone"),
        ({"aera": 80}, "aera", "Unknown features"),
        ({"x" * 5000: 1}, "x" * 5000, "Leave it out"),
    ],
)
def test_bad_values_name_the_field_and_the_row(client, changes, field, words):
    alone = client.post("/predict", json=row(**changes))
    assert (alone.status_code, alone.json()["field"], alone.json()["row"]) == (422, field, None)
    assert words in alone.json()["error"]
    assert len(alone.json()["error"]) < 500
    second = client.post("/predict", json={"rows": [row(), row(**changes)]})
    assert (second.status_code, second.json()["field"], second.json()["row"]) == (422, field, 1)
    assert "row 1" in second.json()["error"]


def test_a_misspelt_feature_is_recognised(client):
    wrong = row()
    wrong["aera"] = wrong.pop("area")
    assert "Did you mean 'area'?" in client.post("/predict", json=wrong).json()["error"]


def test_numbers_beyond_float64(client):
    for number in ("1e999", "1" + "0" * 400):
        body = f'{{"area": {number}, "rooms": 1, "district": "hills", "garden": true, "built": null}}'
        answer = client.post("/predict", content=body, headers=JSON)
        assert answer.status_code in (400, 422), number
    assert client.post("/predict", json=row(area=1.7e308)).json()["novel"]


@pytest.mark.parametrize(
    ("text", "status", "field", "words"),
    [
        ("", 422, "area", "Missing features"),
        (HEADER, 422, None, "no rows"),
        ("area,rooms\n1,2\n", 422, "district", "Missing features"),
        (HEADER.replace("area", "aera") + "1,2,a,true,2000-01-01\n", 422, "aera", "Did you mean 'area'"),
        ("area," + HEADER + "1,1,2,a,true,2000-01-01\n", 422, "area", "twice"),
        (HEADER + "1,2,a\n", 422, None, "3 cells"),
        (HEADER + "80,3,hills,true,2000-01-01\nlarge,2,a,true,2000-01-01\n", 422, "area", "in row 1"),
        (HEADER + "inf,2,a,true,2000-01-01\n", 422, "area", "leave the cell empty"),
        (HEADER + "1,2,a,maybe,2000-01-01\n", 422, "garden", "true or false"),
        (HEADER + "1,2,a,true,soon\n", 422, "built", "2024-12-31"),
        (HEADER + '1,2,"a,true,2000-01-01\n', 400, None, "cannot be read"),
        (HEADER.encode() + b"1,2,\xff,true,2000-01-01\n", 400, None, "UTF-8"),
    ],
)
def test_bad_csv(client, text, status, field, words):
    answer = client.post("/predict", content=text, headers=CSV)
    assert (answer.status_code, answer.json()["field"]) == (status, field)
    assert words in answer.json()["error"]


def test_empty_cells_and_blank_lines_are_fine(client):
    answer = client.post("/predict", content=HEADER + "\n,3,hills,FALSE,\r\n\n", headers=CSV)
    assert len(answer.json()["rows"]) == 1


@pytest.mark.parametrize("kind", [None, "text/plain", "application/xml", "application/json; charset=latin-1", "json"])
def test_other_content_types(client, kind):
    headers = {} if kind is None else {"content-type": kind}
    answer = client.post("/predict", content=b"{}", headers=headers)
    assert answer.status_code == 415
    assert "application/json or text/csv" in answer.json()["error"]


def test_unknown_paths_and_methods(client):
    assert (client.get("/nothing").status_code, client.get("/predict").status_code) == (404, 405)
    assert "/predict" in client.get("/nothing").json()["error"]
    assert client.post("/predict?curve=perhaps", json=row()).json()["field"] == "curve"
    assert client.post("/predict?curve=true", json={"rows": [row()] * 101}).status_code == 413


@pytest.fixture(scope="module")
def small(classifier):
    with client_of(create_app(classifier, max_body=1_000, max_rows=3)) as client:
        yield client


def test_too_many_rows(small):
    good = dict.fromkeys(["x0", "x1", "x2", "x3"], 0)
    assert small.post("/predict", json={"rows": [good] * 3}).status_code == 200
    answer = small.post("/predict", json={"rows": [good] * 4})
    assert answer.status_code == 413
    assert "At most 3 rows" in answer.json()["error"]
    assert small.post("/predict", content="x0,x1,x2,x3\n" + "1,2,3,4\n" * 4, headers=CSV).status_code == 413


def test_too_large_a_body_by_its_length(small):
    answer = small.post("/predict", content=b" " * 1_001, headers=JSON)
    assert answer.status_code == 413
    assert "1000 bytes" in answer.json()["error"]


def test_too_large_a_body_in_chunks_without_a_length(small):
    """A body without end: the server answers after the limit, and stops reading."""
    sent = 0
    with socket.create_connection((small.base_url.host, small.base_url.port)) as connection:
        connection.settimeout(10)
        connection.sendall(
            b"POST /predict HTTP/1.1\r\nHost: localhost\r\n"
            b"Content-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"
        )
        chunk = b"400\r\n" + b" " * 0x400 + b"\r\n"
        answer = b""
        try:
            for _ in range(1_000_000):  # 10⁹ bytes, if the server let them in
                connection.sendall(chunk)
                sent += len(chunk)
                if sent > 4_000 and not answer:
                    answer = connection.recv(65536)
        except OSError:
            # the server hung up while more was sent; what it said before can still be read
            answer = answer or connection.recv(65536)
        assert answer.startswith(b"HTTP/1.1 413")
        assert b"1000 bytes" in answer
    assert sent < 10_000_000
    assert small.get("/health").status_code == 200


def test_large_bodies_together_are_limited(classifier, monkeypatch):
    monkeypatch.setattr(bodies, "HELD", 2)
    head = b"POST /predict HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 900\r\n\r\n"
    with serving(create_app(classifier, max_body=1_000)) as address:
        place = (httpx.URL(address).host, httpx.URL(address).port)
        waiting = [socket.create_connection(place) for _ in range(2)]
        for connection in waiting:
            connection.sendall(head + b" " * 899)
        time.sleep(0.2)
        with socket.create_connection(place) as third:
            third.sendall(head + b" " * 900)
            assert third.recv(1000).startswith(b"HTTP/1.1 503")
        for connection in waiting:
            connection.close()
        time.sleep(0.2)
        assert httpx.post(address + "/predict", content=b" " * 900, headers=JSON, trust_env=False).status_code == 400


def test_a_body_that_never_comes(classifier, monkeypatch):
    monkeypatch.setattr(bodies, "BODY_SECONDS", 0.2)
    head = b"POST /predict HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 9\r\n\r\n{"
    with serving(create_app(classifier)) as address, socket.socket() as connection:
        connection.settimeout(10)
        connection.connect((httpx.URL(address).host, httpx.URL(address).port))
        connection.sendall(head)
        assert connection.recv(1000).startswith(b"HTTP/1.1 408")


def test_a_fault_of_the_server_shows_no_traceback(classifier, monkeypatch):
    app = create_app(classifier)
    monkeypatch.setattr(type(classifier.model_), "_see", lambda *_: 1 / 0)
    with client_of(app) as client:
        answer = client.post("/predict", json=dict.fromkeys(["x0", "x1", "x2", "x3"], 0))
        assert client.get("/health").json() == {"status": "ok"}
    assert answer.status_code == 500
    assert answer.json()["error"] == "Something went wrong in the server. Its log says what."


def test_a_token(classifier):
    good = dict.fromkeys(["x0", "x1", "x2", "x3"], 0)
    with client_of(create_app(classifier, token="s3cret")) as client:
        for path in ("/model", "/metrics", "/openapi.json", "/nothing"):
            assert client.get(path).status_code == 401, path
        refused = client.post("/predict", json=good)
        assert refused.status_code == 401
        assert refused.headers["www-authenticate"] == "Bearer"
        assert "Authorization: Bearer" in refused.json()["error"]
        for wrong in ("Bearer secret", "Basic s3cret", "s3cret", "Bearer", "Bearer s3cret2", "Bearer é".encode()):
            assert client.post("/predict", json=good, headers={"authorization": wrong}).status_code == 401, wrong
        right = {"authorization": "Bearer s3cret"}
        assert client.post("/predict", json=good, headers=right).status_code == 200
        assert client.get("/openapi.json", headers=right).json()["security"] == [{"token": []}]
        assert client.get("/health").status_code == client.get("/").status_code == 200


@pytest.mark.parametrize("options", [{"token": ""}, {"token": "two words"}, {"max_body": 0}, {"max_rows": -1}])
def test_bad_options(classifier, options):
    with pytest.raises(ValueError, match=next(iter(options))):
        create_app(classifier, **options)


def test_nothing_is_nan_in_metrics_after_errors(client):
    assert "nan" not in client.get("/metrics").text.lower()
    assert np.isfinite(float(client.get("/metrics").text.split()[-1]))
