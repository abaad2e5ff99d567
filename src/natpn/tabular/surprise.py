"""The surprise of rows: what training never had in them, and which column it is in.

The surprise of a row adds up the log-probabilities of what training never had: the events that columns return
(`natpn.tabular.base`), and numbers beyond everything in training. A number that lies e times its column's training
range beyond that range has the log-probability

    ⅓ · log(1 / (N + 2)) · e² / (e² + ¼) · max(e, 1)

which is next to nothing just outside, where the next few rows of any column may be. One range beyond, it is almost a
third of that of an event: such a number is strange, but still says on which side of the others it is. The farther it
is, the less that helps. Of several such columns in a row only the farthest counts: columns that move together would
count one event many times.

One strange column takes away what that column had to say; if all are strange, nothing is left. With s the sum of a
row's log-probabilities, and f = s / (C · log(1 / (N + 2))) the share of its C columns that they amount to, but at most
0.99, the surprise of the row is

    s / (1 − f).

Every term of s is of one column, so each column has an exact share of the surprise, in proportion to its terms.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from natpn.tabular.base import Column
from natpn.tabular.cells import Encoded, Floats, Places

SHARE = 1 / 3  # of what an event is worth that training never had, for a number beyond its range
HALF = 0.5  # ranges beyond at which a number is half as rare, in logarithms
_FARTHEST = 1e6  # ranges beyond
MOST_STRANGE = 0.99  # the largest share of strange columns


class Ranges:
    """The ranges that standardised numbers had in training; whether those far beyond count for more is `grows`."""

    def __init__(self, columns: Sequence[Column], grows: bool = True) -> None:
        self._most = _FARTHEST if grows else 1.0
        self.places: list[int] = []
        bounds: list[tuple[float, float]] = []
        place = 0
        for column in columns:
            for number, pair in column.bounds.items():
                self.places.append(place + number)
                bounds.append(pair)
            place += column.n_numbers
        # rounded as the encoded numbers are
        self.low, self.high = np.array(bounds, np.float32).astype(np.float64).reshape(-1, 2).T
        self.width = np.maximum(self.high - self.low, 1e-30)  # 0 if a mean dwarfs the deviation
        self._log_event = SHARE * columns[0].log_never

    def surprise(self, numbers: Encoded) -> Floats | None:
        """Return the surprise of each row of standardised numbers, or None if it is 0 in all of them."""
        if not self.places:
            return None
        values = numbers if len(self.places) == numbers.shape[1] else numbers[:, self.places]
        if not ((values < self.low) | (values > self.high)).any():
            return None
        return self._log_probability(self._apart(values).max(axis=1))

    def by_column(self, numbers: Encoded, columns: Sequence[Column]) -> Floats:
        """Return the log-probability of how far each column is beyond its range, (rows, columns)."""
        result = np.zeros((len(numbers), len(columns)))
        found = self._log_probability(self._apart(numbers[:, self.places]))
        owners = [owner for owner, column in enumerate(columns) for _ in column.bounds]
        for place, owner in enumerate(owners):
            np.minimum(result[:, owner], found[:, place], out=result[:, owner])
        return result

    def _apart(self, values: Encoded) -> Floats:
        """Return how many ranges numbers are beyond theirs; less than 0 inside."""
        apart: Floats = np.maximum(values - self.high, self.low - values) / self.width
        return apart

    def _log_probability(self, apart: Floats) -> Floats:
        apart = np.clip(apart, 0.0, _FARTHEST)
        squared = np.square(apart)
        result: Floats = self._log_event * np.clip(apart, 1.0, self._most) * squared / (squared + HALF**2)
        return result


def combine_events(surprise: Floats, log_never: float, n_columns: int) -> Floats:
    """Return the surprise of rows from the sums of their events, `log_never` for one that training never had."""
    share = np.minimum(surprise / (n_columns * log_never), MOST_STRANGE)
    result: Floats = surprise / (1 - share)
    return result


@dataclass(frozen=True)
class Events:
    """What training never had in some rows, by column.

    Attributes:
        log_events: The log-probability of each column's events, (rows, columns).
        log_beyond: That of how far each column's number is beyond its range; only the least of a row counts.
        log_never: That of an event that training never had.
        counts_several: Whether several events weigh more than their sum.
    """

    log_events: Floats
    log_beyond: Floats
    log_never: float
    counts_several: bool

    def shares(self) -> Floats:
        """Return each column's share of the surprise, (rows, columns)."""
        rows, farthest = np.arange(len(self.log_beyond)), self.log_beyond.argmin(axis=1)
        own = self.log_events.copy()
        own[rows, farthest] += self.log_beyond[rows, farthest]
        total = own.sum(axis=1)
        factor = np.where(total < 0, self._surprise(total) / np.where(total < 0, total, -1.0), 1.0)
        return own * factor[:, None]

    def without(self, columns: Places) -> Floats:
        """Return the surprise of each row if one column of it, which may differ by row, had no event."""
        rows = np.arange(len(columns))
        events = self.log_events.sum(axis=1) - self.log_events[rows, columns]
        others = self.log_beyond.copy()
        others[rows, columns] = 0
        return self._surprise(events + others.min(axis=1))

    def _surprise(self, total: Floats) -> Floats:
        return combine_events(total, self.log_never, self.log_events.shape[1]) if self.counts_several else total
