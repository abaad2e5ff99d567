"""The latent space of MNIST and KMNIST in two dimensions, by t-SNE with three perplexities (Appendix I.3).

t-SNE gets the normalised latents. Colours are the log-evidence, which for `NatPN` also depends on texture and principal
components of the input.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from natpn_paper import datasets
from natpn_paper.experiments.base import Experiment, Outcome, Run
from natpn_paper.experiments.drawing import COLOURS, Line, first_lines, numbers, rounded
from natpn_paper.experiments.paper_tables import MNIST_SETTING
from natpn_paper.experiments.table_rows import NETWORKS, fitted

if TYPE_CHECKING:
    from matplotlib.figure import Figure

PERPLEXITIES = (10, 30, 100)
SETS = ("MNIST", "KMNIST")
_IMAGES, _QUICK_IMAGES = 500, 40
_CHUNK = 500


def run_one(run: Run) -> Outcome:
    """Make a run."""
    data = datasets.load("mnist", seed=run.seed, limit=run.rows())
    model = fitted(run, "classes", data, MNIST_SETTING)
    count = _QUICK_IMAGES if run.quick else _IMAGES
    inside, outside = data.test[0][:count], data.ood["KMNIST"][:count]
    images = np.concatenate([inside, outside])
    z = latents(model, images)
    values = {
        "set": [SETS[0]] * len(inside) + [SETS[1]] * len(outside),
        "class": [*data.test[1][:count].tolist(), *[None] * len(outside)],
        "log evidence": rounded(model.predict_dist(images).log_evidence),
        "places": {str(p): rounded(embed(z, p, run.seed), 2) for p in PERPLEXITIES if p < len(z) / 2},
    }
    return Outcome(values=values, note=data.note)


def latents(model: Any, images: NDArray[Any]) -> NDArray[np.float32]:
    """Return normalised latents, (N, latent_dim)."""
    import torch

    with torch.no_grad():
        parts = [model.network_.represent(x)[0] for x in model.inputs_.tensors(images, _CHUNK)]
    return np.asarray(torch.cat(parts).float().numpy())


def embed(z: NDArray[np.float32], perplexity: float, seed: int) -> NDArray[np.float32]:
    """Return places in the plane, (N, 2)."""
    from sklearn.manifold import TSNE

    places = TSNE(perplexity=perplexity, init="pca", random_state=seed, n_jobs=1).fit_transform(z)
    return np.asarray(places)


def draw(lines: Sequence[Line]) -> "Figure":
    """Draw a row for each model and perplexity: on the left the data set of each point, on the right its evidence."""
    from matplotlib.figure import Figure

    wanted = first_lines(lines).values()
    rows = [(line, p) for line in wanted for p in line["values"]["places"]]
    figure = Figure(figsize=(9, 3.6 * len(rows)), layout="constrained")
    axes = figure.subplots(len(rows), 2, squeeze=False)
    for (line, perplexity), (left, right) in zip(rows, axes, strict=True):
        values = line["values"]
        places, sets = numbers(values["places"][perplexity]), np.asarray(values["set"])
        for name, colour, marker in zip(SETS, (COLOURS[2], COLOURS[1]), "o^", strict=True):
            mine = places[sets == name]
            kind = "in-distribution" if name == SETS[0] else "OOD"
            left.scatter(mine[:, 0], mine[:, 1], s=7, color=colour, marker=marker, lw=0, label=f"{name} ({kind})")
        left.legend(fontsize=8, markerscale=2)
        evidence = numbers(values["log evidence"])
        low, high = np.quantile(evidence, [0.02, 0.98])
        for name, marker in zip(SETS, "o^", strict=True):
            mine, shade = places[sets == name], evidence[sets == name]
            style = {"cmap": "viridis", "vmin": low, "vmax": high, "s": 7, "marker": marker, "lw": 0}
            points = right.scatter(mine[:, 0], mine[:, 1], c=shade, **style)
        figure.colorbar(points, ax=right, label="log-evidence (bright: familiar)", extend="both")
        for axis, what in ((left, "data set"), (right, "log-evidence")):
            axis.set(title=f"{line['model']}, perplexity {perplexity}: {what}", xticks=[], yticks=[])
    return figure


EXPERIMENT = Experiment(
    "latent-space",
    "Latent space of MNIST and KMNIST",
    ("mnist",),
    NETWORKS,
    run_one,
    seeds=1,
    needs=("mnist", "kmnist"),
)
