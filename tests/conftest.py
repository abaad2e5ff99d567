"""Settings of every test: one torch thread a process, seeded, hypothesis without a clock.

torch is imported by the fixtures: the process that hands tests to the others has no use for it.
"""

import os
import signal
from pathlib import Path

import pytest
from hypothesis import settings

settings.register_profile("natpn", deadline=None, derandomize=True, max_examples=60, print_blob=True)
settings.load_profile("natpn")
pytest_plugins = ["attacks.tally"]


@pytest.fixture(autouse=True, scope="session")
def _one_thread():
    import torch

    torch.set_num_threads(1)


@pytest.fixture(autouse=True)
def _seed():
    import torch

    torch.manual_seed(0)


@pytest.fixture(scope="module")
def cluster():
    """A Ray cluster with two CPUs."""
    from clusters import two_cpus

    with two_cpus() as ray:
        yield ray


@pytest.fixture
def no_hang():
    """End a test that waits for ever."""

    def stop(*_):
        raise TimeoutError("it hangs")

    signal.signal(signal.SIGALRM, stop)
    signal.alarm(400)
    yield
    signal.alarm(0)


@pytest.fixture(scope="session")
def real_data():
    """The directory of real data, or a skip where there is none."""
    place = Path(os.environ.get("NATPN_DATA", "nowhere"))
    if not place.is_dir():
        pytest.skip("NATPN_DATA names no directory of real data")
    return place
