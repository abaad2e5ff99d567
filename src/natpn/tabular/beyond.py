"""Numbers beyond everything in training.

A number that lies e times its column's training range beyond that range is a rare event of the log-probability

    ⅓ · log(1 / (N + 2)) · e² / (e² + ¼) · max(e, 1)

which is next to nothing just outside, as the next few rows of any column may be. One range beyond it is almost a
third of what an event is worth that training never had (see `natpn.tabular.base`): such a number is strange, but it
still says on which side of the others it is. The farther it is, the less does that help. Of several such columns in a
row the farthest counts: columns that move together would count one event many times.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from natpn.tabular.base import Column

SHARE = 1 / 3
_MOST = 1e6
HALF = 0.5  # ranges beyond at which an event is half as rare, in logarithms


class Ranges:
    """The ranges that standardised numbers had in training.

    Args:
        columns: All columns of a table.
        grows: Whether numbers more than one range beyond count for more; not so in models of earlier versions.
    """

    def __init__(self, columns: Sequence[Column], grows: bool = True) -> None:
        self.most = _MOST if grows else 1.0
        self.places: list[int] = []
        place = 0
        bounds: list[tuple[float, float]] = []
        for column in columns:
            for number, pair in column.bounds.items():
                self.places.append(place + number)
                bounds.append(pair)
            place += column.n_numbers
        # rounded as the encoded numbers are
        self.low, self.high = np.array(bounds, np.float32).astype(np.float64).reshape(-1, 2).T
        self.width = np.maximum(self.high - self.low, 1e-30)  # 0 if a mean dwarfs the deviation
        self.log_event = SHARE * columns[0].log_never

    def surprise(self, numbers: NDArray[np.float32]) -> NDArray[np.float64] | None:
        """Return the surprise of each row of standardised numbers, or None if it is 0 in all of them."""
        if not self.places:
            return None
        values = numbers if len(self.places) == numbers.shape[1] else numbers[:, self.places]
        if not ((values < self.low) | (values > self.high)).any():
            return None
        apart = np.maximum(values - self.high, self.low - values) / self.width
        farthest = np.clip(apart.max(axis=1), 0.0, _MOST)
        squared = np.square(farthest)
        growth = np.clip(farthest, 1.0, self.most)
        result: NDArray[np.float64] = self.log_event * growth * squared / (squared + HALF**2)
        return result
