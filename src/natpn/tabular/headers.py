"""The header of a CSV text: which sign separates its cells, and what its columns are called."""

import re
from collections.abc import Sequence

SEPARATORS = ",;\t|"


def separator_of(line: str) -> str:
    """Return the sign that separates the cells of a header: the most frequent outside quotes."""
    plain = re.sub(r'"[^"]*"', "", line)
    return max(SEPARATORS, key=plain.count)


def column_names(header: Sequence[str]) -> list[str]:
    """Return the names of columns; one without a name has the number of its place."""
    return [cell.strip() or f"column_{place}" for place, cell in enumerate(header, 1)]
