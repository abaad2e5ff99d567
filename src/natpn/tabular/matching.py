"""Match the columns of new data to those of the training data."""

from natpn.tabular.errors import ColumnsError


def match_columns(fitted: list[str], named: bool, names: list[str] | None, n_columns: int) -> list[int] | None:
    """Return where each fitted column is in the new data, None if they are in the same order already.

    Args:
        fitted: The names of the training columns.
        named: Whether the training data came with these names.
        names: The names of the new columns; None if they have none.
        n_columns: How many there are.

    Raises:
        ColumnsError: If a column is missing, or there is one too many.
    """
    if names is None or not named:
        if n_columns != len(fitted):
            raise ColumnsError(fitted, n_columns, [], [])
        return None
    if names == fitted:
        return None
    place = {name: number for number, name in enumerate(names)}
    known = set(fitted)
    absent = [name for name in fitted if name not in place]
    extra = [name for name in names if name not in known]
    if absent or extra:
        raise ColumnsError(fitted, n_columns, absent, extra)
    return [place[name] for name in fitted]
