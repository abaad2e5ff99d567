"""Numbers with a unit sign: what is one, and what only looks so."""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from natpn.tabular.column_kinds import kind_of_texts
from natpn.tabular.texts import UNITS, Written, number_of_text, separator_advice, split_unit, unit_of_texts

FORMS = ["{unit}{number}", "{unit} {number}", "{number}{unit}", "{number}\u00a0{unit}", " {number} {unit} "]


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("unit", UNITS)
@given(number=st.floats(-1e15, 1e15))
def test_a_number_is_the_same_with_its_unit(form, unit, number):
    assert number_of_text(form.format(number=number, unit=unit), unit=unit) == number
    assert number_of_text(str(number), unit=unit) == number


@pytest.mark.parametrize(
    ("text", "number"),
    [("-$5", -5), ("$-5", -5), ("+$ 5", 5), ("$.5", 0.5), ("-5$", -5), ("1e3 $", 1000), ("n/a", None), (" ", None)],
)
def test_the_sign_of_the_number_is_before_or_after_the_unit(text, number):
    assert number_of_text(text, unit="$") == number


@pytest.mark.parametrize(
    "text", ["$", "-$-5", "- $5", "$5$", "$5%", "$$5", "5 $ 6", "$5-10", "$ NA", "5 dollars", "US$5", "5usd", "$inf"]
)
def test_what_is_no_number_with_a_unit(text):
    with pytest.raises(ValueError, match=r"is not a finite number$"):
        number_of_text(text, unit="$")


@pytest.mark.parametrize(("unit", "expected"), [("€", "in €"), ("", "without a unit")])
def test_another_unit_is_refused(unit, expected):
    with pytest.raises(ValueError, match=rf"^'\$5' is not a finite number {expected}$"):
        number_of_text("$5", unit=unit)


def test_numbers_beside_a_unit_are_written_as_the_file_says():
    written = Written(",", ".", na=("-999",))
    assert number_of_text("1.234,5 €", written, "€") == 1234.5
    assert number_of_text("-€1.234,5", written, "€") == -1234.5
    assert written.is_missing("€ -999,0")
    assert not written.is_missing("€ 999")
    with pytest.raises(ValueError, match=r"is not a finite number$"):
        number_of_text("12.5 €", written, "€")
    with pytest.raises(ValueError, match="'€1,200' is not a finite number: it has a separator, perhaps of thousands"):
        number_of_text("€1,200", unit="€")
    assert separator_advice("€12,5") == "has a decimal comma; write €12.5"


def test_a_unit_is_split_off_whatever_form_the_number_has():
    assert split_unit(" 1,200 € ") == ("1,200", "€")
    assert split_unit("-€ 1'200") == ("-1'200", "€")
    for text in ("EUROPE", "in EUR", "€", "12", "5-10%", "€5 to 10"):
        assert split_unit(text) == (text, "")


def test_the_unit_of_a_column_is_the_most_frequent():
    assert unit_of_texts({"€5": 2, "5 $": 3, "7": 9, "x €": 9}) == "$"
    assert unit_of_texts({"€1,200": 2}) == "€"
    assert unit_of_texts({"5": 2, "NA": 1, "100% cotton": 1}) == unit_of_texts({}) == ""


def test_the_kind_of_texts_with_a_unit():
    texts = {"€5": 30, "-6 €": 30, "7": 30, "NA": 1}
    assert kind_of_texts(texts, unit="€") == ("number", [])
    assert kind_of_texts(texts | {"$5": 1, "-": 20}, unit="€") == ("number", ["$5", "-"])
    assert kind_of_texts(texts | {"$5": 30}, unit="€") == ("category", [])
    assert kind_of_texts({"€5": 30, "6 €": 30}) == ("category", [])


def test_units_are_saved_and_checked_when_they_are_read():
    written = Written(units={"rent": "€"})
    assert Written.from_config(written.to_config()) == written
    old = Written().to_config()
    assert "units" not in old
    assert Written.from_config(old) == Written.from_config(old | {"units": {}}) == Written()
    for units in (["€"], {"rent": "euro"}, {"rent": ["€"]}, None):
        with pytest.raises(ValueError, match="How the table was written: 'units' is"):
            Written.from_config(old | {"units": units})


def test_long_texts_are_split_in_proportion_to_their_length():
    start = time.process_time()
    for text in ("1" + " " * 10**6 + "%", "%" + " " * 10**6 + "1", "1" + " " * 10**6 + "x", "%" * 10**6):
        split_unit(text)
    assert time.process_time() - start < 1  # 0.01 s; hours if each space were tried as the end of the number
