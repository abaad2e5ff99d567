"""Metrics count what happened, and drift shows."""

import platform
import re
from importlib.metadata import version

import numpy as np
import pytest

from natpn.model import DriftAlarm
from natpn.serve import create_app
from natpn.serve.metrics import MEMORY, Metrics
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


def test_drift_is_told_as_json_and_values_that_people_try_out_are_not_watched(regressor):
    with client_of(create_app(regressor)) as client:
        for _ in range(60):
            client.post("/predict?curve=true", json=row(area=1e6))
        quiet = client.get("/drift").json()
        client.post("/predict", json={"rows": [row(area=1e6)] * 60})
        drifted = client.get("/drift").json()
    assert quiet == {"raised": False, "martingale": 1.0, "level": 0.01, "rows": 0}
    assert drifted["raised"]
    assert drifted["martingale"] > 100
    assert drifted["rows"] == 60


def test_drift_raises_the_alarm(regressor):
    with client_of(create_app(regressor)) as client:
        client.post("/predict", json=row())
        assert values(client.get("/metrics").text)["natpn_drift_alarm"] == 0
        client.post("/predict", json={"rows": [row(area=1e6)] * 60})
        got = values(client.get("/metrics").text)
    assert got["natpn_drift_alarm"] == 1
    assert got["natpn_drift_martingale"] > 100


def test_latencies_and_rows_fall_into_buckets():
    metrics = Metrics(["/predict"], DriftAlarm())
    for seconds in (0.0005, 0.001, 0.002, 99.0):
        metrics.begin()
        metrics.end("/predict", 200, seconds)
    for count in (1, 3, 200_000):
        metrics.rows([answer()] * count)
    got = values(metrics.text())
    bucket = 'natpn_request_seconds_bucket{{path="/predict",le="{}"}}'
    assert [got[bucket.format(bound)] for bound in ("0.001", "0.0025", "10.0", "+Inf")] == [2, 3, 3, 4]
    bucket = 'natpn_request_rows_bucket{{le="{}"}}'
    assert [got[bucket.format(bound)] for bound in ("1", "2", "5", "100000", "+Inf")] == [1, 1, 2, 2, 3]
    assert got["natpn_request_rows_sum"] == 200_004


def answer(novel=False, familiarity=1.0):
    return {"novel": novel, "familiarity": familiarity, "epistemic": 0.0}


def test_running_means_forget():
    metrics = Metrics([], DriftAlarm())
    metrics.rows([answer(True)] * 10)
    metrics.rows([answer(False)] * 10)
    assert values(metrics.text())["natpn_novel_share"] == pytest.approx(0.5)
    for _ in range(10 * MEMORY):
        metrics.rows([answer(familiarity=0.25)])
    got = values(metrics.text())
    assert got["natpn_familiarity_mean"] == pytest.approx(0.25, abs=1e-3)
    assert got["natpn_novel_share"] == pytest.approx(0, abs=1e-3)
    metrics.rows([answer(familiarity=0.75)] * 5 * MEMORY)
    assert values(metrics.text())["natpn_familiarity_mean"] == 0.75


def test_what_workers_count_is_added_up():
    metrics = Metrics(["/predict"], DriftAlarm(), workers=3)
    for worker in range(3):
        metrics.work_as(worker)
        for _ in range(worker + 1):
            metrics.begin()
        metrics.end("/predict", 200, 0.01)
        metrics.rows([answer(worker == 0, worker / 2)] * 10 * (worker + 1))
        metrics.batch()
    got = values(metrics.text())
    assert got['natpn_requests_total{path="/predict",status="200"}'] == 3
    assert got['natpn_request_seconds_count{path="/predict"}'] == 3
    assert got["natpn_rows_total"] == got["natpn_request_rows_sum"] == 60
    assert got["natpn_novel_rows_total"] == 10
    assert got["natpn_novel_share"] == pytest.approx(10 / 60)
    assert got["natpn_familiarity_mean"] == pytest.approx((20 * 0.5 + 30 * 1.0) / 60)
    assert got["natpn_batches_total"] == 3
    assert got["natpn_open_requests"] == 0 + 1 + 2
    metrics.work_as(2)  # after the third has died
    assert values(metrics.text())["natpn_open_requests"] == 1


def test_one_alarm_sees_the_rows_of_all_workers():
    lot = np.random.default_rng(0)
    reference, rows = lot.normal(size=500), lot.normal(size=3_000) - np.repeat([0.0, 2.0], 1_500)
    alone = DriftAlarm(reference).see(rows)
    metrics = Metrics([], DriftAlarm(reference), workers=2)
    for worker, part in enumerate(np.split(rows, 2)):
        metrics.work_as(worker)
        metrics.rows([answer() | {"epistemic": -score} for score in part.tolist()])
        metrics.drift.flush()
    assert values(metrics.text())["natpn_drift_rows_total"] == 0  # the first process has not looked yet
    metrics.drift.collect()
    got = values(metrics.text())
    assert got["natpn_drift_rows_total"] == 3_000
    assert got["natpn_drift_alarm"] == alone.is_raised == 1
    assert got["natpn_drift_martingale"] == pytest.approx(alone.value)


def test_scores_that_no_one_takes_wait_but_do_not_fill_memory():
    metrics = Metrics([], DriftAlarm(), workers=2)
    for _ in range(50):
        metrics.rows([answer()] * 10_000)
    seen = -1
    while seen < metrics.drift.n_rows:
        seen = metrics.drift.n_rows
        metrics.drift.flush()
        metrics.drift.collect()
    assert 100_000 <= seen < 130_000


def test_names_are_escaped():
    text = Metrics([], DriftAlarm(), {"name": 'a"b\\c\nd'}).text()
    assert 'natpn_model_info{name="a\\"b\\\\c\\nd"} 1\n' in text


def test_the_build_and_the_model_are_named(client):
    text = client.get("/metrics").text
    assert f'natpn_build_info{{version="{version("natpn")}",python="{platform.python_version()}"}} 1' in text
    assert 'natpn_model_info{name="model",version="",target=""} 1' in text
    for line in text.splitlines():
        if line.startswith("# TYPE "):
            name, kind = line.split()[2:]
            assert name.startswith("natpn_")
            assert (kind == "counter") == name.endswith("_total")
