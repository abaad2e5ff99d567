"""The same runs on a Ray cluster of this machine."""

import os
import warnings
from pathlib import Path

import pytest

from natpn_paper.experiments import read_lines, run_all

ROOT = Path(__file__).parents[3]


@pytest.fixture
def cluster(monkeypatch):
    """Two workers that find natpn and the tests; ports are chosen by Ray, so that clusters do not meet."""
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    monkeypatch.setenv("RAY_USAGE_STATS_ENABLED", "0")
    monkeypatch.setenv("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(str(ROOT / folder) for folder in ("src", "paper/src", "tests")))
    monkeypatch.setenv("SMALL_BAD", "Dropout")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of Ray's own
        import ray

        ray.init(
            address="local",
            num_cpus=2,
            include_dashboard=False,
            log_to_driver=False,
            object_store_memory=100 * 1024**2,
            configure_logging=False,
        )
        yield ray
        ray.shutdown()


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_a_cluster_makes_the_same_lines(small, cluster, tmp_path):
    path, told = tmp_path / "results.jsonl", []
    assert run_all(small.runs(2), path, backend="ray", on_result=told.append) == 2
    assert [str(line["error"]) for line in told if "error" in line] == ["AwkwardError: this and that"] * 2
    lines = {(line["model"], line["seed"]): line for line in read_lines(path)}
    assert set(lines) == {(model, seed) for model in ("NatPN", "NatPN (paper)") for seed in (0, 1)}
    assert lines["NatPN", 1]["scores"]["Accuracy"] == 15.0
