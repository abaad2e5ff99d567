"""Dates and times: seconds since 1970, and the sine and cosine of the month, the weekday and the time of day.

Parts that do not vary in training are left out. So is the month if training spans less than two years, the weekday if
it spans less than two weeks, and the time of day if it spans less than two days: the effect of a month cannot be told
from that of the years there, and a network that guesses is wrong about later dates. Month, weekday and time of day are
read from clocks in the time zone that the column had in training, so that an instant is the same in whatever zone it is
written.
"""

import datetime
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Self

import numpy as np

from natpn.tabular.base import Arithmetic, Column
from natpn.tabular.cells import DATE_TYPES, Cells, Encoded, Floats, Mask, map_distinct, text_of, unlike_training
from natpn.tabular.clocks import DAY, EPOCH, find_zone, tensor_parts, wall_seconds
from natpn.tabular.moments import Moments, Standardiser, measure
from natpn.tabular.texts import PLAIN, Fields, Written, date_of_text, find_date, shown

PARTS = ("seconds", "month sine", "month cosine", "weekday sine", "weekday cosine", "hour sine", "hour cosine")
_PERIODS = (0.0, 365.25, 365.25, 7.0, 7.0, 1.0, 1.0)  # days after which each part repeats
_TRIED = 24  # dates that are tried in place of a strange one
_TWICE = 1.8  # almost two of them: the first and the last days may be missing


@dataclass(frozen=True)
class DateColumn(Column):
    """A column of dates.

    Attributes:
        zone: The time zone; None if the dates have none.
        earliest: The first instant, in seconds since 1970.
        latest: The last.
        means: The mean of each of the parts.
        deviations: Their standard deviations; 0 where a part does not vary.
    """

    zone: str | None
    earliest: float
    latest: float
    means: list[float]
    deviations: list[float]

    kind = "date"
    words = ("date", "dates")
    types = DATE_TYPES
    conversion = "pandas.to_datetime"

    @classmethod
    def unlike(cls, texts: list[str], written: Written = PLAIN, unit: str = "") -> list[str]:
        """Return which of some texts are no dates, and the rarer ones of dates with and without a time zone."""
        dates = {text: find_date(text, written) for text in texts}
        aware = {text: None if date is None else date.tzinfo is not None for text, date in dates.items()}
        with_zone, without = (sum(has is zone for has in aware.values()) for zone in (True, False))
        return [text for text, has in aware.items() if has is not (with_zone > without)]

    @classmethod
    def parse(cls, text: str, written: Written = PLAIN, unit: str = "") -> datetime.datetime | None:
        """Return the date that a text stands for, None if it stands for a missing one."""
        return date_of_text(text, written)

    @classmethod
    def why_unlike(cls, text: str, written: Written = PLAIN, unit: str = "") -> str:
        """Say why a text is no date, or that it differs from the others by its time zone."""
        date = find_date(text, written)
        if date is None:
            return super().why_unlike(text, written, unit)
        return f"{shown(text)} is a date {'without' if date.tzinfo is None else 'with'} a time zone"

    @classmethod
    def arrow_of(cls, values: Iterable[datetime.datetime]) -> tuple[str, ...]:
        """Return the type of Arrow for dates, in UTC if they have a time zone."""
        return ("timestamp", "us", *(["UTC"] if any(date.tzinfo is not None for date in values) else []))

    @property
    def arrow(self) -> tuple[str, ...]:
        """The type of Arrow for the dates of this column, even if all are missing."""
        return ("timestamp", "us", *([] if self.zone is None else ["UTC"]))

    @classmethod
    def fit(cls, name: str, cells: Cells) -> Self:
        """Learn the column from its training values, of which at least one is not missing."""
        seconds, zone = _to_seconds(cells, name)
        _check_zone(zone, f"Column {name!r}")
        missing = np.isnan(seconds)
        known = seconds[~missing]
        days = float(known.max() - known.min()) / DAY
        moments = [
            measure(part if days >= _TWICE * period else np.zeros_like(part))
            for part, period in zip(_date_parts(known, zone).T, _PERIODS, strict=True)
        ]
        _, means, deviations = map(list, zip(*moments, strict=True))
        share, ends = float(missing.mean()), (float(known.min()), float(known.max()))
        return cls(name, len(seconds), share, zone, *ends, means, deviations)

    @classmethod
    def widened(cls, shown: Column, summaries: Sequence["DateColumn"], n_empty: int) -> Self:
        """Return the column with the range of all rows; the moments of its parts stay those of the sample."""
        earliest, latest = min(part.earliest for part in summaries), max(part.latest for part in summaries)
        return replace(super().widened(shown, summaries, n_empty), earliest=earliest, latest=latest)

    def meeting(self, cells: Cells) -> Self:
        """Return the column with a range that holds these dates too."""
        seconds = self._seconds(cells)
        missing = np.isnan(seconds)
        known = [self.earliest, self.latest, *seconds[~missing].tolist()]
        return replace(self.meeting_missing(missing), earliest=min(known), latest=max(known))

    @property
    def n_numbers(self) -> int:
        """One for each part that varies."""
        return sum(deviation > 0 for deviation in self.deviations)

    def _seconds(self, cells: Cells) -> Floats:
        seconds, zone = _to_seconds(cells, self.name)
        if (zone is None) != (self.zone is None) and not np.isnan(seconds).all():
            had, has = (f"the time zone {z!r}" if z else "no time zone" for z in (self.zone, zone))
            raise ValueError(
                f"Column {self.name!r} has {has}, but had {had} in training. Give its dates a time zone, or take it "
                "away, as then."
            )
        return seconds

    def _standardised(self, seconds: Floats) -> Floats:
        parts = _date_parts(seconds, self.zone)
        return self._standardise(parts, np.isnan(parts))

    @cached_property
    def _standardise(self) -> Standardiser:
        return Standardiser([Moments(0, m, d) for m, d in zip(self.means, self.deviations, strict=True)])

    @property
    def mlflow_type(self) -> str:
        """A datetime, which has no time zone in MLflow."""
        return "datetime" if self.zone is None else "any"

    def encode(self, cells: Cells, numbers: Encoded, flags: Encoded) -> Floats | None:
        """Write the parts that vary, and the flag of missing values."""
        seconds = self._seconds(cells)
        missing = np.isnan(seconds)
        numbers[...] = self._standardised(seconds)
        self.flag_missing(missing, flags)
        return self.new_events(missing, self._changed(seconds))

    @property
    def arithmetic(self) -> Arithmetic:
        """The parts that vary, by arithmetic on seconds, and a flag for missing values."""
        flags, zone = self.arithmetic_of_missing, "" if self.zone is None else ", UTC"
        unit = f"seconds since 1970-01-01{zone}, float64, NaN if missing"
        if self.earliest == self.latest:
            return Arithmetic((), flags, self.earliest, 0.0, unit=unit)
        varying = [place for place, deviation in enumerate(self.deviations) if deviation > 0]
        moments = tuple(Moments(0, self.means[place], self.deviations[place]) for place in varying)
        return Arithmetic(moments, flags, parts=lambda x: tensor_parts(x, self.zone, varying), unit=unit)

    def read_text(self, text: str, written: Written = PLAIN) -> datetime.datetime | None:
        """Return the date that a text stands for, None if it stands for a missing one."""
        date = self.parse(text, written)
        if date is not None and (date.tzinfo is None) != (self.zone is None):
            has, had = ("no time zone", "with one") if date.tzinfo is None else ("a time zone", "without one")
            raise ValueError(f"{shown(text)} has {has}, and the column's dates came {had}")
        return date

    @property
    def expected(self) -> str:
        """How to write a date, with a time zone or without."""
        if self.zone is None:
            return "a date without a time zone, such as 2024-12-31 or 2024-12-31T23:59:00"
        return "a date with a time zone, such as 2024-12-31T23:59:00+01:00 or 2024-12-31T22:59:00Z"

    @property
    def usual(self) -> str:
        """The middle between the first and the last instant."""
        return self._sendable((self.earliest + self.latest) / 2)

    def as_json(self, cells: Cells) -> list[Any]:
        """Return instants as they can be sent, to the second."""
        return [None if second != second else self._sendable(second) for second in self._seconds(cells).tolist()]

    @property
    def described(self) -> dict[str, Any]:
        """The summary, with instants in place of wall clocks, which could not be sent back."""
        return self.summary | {"earliest": self._sendable(self.earliest), "latest": self._sendable(self.latest)}

    def _sendable(self, second: float) -> str:
        return _iso_text(second) + ("" if self.zone is None else "Z")

    def oddness(self, cells: Cells) -> Floats:
        """Return how many standard deviations the most unusual part lies from its mean."""
        seconds = self._seconds(cells)
        score: Floats = np.abs(self._standardised(seconds)).max(axis=1, initial=0)
        return self.score_events(score, np.isnan(seconds), self._changed(seconds))

    def _changed(self, seconds: Floats) -> Mask | None:
        return ~np.isnan(seconds) & (seconds != self.earliest) if self.earliest == self.latest else None

    @property
    def familiar(self) -> list[float]:
        """Instants from the first to the last, at midnight if the time of day does not vary."""
        instants = np.linspace(self.earliest, self.latest, _TRIED)
        if not any(self.deviations[PARTS.index("hour sine") :]):
            instants = self.earliest + np.round((instants - self.earliest) / DAY) * DAY
        return sorted({min(second, self.latest) for second in np.floor(instants).tolist()} | {self.earliest})

    def readable(self, cells: Cells) -> list[float | None]:
        """Return seconds since 1970."""
        return [None if second != second else second for second in self._seconds(cells).tolist()]

    def cells_of(self, values: Sequence[float | None]) -> Cells:
        """Return instants as an array."""
        return Cells("date", np.array(values, np.float64), self.zone)

    def written(self, value: float | None) -> str:
        """Write an instant in ISO form."""
        return "" if value is None else self._sendable(value).removesuffix("T00:00:00")

    def why_strange(self, value: float | None) -> str:
        """Say that a date is outside the range."""
        if value is None or self.earliest <= value <= self.latest:
            return super().why_strange(value)
        early = value < self.earliest
        end = self.spoken(self.earliest if early else self.latest)
        return f"{self.spoken(value)} is {'before' if early else 'after'} {end}"

    @property
    def facts(self) -> str:
        """The first and the last day."""
        return " to ".join(self.summary[end].partition("T")[0] for end in ("earliest", "latest"))

    @property
    def summary(self) -> dict[str, Any]:
        """The earliest and the latest date in ISO form, on the clocks of the time zone, and the share missing."""
        earliest, latest = wall_seconds(np.array([self.earliest, self.latest]), self.zone)
        ends = {"earliest": _iso_text(earliest), "latest": _iso_text(latest)}
        return ends | {"zone": self.zone, "missing": self.missing}

    @classmethod
    def _read(cls, read: Fields) -> dict[str, Any]:
        zone = None if read.read("zone") is None else read.text("zone")
        _check_zone(zone, read.where)
        limit = 1e13  # microseconds stay below 2^63
        return {
            "zone": zone,
            "earliest": read.number("earliest", -limit, limit),
            "latest": read.number("latest", read.number("earliest"), limit),
            "means": read.numbers("means", len(PARTS)),
            "deviations": read.numbers("deviations", len(PARTS), 0),
        }


def _check_zone(zone: str | None, where: str) -> None:
    try:
        find_zone("UTC" if zone is None else zone)
    except ValueError as error:
        raise ValueError(f"{where}: {error}") from None


def _date_parts(seconds: Floats, zone: str | None) -> Floats:
    """Return the parts of each instant, in the order of `PARTS`; all are NaN where it is missing."""
    missing = np.isnan(seconds)
    wall = np.where(missing, 0.0, wall_seconds(seconds, zone))
    days = np.floor(wall / DAY)
    months = days.astype(np.int64).astype("M8[D]").astype("M8[M]").astype(np.int64)
    # 1970 began on a Thursday.
    turns = np.stack([months % 12 / 12, (days + 3) % 7 / 7, (wall - days * DAY) / DAY], axis=1)
    # Rounded, so that the same place in the calendar is the same number.
    circle = np.round(np.stack([np.sin(2 * np.pi * turns), np.cos(2 * np.pi * turns)], axis=2), 12)
    parts = np.concatenate([seconds[:, None], circle.reshape(len(seconds), -1)], axis=1)
    parts[missing] = np.nan
    return parts


def _to_seconds(cells: Cells, name: str) -> tuple[Floats, str | None]:
    """Return seconds since 1970, NaN for missing, and the time zone: None if the dates have none and are local."""
    if cells.form == "date":
        return np.asarray(cells.values, np.float64), cells.zone
    results, codes = map_distinct(cells.to_list(), name, _instant)
    aware = {with_zone for _, with_zone in filter(None, results)}
    if len(aware) > 1:
        raise ValueError(f"Column {name!r} has dates with and without a time zone. Give all of them one, or none.")
    table = np.array([np.nan if r is None else r[0] for r in results], np.float64)
    return table[codes], "UTC" if aware == {True} else None


def _instant(value: Any) -> tuple[float, bool] | None:
    """Return seconds since 1970, and whether the value has a time zone; None if its text says that it is missing."""
    if isinstance(value, np.datetime64):
        return float(value.astype("M8[us]").astype(np.int64)) / 1e6, False
    fact = f"{value!r} is not a date"
    if isinstance(value, str):
        try:
            value = date_of_text(value)
        except ValueError as error:
            fact = str(error)
    if value is None:
        return None
    if isinstance(value, datetime.datetime):
        epoch = EPOCH if value.tzinfo is None else EPOCH.replace(tzinfo=datetime.UTC)
        return (value - epoch) / datetime.timedelta(seconds=1), value.tzinfo is not None
    if isinstance(value, datetime.date):
        return float((value - EPOCH.date()).days * DAY), False
    text_of(value)  # raises for a container
    raise ValueError(unlike_training(fact, "dates", "Write it as 2024-12-31 or 2024-12-31T23:59:00"))


def _iso_text(second: float) -> str:
    """Return the ISO text of seconds since 1970, to the second."""
    return str(np.datetime64(int(second // 1), "s"))
