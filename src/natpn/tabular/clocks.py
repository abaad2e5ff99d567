"""Clocks and calendars: what the clocks of a time zone show, in numpy, and the parts of dates by arithmetic alone.

A graph of tensors has no calendar. With all divisions rounded down, the month follows from the days d since 1970: in
years that begin in March, whose day 0 is that of the year 0, d + 719468 is e eras of 146,097 days and r more, of which

    y = (r − r/1460 + r/36524 − r/146096) / 365

are whole years, so that the day of the year is r − (365 y + y/4 − y/100), and its month, from March on, is
(5 · day + 2) / 153.

The offset of a time zone is that of its last change; a graph has the changes from 1900 to 2100.
"""

import datetime
import re
from functools import cache
from typing import TYPE_CHECKING
from zoneinfo import ZoneInfo

import numpy as np

from natpn.tabular.cells import Floats

if TYPE_CHECKING:
    from torch import Tensor

DAY = 86_400
EPOCH = datetime.datetime(1970, 1, 1)
# The days that Python's calendar has, one short at either end; offsets beyond are those of the last day.
_FIRST_DAY = (datetime.date(1, 1, 2) - EPOCH.date()).days
_LAST_DAY = (datetime.date(9999, 12, 30) - EPOCH.date()).days
_CHANGES = tuple((datetime.date(year, 1, 1) - EPOCH.date()).days for year in (1900, 2100))
_DIGITS = 1e12  # to which sines are rounded


def find_zone(name: str) -> datetime.tzinfo:
    """Return the time zone of a name such as "Europe/Berlin", "UTC" or "+02:00"; a ValueError if it is unknown here."""
    if offset := re.fullmatch(r"(?:UTC|GMT)?([+-])(\d\d):?(\d\d)", name):
        sign, hours, minutes = offset.groups()
        span = datetime.timedelta(hours=int(hours), minutes=int(minutes))
        return datetime.timezone(-span if sign == "-" else span)
    if name.upper() == "UTC":
        return datetime.UTC
    try:
        return ZoneInfo(name)
    except (ValueError, OSError, KeyError):
        raise ValueError(
            f"The time zone {name!r} is unknown here. Convert the column to UTC, or install the package tzdata."
        ) from None


def wall_seconds(seconds: Floats, zone: str | None) -> Floats:
    """Map seconds since 1970 in UTC to those that the zone's clocks showed; NaN stays, and no zone changes nothing.

    Offsets are looked up once a day and, on the few days on which they change, once an instant.
    """
    if zone is None:
        return seconds
    where = find_zone(zone)
    known = ~np.isnan(seconds)
    instants = np.clip(seconds[known], _FIRST_DAY * DAY, _LAST_DAY * DAY)
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
    instant = EPOCH.replace(tzinfo=datetime.UTC) + datetime.timedelta(seconds=float(second))
    offset = instant.astimezone(zone).utcoffset()
    return offset.total_seconds() if offset else 0.0


@cache
def changes(zone: str) -> tuple[Floats, Floats]:
    """Return the instants from 1900 to 2100 at which a time zone changes its offset, and the offsets between."""
    where = find_zone(zone)
    instants: list[float] = []
    offsets = [_offset(_CHANGES[0] * DAY, where)]
    for day in range(*_CHANGES):
        if _offset((day + 1) * DAY, where) == offsets[-1]:
            continue
        low, high = day * DAY, (day + 1) * DAY
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if _offset(middle, where) == offsets[-1] else (low, middle)
        instants.append(float(high))
        offsets.append(_offset(high, where))
    return np.array(instants), np.array(offsets)


def tensor_parts(x: "Tensor", zone: str | None, places: list[int]) -> "list[Tensor]":
    """Return some parts of dates, by their places in `natpn.tabular.date.PARTS`, for seconds since 1970, (rows,)."""
    wall = _tensor_wall(x, zone)
    days = (wall / DAY).floor()
    turns = {1: lambda: _month(days) / 12, 2: lambda: _rest(days + 3, 7.0) / 7, 3: lambda: (wall - days * DAY) / DAY}
    parts = []
    for place in places:
        if place == 0:
            parts.append(x)
            continue
        angle = 2 * np.pi * turns[(place + 1) // 2]()
        # cos θ = sin(θ + π/2), and not every runtime has a cosine of float64
        circle = (angle if place % 2 else angle + np.pi / 2).sin()
        parts.append((circle * _DIGITS).round() / _DIGITS)
    return parts


def _tensor_wall(x: "Tensor", zone: str | None) -> "Tensor":
    if zone is None:
        return x
    import torch  # only a graph needs it

    instants, offsets = map(torch.from_numpy, changes(zone))
    return x + offsets[(x.unsqueeze(1) >= instants).sum(1)]


def _rest(x: "Tensor", size: float) -> "Tensor":
    return x - (x / size).floor() * size


def _month(days: "Tensor") -> "Tensor":
    """Return months since January."""
    shifted = days + 719_468
    r = _rest(shifted, 146_097.0)
    y = ((r - (r / 1460).floor() + (r / 36_524).floor() - (r / 146_096).floor()) / 365).floor()
    day = r - (365 * y + (y / 4).floor() - (y / 100).floor())
    return _rest(((5 * day + 2) / 153).floor() + 2, 12.0)
