"""A Ray cluster of this machine."""

import os
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[1]


@contextmanager
def two_cpus(**environment: str) -> Iterator[Any]:
    """Start workers that find natpn and the tests; ports are chosen by Ray, so that clusters do not meet."""
    folders = os.pathsep.join(str(ROOT / folder) for folder in ("src", "paper/src", "tests"))
    own = {"RAY_USAGE_STATS_ENABLED": "0", "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0", "PYTHONPATH": folders}
    own["RAY_worker_niceness"] = "0"  # Ray's own is 15: beside another test its workers would hardly run
    with pytest.MonkeyPatch.context() as patch, warnings.catch_warnings():
        patch.delenv("RAY_ADDRESS", raising=False)
        for name, value in (own | environment).items():
            patch.setenv(name, value)
        warnings.simplefilter("ignore")  # of Ray's own
        import ray

        ray.init(
            address="local",
            num_cpus=2,
            include_dashboard=False,
            log_to_driver=False,
            object_store_memory=100 * 1024**2,
            configure_logging=False,
        )
        yield ray
        ray.shutdown()
