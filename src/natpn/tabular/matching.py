"""Match the columns of new data to those of the training data."""

import difflib


def match_columns(fitted: list[str], named: bool, names: list[str] | None, n_columns: int) -> list[int] | None:
    """Return where each fitted column is in the new data, None if they are in the same order already.

    Args:
        fitted: The names of the training columns.
        named: Whether the training data came with these names.
        names: The names of the new columns; None if they have none.
        n_columns: How many there are.

    Raises:
        ValueError: If a column is missing, or there is one too many.
    """
    if names is None or not named:
        if n_columns != len(fitted):
            raise ValueError(
                f"X has {n_columns} features, but training had {len(fitted)}: {_listed(fitted)}. Give the same columns."
            )
        return None
    if names == fitted:
        return None
    absent = [name for name in fitted if name not in set(names)]
    extra = [name for name in names if name not in set(fitted)]
    if absent:
        hints = [f"{_near(name, extra)!r} for {name!r}" for name in absent if _near(name, extra)]
        hint = f" Did you mean {', '.join(hints)}?" if hints else " Add them, with missing values if they are unknown."
        raise ValueError(f"X lacks columns that training had: {_listed(absent)}.{hint}")
    if extra:
        raise ValueError(
            f"X has columns that training did not have: {_listed(extra)}. Drop them, or fit again with them."
        )
    place = {name: number for number, name in enumerate(names)}
    return [place[name] for name in fitted]


def _near(name: str, names: list[str]) -> str | None:
    return next(iter(difflib.get_close_matches(name, names, n=1)), None)


def _listed(names: list[str]) -> str:
    shown = ", ".join(map(repr, names[:10]))
    return shown if len(names) <= 10 else f"{shown} and {len(names) - 10} more"
