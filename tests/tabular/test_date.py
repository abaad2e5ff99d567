"""Dates: seconds and the calendar, time zones, missing values, and what is not a date."""

import datetime
import math
from zoneinfo import ZoneInfo

import numpy as np
import pandas as pd
import polars as pl
import pytest

from natpn import NatPNRegressor
from natpn.tabular import TableTransform
from natpn.tabular.date import wall_seconds
from tabular.events import events
from tabular.tables import again

BERLIN = ZoneInfo("Europe/Berlin")
START = datetime.datetime(2023, 12, 30, 5, 30)
TIMES = [START + datetime.timedelta(hours=61 * i) for i in range(400)]


def fit(values):
    return TableTransform().fit(pl.DataFrame({"t": values}))


def test_parts_are_those_of_the_calendar():
    result = fit(TIMES).transform(pl.DataFrame({"t": TIMES}))
    seconds = np.array([(t - datetime.datetime(1970, 1, 1)).total_seconds() for t in TIMES])
    turns = [
        np.array([(t.month - 1) / 12 for t in TIMES]),
        np.array([t.weekday() / 7 for t in TIMES]),
        np.array([(t.hour + t.minute / 60) / 24 for t in TIMES]),
    ]
    parts = [seconds, *(wave(2 * np.pi * turn) for turn in turns for wave in (np.sin, np.cos))]
    expected = np.stack([(part - part.mean()) / part.std() for part in parts], axis=1)
    np.testing.assert_allclose(result[:, :-1], expected, rtol=1e-5, atol=1e-5)


def test_parts_that_do_not_vary_are_left_out():
    days = [datetime.date(2024, 3, 1 + i) for i in range(14)]
    assert fit(days).n_numbers == 3
    assert fit(days[::7]).n_numbers == 1
    assert fit(days[:1] * 3).n_outputs == 2
    noon = [datetime.datetime(2024, 3, day, hour) for day in (1, 8, 22) for hour in (0, 12, 12)]
    assert fit(noon).n_numbers == 2  # the sine of half a turn is 0


@pytest.mark.parametrize(
    ("step", "period"),
    [({"days": 5}, 365.25), ({"days": 1}, 7), ({"hours": 1}, 1)],
)
def test_parts_of_less_than_two_periods_are_left_out(step, period):
    every = datetime.timedelta(**step)
    count = round(1.9 * datetime.timedelta(days=period) / every)
    dates = [START + i * every for i in range(count + 1)]
    assert fit(dates).n_numbers - fit(dates[: round(0.9 * count)]).n_numbers == 2


@pytest.mark.slow
def test_what_a_month_brings_is_not_taken_from_one_year():
    days = pd.date_range("2020-01-01", "2022-06-30", freq="D")
    t = np.arange(len(days)) / 365.25
    generator = np.random.default_rng(0)
    y = t + generator.normal(size=len(t)) / 10  # grows by 1 a year, whatever the month
    train = np.arange(len(days)) < 540
    model = NatPNRegressor(family="normal", random_state=0).fit(pd.DataFrame({"t": days[train]}), y[train])
    later = ~train & (t < 2)
    error = model.predict(pd.DataFrame({"t": days[later]})) - y[later]
    assert np.abs(error.mean()) < 0.4  # with months it is 0.54: those of autumn are known from the first year alone


def test_missing_and_constant():
    transform = fit([*TIMES, None])
    result = transform.transform(pl.DataFrame({"t": [None, TIMES[0]]}, schema={"t": pl.Datetime}))
    assert (transform.n_numbers, transform.n_outputs) == (7, 9)
    np.testing.assert_array_equal(result[0, :7], 0)
    assert result[0, 7] > 0 > result[1, 7]
    assert result[0, 8] == 0
    constant = fit(TIMES[:1] * 4)
    result = constant.transform(pl.DataFrame({"t": [TIMES[0], TIMES[1], None]}))
    np.testing.assert_allclose(events(result[:, -1], constant), [0, -math.log(6), -math.log(6)], rtol=1e-6)
    assert constant.most_unusual(pl.DataFrame({"t": [TIMES[0]]})) == ["t"]


def test_instants_are_the_same_in_every_zone_and_library():
    local = [t.replace(tzinfo=BERLIN) for t in TIMES]
    frame = pl.DataFrame({"t": pl.Series(TIMES).dt.replace_time_zone("Europe/Berlin")})
    transform = TableTransform().fit(frame)
    expected = transform.transform(frame)
    clock = fit(TIMES).transform(pl.DataFrame({"t": TIMES}))
    np.testing.assert_array_equal(expected[:, 1:], clock[:, 1:])  # the clock's parts are those of the wall
    assert transform.columns[0].summary == {
        "earliest": "2023-12-30T05:30:00",
        "latest": str(TIMES[-1].isoformat()),
        "zone": "Europe/Berlin",
        "missing": 0.0,
    }
    others = [
        pl.DataFrame({"t": frame["t"].dt.convert_time_zone("Asia/Tokyo")}),
        pl.DataFrame({"t": frame["t"].dt.convert_time_zone("UTC").cast(pl.Datetime("ms", "UTC"))}),
        pd.DataFrame({"t": pd.to_datetime(local, utc=True)}),
        pd.DataFrame({"t": pd.to_datetime(local, utc=True).tz_convert("+05:30")}),
        frame.to_arrow(),
        [[t] for t in local],
        [[t.isoformat()] for t in local],
    ]
    for other in others:
        np.testing.assert_array_equal(transform.transform(other), expected)
        np.testing.assert_array_equal(again(transform).transform(other), expected)


def test_naive_dates_in_every_form():
    transform = fit(TIMES)
    expected = transform.transform(pl.DataFrame({"t": TIMES}))
    others = [
        np.array(TIMES, "M8[s]")[:, None],
        np.array(TIMES, "M8[ns]")[:, None],
        [[np.datetime64(t)] for t in TIMES],
        [[pd.Timestamp(t)] for t in TIMES],
        [[t.isoformat()] for t in TIMES],
        pd.DataFrame({"t": TIMES}),
    ]
    for other in others:
        np.testing.assert_array_equal(transform.transform(other), expected)
    days = fit([t.date() for t in TIMES])
    result = days.transform([[t.date()] for t in TIMES])
    np.testing.assert_array_equal(days.transform([[t.date().isoformat()] for t in TIMES]), result)
    assert TableTransform().fit(np.array([["2024-01-01"], ["NaT"]], "M8[D]")).columns[0].missing == 0.5


def test_zones_have_to_agree():
    aware = pl.DataFrame({"t": pl.Series(TIMES).dt.replace_time_zone("UTC")})
    with pytest.raises(ValueError, match="Column 't' has no time zone, but had the time zone 'UTC'"):
        TableTransform().fit(aware).transform(pl.DataFrame({"t": TIMES}))
    with pytest.raises(ValueError, match="Column 't' has the time zone 'UTC', but had no time zone"):
        fit(TIMES).transform(aware)
    with pytest.raises(ValueError, match="Column 'x0' has dates with and without a time zone"):
        TableTransform().fit([[TIMES[0]], [TIMES[1].replace(tzinfo=BERLIN)]])


@pytest.mark.parametrize(("value", "shown"), [("soon", "'soon'"), (5, "5"), ("2024-13-01", "'2024-13-01'")])
def test_no_date(value, shown):
    with pytest.raises(ValueError, match=f"Column 't', row 1: {shown} is not a date; the column had only dates"):
        fit(TIMES).transform([[TIMES[0]], [value]])


@pytest.mark.parametrize("zone", ["Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "+05:30", "UTC-03:00"])
def test_wall_seconds_are_those_of_the_clocks(zone):
    instants = np.arange(1.6e9, 1.7e9, 77_777.5)
    info = ZoneInfo(zone) if "/" in zone else datetime.timezone(datetime.timedelta(hours=5.5 if "5" in zone else -3))
    clocks = [datetime.datetime.fromtimestamp(s, info).replace(tzinfo=datetime.UTC).timestamp() for s in instants]
    np.testing.assert_array_equal(wall_seconds(instants, zone), clocks)


def test_wall_seconds_on_days_when_clocks_change():
    change = datetime.datetime(2024, 3, 31, 1, tzinfo=datetime.UTC).timestamp()
    instants = np.array([change - 1, change, np.nan])
    np.testing.assert_array_equal(wall_seconds(instants, "Europe/Berlin") - instants, [3600, 7200, np.nan])


def test_unknown_zone():
    with pytest.raises(ValueError, match="The time zone 'Mars/Olympus' is unknown here"):
        wall_seconds(np.zeros(1), "Mars/Olympus")


def test_unknown_zone_of_a_column():
    column = pd.DataFrame({"t": [TIMES[0].replace(tzinfo=BERLIN)]})["t"]
    transform = TableTransform().fit(column.to_frame())
    config = transform.to_config()
    config["columns"][0]["zone"] = "Mars/Olympus"
    with pytest.raises(ValueError, match="Column 't' of the configuration: The time zone 'Mars/Olympus' is unknown"):
        TableTransform.from_config(config)


def test_any_date_of_the_calendar():
    ends = [[datetime.datetime.min], [datetime.datetime.max], [None]]
    result = TableTransform().fit(ends).transform(ends)
    assert np.isfinite(result).all()
    aware = [[datetime.datetime(1, 1, 1, tzinfo=BERLIN)], [datetime.datetime(9999, 12, 31, tzinfo=BERLIN)]]
    assert np.isfinite(TableTransform().fit(aware).transform(aware)).all()
