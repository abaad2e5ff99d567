"""The entropy of the posterior on MNIST and on NYU Depth v2, in and out of distribution, as histograms.

An image of MNIST is one value; of NYU Depth v2, every pixel is one, in standardised units of depth. The bins span the
middle 99 % of all values; the outermost bins also count what lies beyond.
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from natpn_paper import datasets
from natpn_paper.experiments import nyu
from natpn_paper.experiments.base import Experiment, Outcome, Run
from natpn_paper.experiments.drawing import COLOURS, Line, first_lines, numbers, rounded
from natpn_paper.experiments.paper_tables import MNIST_SETTING
from natpn_paper.experiments.table_rows import NETWORKS, fitted

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Floats = NDArray[np.float64]

BINS = 60
_CHUNK = 2_000
_STYLES = ("-", "--", "-.", ":", (0, (3, 1, 1, 1)))


def run_one(run: Run) -> Outcome:
    """Make a run."""
    return _depths(run) if run.data == "nyu" else _digits(run)


def _digits(run: Run) -> Outcome:
    from natpn.model.answers import as_floats
    from natpn_paper.experiments.scoring import in_parts

    data = datasets.load("mnist", seed=run.seed, limit=run.rows())
    model = fitted(run, "classes", data, MNIST_SETTING)

    def entropy(images: Any) -> Floats:
        return np.concatenate([as_floats(part.posterior.entropy()) for part in in_parts(model, images, _CHUNK)])

    sets = {"MNIST": data.test[0], **data.ood}
    return Outcome(values=count({name: entropy(images) for name, images in sets.items()}), note=data.note)


def _depths(run: Run) -> Outcome:
    import torch

    from natpn.model.answers import as_floats
    from natpn_paper.experiments import pixels

    data = pixels.load_pictures(run)
    model = pixels.train(run, data)

    def entropy(pictures: Any) -> Floats:
        found = [output.posterior.entropy().flatten() for output in model.outputs(pictures)]
        return as_floats(torch.cat(found))

    sets = {"NYU": data.test[0], **data.ood}
    return Outcome(
        values=count({name: entropy(X) for name, X in sets.items()}), note=nyu.describe(data), part=nyu.part(data)
    )


def count(entropies: Mapping[str, Floats]) -> dict[str, Any]:
    """Return the edges of the bins, and for each set the share of values in each bin, in %."""
    everything = np.concatenate(list(entropies.values()))
    low, high = np.quantile(everything, [0.005, 0.995])
    edges = np.linspace(low, high if high > low else low + 1, BINS + 1)
    shares = {
        name: rounded(100 * np.histogram(np.clip(values, edges[0], edges[-1]), edges)[0] / len(values), 3)
        for name, values in entropies.items()
    }
    return {"edges": rounded(edges), "shares": shares}


def draw(lines: Sequence[Line]) -> "Figure":
    """Draw one histogram for each data set and model."""
    from matplotlib.figure import Figure

    rows = first_lines(lines)
    columns = min(2, len(rows))
    figure = Figure(figsize=(5.5 * columns, 3.6 * -(-len(rows) // columns)), layout="constrained")
    axes = figure.subplots(-(-len(rows) // columns), columns, squeeze=False).flat
    for ((data, model), line), axis in zip(rows.items(), axes, strict=False):  # rows first: they are fewer
        edges = numbers(line["values"]["edges"])
        for i, (name, shares) in enumerate(line["values"]["shares"].items()):
            style = {"color": COLOURS[i % len(COLOURS)], "linestyle": _STYLES[i % len(_STYLES)]}
            kind = "in-distribution" if i == 0 else "OOD"
            axis.stairs(numbers(shares), edges, lw=1.6, label=f"{name} ({kind})", **style)
            axis.stairs(numbers(shares), edges, fill=True, color=style["color"], alpha=0.12)
        unit = "pixels" if data == "nyu" else "images"
        axis.set(title=f"{model}, trained on {'NYU Depth v2' if data == 'nyu' else 'MNIST'}")
        axis.set(xlabel="entropy of the posterior in nats", ylabel=f"% of the {unit}, square-root scale")
        axis.set_yscale("function", functions=(lambda v: np.sqrt(np.maximum(v, 0)), np.square))
        axis.set_ylim(bottom=0)
        axis.legend(fontsize=8)
    for axis in list(axes):
        axis.set_visible(False)
    return figure


EXPERIMENT = Experiment(
    "entropy-histograms",
    "Entropy of the posterior in and out of distribution",
    ("mnist", "nyu"),
    NETWORKS,
    run_one,
    seeds=1,
    needs=("mnist", "kmnist", "fmnist", "nyu", "kitti", "lsun"),
)
