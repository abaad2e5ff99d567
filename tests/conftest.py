"""Settings of every test: one torch thread a process, seeded, hypothesis without a clock.

torch is imported by the fixtures: the process that hands tests to the others has no use for it.
"""

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
