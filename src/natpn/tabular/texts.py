"""The text of a cell → its value: how texts are read in files, requests and data frames alike.

| text | in a column of | it is |
|---|---|---|
| nothing, or spaces alone | anything | missing |
| NA, n/a, NaN, null, None and their like (`MARKS`), in any case | numbers, truth values, dates | missing |
| the same | categories | a value if training had it as one, such as Namibia's code NA; otherwise missing |
| 12, -1.5, .5, 1e3 | numbers | that number: ASCII digits and a point, neither 1_000 nor 0x1F nor inf |
| €12, 12 EUR, 12% | numbers | 12, if the column has that unit; other units are never mixed with it |
| true, false, 1, 0, in any case | truth values | that truth value |
| 2024-12-31, 2024-12-31T23:59:00+01:00 | dates | that date: ISO form, with a time zone or without, as in training |
| anything | categories | itself |

Spaces around a text are ignored, unless training had a category with exactly these spaces. Files may write numbers,
dates and missing values in other ways, which `Written` describes.
"""

import datetime
import re
from collections import Counter
from collections.abc import Mapping
from math import isfinite

from natpn.tabular.written import PLAIN, UNITS, Written, split_unit

MARKS = {"na", "n/a", "nan", "null", "none", "nat", "<na>", "#n/a", "#na", "#n/a n/a"}
MARKS |= {"", "-nan", "1.#ind", "-1.#ind", "1.#qnan", "-1.#qnan"}
TRUTHS = {"true": True, "false": False, "1": True, "0": False}
# Texts of which at least this share is of one kind are of that kind, with mistakes among them.
MOSTLY = 0.9
# What people write for a missing value besides the usual marks: a guess, so the user is asked.
PLACEHOLDER = re.compile(
    r"[^\w\s]+|unknown|missing|empty|not available|n\.a\.?|n\.d\.?|#(value|div/0|ref|num|name|null)[!?]", re.IGNORECASE
)
_NUMBER = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
_GROUPED = re.compile(r"[+-]?[1-9][0-9]{0,2}(?:[,.'’\s][0-9]{3})+(?:[.,][0-9]+)?")
_COMMA = re.compile(r"[+-]?[0-9]+,[0-9]+")


def is_mark(text: str) -> bool:
    """Say whether a text stands for a missing value, unless it is a category."""
    return text.strip().lower() in MARKS


def number_of_text(text: str, written: Written = PLAIN, unit: str = "") -> float | None:
    """Return the number that a text stands for, None if it stands for a missing value.

    Args:
        text: The text.
        written: How its file writes numbers.
        unit: The sign that may stand before or after the number; none if empty.

    Raises:
        ValueError: If it is neither, has another unit, or is too large for float64.
    """
    number = find_number(text, written, unit)
    if number is not None or is_mark(text):
        return number
    other = split_unit(text)[1]
    if other != unit and find_number(text, written, other) is not None:
        raise ValueError(f"{shown(text)} is not a finite number {f'in {unit}' if unit else 'without a unit'}")
    advice = separator_advice(text) if written.has_plain_numbers else None
    raise ValueError(f"{shown(text)} is not a finite number" + (f": it {advice}" if advice else ""))


def truth_of_text(text: str) -> bool | None:
    """Return the truth value that a text stands for, None if it stands for a missing value.

    Raises:
        ValueError: If it is neither.
    """
    truth = TRUTHS.get(text.strip().lower())
    if truth is not None or is_mark(text):
        return truth
    raise ValueError(f"{shown(text)} is no truth value")


def date_of_text(text: str, written: Written = PLAIN) -> datetime.datetime | None:
    """Return the date that a text stands for, None if it stands for a missing value.

    Raises:
        ValueError: If it is neither.
    """
    date = find_date(text, written)
    if date is not None or is_mark(text):
        return date
    raise ValueError(f"{shown(text)} is not a date")


def separator_advice(text: str) -> str | None:
    """Say what to do about a number with separators of thousands or a decimal comma; None if it is not one.

    9,171 may be either, so that its value as a decimal is not suggested. A unit sign beside the number is allowed.
    """
    number, _ = split_unit(text)
    if _GROUPED.fullmatch(number):
        return "has a separator, perhaps of thousands; write thousands without one, and decimals with a point"
    if _COMMA.fullmatch(number):
        return f"has a decimal comma; write {text.strip().replace(',', '.')}"
    return None


def unit_of_texts(counts: Mapping[str, int]) -> str:
    """Return the most frequent unit sign beside numbers, however these are written; "" if there is none.

    Args:
        counts: How often there is each text.
    """
    together = "\n".join(counts)
    if not any(unit in together for unit in UNITS):  # most columns have none, and one text at a time takes long
        return ""
    units: Counter[str] = Counter()
    for text, count in counts.items():
        units[split_unit(text)[1]] += count
    del units[""]
    return max(units, key=lambda unit: units[unit], default="")


def shown(text: str) -> str:
    """Return a text as errors show it, cut if it is long."""
    plain = text.strip()
    return repr(plain) if len(plain) <= 60 else repr(plain[:60]) + "…"


def brief(value: object) -> str:
    """Return any value as errors show it, cut if it is long."""
    plain = value is None or isinstance(value, bool | int | float)
    text = repr(value[:60]) if isinstance(value, str) else repr(value) if plain else type(value).__name__
    return text if len(text) <= 80 else text[:79] + "…"


def find_number(text: str, written: Written, unit: str) -> float | None:
    """Return the finite number that a text is, with its unit or without; None if it is not one."""
    plain = written.number(text.strip())
    if plain is not None and _NUMBER.fullmatch(plain):
        number = float(plain)
        return number if isfinite(number) else None
    if not unit:
        return None
    beside, sign = split_unit(text)
    return find_number(beside, written, "") if sign == unit else None


def find_date(text: str, written: Written) -> datetime.datetime | None:
    """Return the date that a text is; None if it is not one."""
    plain = text.strip()
    date = written.date(plain)
    if date is not None or not plain[:1].isdigit():
        return date
    try:
        return datetime.datetime.fromisoformat(plain)
    except ValueError:
        return None
