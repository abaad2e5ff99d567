"""What only a process of its own can show: signals, pipes, memory, several processes, and how fast help is there."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from cli.conftest import ENVIRONMENT, rows, start, write


def finish(process):
    out, err = process.communicate(timeout=120)
    return process.returncode, out.decode(), err.decode()


def test_help_is_quick_and_light():
    code = """
import sys
from natpn.cli import main
try:
    main()
finally:
    print(*({"torch", "pandas", "sklearn", "pyarrow", "natpn.estimators"} & set(sys.modules)), file=sys.stderr)
"""
    times = []
    for _ in range(3):
        began = time.perf_counter()
        done = subprocess.run([sys.executable, "-c", code, "--help"], env=ENVIRONMENT, capture_output=True, text=True)
        times.append(time.perf_counter() - began)
        assert (done.returncode, done.stderr) == (0, "\n")
        assert "natpn fit flats.csv" in done.stdout
    assert min(times) < 2


@pytest.mark.slow
def test_an_interrupt_while_fitting_leaves_nothing(tmp_path):
    path = write(tmp_path / "a.csv", rows(4000, 0))
    process = start("fit", path, "--target", "rent", "--drop", "flat", "--out", tmp_path / "m", "--ensemble", 5)
    wait_for_training(process)
    process.send_signal(signal.SIGINT)
    began = time.perf_counter()
    code, told, complaints = finish(process)
    assert (code, complaints) == (130, "")
    assert told.splitlines()[-1].startswith("  built ")  # the last column: nothing of the fit
    assert time.perf_counter() - began < 10
    assert [p.name for p in tmp_path.iterdir()] == ["a.csv"]


def test_a_request_to_end_is_met_as_an_interrupt_is(tmp_path):
    code = """
import os, signal, sys
from natpn.cli import main, writing
def end(path):
    with writing.open_output(path, writing.PREDICTIONS) as file:
        file.write(b"half")
        os.kill(os.getpid(), signal.SIGTERM)
sys.modules["natpn.cli.model_files"].read_model = lambda model: end("out.csv")
main()
"""
    done = subprocess.run(
        [sys.executable, "-c", code, "predict", "model", "new.csv"], cwd=tmp_path, env=ENVIRONMENT, capture_output=True
    )
    assert (done.returncode, done.stderr) == (143, b"")
    assert not list(tmp_path.iterdir())


def wait_for_training(process):
    """Wait until the process has spent more processor time than imports take."""
    ticks = os.sysconf("SC_CLK_TCK")
    while process.poll() is None:
        fields = Path(f"/proc/{process.pid}/stat").read_text().rsplit(")", 1)[1].split()
        if (int(fields[11]) + int(fields[12])) / ticks > 6.5:
            return
        time.sleep(0.05)
    raise AssertionError(process.communicate())


def test_an_interrupt_while_predicting_leaves_nothing(classes, tmp_path):
    process = start("predict", classes, "-", "--out", tmp_path / "out.csv", stdin=subprocess.PIPE)
    lines = "".join(",".join(row) + "\n" for row in rows(5000, 0))
    process.stdin.write(("flat,area,district,lift,built,rent\n" + 10 * lines).encode())  # less than a block
    process.stdin.flush()
    deadline = time.monotonic() + 60
    while not list(tmp_path.iterdir()):  # the file beside
        assert process.poll() is None
        assert time.monotonic() < deadline
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    assert finish(process) == (130, "", "")
    assert not list(tmp_path.iterdir())


@pytest.mark.slow
def test_a_reader_that_goes_away_ends_it_quietly(classes, tmp_path):
    path = write(tmp_path / "a.csv", rows(5000, 0))
    process = start("predict", classes, path)
    assert process.stdout.readline().startswith(b"prediction,")
    process.stdout.close()
    assert (process.wait(60), process.stderr.read()) == (141, b"")
    process.stderr.close()


@pytest.mark.slow
def test_memory_does_not_grow_with_the_file(classes, tmp_path):
    lines = "".join(f"{area},{9 * area}\n" for area in range(30, 130)).encode()
    for n, name in ((30_000, "short"), (300_000, "long")):
        (tmp_path / f"{name}.csv").write_bytes(b"area,rent\n" + lines * (n // 100))
    code = """
import re, sys
from natpn.cli import cli
def peak():  # not ru_maxrss, which starts at the size of the process that started this one
    return int(re.search(r"VmHWM:\\s+(\\d+) kB", open("/proc/self/status").read())[1]) // 1024
for name in ("short", "long"):
    try:
        cli.main(["predict", sys.argv[1], f"{name}.csv", "--out", f"{name}.out.csv"])
    except SystemExit as end:
        assert not end.code
    print(peak())
"""
    done = subprocess.run(
        [sys.executable, "-c", code, classes], cwd=tmp_path, env=ENVIRONMENT, capture_output=True, text=True
    )
    assert done.stderr == ""
    short, long = map(int, done.stdout.split())
    assert long < 1000
    assert long - short < 100
    with (tmp_path / "long.out.csv").open() as file:
        assert sum(1 for _ in file) == 300_001


@pytest.mark.slow
def test_torchrun_fits_in_several_processes(train, tmp_path):
    arguments = ["--standalone", "--nproc-per-node", 2, "-m", "natpn", "fit"]
    options = ["--target", "rent", "--drop", "flat", "--max-epochs", 1, "--device", "cpu"]
    process = start(*arguments, train, *options, "--out", tmp_path / "m", module="torch.distributed.run")
    code, out, err = finish(process)
    assert code == 0, err
    assert out.count("\nmodel   ") == out.count("family ") == out.count("columns of ") == 1
    assert [p.name for p in tmp_path.iterdir()] == ["m"]
    assert sorted(p.name for p in (tmp_path / "m").iterdir()) == ["README.md", "config.json", "model.safetensors"]
