"""Runs become lines: each once, whole, whatever happens in between."""

import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest
from click.testing import CliRunner

from natpn.cli import cli
from natpn_paper.experiments import missing, read_lines, run_all

ROOT = Path(__file__).parents[3]
PATHS = os.pathsep.join(str(ROOT / folder) for folder in ("src", "paper/src", "tests"))
COMMAND = """
from paper.experiments.small import SMALL
from natpn.cli import main
from natpn_paper.experiments import EXPERIMENTS

if __name__ == "__main__":
    EXPERIMENTS["small"] = SMALL
    main()
"""


def keys(lines):
    return Counter((line["data"], line["model"], line["seed"]) for line in lines)


def begin(directory, *arguments, **environment):
    """Start `natpn reproduce small`, with a process group of its own."""
    script = directory / "command.py"
    script.write_text(COMMAND)
    return subprocess.Popen(
        [sys.executable, script, "reproduce", "small", *map(str, arguments)],
        cwd=directory,
        env=os.environ | {"PYTHONPATH": PATHS, "OMP_NUM_THREADS": "1"} | environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def wait_for_lines(path, count):
    deadline = time.monotonic() + 60
    while not path.exists() or path.read_text().count("\n") < count:
        assert time.monotonic() < deadline, "no lines"
        time.sleep(0.05)


@pytest.mark.parametrize("jobs", [1, pytest.param(2, marks=pytest.mark.slow)])
def test_every_run_is_one_line_and_is_not_made_again(small, tmp_path, jobs):
    path, runs, told = tmp_path / "deep" / "results.jsonl", small.runs(3), []
    assert run_all(runs[:4], path, jobs, on_result=told.append) == 0
    assert len(told) == 4
    assert missing(runs, read_lines(path)) == runs[4:]
    assert run_all(missing(runs, read_lines(path)), path) == 0
    lines = read_lines(path)
    assert set(keys(lines).values()) == {1}
    assert len(lines) == len(runs) == 9
    assert missing(runs, lines) == []
    line = next(line for line in lines if (line["model"], line["seed"]) == ("NatPN", 2))
    assert line["scores"]["Brier"] == 26.0
    assert line["note"] == "made up"
    assert set(line["versions"]) == {"natpn", "torch", "python"}


def test_another_limit_or_a_quick_run_is_another_run(small, tmp_path):
    path = tmp_path / "results.jsonl"
    run_all(small.runs(1), path)
    assert len(missing(small.runs(1, limit=5), read_lines(path))) == 3
    assert len(missing(small.runs(1, epochs=5), read_lines(path))) == 3
    assert len(missing(small.runs(1, quick=True), read_lines(path))) == 3
    run_all(small.runs(1, limit=5000, epochs=7), path)
    assert read_lines(path)[-1]["note"] == "made up; at most 5,000 rows of each part; 7 epochs"


def test_lines_without_epochs_are_of_full_runs(small, tmp_path):
    path = tmp_path / "results.jsonl"
    run_all(small.runs(1), path)
    path.write_text(path.read_text().replace('"epochs": null, ', ""))
    assert missing(small.runs(1), read_lines(path)) == []


def test_a_line_that_was_cut_off_is_made_again(small, tmp_path):
    path, runs = tmp_path / "results.jsonl", small.runs(1)
    run_all(runs, path)
    whole = path.read_text()
    path.write_text(whole[:-20])
    assert len(read_lines(path)) == 2
    run_all(missing(runs, read_lines(path)), path)
    assert keys(read_lines(path)) == keys(map(json.loads, whole.splitlines()))


@pytest.mark.parametrize("text", ["{'a': 1}", "[1]", '{"experiment": "small"}', "5"])
def test_a_damaged_line_is_named(small, tmp_path, text):
    path = tmp_path / "results.jsonl"
    run_all(small.runs(1), path)
    first, *rest = path.read_text().splitlines()
    path.write_text("\n".join([first, text, *rest]) + "\n")
    with pytest.raises(ValueError, match=r"results\.jsonl, line 2: expected a result of natpn reproduce, got"):
        read_lines(path)


@pytest.mark.parametrize("jobs", [1, pytest.param(2, marks=pytest.mark.slow)])
def test_a_run_that_fails_is_told_and_the_others_go_on(small, tmp_path, monkeypatch, jobs):
    monkeypatch.setenv("SMALL_BAD", "Dropout")
    path, told = tmp_path / "results.jsonl", []
    if jobs == 1:
        assert run_all(small.runs(2), path, jobs, on_result=told.append) == 2
        assert [str(line["error"]) for line in told if "error" in line] == ["AwkwardError: this and that"] * 2
    else:
        process = begin(tmp_path, "--seeds", 2, "--jobs", 2, "--results", path)
        out, err = process.communicate(timeout=100)
        assert process.returncode == 1, err
        assert out.count("failed") == 2
        assert err.count("AwkwardError: this and that") == 1
    assert set(keys(read_lines(path))) == {("there", m, s) for m in ("NatPN", "NatPN (paper)") for s in (0, 1)}


@pytest.mark.slow
def test_a_worker_that_is_killed_ends_the_command_in_one_sentence(tmp_path):
    process = begin(tmp_path, "--seeds", 2, "--jobs", 2, SMALL_BAD="end NatPN")
    _, err = process.communicate(timeout=100)
    assert process.returncode == 2
    assert "Error: a worker process was killed, most likely because memory ran out" in err
    assert "Traceback" not in err


@pytest.mark.slow
def test_runs_end_when_the_command_is_killed(tmp_path):
    process = begin(tmp_path, "--seeds", 4, "--jobs", 2, SMALL_SECONDS="2")
    wait_for_lines(tmp_path / "reproduce" / "results.jsonl", 1)
    process.kill()  # alone, and not the processes that it began
    process.communicate(timeout=20)
    for _ in range(100):
        try:
            os.killpg(process.pid, 0)
        except ProcessLookupError:
            return
        time.sleep(0.1)
    pytest.fail("processes of a killed command are still there")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kill", "jobs"),
    [(signal.SIGKILL, 2), (signal.SIGINT, 1), (signal.SIGINT, 2), (signal.SIGTERM, 2)],
)
def test_what_is_stopped_half_way_goes_on(small, tmp_path, monkeypatch, kill, jobs):
    path = tmp_path / "reproduce" / "results.jsonl"
    process = begin(tmp_path, "--seeds", 4, "--jobs", jobs, SMALL_SECONDS="0.5")
    wait_for_lines(path, 3)
    if kill == signal.SIGTERM:
        process.send_signal(kill)
    else:
        os.killpg(process.pid, kill)  # as a terminal does, or a machine that goes down
    sent = time.monotonic()
    _, err = process.communicate(timeout=20)
    assert time.monotonic() - sent < 5
    assert process.returncode == {signal.SIGKILL: -9, signal.SIGINT: 130, signal.SIGTERM: 143}[kill]
    assert not err, err
    before = read_lines(path)
    assert 3 <= len(before) < 12
    monkeypatch.chdir(tmp_path)
    again = CliRunner().invoke(cli, ["reproduce", "small", "--seeds", "4"])
    assert again.exit_code == 0, again.output
    assert f"{len(before)} of 12 runs are in " in again.stdout
    assert len(read_lines(path)) == 12
    assert set(keys(read_lines(path)).values()) == {1}
