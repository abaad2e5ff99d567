"""A fit and predictions of more data than memory: the peak of a process stays below what `--memory` allows."""

import os
import subprocess
import sys

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from cli.conftest import ENVIRONMENT

LIMIT = 64  # MB, the least that --memory takes
FILES, ROWS = 8, 40_000

# The samples, whose sizes do not depend on the data, are made smaller, as the limit is. What is measured is the process
# itself, after a run on little data has loaded all libraries.
CODE = """
import resource, sys
import natpn.data
from natpn.cli import cli
from natpn.estimators import streaming
from natpn.training import stored

streaming.SAMPLE, streaming.HELD_OUT, streaming.EPOCH, stored.SAMPLED = 10_000, 2_000, 10_000, 5_000
natpn.data.NUMBER_BYTES = 1_000  # so that little data is read in pieces, too
for name in ("small", "large"):
    arguments = [argument.replace("DATA", name) for argument in sys.argv[1:]]
    try:
        cli.main(arguments)
    except SystemExit as end:
        assert not end.code, end.code
    print("peak", resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024)
"""


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    place = tmp_path_factory.mktemp("more")
    for name, files, rows in (("small", 1, 2_000), ("large", FILES, ROWS)):
        (place / name).mkdir()
        for i in range(files):
            draw = np.random.default_rng(i)
            texts = {f"text {j}": [f"{name:0200}" for name in draw.integers(0, 9, rows)] for j in range(4)}
            number = draw.normal(size=rows)
            columns = {"number": number, **texts, "y": number + draw.normal(size=rows)}
            # As they are, without a dictionary: large on disk, and quick to make.
            path = place / name / f"{i}.parquet"
            pq.write_table(pa.table(columns), path, row_group_size=10_000, use_dictionary=False, compression="none")
    assert sum(path.stat().st_size for path in (place / "large").iterdir()) > 3 * LIMIT * 2**20
    return place


def growth(place, *arguments):
    """Return how many MB the peak of a process grows from little data to much."""
    environment = ENVIRONMENT | {"MALLOC_ARENA_MAX": "2"}
    command = [sys.executable, "-c", CODE, *map(str, arguments)]
    done = subprocess.run(command, cwd=place, env=environment, capture_output=True, text=True, timeout=240)
    assert done.returncode == 0, done.stderr
    small, large = (int(line.split()[1]) for line in done.stdout.splitlines() if line.startswith("peak "))
    return large - small


@pytest.mark.slow
def test_memory_stays_below_the_limit(place):
    fit = ["fit", "DATA", "--target", "y", "--out", "DATA.model", "--max-epochs", 1, "--memory", f"{LIMIT}MB"]
    assert growth(place, *fit, "--ensemble", 1) < LIMIT
    assert growth(place, "predict", "small.model", "DATA", "--out", "DATA.out") < LIMIT
    assert len(os.listdir(place / "large.out")) == FILES
