"""The small table takes the place of the paper's."""

import pytest

from experiments.small import SMALL
from natpn.experiments import EXPERIMENTS


@pytest.fixture
def small(monkeypatch):
    """The small table among the others."""
    monkeypatch.setitem(EXPERIMENTS, "small", SMALL)
    return SMALL
