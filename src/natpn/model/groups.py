"""Groups of rows by one column of a table.

Two rows are in one group if the network sees the same in that column: the same level, number, date or truth value. Rare
levels of a category are one group, since the network does not tell them apart. A row with something that training never
had in any column, such as a new level, is in none: what the network sees of it may be what it sees of another level.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Keys = NDArray[np.float32]

_ALMOST = 1 - 1e-6


@dataclass(frozen=True)
class Groups:
    """How encoded rows fall into groups.

    Attributes:
        places: Which numbers of an encoded row its column became; the last number is the row's surprise.
        log_never: The surprise of a single event that training never had.
    """

    places: tuple[int, ...]
    log_never: float

    def keys(self, rows: NDArray[np.float32]) -> Keys:
        """Return a key of each row, (rows, K): equal keys are one group, and those that begin with 1 are none."""
        rows = np.asarray(rows, np.float32)
        none = rows[:, -1] <= _ALMOST * self.log_never
        keys = np.zeros((len(rows), 1 + len(self.places)), np.float32)
        keys[:, 0] = none
        keys[~none, 1:] = rows[~none][:, list(self.places)] + np.float32(0)  # -0 would be another key than 0
        return keys
