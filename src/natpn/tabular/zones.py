"""Wall-clock time: what the clocks of a time zone showed at given instants.

Offsets are looked up once a day and, on the few days on which they change, once an instant.
"""

import datetime
import re
from zoneinfo import ZoneInfo

import numpy as np
from numpy.typing import NDArray

DAY = 86_400
# The days that Python's calendar has, one short at either end; offsets beyond are those of the last day.
FIRST = (datetime.date(1, 1, 2) - datetime.date(1970, 1, 1)).days
LAST = (datetime.date(9999, 12, 30) - datetime.date(1970, 1, 1)).days
UTC = datetime.UTC


def find_zone(name: str) -> datetime.tzinfo:
    """Return the time zone of a name such as "Europe/Berlin", "UTC" or "+02:00".

    Raises:
        ValueError: If the name is unknown here.
    """
    if offset := re.fullmatch(r"(?:UTC|GMT)?([+-])(\d\d):?(\d\d)", name):
        sign, hours, minutes = offset.groups()
        span = datetime.timedelta(hours=int(hours), minutes=int(minutes))
        return datetime.timezone(-span if sign == "-" else span)
    if name.upper() == "UTC":
        return UTC
    try:
        return ZoneInfo(name)
    except (ValueError, OSError, KeyError):
        raise ValueError(
            f"The time zone {name!r} is unknown here. Convert the column to UTC, or install the package tzdata."
        ) from None


def wall_seconds(seconds: NDArray[np.float64], zone: str | None) -> NDArray[np.float64]:
    """Map seconds since 1970 in UTC to those that the zone's clocks showed; NaN stays, and no zone changes nothing."""
    if zone is None:
        return seconds
    where = find_zone(zone)
    known = ~np.isnan(seconds)
    instants = np.clip(seconds[known], FIRST * DAY, LAST * DAY)
    days, place = np.unique(np.floor(instants / DAY), return_inverse=True)
    start = np.array([_offset(day * DAY, where) for day in days])
    end = np.array([_offset((day + 1) * DAY, where) for day in days])
    offsets = start[place]
    changing = np.flatnonzero((start != end)[place])
    offsets[changing] = [_offset(second, where) for second in instants[changing]]
    result = seconds.copy()
    result[known] += offsets
    return result


def _offset(second: float, zone: datetime.tzinfo) -> float:
    instant = datetime.datetime(1970, 1, 1, tzinfo=UTC) + datetime.timedelta(seconds=float(second))
    offset = instant.astimezone(zone).utcoffset()
    return offset.total_seconds() if offset else 0.0
