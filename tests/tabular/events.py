"""The sum of a row's events, from the surprise that they amount to together."""

import numpy as np

from natpn.tabular.surprise import MOST_STRANGE as MOST


def events(surprise, transform):
    """Undo `natpn.tabular.surprise.combine_events`."""
    surprise = np.asarray(surprise, float)
    most = len(transform.columns) * transform.columns[0].log_never
    return np.where(surprise <= MOST * most / (1 - MOST), surprise * (1 - MOST), surprise / (1 + surprise / most))
