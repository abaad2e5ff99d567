"""Devices, precision and ranks: in one process all of it does nothing; two processes are in tests/training."""

import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from torch import nn

from natpn import parallel


def test_one_process_is_left_alone():
    x = torch.randn(5, 2, requires_grad=True)
    assert parallel.rank() == 0
    assert parallel.world_size() == 1
    assert parallel.total(x) is x
    assert parallel.differentiable_total(x) is x
    assert parallel.gather_rows(x) is x
    assert torch.equal(parallel.share(x), x)
    module = nn.Linear(2, 2)
    assert parallel.distributed(module, torch.device("cpu")) is module
    parallel.synchronise(module)
    parallel.wait()
    parallel.start(torch.device("cpu"))
    parallel.stop()
    assert parallel.world_size() == 1


def test_devices():
    assert parallel.choose_device(None, nn.Linear(2, 2)) == torch.device("cpu")
    assert parallel.choose_device(None, nn.Linear(2, 2, device="meta")) == torch.device("meta")
    assert parallel.choose_device(None, nn.Identity()) == torch.device("cpu")
    assert parallel.choose_device("cpu", nn.Linear(2, 2, device="meta")) == torch.device("cpu")
    with pytest.raises(ValueError, match="device: expected 'auto'"):
        parallel.choose_device("gpu", nn.Identity())


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_a_missing_gpu_is_named():
    assert parallel.choose_device("auto", nn.Identity()) == torch.device("cpu")
    with pytest.raises(ValueError, match="torch sees no GPU"):
        parallel.choose_device("cuda", nn.Identity())


@pytest.mark.parametrize("name", ["mps", "xpu", "meta", "hpu", "vulkan", "cuda:7", "gpu", 3.5, ["cpu"], b"cuda", 7])
def test_a_device_that_is_not_there_is_told_in_a_sentence(name):
    with pytest.raises(ValueError, match=r"device: .*; use 'auto'") as caught:
        parallel.choose_device(name, nn.Identity())
    assert "\n" not in str(caught.value)


def test_a_gpu_beyond_the_last(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    monkeypatch.setenv("LOCAL_RANK", "2")
    for name in ("cuda:7", "auto"):
        with pytest.raises(ValueError, match="but torch sees 2 GPUs here"):
            parallel.choose_device(name, nn.Identity())


LONELY = """
import torch
from natpn import parallel
try:
    parallel.start(torch.device("cpu"))
except Exception as error:
    print(type(error).__name__, error)
"""


def test_a_process_that_is_alone_does_not_wait_for_ever():
    source = str(Path(parallel.__file__).parents[1])
    started = []
    for rank in ("0", "1"):  # each in a world of its own
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = str(free.getsockname()[1])
        world = {"WORLD_SIZE": "2", "RANK": rank, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
        environment = os.environ | world | {"NATPN_JOIN_SECONDS": "1", "PYTHONPATH": source}
        command = [sys.executable, "-c", LONELY]
        pipe = subprocess.PIPE
        started.append(subprocess.Popen(command, env=environment, stdout=pipe, stderr=pipe, text=True))
    for process in started:
        out, errors = process.communicate(timeout=60)
        assert out.startswith("TimeoutError WORLD_SIZE: expected 2 processes, but some did not come within 1 s"), errors
        assert "unset WORLD_SIZE to work alone" in out


@pytest.mark.parametrize(
    ("name", "value"),
    [("WORLD_SIZE", "two"), ("WORLD_SIZE", "-1"), ("NATPN_JOIN_SECONDS", "soon"), ("NATPN_JOIN_SECONDS", "nan")],
)
def test_wrong_environments(monkeypatch, name, value):
    monkeypatch.setenv("WORLD_SIZE", "2")
    monkeypatch.setenv(name, value)
    with pytest.raises(ValueError, match=f"{name}: expected"):
        parallel.start(torch.device("cpu"))


def test_precision():
    layer, x = nn.Linear(4, 4), torch.randn(2, 4)
    cpu = torch.device("cpu")
    with parallel.autocast(cpu, "bfloat16"):
        assert layer(x).dtype == torch.bfloat16
    with parallel.autocast(cpu, "float32"):
        assert layer(x).dtype == torch.float32
    with pytest.raises(ValueError, match="precision: expected"), parallel.autocast(cpu, "half"):
        pass


def test_random_numbers_are_seeded_inside_and_restored_after():
    cpu = torch.device("cpu")
    torch.manual_seed(1)
    want = torch.rand(1)
    torch.manual_seed(1)
    with parallel.seeded(7, cpu):
        state = parallel.random_state(cpu)
        first = torch.rand(3)
        parallel.set_random_state(state, cpu)
        assert torch.equal(first, torch.rand(3))
    assert torch.equal(torch.rand(1), want)
    with parallel.seeded(7, cpu):
        assert torch.equal(first, torch.rand(3))


class Pretend:
    """Stands in for torch.distributed: the other process holds what it is given."""

    def __init__(self, other: torch.Tensor) -> None:
        self.other = other

    def all_gather(self, parts, rows):
        parts[0].copy_(rows)
        parts[1][: len(self.other)] = self.other


def test_shares_come_back_in_order(monkeypatch):
    rows = torch.arange(7.0)[:, None]
    monkeypatch.setattr(parallel, "world_size", lambda: 2)
    monkeypatch.setattr(parallel, "rank", lambda: 1)
    other = parallel.share(rows)
    monkeypatch.setattr(parallel, "rank", lambda: 0)
    own = parallel.share(rows)
    monkeypatch.setattr(parallel, "total", lambda counts: torch.tensor([len(own), len(other)]))
    monkeypatch.setattr(parallel, "dist", Pretend(other))
    assert torch.equal(parallel.gather_rows(own), rows)
