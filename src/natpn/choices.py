"""A choice among names: whoever gets it wrong is told the choices, and the nearest of them."""

import difflib
from collections.abc import Iterable


def check_choice(argument: str, value: str, choices: Iterable[str]) -> None:
    """Raise if ``value`` is none of the choices.

    Raises:
        ValueError: With the choices, and the nearest of them.
    """
    names = list(choices)
    if value in names:
        return
    near = difflib.get_close_matches(str(value), names, n=1)
    hint = f" Did you mean {near[0]!r}?" if near else ""
    raise ValueError(f"{argument} = {value!r} is unknown; choose one of {', '.join(map(repr, names))}.{hint}")
