"""Figure 1 and the toy figures of the appendix: noise, and lack of knowledge away from the data.

For numbers the figure shows the bands that hold 90 % of the noise alone and of the predictive distribution; for
classes, on a grid, the entropy of the class and −log(n_prior + n), which is high where nothing is known.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from natpn_paper import datasets
from natpn_paper.experiments.base import Experiment, Outcome, Run
from natpn_paper.experiments.drawing import COLOURS, Line, first_lines, numbers, rounded
from natpn_paper.experiments.table_rows import NETWORKS, Setting, fitted

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SETTING = Setting((64, 3), patience=50, max_epochs=300)
BAND = (0.05, 0.5, 0.95)
_SIDE = 6.0
_REACH = 8.0
_POINTS = 300
_TITLES = {
    "toy-regression": "numbers",
    "toy-classification": "3 classes of 900",
    "toy-classification-unequal": "classes of 900, 600 and 300",
}


def run_one(run: Run) -> Outcome:
    """Make a run."""
    data = datasets.load(run.data, seed=run.seed, limit=run.rows())
    X, y = data.train
    model = fitted(run, "classes" if data.n_classes else "normal", data, SETTING)
    points = {"x": rounded(X[:_POINTS], 3), "y": rounded(y[:_POINTS], 3)}
    values = _plane(model) if data.n_classes else _curve(model)
    return Outcome(values=values | {"points": points}, note=data.note)


def _curve(model: Any) -> dict[str, Any]:
    import torch

    from natpn.model.answers import as_floats

    x = np.linspace(-_REACH, _REACH, 161)
    found = model.predict_dist(x[:, None])
    noise = found.posterior.likelihood()
    levels = np.asarray(BAND)
    quantiles = as_floats(noise.icdf(torch.from_numpy(levels)[:, None]))
    return {
        "x": rounded(x),
        "aleatoric": rounded(quantiles),
        "predictive": rounded(found.quantile(levels).T),
        "familiarity": rounded(found.familiarity),
    }


def _plane(model: Any) -> dict[str, Any]:
    side = np.linspace(-_SIDE, _SIDE, 60)
    grid = np.stack(np.meshgrid(side, side), -1).reshape(-1, 2)  # row by row, the second coordinate slow
    found = model.predict_dist(grid)
    shape = (len(side), len(side))
    return {
        "side": rounded(side),
        "aleatoric": rounded(found.aleatoric.reshape(shape)),
        "epistemic": rounded(found.epistemic.reshape(shape)),
    }


def draw(lines: Sequence[Line]) -> "Figure":
    """Draw a row for each data set; each model has its noise on the left and its lack of knowledge on the right."""
    from matplotlib.figure import Figure

    found = first_lines(lines)
    rows, models = (list(dict.fromkeys(names)) for names in zip(*found, strict=True))
    figure = Figure(figsize=(4.4 * 2 * len(models), 3.5 * len(rows)), layout="constrained")
    axes = figure.subplots(len(rows), 2 * len(models), squeeze=False)
    for i, data in enumerate(rows):
        for j, model in enumerate(models):
            pair = axes[i, 2 * j : 2 * j + 2]
            line = found.get((data, model))
            if line is None:
                for axis in pair:
                    axis.set_visible(False)
                continue
            name = f"{model}, {_TITLES.get(data, data)}"
            (_draw_plane if "side" in line["values"] else _draw_curve)(figure, pair, line["values"], name)
    return figure


def _draw_curve(figure: "Figure", axes: Any, values: dict[str, Any], name: str) -> None:
    x, points = numbers(values["x"]), values["points"]
    observed = numbers(points["y"])
    room = 1.5 * float(np.ptp(observed))
    titles = {"aleatoric": "aleatoric: 90 % of the noise", "predictive": "predictive: 90 % of the targets"}
    for axis, (kind, title) in zip(axes, titles.items(), strict=True):
        low, middle, high = numbers(values[kind])
        axis.fill_between(x, low, high, color=COLOURS[0], alpha=0.25, lw=0, label=title.split(": ")[1])
        axis.plot(x, middle, color=COLOURS[0], label="median")
        axis.plot(numbers(points["x"])[:, 0], observed, ".", ms=2.5, color="#555555", label="training rows")
        axis.set(title=f"{name}\n{title}", xlabel="x", ylabel="y", xlim=(x[0], x[-1]))
        axis.set_ylim(observed.min() - room, observed.max() + room)
        axis.legend(loc="lower right", fontsize=7)


def _draw_plane(figure: "Figure", axes: Any, values: dict[str, Any], name: str) -> None:
    side, points = numbers(values["side"]), values["points"]
    where, classes = numbers(points["x"]), numbers(points["y"])
    titles = {"aleatoric": "aleatoric: entropy of the class", "epistemic": "epistemic: −log(n_prior + n)"}
    for axis, (kind, title) in zip(axes, titles.items(), strict=True):
        step = (side[1] - side[0]) / 2
        extent = (side[0] - step, side[-1] + step) * 2
        image = axis.imshow(numbers(values[kind]), origin="lower", extent=extent, cmap="cividis", aspect="auto")
        figure.colorbar(image, ax=axis, label="nats (bright: uncertain)")
        for label, (marker, colour) in enumerate(zip("o^s", ("#FFFFFF", "#D55E00", "#56B4E9"), strict=True)):
            mine = where[classes == label]
            style = {"s": 7, "marker": marker, "color": colour, "edgecolors": "black", "linewidths": 0.3}
            axis.scatter(mine[:, 0], mine[:, 1], label=f"class {label + 1}", **style)
        axis.set(title=f"{name}\n{title}", xlabel="x₁", ylabel="x₂", xlim=extent[:2], ylim=extent[:2])
        axis.legend(loc="lower right", fontsize=7, markerscale=1.8)


EXPERIMENT = Experiment(
    "toy-uncertainty",
    "Aleatoric and epistemic uncertainty on toy data",
    tuple(_TITLES),
    NETWORKS,
    run_one,
    seeds=1,
)
