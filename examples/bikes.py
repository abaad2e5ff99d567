"""Draw the README's picture: bikes rented a day, by temperature, where days of some temperatures were never seen.

NATPN_DATA=... python examples/bikes.py [DIRECTORY]        needs matplotlib: pip install -e '.[figures]'

The model has one input, so that the picture shows all of it. It learns the days of 2012 that were colder than 8 °C or
warmer than 18 °C on average, and is asked about everything from -20 to 55 °C. It writes bikes-light.png and
bikes-dark.png.
"""

import os
import sys
from pathlib import Path

import matplotlib as mpl
import numpy as np
import pandas as pd

from natpn import NatPNRegressor

mpl.use("Agg")
from matplotlib import pyplot as plt

UNSEEN = (8.0, 18.0)
COLOURS = {
    "light": {"page": "#ffffff", "ink": "#24292f", "dots": "#8b949e", "unseen": "#d9660b", "band": "#1f6feb"},
    "dark": {"page": "#0d1117", "ink": "#e6edf3", "dots": "#8b949e", "unseen": "#ff9e4a", "band": "#58a6ff"},
}


def days() -> tuple[np.ndarray, np.ndarray]:
    """Return the mean temperature in °C, and the bikes rented, of each day of 2012."""
    hours = pd.read_csv(Path(os.environ["NATPN_DATA"]) / "bike_sharing" / "hour.csv")
    found = hours[hours["yr"] == 1].groupby("dteday").agg(temp=("temp", "mean"), bikes=("cnt", "sum"))
    return found["temp"].to_numpy() * 47 - 8, found["bikes"].to_numpy(float)


def draw(folder: Path) -> None:
    temp, bikes = days()
    seen = (temp < UNSEEN[0]) | (temp > UNSEEN[1])
    model = NatPNRegressor("normal", random_state=0).fit(pd.DataFrame({"temp": temp[seen]}), bikes[seen])
    low, high = model.predict_interval(pd.DataFrame({"temp": temp[~seen]})).T
    inside = np.mean((low <= bikes[~seen]) & (bikes[~seen] <= high))
    print(f"{seen.sum()} days to learn from; of {(~seen).sum()} days never seen, {100 * inside:.0f} % are in the band")
    grid = np.linspace(-20, 55, 400)
    found = model.predict_dist(pd.DataFrame({"temp": grid}))
    for name, colours in COLOURS.items():
        with mpl.rc_context({"text.color": colours["ink"], "font.size": 12}):
            figure = picture(colours, temp, bikes, seen, grid, found)
            figure.savefig(folder / f"bikes-{name}.png", dpi=120, facecolor=colours["page"])
            plt.close(figure)


def picture(colours, temp, bikes, seen, grid, found):
    """Return the figure: the band above, the familiarity below."""
    figure, (above, below) = plt.subplots(
        2, 1, figsize=(9, 5.2), height_ratios=[4, 1], sharex=True, layout="constrained"
    )
    low, high = found.interval(0.9).T
    above.fill_between(grid, low, high, color=colours["band"], alpha=0.22, lw=0, label="90 % interval")
    above.plot(grid, found.mean(), color=colours["band"], lw=2, label="prediction")
    above.plot(temp[seen], bikes[seen], "o", ms=3, color=colours["dots"], label="days it learned from")
    above.plot(temp[~seen], bikes[~seen], "o", ms=3, color=colours["unseen"], label="days it never saw")
    above.set(ylim=(0, 10_500), ylabel="bikes rented a day")
    above.yaxis.set_major_formatter("{x:,.0f}")
    above.legend(loc="upper left", ncols=4, frameon=False, fontsize=10.5, columnspacing=1.4)
    above.text(54.5, 9_050, "no data: wider, and it says so", ha="right", fontsize=10.5)
    below.fill_between(grid, found.familiarity, color=colours["band"], alpha=0.3, lw=0)
    below.plot(grid, found.familiarity, color=colours["band"], lw=1.5)
    for start, end in runs(found.novelty_p < 0.05):
        below.fill_between(grid[start : end + 1], 1.18, 1.42, color=colours["unseen"], lw=0)
    below.text(54.5, 1.5, "orange: flagged as novel", ha="right", va="bottom", fontsize=10.5)
    below.set(xlim=(-20, 55), ylim=(0, 1.45), yticks=[0, 1], ylabel="familiarity", xlabel="mean temperature, °C")
    for axis in (above, below):
        axis.set_facecolor("none")
        axis.spines[["top", "right"]].set_visible(False)
        axis.spines[["left", "bottom"]].set_color(colours["ink"])
        axis.tick_params(colors=colours["ink"])
        axis.xaxis.label.set_color(colours["ink"])
        axis.yaxis.label.set_color(colours["ink"])
    return figure


def runs(flags: np.ndarray) -> list[tuple[int, int]]:
    """Return first and last index of each stretch of true values."""
    edges = np.flatnonzero(np.diff(np.r_[0, flags.astype(int), 0]))
    return [(start, end - 1) for start, end in edges.reshape(-1, 2)]


if __name__ == "__main__":
    draw(Path(sys.argv[1] if len(sys.argv) > 1 else "."))
