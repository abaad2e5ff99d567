"""Rows of which several columns are strange.

One strange column takes away what that column had to say; if all are strange, nothing is left. With s the sum of the
log-probabilities of a row's events, and f = s / (C · log(1 / (N + 2))) the share of its C columns that they amount to,
the surprise of the row is

    s / (1 − f),   f being `MOST` at most.
"""

import numpy as np
from numpy.typing import NDArray

MOST = 0.99


def together(surprise: NDArray[np.float64], log_never: float, n_columns: int) -> NDArray[np.float64]:
    """Return the surprise of rows from the sums of their events.

    Args:
        surprise: The sums, one a row.
        log_never: The log-probability of an event that training never had.
        n_columns: How many columns there are.
    """
    share = np.minimum(surprise / (n_columns * log_never), MOST)
    result: NDArray[np.float64] = surprise / (1 - share)
    return result
