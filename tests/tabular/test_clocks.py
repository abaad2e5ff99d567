"""The calendar by arithmetic alone is that of numpy, in every time zone."""

import datetime
from zoneinfo import ZoneInfo

import numpy as np
import pytest
import torch

from natpn.tabular.clocks import DAY, changes, tensor_parts
from natpn.tabular.date import PARTS, _date_parts

DAYS = np.arange(-719_000, 800_000, 97) * float(DAY)  # from the year 1 to the year 4160


@pytest.mark.parametrize("zone", [None, "UTC", "+05:30", "Europe/Berlin", "Australia/Lord_Howe"])
def test_parts_are_those_of_the_calendar(zone):
    rng = np.random.default_rng(0)
    seconds = np.concatenate([rng.uniform(-2.2e9, 4.1e9, 3000), [np.nan]])  # 1900 to 2100, where offsets are known
    if zone in (None, "UTC", "+05:30"):
        seconds = np.concatenate([seconds, DAYS, DAYS - 1e-6])
    else:
        instants = changes(zone)[0]
        seconds = np.concatenate([seconds, instants, instants - 1])
    found = torch.stack(tensor_parts(torch.from_numpy(seconds), zone, list(range(len(PARTS)))), 1).numpy()
    assert found == pytest.approx(_date_parts(seconds, zone), abs=2e-12, nan_ok=True)


def test_changes_are_those_of_the_clocks():
    instants, offsets = changes("Europe/Berlin")
    spring = datetime.datetime(2024, 3, 31, 1, tzinfo=datetime.UTC).timestamp()
    place = int(np.searchsorted(instants, spring))
    assert instants[place] == spring
    assert offsets[place : place + 2].tolist() == [3600.0, 7200.0]
    far = datetime.datetime(2099, 7, 1, tzinfo=ZoneInfo("Europe/Berlin"))
    assert offsets[np.searchsorted(instants, far.timestamp(), side="right")] == far.utcoffset().total_seconds()
