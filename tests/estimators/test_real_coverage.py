"""Conformal intervals on a real table: visits to doctors, by how healthy people are, and in a region that is new."""

import os
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from natpn import NatPNRegressor

VISITS = Path(os.environ.get("NATPN_DATA", "")) / "arena" / "tables" / "nmes1988.parquet"
COVERAGE = 0.9
ERRORS = 3.3  # standard errors: one test in a thousand would fail by chance

pytestmark = [pytest.mark.slow, pytest.mark.skipif(not VISITS.is_file(), reason="NATPN_DATA has no arena")]


@pytest.fixture(scope="module")
def visits():
    """Return rows for training, others of the same regions, and rows of the west, which training never has."""
    frame = pd.read_parquet(VISITS).drop(columns=["nvisits", "ovisits", "novisits"])
    west = frame.pop("region") == "west"
    known = frame[~west].sample(frac=1, random_state=0)
    return known[:2000], known[2000:], frame[west]


def fitted(rows, **options):
    how = {"calibrate": "conformal", "validation_fraction": 0.4, "max_epochs": 5, "random_state": 0} | options
    return NatPNRegressor(**how).fit(rows.drop(columns="visits"), rows["visits"])


def inside(model, rows):
    low, high = model.predict_interval(rows.drop(columns="visits"), COVERAGE).T
    return (low <= rows["visits"]) & (rows["visits"] <= high)


def least(*counts):
    """Return the share that rows have to reach, if so many calibrated and so many are counted."""
    return COVERAGE - ERRORS * np.sqrt(COVERAGE * (1 - COVERAGE) * sum(1 / count for count in counts))


def test_every_state_of_health_is_covered(visits):
    train, test, _ = visits
    model, calibrating = fitted(train, groups="health"), 0.2 * train["health"].value_counts()
    for name, rows in test.groupby("health", observed=True):
        assert inside(model, rows).mean() >= least(calibrating[name], len(rows)), name


def test_a_region_that_is_new_is_covered(visits):
    train, _, west = visits
    model = fitted(train)
    adapted = model.adapt(west.drop(columns="visits"))
    assert adapted.calibration_.effective_rows > 50
    assert inside(adapted, west).mean() >= least(adapted.calibration_.effective_rows, len(west))
