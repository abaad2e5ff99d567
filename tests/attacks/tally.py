"""Counts of the attacks: how many inputs were tried, how many refused, how many answered; printed at the end.

A plugin that `tests/conftest.py` names, not a conftest of this directory: under pytest-xdist the process that prints
collects no tests, and would not read one. Workers hand their counts over when they end.
"""

from collections import Counter
from collections.abc import Callable

import pytest

COUNTS = pytest.StashKey[Counter[str]]()


def pytest_configure(config: pytest.Config) -> None:
    config.stash[COUNTS] = Counter()


@pytest.fixture(scope="session")
def tally(request: pytest.FixtureRequest) -> Callable[..., None]:
    """Count inputs, as in `tally(tried=1, refused=1)`."""

    def count(*, tried: int = 0, refused: int = 0, answered: int = 0) -> None:
        request.config.stash[COUNTS].update(tried=tried, refused=refused, answered=answered)

    return count


def pytest_sessionfinish(session: pytest.Session) -> None:
    if hasattr(session.config, "workeroutput"):
        session.config.workeroutput["tally"] = dict(session.config.stash[COUNTS])


@pytest.hookimpl(optionalhook=True)  # pytest-xdist calls it
def pytest_testnodedown(node, error) -> None:
    node.config.stash[COUNTS].update(getattr(node, "workeroutput", {}).get("tally", {}))


def pytest_terminal_summary(terminalreporter, config: pytest.Config) -> None:
    counts = config.stash[COUNTS]
    if counts["tried"]:
        terminalreporter.write_line(
            f"attacks: {counts['tried']} inputs tried, {counts['refused']} refused, {counts['answered']} answered"
        )
