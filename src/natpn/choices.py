"""Names in errors: one that is not known is answered with those that are, and the one that was probably meant."""

import difflib
from collections.abc import Iterable, Sequence


def check_choice(argument: str, value: str, choices: Iterable[str]) -> None:
    """Raise if ``value`` is none of the choices.

    Raises:
        ValueError: With the choices, and the nearest of them.
    """
    names = list(choices)
    if value in names:
        return
    near = nearest(str(value), names)
    hint = f" Did you mean {near!r}?" if near else ""
    raise ValueError(f"{argument} = {value!r} is unknown; choose one of {', '.join(map(repr, names))}.{hint}")


def nearest(name: str, names: Iterable[str]) -> str | None:
    """Return the name that was probably meant: one that differs only in case or spaces, else a similar one."""
    names, plain = list(names), name.strip().casefold()
    same = [other for other in names if other.strip().casefold() == plain]
    return next(iter(same or difflib.get_close_matches(name, names, n=1)), None)


def did_you_mean(name: str, names: Iterable[str]) -> str:
    """Return the end of a sentence that asks whether another name was meant, or nothing."""
    near = nearest(name, names)
    return f"; did you mean {near!r}?" if near else ""


def listed(names: Sequence[str]) -> str:
    """Return the first ten names in quotes, and how many more there are."""
    shown = ", ".join(map(repr, names[:10]))
    return shown if len(names) <= 10 else f"{shown} and {len(names) - 10} more"
