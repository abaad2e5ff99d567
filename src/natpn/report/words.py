"""Shares, numbers, counts of rows and cells of tables as people write them."""

import math
from typing import Any

import numpy as np

_TEXT = 60
_DIGITS = 4  # of large numbers


def share(x: float) -> str:
    """Return a share between 0 and 1 in %, never rounded to 0 or 100.

    Examples:
        >>> share(0.341), share(0.004), share(0.9999), share(1.0), share(0.00001)
        ('34 %', '0.4 %', 'more than 99.9 %', '100 %', 'less than 0.1 %')
    """
    percent = 100 * x
    if 0 < percent < 0.1:
        return "less than 0.1 %"
    if 99.9 < percent < 100:
        return "more than 99.9 %"
    near = percent < 9.95 or percent > 99
    return f"{percent:.1f}".removesuffix(".0") + " %" if near else f"{percent:.0f} %"


def number(x: float, thousands: bool = True) -> str:
    """Return a number with three significant digits, or four above 1,000; years are without separators.

    Examples:
        >>> number(1234.5), number(0.00012345), number(12.0), number(-2.5e9), number(float("inf"))
        ('1,234', '0.000123', '12', '−2.5e+09', 'not defined')
        >>> number(2704513.0), number(1987.4, thousands=False)
        ('2,705,000', '1987')
    """
    if not math.isfinite(x):
        return "not defined"
    large = 1000 <= abs(x) < 1e9
    rounded = round(x, _DIGITS - 1 - math.floor(math.log10(abs(x)))) if large else x
    text = f"{rounded:,.0f}" if large else f"{x:.3g}"
    return _signed(text if thousands else text.replace(",", ""))


def rows(n: int, kind: str = "row") -> str:
    """Return a number of rows in words.

    Examples:
        >>> rows(1), rows(12000)
        ('1 row', '12,000 rows')
    """
    return f"{n:,} {kind}" + ("" if n == 1 else "s")


def cell(value: Any, thousands: bool = True) -> str:
    """Return a value of a table in a few characters, with enough digits to find it again.

    Examples:
        >>> cell(-122.2781234), cell(None), cell(float("nan")), cell("red"), cell(425123.0), cell(1987, thousands=False)
        ('−122.278', 'missing', 'missing', 'red', '425,123', '1987')
    """
    if value is None or (isinstance(value, (float, np.floating)) and np.isnan(value)) or str(value) in ("NaT", "<NA>"):
        return "missing"
    if isinstance(value, (int, float, np.integer, np.floating)) and not isinstance(value, bool):
        x = float(value)
        if not math.isfinite(x):
            return str(value)
        text = f"{x:,.0f}" if x == math.floor(x) and abs(x) < 2**53 else f"{x:,.6g}"
        return _signed(text if thousands else text.replace(",", ""))
    text = str(value).removesuffix(" 00:00:00") or "empty"
    return text if len(text) <= _TEXT else text[: _TEXT - 1] + "…"


def _signed(text: str) -> str:
    return text.replace("-", "−", 1) if text.startswith("-") else text
