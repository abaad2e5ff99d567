"""Run the pages of the gallery: their code, on real tables, and write what it prints and a picture into them.

    NATPN_DATA=... python tools/gallery.py [NAME ...]

A page is docs/gallery/NAME.md. Each of its blocks of Python runs, in one namespace, and what it prints becomes the
block of text behind it. Then the function NAME below draws docs/gallery/figures/NAME.svg from that namespace. Pages are
committed as they are, so that the site is built without data.
"""

import contextlib
import io
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np

mpl.use("Agg")
from matplotlib import dates as mdates
from matplotlib import pyplot as plt

FOLDER = Path(__file__).parents[1] / "docs" / "gallery"
BLUE, ORANGE, GREY = "#1f6feb", "#d9660b", "#8b949e"
STYLE = {"svg.hashsalt": "natpn", "svg.fonttype": "none", "font.size": 11, "font.family": "sans-serif"}
Names = dict[str, Any]


def houses(axis: plt.Axes, names: Names) -> None:
    """Intervals of every tenth house, by their prediction, and what was paid."""
    frame = names["answers"].sort_values("prediction")[::10]
    place = np.arange(len(frame))
    axis.vlines(place, frame["lower"] / 1e6, frame["upper"] / 1e6, color=BLUE, alpha=0.4, lw=3)
    axis.plot(place, names["test"].loc[frame.index, "price"] / 1e6, "o", ms=3, color=ORANGE, label="paid")
    axis.plot(place, frame["prediction"] / 1e6, "_", color=BLUE, label="prediction, 90 % interval")
    axis.set(yscale="log", xlabel="houses, by prediction", ylabel="price, million dollars", yticks=[0.2, 0.5, 1, 2])
    axis.yaxis.set_major_formatter("{x:g}")
    axis.yaxis.set_minor_formatter("")
    axis.legend(frameon=False)


def visits(axis: plt.Axes, names: Names) -> None:
    """The probabilities of each count for two persons."""
    counts = np.arange(0, 31)
    for i, (who, colour) in enumerate((("well", BLUE), ("ill", ORANGE))):
        axis.bar(counts + 0.4 * i, np.exp(names["two"].log_prob(counts[:, None]))[:, i], 0.4, color=colour, label=who)
    axis.set(xlabel="visits to a doctor in a year", ylabel="probability")
    axis.legend(frameon=False)


def churn(axis: plt.Axes, names: Names) -> None:
    """How many leave, beside how many were said to."""
    said, did = names["said"], names["did"]
    axis.plot([0, 1], [0, 1], color=GREY, lw=1)
    axis.plot(said, did, "o-", color=BLUE)
    axis.set(xlabel="probability of leaving, as predicted", ylabel="share that left", xlim=(0, 1), ylim=(0, 1))
    axis.set_aspect("equal")


def wages(axis: plt.Axes, names: Names) -> None:
    """The share of wages in 90 % intervals, by year."""
    covered = names["covered"]
    axis.axhline(90, color=GREY, lw=1)
    axis.axvspan(names["year"] + 0.5, covered.index.max() + 1, color=ORANGE, alpha=0.12, lw=0, label="never seen")
    axis.plot(covered.index, covered, "o-", color=BLUE)
    axis.set(xlabel="year", ylabel="% of wages in 90 % intervals", ylim=(50, 100))
    axis.legend(frameon=False, loc="lower left")


def winter(axis: plt.Axes, names: Names) -> None:
    """The share of flagged hours, and the coverage, by month."""
    months = names["months"]
    axis.bar(months.index - 0.2, months["flagged"], 0.4, color=ORANGE, label="flagged as novel")
    axis.bar(months.index + 0.2, months["covered"], 0.4, color=BLUE, label="inside 90 % intervals")
    axis.axhline(90, color=GREY, lw=1)
    axis.set(xlabel="month (6, 7 and 8 were learned)", ylabel="% of hours", xticks=range(1, 13), ylim=(0, 118))
    axis.legend(frameon=False, ncols=2, loc="upper center")


def avocados(axis: plt.Axes, names: Names) -> None:
    """Prices of one region over time, and the band."""
    city, answers, when = names["city"], names["city_answers"], names["cut"]
    axis.fill_between(city["date"], answers["lower"], answers["upper"], color=BLUE, alpha=0.22, lw=0)
    axis.plot(city["date"], answers["prediction"], color=BLUE, lw=1.5, label="prediction, 90 % interval")
    axis.plot(city["date"], city["average_price"], "o", ms=3, color=ORANGE, label="price")
    axis.axvline(when, color=GREY, lw=1)
    axis.set(xlabel="week", ylabel="price of an avocado in Chicago, dollars")
    axis.xaxis.set_major_formatter(mdates.ConciseDateFormatter(mdates.AutoDateLocator(maxticks=8)))
    axis.legend(frameon=False, loc="upper left")


def charges(axis: plt.Axes, names: Names) -> None:
    """The predicted densities of two persons."""
    grid = np.linspace(100, 60_000, 600)
    for i, (who, colour) in enumerate((("smokes", ORANGE), ("does not", BLUE))):
        density = np.exp(names["two"].log_prob(grid[:, None]))[:, i] * 1000
        axis.fill_between(grid / 1000, density, color=colour, alpha=0.4, lw=0, label=who)
    axis.set(xlabel="charges, thousand dollars", ylabel="density", ylim=0, xlim=(0, 60))
    axis.legend(frameon=False)


def strangers(axis: plt.Axes, names: Names) -> None:
    """How much evidence there is for players that were learned and for others."""
    values = {"field players": names["ordinary"].log_evidence, "goalkeepers": names["strange"].log_evidence}
    bins = np.linspace(min(map(min, values.values())), max(map(max, values.values())), 50)
    for (name, rows), colour in zip(values.items(), (BLUE, ORANGE), strict=True):
        axis.hist(rows, bins, weights=np.full(len(rows), 100 / len(rows)), color=colour, alpha=0.7, label=name)
    axis.set(xlabel="log evidence", ylabel="% of players")
    axis.legend(frameon=False, loc="upper right")


PAGES: dict[str, Callable[[plt.Axes, Names], None]] = {
    draw.__name__: draw for draw in (houses, visits, churn, wages, winter, avocados, charges, strangers)
}


def run(text: str, name: str) -> tuple[str, Names]:
    """Return a page with what its blocks print, and their names."""
    names: Names = {}

    def ran(block: re.Match[str]) -> str:
        out = io.StringIO()
        with contextlib.redirect_stdout(out):
            exec(compile(block[1], name, "exec"), names)
        printed = out.getvalue()
        return f"```python\n{block[1]}```\n" + (f"\n```text\n{printed}```\n" if printed else "")

    return re.sub(r"```python\n(.*?)```\n(?:\n```text\n.*?```\n)?", ran, text, flags=re.DOTALL), names


def main(wanted: list[str]) -> None:
    """Run the pages of these names, or all."""
    mpl.rcParams.update(STYLE)
    for name in wanted or PAGES:
        if name not in PAGES:
            sys.exit(f"gallery: expected one of {', '.join(PAGES)}, got {name!r}")
        page = FOLDER / f"{name}.md"
        text, names = run(page.read_text(), str(page))
        page.write_text(text)
        figure, axis = plt.subplots(figsize=(7, 3.6), layout="constrained")
        PAGES[name](axis, names)
        axis.spines[["top", "right"]].set_visible(False)
        figure.savefig(FOLDER / "figures" / f"{name}.svg", metadata={"Date": None})
        plt.close(figure)
        print(page)


if __name__ == "__main__":
    main(sys.argv[1:])
