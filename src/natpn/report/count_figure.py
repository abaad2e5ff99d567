"""Counts, of which a scatter plot would be a few lines of points upon each other: means by what was predicted."""

from dataclasses import dataclass

import numpy as np
from matplotlib.axes import Axes

from natpn.report.facts import Facts, Floats
from natpn.report.figures import INK, OTHER, TEST, draw, tick
from natpn.report.words import number, share

_GROUPS = 10
_ROOTS = 12.0  # from this count on the axis is that of square roots, on which all counts are spread alike


@dataclass(frozen=True)
class CountGroups:
    """Rows in groups of equal size, from the fewest to the most predicted: a number for each group."""

    predicted: Floats  # means
    true: Floats
    doubt: Floats  # two standard errors of the true mean
    low: Floats  # the 90 % intervals, on average
    high: Floats
    inside: Floats  # the share of the truth in them


def count_groups(facts: Facts) -> CountGroups:
    """Return means of groups of rows by what was predicted for them."""
    some = np.flatnonzero(np.isfinite(facts.prediction))
    order = some[np.argsort(facts.prediction[some], kind="stable")]
    parts = np.array_split(order, min(_GROUPS, max(1, len(order) // 10)))
    low, high = np.full((2, len(facts)), np.nan) if facts.interval is None else facts.interval.T
    truth, inside = facts.truth, (low <= facts.truth) & (facts.truth <= high)
    means = np.array([[v[part].mean() for v in (facts.prediction, truth, low, high, inside)] for part in parts])
    doubt = np.array([2 * truth[part].std() / np.sqrt(len(part)) for part in parts])
    predicted, true, bottom, top, share_inside = means.T
    return CountGroups(predicted, true, doubt, bottom, top, share_inside)


def counts(facts: Facts) -> str:
    """Draw predicted and true means of groups, over their intervals."""
    groups = count_groups(facts)

    def content(axes: Axes) -> None:
        place = np.arange(len(groups.true))
        top = float(np.nanmax([groups.high, groups.true + groups.doubt]))
        if top >= _ROOTS:
            axes.set_yscale("function", functions=(lambda x: np.sqrt(np.maximum(x, 0)), np.square))
            axes.set_yticks(_root_ticks(top))
        axes.bar(place, groups.high - groups.low, 0.72, groups.low, color=TEST, alpha=0.22, lw=0, label="90 % interval")
        axes.hlines(groups.predicted, place - 0.36, place + 0.36, color=TEST, lw=1.6, label="predicted mean")
        axes.vlines(place, np.maximum(groups.true - groups.doubt, 0), groups.true + groups.doubt, color=OTHER, lw=1)
        axes.plot(place, groups.true, "o", color=OTHER, ms=4, label="true mean")
        above = np.fmax(groups.high, groups.true + groups.doubt)
        for x, height, held in zip(place, above, groups.inside, strict=True):
            axes.annotate(share(held), (x, height), (0, 3), textcoords="offset points", ha="center", size=7, color=INK)
        axes.set_xticks(place, [number(p) if p >= 1 else f"{p:.2f}" for p in groups.predicted])
        axes.set(ylim=(0, 1.18 * top), xlabel="predicted mean of each group of rows", ylabel="count")
        axes.yaxis.set_major_formatter(tick)
        axes.legend(loc="upper left", fontsize=8)
        axes.grid(True, axis="y")

    return draw("counts", content, 3.4)


def _root_ticks(top: float) -> list[float]:
    """Return round counts that are evenly spaced as square roots."""
    roots = np.linspace(0, np.sqrt(top), 6)[1:] ** 2
    return [0.0, *sorted({float(f"{x:.1g}") for x in roots})]
