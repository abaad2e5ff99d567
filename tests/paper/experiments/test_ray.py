"""The same runs on a Ray cluster of this machine."""

import pytest

from clusters import two_cpus
from natpn_paper.experiments import read_lines, run_all


@pytest.fixture
def cluster():
    with two_cpus(SMALL_BAD="Dropout") as ray:
        yield ray


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_a_cluster_makes_the_same_lines(small, cluster, tmp_path):
    path, told = tmp_path / "results.jsonl", []
    assert run_all(small.runs(2), path, backend="ray", on_result=told.append) == 2
    assert [str(line["error"]) for line in told if "error" in line] == ["AwkwardError: this and that"] * 2
    lines = {(line["model"], line["seed"]): line for line in read_lines(path)}
    assert set(lines) == {(model, seed) for model in ("NatPN", "NatPN (paper)") for seed in (0, 1)}
    assert lines["NatPN", 1]["scores"]["Accuracy"] == 15.0
