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

Spaces around a text are ignored, unless training had a category with exactly these spaces. A file may write values in
other ways, which `Written` describes:

| setting | texts | they are |
|---|---|---|
| decimal "," | 12,5 | 12.5; the text 12.5 is then no number |
| thousands "," | 9,171 and 12,34,567 | 9171 and 1234567; groups of two or three digits, the last of three |
| dates "day-first", "month-first" | 14.12.2023, 12/14/2023 14:30 | the 14th of December 2023 |
| dates "%d %b %y" | 14 Dec 23 | the same, by `datetime.strptime` |
| na "-999" | -999, and -999.0 | missing |
| units {"rent": "€"} | €12, 12 € | 12 in the column rent; so is 12 there, but $12 is no number |

Dates in ISO form are always read, unless the form that `dates` names fits them too. The sign of a unit stands before
or after the number, with or without spaces: €1200, -$5, $-5, 12 EUR, 82%. It does not change the number: 82% is 82.
"""

import datetime
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, field
from functools import cached_property
from math import inf, isfinite
from typing import Any, Self

MARKS = {"na", "n/a", "nan", "null", "none", "nat", "<na>", "#n/a", "#na", "#n/a n/a"}
MARKS |= {"", "-nan", "1.#ind", "-1.#ind", "1.#qnan", "-1.#qnan"}
TRUTHS = {"true": True, "false": False, "1": True, "0": False}
ORDERS = ("day-first", "month-first")
UNITS = ("€", "$", "£", "¥", "₹", "%", "CHF", "EUR", "USD", "GBP")
# Texts of which at least this share is of one kind are of that kind, with mistakes among them.
MOSTLY = 0.9
# What people write for a missing value besides the usual marks: a guess, so the user is asked.
PLACEHOLDER = re.compile(
    r"[^\w\s]+|unknown|missing|empty|not available|n\.a\.?|n\.d\.?|#(value|div/0|ref|num|name|null)[!?]", re.IGNORECASE
)
_NUMBER = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
_GROUPED = re.compile(r"[+-]?[1-9][0-9]{0,2}(?:[,.'’\s][0-9]{3})+(?:[.,][0-9]+)?")
_COMMA = re.compile(r"[+-]?[0-9]+,[0-9]+")
# Digits with anything between them that may be a separator.
_NUMERIC = re.compile(r"[+-]?[.,]?[0-9](?:[0-9_]|[^\w+-])*(?:[eE][+-]?[0-9]+)?")
_SPACES = " \u00a0\u2009\u202f"
_APOSTROPHES = "'’"
_ORDERED = re.compile(r"(\d{1,2})([./-])(\d{1,2})\2(\d{4}|\d{2})(?:[ T,]\s*(\d{1,2}:\d{2}(?::\d{2}(?:\.\d{1,6})?)?))?")


class Fields:
    """The fields of one object of a saved configuration, each checked when it is read.

    Args:
        config: The object.
        where: What to call it in errors.
        names: The fields it has to have; it may have no others.
    """

    def __init__(self, config: Any, where: str, names: Iterable[str]) -> None:
        if not isinstance(config, dict):
            raise ValueError(f"{where}: {config!r:.80} came where an object with named fields is needed.")
        expected = set(names)
        absent, unknown = sorted(expected - set(config)), sorted(map(str, set(config) - expected))
        if absent or unknown:
            parts = [f"lacks {', '.join(map(repr, absent))}"] * bool(absent)
            parts += [f"has the unknown {', '.join(map(repr, unknown))}"] * bool(unknown)
            raise ValueError(f"{where} {' and '.join(parts)}. Was it saved by another version of natpn?")
        self._config = config
        self.where = where

    def read(self, key: str, needed: str = "", fits: Callable[[Any], bool] = lambda value: True) -> Any:
        """Return a field, or say what is needed instead."""
        return self._check(key, self._config[key], needed, fits)

    def _check(self, key: str, value: Any, needed: str, fits: Callable[[Any], bool]) -> Any:
        if not fits(value):
            raise ValueError(f"{self.where}: {key!r} is {value!r:.80}, but {needed} is needed.")
        return value

    def text(self, key: str) -> str:
        """Return a text."""
        return str(self.read(key, "a text", lambda value: isinstance(value, str)))

    def texts(self, key: str) -> list[str]:
        """Return a list of distinct texts."""
        return list(self.read(key, "a list of distinct texts", _are_distinct_texts))

    def flag(self, key: str) -> bool:
        """Return true or false."""
        return bool(self.read(key, "true or false", lambda value: isinstance(value, bool)))

    def whole(self, key: str, low: int, high: int = 2**53) -> int:
        """Return a whole number in a range."""
        needed = f"a whole number from {low} to {high}"
        return int(self.read(key, needed, lambda value: type(value) is int and low <= value <= high))

    def number(self, key: str, low: float = -inf, high: float = inf) -> float:
        """Return a finite number in a range."""
        return self._number(key, self._config[key], low, high)

    def numbers(self, key: str, length: int, low: float = -inf, high: float = inf) -> list[float]:
        """Return a list of finite numbers in a range."""
        entries = self.read(key, f"a list of {length} numbers", lambda v: isinstance(v, list) and len(v) == length)
        return [self._number(f"{key}[{place}]", entry, low, high) for place, entry in enumerate(entries)]

    def _number(self, key: str, value: Any, low: float, high: float) -> float:
        needed = "a finite number" + ("" if (low, high) == (-inf, inf) else f" from {low} to {high}")
        return float(
            self._check(key, value, needed, lambda v: type(v) in (int, float) and isfinite(v) and low <= v <= high)
        )


def _are_distinct_texts(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(v, str) for v in value) and len(set(value)) == len(value)


@dataclass(frozen=True)
class Written:
    """How a file writes its values.

    Attributes:
        decimal: The sign before decimals, "." or ",".
        thousands: The sign between thousands; none if empty.
        dates: "day-first", "month-first", or a format of `datetime.strptime`; ISO form alone if empty.
        na: Texts that stand for missing values, besides the usual ones.
        encoding: How characters are written.
        units: The sign beside the numbers of a column, by its name, where there is one.
    """

    decimal: str = "."
    thousands: str = ""
    dates: str = ""
    na: tuple[str, ...] = ()
    encoding: str = "utf-8"
    units: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.decimal not in (".", ","):
            raise ValueError(f"decimal: expected . or , but got {self.decimal!r}")
        if self.thousands and (len(self.thousands) != 1 or self.thousands.isalnum() or self.thousands in '+-"'):
            raise ValueError(f"thousands: expected one sign, such as , or ' or a space, but got {self.thousands!r}")
        if self.thousands == self.decimal:
            other = "," if self.decimal == "." else "."
            raise ValueError(
                f"thousands: {self.thousands} is the decimal sign as well; say that the decimal sign is {other}"
            )
        try:
            " ".encode(self.encoding)
        except (LookupError, ValueError):
            raise ValueError(
                f"encoding: there is no {self.encoding!r}; known are utf-8, utf-16, latin1, cp1252 and others"
            ) from None
        if self.dates and self.dates not in ORDERS and not _is_format(self.dates):
            raise ValueError(
                f"dates: expected {' or '.join(ORDERS)}, or a format with day, month and year such as %d.%m.%Y, but "
                f"got {self.dates!r}"
            )

    def to_config(self) -> dict[str, Any]:
        """Return this as JSON can hold it."""
        config = asdict(self) | {"na": list(self.na)}
        if not self.units:  # so that versions without units can read it
            del config["units"]
        return config

    @classmethod
    def from_config(cls, config: Any) -> Self:
        """Return what `to_config` described, or raise a ValueError."""
        texts = ("decimal", "thousands", "dates", "encoding")
        given = {"units": {}} | config if isinstance(config, dict) else config
        fields = Fields(given, "How the table was written", [*texts, "na", "units"])
        units = fields.read(
            "units",
            "a unit sign for each of some columns",
            lambda value: isinstance(value, dict) and all(unit in UNITS for unit in value.values()),
        )
        return cls(**{name: fields.text(name) for name in texts}, na=tuple(fields.texts("na")), units=units)

    @classmethod
    def of_table(cls, table: dict[str, Any] | None) -> Self:
        """Return how the table of a fit was written, as saved with the model; in plain form if nothing is saved."""
        return cls.from_config(table["written"]) if table and "written" in table else cls()

    def is_missing(self, text: str) -> bool:
        """Say whether a text stands for a missing value here, or is the same number as one that does, in any unit."""
        if text.strip() in self.na:
            return True
        return bool(self.missing_numbers) and _float(self.number(split_unit(text)[0])) in self.missing_numbers

    @property
    def has_plain_numbers(self) -> bool:
        """Whether numbers have a decimal point and nothing between thousands."""
        return self.decimal == "." and not self.thousands

    def number(self, text: str) -> str | None:
        """Return a number with a decimal point and nothing between thousands; None if it is not in this file's form."""
        if self.has_plain_numbers:
            return text
        found = self._number.fullmatch(text)
        if not found:
            return None
        whole, decimals, power = found.groups("")
        return re.sub(r"[^\d+-]", "", whole) + (f".{decimals}" if decimals else "") + power

    def date(self, text: str) -> datetime.datetime | None:
        """Return the date of a text in the form of `dates`; None if it is not one."""
        try:
            if self.dates in ORDERS:
                return _ordered(text, self.dates == "day-first")
            return datetime.datetime.strptime(text, self.dates) if self.dates else None
        except ValueError:
            return None

    @cached_property
    def missing_numbers(self) -> frozenset[float]:
        """The numbers that stand for missing values."""
        return frozenset(number for text in self.na if (number := _float(text)) is not None)

    @cached_property
    def _number(self) -> re.Pattern[str]:
        sign = next((alike for alike in (_SPACES, _APOSTROPHES) if self.thousands and self.thousands in alike), None)
        between = f"[{sign or re.escape(self.thousands)}]" if self.thousands else "(?!)"
        grouped = rf"[+-]?\d{{1,3}}(?:{between}\d{{2,3}})*{between}\d{{3}}"
        point = re.escape(self.decimal)
        return re.compile(rf"({grouped}|[+-]?\d+|[+-]?(?={point}\d))(?:{point}(\d*))?([eE][+-]?\d+)?", re.ASCII)


PLAIN = Written()


def split_unit(text: str) -> tuple[str, str]:
    """Return what stands beside a unit sign, if it looks like a number, and the sign; otherwise the text and ""."""
    plain = text.strip()
    sign = plain[0] if plain.startswith(("+", "-")) else ""
    # Not one pattern for both ends, which would try every space of a long text as the end of the number.
    if plain.endswith(UNITS):
        unit = next(unit for unit in UNITS if plain.endswith(unit))
        number = plain[: -len(unit)].rstrip()
    elif plain.startswith(UNITS, len(sign)):
        unit = next(unit for unit in UNITS if plain.startswith(unit, len(sign)))
        number = sign + plain[len(sign) + len(unit) :].lstrip()
    else:
        return plain, ""
    return (number, unit) if _NUMERIC.fullmatch(number) else (plain, "")


def _float(text: str | None) -> float | None:
    try:
        return None if text is None else float(text)
    except ValueError:
        return None


def _is_format(form: str) -> bool:
    """Say whether a format of `datetime.strptime` keeps the day."""
    day = datetime.datetime(2023, 12, 14)
    try:
        return datetime.datetime.strptime(day.strftime(form), form).date() == day.date()
    except ValueError:
        return False


def _ordered(text: str, day_first: bool) -> datetime.datetime | None:
    found = _ORDERED.fullmatch(text)
    if not found:
        return None
    first, _, second, year, time = found.groups()
    day, month = (first, second) if day_first else (second, first)
    short = len(year) == 2
    date = datetime.datetime.strptime(f"{day} {month} {year}", "%d %m %y" if short else "%d %m %Y")
    if time is None:
        return date
    return datetime.datetime.combine(date, datetime.time.fromisoformat(time if time[2] == ":" else f"0{time}"))


def is_mark(text: str) -> bool:
    """Say whether a text stands for a missing value, unless it is a category."""
    return text.strip().lower() in MARKS


def number_of_text(text: str, written: Written = PLAIN, unit: str = "") -> float | None:
    """Return the number that a text is, with its unit or without, None if it is missing; otherwise raise ValueError."""
    number = find_number(text, written, unit)
    if number is not None or is_mark(text):
        return number
    other = split_unit(text)[1]
    if other != unit and find_number(text, written, other) is not None:
        raise ValueError(f"{shown(text)} is not a finite number {f'in {unit}' if unit else 'without a unit'}")
    advice = separator_advice(text) if written.has_plain_numbers else None
    raise ValueError(f"{shown(text)} is not a finite number" + (f": it {advice}" if advice else ""))


def truth_of_text(text: str) -> bool | None:
    """Return the truth value that a text is, None if it is missing; otherwise raise ValueError."""
    truth = TRUTHS.get(text.strip().lower())
    if truth is not None or is_mark(text):
        return truth
    raise ValueError(f"{shown(text)} is no truth value")


def date_of_text(text: str, written: Written = PLAIN) -> datetime.datetime | None:
    """Return the date that a text is, None if it is missing; otherwise raise ValueError."""
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
    """Return the most frequent unit sign beside numbers, however these are written; "" if there is none."""
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
