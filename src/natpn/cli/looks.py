"""Texts that look like numbers or dates, and are read as categories: which option would read them, or what to write.

A text such as 9,171 is never taken for a decimal where it can be one of thousands.
"""

import re
from collections.abc import Mapping, Sequence

from natpn.tabular.texts import MOSTLY, is_mark, number_of_text, shown
from natpn.tabular.written import ORDERS, PLAIN, Written, split_unit

# In this order: what can be thousands is that.
NUMBERS = [
    Written(thousands=","),
    Written(thousands="'"),
    Written(thousands=" "),
    Written(","),
    Written(",", "."),
    Written(",", " "),
    Written(",", "'"),
]
_FORMATS = (
    "%Y/%m/%d",
    "%Y.%m.%d",
    "%d %b %Y",
    "%d-%b-%Y",
    "%d-%b-%y",
    "%d %B %Y",
    "%d. %B %Y",
    "%b %d, %Y",
    "%B %d, %Y",
)
DATES = [Written(dates=form) for form in (*ORDERS, *_FORMATS)]
_NUMBER = re.compile(r"[+-]?\d[\d.,'’\s]*")
_SOME = 500  # texts that are looked at


def number_options(texts: Sequence[str]) -> str | None:
    """Return the options by which all texts are numbers, None if there are none."""
    found = next((form for form in NUMBERS if _are_numbers(texts, form)), None)
    if found is None:
        return None
    decimal = f"--decimal {found.decimal!r}" if found.decimal != "." else ""
    thousands = f"--thousands {found.thousands!r}" if found.thousands else ""
    return " ".join(filter(None, (decimal, thousands)))


def look(counts: Mapping[str, int], written: Written = PLAIN) -> str | None:
    """Say what texts look like, if that is numbers or dates, and what to do to have them read as such.

    Args:
        counts: How often there is each text.
        written: How their file writes values, by what has been said of it.
    """
    texts = sorted((text for text in counts if not is_mark(text)), key=lambda text: -counts[text])[:_SOME]
    least = MOSTLY * sum(counts[text] for text in texts)
    forms = [form.dates for form in DATES if sum(counts[t] for t in texts if form.date(t.strip())) >= least]
    if texts and forms:
        options = " or ".join(f"--dates {form if form in ORDERS else repr(form)}" for form in forms[:2])
        return f"looks like dates, as {shown(texts[0])}; say {options}{', whichever it is' if len(forms) > 1 else ''}"
    amounts = {text: found for text in texts if _NUMBER.fullmatch((found := split_unit(text))[0])}
    if not amounts or sum(counts[text] for text in amounts) < least:
        return None
    numbers = [number for number, _ in amounts.values()]
    needed = "" if _are_numbers(numbers, written) else number_options(numbers)
    if needed is None:
        return None
    units = sorted({unit for _, unit in amounts.values() if unit})
    several = f" in {', '.join(units[:-1])} and {units[-1]}" if len(units) > 1 else ""
    cures = ["convert them to one unit"] * bool(several) + [f"say {needed}"] * bool(needed)
    return f"looks like numbers{several}, as {shown(texts[0])}; {' and '.join(cures)}" if cures else None


def placeholder(counts: Mapping[str, int]) -> str | None:
    """Return the most frequent text that is signs alone, as ?, among several that are not; None if there is none."""
    signs = [text for text in counts if not is_mark(text) and not re.search(r"\w", text)]
    words = sum(not is_mark(text) for text in counts) - len(signs)
    return max(signs, key=lambda text: counts[text]) if signs and words > 1 else None


def _are_numbers(texts: Sequence[str], written: Written) -> bool:
    try:
        return all(number_of_text(text, written) is not None for text in texts)
    except ValueError:
        return False
