"""Numbers and dates as files write them."""

import datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from natpn.tabular.column_kinds import kind_of_texts
from natpn.tabular.texts import PLAIN, Written, date_of_text, number_of_text

GERMAN = Written(",", ".", "day-first", ("-999", "?"), "cp1252")


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("1.234,56", 1234.56),
        ("-1.234.567", -1234567),
        (" 12 ", 12),
        (",5", 0.5),
        ("5,", 5),
        ("1,5e3", 1500),
        ("NA", None),
    ],
)
def test_numbers_of_a_file_that_says_how_it_writes_them(text, number):
    assert number_of_text(text, GERMAN) == number


@pytest.mark.parametrize("text", ["1.5", "0.5", "12.34", "1,2,3", "1.234.56", "1..234", ",", ".", "1 234", "e3"])
def test_what_is_written_otherwise_is_no_number(text):
    with pytest.raises(ValueError, match=r"is not a finite number$"):
        number_of_text(text, GERMAN)


@pytest.mark.parametrize("sign", [",", ".", "'", " ", "_"])
@given(number=st.floats(-1e15, 1e15))
def test_grouped_numbers_are_what_they_were_before(sign, number):
    written = Written("," if sign == "." else ".", sign)
    text = f"{number:,.4f}".replace(".", "#").replace(",", sign).replace("#", written.decimal)
    assert number_of_text(text, written) == float(f"{number:.4f}")


def test_thousands_may_have_spaces_and_apostrophes_of_any_kind():
    assert number_of_text("1\u00a0234\u202f567", Written(thousands=" ")) == 1234567
    assert number_of_text("1’234.5", Written(thousands="'")) == 1234.5
    assert number_of_text("12,34,567", Written(thousands=",")) == 1234567
    with pytest.raises(ValueError, match="not a finite number"):
        number_of_text("1,5", Written(thousands=","))


@pytest.mark.parametrize(
    ("text", "dates", "expected"),
    [
        ("14.12.2023", "day-first", (2023, 12, 14)),
        ("3/4/98", "day-first", (1998, 4, 3)),
        ("3/4/98", "month-first", (1998, 3, 4)),
        ("14-12-2023 9:05", "day-first", (2023, 12, 14, 9, 5)),
        ("14.12.2023, 19:05:07.5", "day-first", (2023, 12, 14, 19, 5, 7, 500_000)),
        ("2023-12-14", "day-first", (2023, 12, 14)),
        ("2023-04-03", "%Y-%d-%m", (2023, 3, 4)),
        ("2023-04-03T00:00:00", "%Y-%d-%m", (2023, 4, 3)),
    ],
)
def test_dates(text, dates, expected):
    assert date_of_text(text, Written(dates=dates)) == datetime.datetime(*expected)


@pytest.mark.parametrize(
    "text", ["31.2.2023", "12/14/2023", "14.12/2023", "14.12.202", "1412.2023", "14.12.2023 25:00"]
)
def test_what_is_no_date(text):
    with pytest.raises(ValueError, match="is not a date"):
        date_of_text(text, GERMAN)


def test_missing_values_are_texts_or_the_same_number():
    assert all(map(GERMAN.is_missing, ["-999", " ? ", "-999,0"]))
    assert not any(map(GERMAN.is_missing, ["", "999", "??", "-9999", "a"]))
    assert not PLAIN.is_missing("-999")


def test_the_kind_of_texts_is_that_of_the_file():
    texts = {"1,5": 5, "2.000,5": 3}
    assert kind_of_texts(texts) == ("category", [])
    assert kind_of_texts(texts, GERMAN) == ("number", [])
    assert kind_of_texts({"14.12.2023": 5, "1.1.2023": 1}, GERMAN) == ("date", [])


def test_it_is_saved_and_checked_when_it_is_read():
    assert Written.from_config(GERMAN.to_config()) == GERMAN
    assert Written.of_table(None) == Written.of_table({"target": "y"}) == PLAIN
    assert Written.of_table({"written": GERMAN.to_config()}) == GERMAN
    for config in (
        {},
        GERMAN.to_config() | {"na": "?"},
        GERMAN.to_config() | {"decimal": ""},
        GERMAN.to_config() | {"x": 1},
    ):
        with pytest.raises(ValueError, match=r"How the table was written|decimal: "):
            Written.from_config(config)


@pytest.mark.parametrize("encoding", ["latin99", "base64", ""])
def test_encodings_are_those_of_text(encoding):
    with pytest.raises(ValueError, match="encoding: there is no"):
        Written(encoding=encoding)
