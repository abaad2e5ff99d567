"""Metrics count what happened, and drift shows."""

import re

import pytest

from natpn.model import DriftAlarm
from natpn.serve import create_app
from natpn.serve.gate import MEMORY, Metrics, RunningMean
from serve.serving import client_of, row


def values(text):
    """Read Prometheus' text, and complain about lines that are not of its form."""
    found = {}
    for line in text.splitlines():
        if not line.startswith("# "):
            match = re.fullmatch(r'([a-z_]+(?:\{(?:[a-z]+="[^"]*",?)+\})?) ([-+.e0-9]+)', line)
            assert match, line
            found[match[1]] = float(match[2])
    return found


def test_requests_rows_and_drift_are_counted(regressor):
    with client_of(create_app(regressor)) as client:
        first = client.post("/predict", json=row()).json()
        many = client.post("/predict", json={"rows": [row(area=1e6)] * 3}).json()["rows"]
        client.post("/predict", json={})
        client.get("/secret/path?x=1")
        answer = client.get("/metrics")
    assert answer.headers["content-type"].startswith("text/plain; version=0.0.4")
    got = values(answer.text)
    assert got['natpn_requests_total{path="/predict",status="200"}'] == 2
    assert got['natpn_requests_total{path="/predict",status="422"}'] == 1
    assert got['natpn_requests_total{path="other",status="404"}'] == 1
    assert got["natpn_rows_total"] == 4
    assert got["natpn_batches_total"] == 2
    assert got["natpn_novel_rows_total"] == 3
    assert got["natpn_novel_share"] == 0.75
    total = first["familiarity"] + sum(a["familiarity"] for a in many)
    assert got["natpn_familiarity_total"] == pytest.approx(total)
    assert got["natpn_familiarity_mean"] == pytest.approx(total / 4)
    assert got['natpn_request_seconds_count{path="/predict"}'] == 3
    assert got['natpn_request_seconds_bucket{path="/predict",le="+Inf"}'] == 3
    assert got['natpn_request_seconds_sum{path="/predict"}'] > 0


def test_drift_raises_the_alarm(regressor):
    with client_of(create_app(regressor)) as client:
        client.post("/predict", json=row())
        assert values(client.get("/metrics").text)["natpn_drift_alarm"] == 0
        client.post("/predict", json={"rows": [row(area=1e6)] * 60})
        got = values(client.get("/metrics").text)
    assert got["natpn_drift_alarm"] == 1
    assert got["natpn_drift_martingale"] > 100


def test_latencies_fall_into_buckets():
    metrics = Metrics(DriftAlarm())
    for seconds in (0.0005, 0.001, 0.002, 99.0):
        metrics.request("/predict", 200, seconds)
    got = values(metrics.text(0))
    bucket = 'natpn_request_seconds_bucket{{path="/predict",le="{}"}}'
    assert [got[bucket.format(bound)] for bound in ("0.001", "0.0025", "10.0", "+Inf")] == [2, 3, 3, 4]


def test_the_running_mean_forgets():
    mean = RunningMean()
    mean.add(10.0, 10)
    mean.add(0.0, 10)
    assert mean.value == pytest.approx(0.5)
    for _ in range(10 * MEMORY):
        mean.add(0.25, 1)
    assert mean.value == pytest.approx(0.25, abs=1e-3)
    mean.add(7.0 * 5 * MEMORY, 5 * MEMORY)
    assert mean.value == 7.0
