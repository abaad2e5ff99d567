"""How a file writes numbers, dates and missing values, if not in the plain form of `natpn.tabular.texts`.

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
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from functools import cached_property
from typing import Any, Self

from natpn.tabular.config import Fields

ORDERS = ("day-first", "month-first")
UNITS = ("€", "$", "£", "¥", "₹", "%", "CHF", "EUR", "USD", "GBP")
# Digits with anything between them that may be a separator.
_NUMERIC = re.compile(r"[+-]?[.,]?[0-9](?:[0-9_]|[^\w+-])*(?:[eE][+-]?[0-9]+)?")
_SPACES = " \u00a0\u2009\u202f"
_APOSTROPHES = "'’"
_ORDERED = re.compile(r"(\d{1,2})([./-])(\d{1,2})\2(\d{4}|\d{2})(?:[ T,]\s*(\d{1,2}:\d{2}(?::\d{2}(?:\.\d{1,6})?)?))?")


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
        """Return what `to_config` described.

        Raises:
            ValueError: If it is not such a description.
        """
        texts = ("decimal", "thousands", "dates", "encoding")
        where = "How the table was written"
        read = Fields({"units": {}} | config if isinstance(config, dict) else config, where, [*texts, "na", "units"])
        units = read.value("units")
        if not isinstance(units, dict) or not all(unit in UNITS for unit in units.values()):
            raise ValueError(f"{where}: 'units' is {units!r:.80}, but a unit sign for each of some columns is needed.")
        return cls(**{name: read.text(name) for name in texts}, na=tuple(read.texts("na")), units=units)

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
    """Return what stands beside a unit sign, if it looks like a number, and the sign; otherwise the text and "".

    Args:
        text: A text, with spaces around it or without.
    """
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
