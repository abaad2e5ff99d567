"""Tables that met rows after training: what those had is no event any more beside both, and nothing else changes."""

import datetime

import numpy as np
import pandas as pd
import pytest

from natpn.tabular import TableTransform
from tabular.tables import mixed

BEFORE = {
    "number": [1.0, 2.0, 3.0, 4.0],
    "constant": [1.0, 1.0, 1.0, 1.0],
    "truth": [True, True, True, True],
    "category": ["a", "b", "a", "b"],
    "date": [datetime.datetime(2024, 1, day) for day in (1, 2, 3, 4)],
    "empty": [None, None, None, None],
}
NEW = {
    "number": 9.0,
    "constant": 2.0,
    "truth": False,
    "category": "c",
    "date": datetime.datetime(2024, 3, 1),
    "empty": "text",
}
OTHERS = {"number": 90.0, "category": "d"}


def frame(**changes):
    return pd.DataFrame({name: values[:1] for name, values in (BEFORE | changes).items()})


@pytest.fixture(scope="module")
def table():
    return TableTransform().fit(pd.DataFrame(BEFORE))


@pytest.mark.parametrize("name", [name for name in NEW if name != "date"])
def test_a_new_value_is_no_event_after_it_was_met(table, name):
    new = frame(**{name: [NEW[name]]})
    assert table.transform(new)[0, -1] < 0
    met = table.meeting(new)
    assert met.transform(new)[0, -2] == table.transform(new)[0, -1]
    assert met.transform(new)[0, -1] == 0
    assert met.transform(new)[:, :-1].tolist() == table.transform(new).tolist()


@pytest.mark.parametrize("name", NEW)
def test_a_first_missing_value_is_no_event_after_it_was_met(table, name):
    if name == "empty":
        return
    missing = frame(**{name: pd.Series([None], dtype=pd.DataFrame(BEFORE)[name].dtype if name == "date" else object)})
    assert table.transform(missing)[0, -1] < 0
    assert table.meeting(missing).transform(missing)[0, -1] == 0


@pytest.mark.parametrize("name", OTHERS)
def test_another_new_value_stays_an_event(table, name):
    met = table.meeting(frame(**{name: [NEW[name]]}))
    other = met.transform(frame(**{name: [OTHERS[name]]}))[0]
    assert other[-1] < -0.3
    assert other[-2] <= other[-1]


def test_rows_that_are_met_one_after_the_other_are_met_together(table):
    first, second = frame(category=["c"]), frame(category=["d"], number=[7.0])
    one = table.meeting(first).meeting(second)
    both = table.meeting(pd.concat([second, first]))
    probe = pd.concat([first, second, frame(category=["e"])])
    assert one.transform(probe).tolist() == both.transform(probe).tolist()
    assert one.transform(probe)[:, -1].tolist()[:2] == [0, 0]


def test_very_many_levels_are_met():
    names = [f"level {i}" for i in range(1200)]
    table = TableTransform().fit(pd.DataFrame({"name": ["a", "b"] * 600}))
    met = table.meeting(pd.DataFrame({"name": names})).meeting(pd.DataFrame({"name": ["one more"]}))
    probe = pd.DataFrame({"name": [*names[:3], "one more", "unseen"]})
    assert met.met.columns[0].rare == []
    assert (met.transform(probe)[:, -1] < 0).tolist() == [False, False, False, False, True]
    assert TableTransform.from_config(met.to_config()).transform(probe).tolist() == met.transform(probe).tolist()


def test_it_is_written_and_read():
    rows = pd.DataFrame(mixed(60))
    table = TableTransform().fit(rows[:40])
    met = table.meeting(rows[40:50].assign(city="Paris"))
    again = TableTransform.from_config(met.to_config())
    probe = rows[50:].assign(city=["Paris", "Rome", "Lima"] * 3 + [None])
    assert np.array_equal(again.transform(probe), met.transform(probe))
    assert again.n_outputs == table.n_outputs + 1
    config = met.to_config()
    config["met"] = config["met"][1:]
    with pytest.raises(ValueError, match="'met' has other columns than 'columns'"):
        TableTransform.from_config(config)
