"""Processes for the tests that kill them or let them share the work."""

import multiprocessing
from multiprocessing.context import ForkServerContext

import pytest


@pytest.fixture(scope="session")
def processes() -> ForkServerContext:
    """A context whose processes start at once, because their server has imported torch before."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["training.problems", "torch._dynamo"])
    return context
