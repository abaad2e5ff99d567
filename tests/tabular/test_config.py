"""A configuration that was tampered with is refused, and the error says what is wrong."""

import copy

import pytest

from natpn.tabular import KINDS, TableTransform
from tabular.tables import again, frames, mixed

TABLE = mixed() | {"nothing": [None] * 60, "id": [f"id {i}" for i in range(60)]}
CONFIG = TableTransform().fit(frames(TABLE)["pandas"]).to_config()
PLACE = {column["kind"]: place for place, column in reversed(list(enumerate(CONFIG["columns"])))}


def test_every_kind_is_here():
    assert set(PLACE) == set(KINDS)
    assert TableTransform.from_config(CONFIG).to_config() == CONFIG
    assert again(TableTransform.from_config(CONFIG)).to_config() == CONFIG


@pytest.mark.parametrize("place", range(len(CONFIG["columns"])))
def test_every_field_is_needed_and_checked(place):
    for field in CONFIG["columns"][place]:
        config = copy.deepcopy(CONFIG)
        del config["columns"][place][field]
        with pytest.raises(ValueError, match=repr(field) if field != "kind" else "kind of column"):
            TableTransform.from_config(config)
        config["columns"][place][field] = {"wrong": 1}
        with pytest.raises(ValueError, match=repr(field) if field not in ("kind", "name") else "wrong"):
            TableTransform.from_config(config)


@pytest.mark.parametrize(
    ("kind", "field", "value", "message"),
    [
        ("number", "mean", float("nan"), "Column 'age' of the configuration: 'mean' is nan, but a finite number"),
        ("number", "mean", float("inf"), "'mean' is inf"),
        ("number", "mean", True, "a finite number"),
        ("number", "deviation", -1.0, "'deviation' is -1.0, but a finite number from 0 to inf"),
        ("number", "maximum", -1e9, "'maximum'"),
        ("number", "quantiles", [1.0], "a list of 5 numbers"),
        ("number", "quantiles", [1.0, 2.0, "3", 4.0, 5.0], r"'quantiles\[2\]' is '3'"),
        ("number", "exponent", 5000, "a whole number from -1000 to 1020"),
        ("number", "n_rows", 0, "'n_rows' is 0"),
        ("number", "missing", 1.5, "from 0 to 1"),
        ("number", "surplus", 1, "has the unknown 'surplus'. Was it saved by another version of natpn"),
        ("boolean", "true", 2, "'true' is 2"),
        ("category", "levels", ["a", "a", "b"], "a list of distinct texts"),
        ("category", "levels", ["a"], "'shares'"),
        ("category", "n_levels", 99, "'n_levels' is 99"),
        ("category", "rare_hashes", "!!", "no base64 text"),
        ("category", "rare_hashes", "AAAA", "no base64 text"),
        ("date", "zone", "Mars/Olympus", "time zone 'Mars/Olympus' is unknown"),
        ("date", "latest", -1e12, "'latest'"),
        ("date", "deviations", [0.0] * 6, "a list of 7 numbers"),
        ("empty", "kind", "ordinal", "the kind of column 7 is 'ordinal'; known are 'number', 'boolean'"),
        ("empty", "name", "age", "two columns of the name 'age'"),
    ],
)
def test_a_bad_field(kind, field, value, message):
    config = copy.deepcopy(CONFIG)
    config["columns"][PLACE[kind]][field] = value
    with pytest.raises(ValueError, match=message):
        TableTransform.from_config(config)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"version": 4}, "has version 4, but this natpn reads versions up to 3"),
        ({"columns": []}, "a list of at least one column"),
        ({"columns": {}}, "a list of at least one column"),
        ({"columns": ["age"]}, "the kind of column 0 is None"),
        ({"named": 1}, "'named' is 1, but true or false"),
        ({"other": 1}, "has the unknown 'other'"),
    ],
)
def test_a_bad_whole(change, message):
    with pytest.raises(ValueError, match=message):
        TableTransform.from_config(CONFIG | change)


def test_no_config():
    with pytest.raises(ValueError, match="an object with named fields"):
        TableTransform.from_config([1])
    with pytest.raises(ValueError, match="lacks 'columns', 'named'"):
        TableTransform.from_config({"version": 1})
