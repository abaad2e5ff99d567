"""Numbers with a unit sign: €1200, -$5, $-5, 12 EUR, 82%.

The sign stands before or after the number, with or without spaces, and is one of `UNITS`. It changes nothing of the
number: 82% is 82.
"""

import re

UNITS = ("€", "$", "£", "¥", "₹", "%", "CHF", "EUR", "USD", "GBP")
# Digits with anything between them that may be a separator.
_NUMERIC = re.compile(r"[+-]?[.,]?[0-9](?:[0-9_]|[^\w+-])*(?:[eE][+-]?[0-9]+)?")


def has_unit(text: str) -> bool:
    """Say whether there is a unit sign anywhere in a text."""
    return any(unit in text for unit in UNITS)


def split_unit(text: str) -> tuple[str, str]:
    """Return what stands beside a unit sign, if it looks like a number, and the sign; else the text and nothing.

    Args:
        text: A text, with spaces around it or without.
    """
    plain = text.strip()
    sign = plain[0] if plain.startswith(("+", "-")) else ""
    # No pattern for both ends: it would try every space of a long text as the last of the number.
    if plain.endswith(UNITS):
        unit = next(unit for unit in UNITS if plain.endswith(unit))
        number = plain[: -len(unit)].rstrip()
    elif plain.startswith(UNITS, len(sign)):
        unit = next(unit for unit in UNITS if plain.startswith(unit, len(sign)))
        number = sign + plain[len(sign) + len(unit) :].lstrip()
    else:
        return plain, ""
    return (number, unit) if _NUMERIC.fullmatch(number) else (plain, "")
