"""The small table takes the place of the paper's."""

import pytest

from natpn_paper.experiments import EXPERIMENTS
from paper.experiments.small import SMALL


@pytest.fixture
def small(monkeypatch):
    """The small table among the others."""
    monkeypatch.setitem(EXPERIMENTS, "small", SMALL)
    return SMALL
