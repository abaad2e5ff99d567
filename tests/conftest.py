"""Settings of every test: one torch thread a process, seeded, hypothesis without a clock."""

import pytest
import torch
from hypothesis import settings

settings.register_profile("natpn", deadline=None, derandomize=True, max_examples=60, print_blob=True)
settings.load_profile("natpn")
torch.set_num_threads(1)
pytest_plugins = ["attacks.tally"]


@pytest.fixture(autouse=True)
def _seed():
    torch.manual_seed(0)
