"""Settings of every test: one torch thread a process, seeded, hypothesis without a clock.

torch is imported by the fixtures: the process that hands tests to the others has no use for it.
"""

import signal

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
