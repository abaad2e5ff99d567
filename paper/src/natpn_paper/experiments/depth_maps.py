"""Depth of NYU Depth v2 pixel by pixel: picture, truth, prediction and the two uncertainties, and a street of KITTI.

The aleatoric uncertainty is shown as the standard deviation of the noise in metres, the epistemic as −log n of the
evidence n.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from natpn_paper.experiments import nyu
from natpn_paper.experiments.base import Experiment, Outcome, Run
from natpn_paper.experiments.drawing import Line, first_lines, numbers, rounded
from natpn_paper.experiments.table_rows import NETWORKS

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_SAMPLES = 2
_LOG_ROOT_2PIE = 0.5 * np.log(2 * np.pi * np.e)  # the entropy of a standard Normal
_MAPS = {
    "truth": ("true depth", "m", "viridis"),
    "prediction": ("predicted depth", "m", "viridis"),
    "noise": ("aleatoric: σ of the noise", "m", "cividis"),
    "epistemic": ("epistemic: −log n", "nats", "cividis"),
}


def run_one(run: Run) -> Outcome:
    """Make a run."""
    from natpn_paper.experiments import pixels

    data = pixels.load_pictures(run)
    model = pixels.train(run, data)
    sources = {"test": data.test, "validation": data.validation, "training": data.train}
    chosen = {
        f"NYU, {name} {i + 1}": (X[i], depth[i])
        for name, (X, depth) in sources.items()
        for i in range(min(len(X), _SAMPLES if name == "test" else 1))
    }
    if "KITTI" in data.ood:
        chosen["KITTI (OOD)"] = (data.ood["KITTI"][0], None)
    X = np.stack([picture for picture, _ in chosen.values()])
    noise, epistemic = model.uncertainties(X)
    spread, prediction = np.exp(noise - _LOG_ROOT_2PIE), model.depth(X)
    samples = [
        {
            "name": name,
            "image": shrunk(picture),
            "truth": None if depth is None else rounded(depth, 2),
            "prediction": rounded(prediction[i], 2),
            "noise": rounded(spread[i], 3),
            "epistemic": rounded(epistemic[i], 2),
        }
        for i, (name, (picture, depth)) in enumerate(chosen.items())
    ]
    return Outcome(values={"samples": samples}, note=nyu.describe(data), part=nyu.part(data))


def shrunk(picture: NDArray[Any]) -> dict[str, Any]:
    """Return a picture, (3, height, width) in [0, 1], at half the size as bytes in hexadecimal digits."""
    channels, height, width = picture.shape
    even = picture[:, : height - height % 2, : width - width % 2]
    small = even.reshape(channels, height // 2, 2, width // 2, 2).mean((2, 4)).transpose(1, 2, 0)
    data = np.round(255 * np.clip(small, 0, 1)).astype(np.uint8)
    return {"shape": list(data.shape), "bytes": data.tobytes().hex()}


def draw(lines: Sequence[Line]) -> "Figure":
    """Draw a row for each model and picture."""
    from matplotlib.figure import Figure

    wanted = first_lines(lines).values()
    rows = [(line["model"], sample) for line in wanted for sample in line["values"]["samples"]]
    figure = Figure(figsize=(14, 2.2 * len(rows)), layout="constrained")
    axes = figure.subplots(len(rows), 1 + len(_MAPS), squeeze=False)
    for row, (model, sample) in zip(axes, rows, strict=True):
        image = np.frombuffer(bytes.fromhex(sample["image"]["bytes"]), np.uint8).reshape(sample["image"]["shape"])
        row[0].imshow(image)
        row[0].set_ylabel(f"{model}\n{sample['name']}", fontsize=9)
        _draw_maps(figure, row[1:], sample)
        for axis in row:
            axis.set(xticks=[], yticks=[])
    axes[0, 0].set_title("picture", fontsize=10)
    for axis, (title, unit, _) in zip(axes[0, 1:], _MAPS.values(), strict=True):
        axis.set_title(f"{title} in {unit}", fontsize=10)
    return figure


def _draw_maps(figure: "Figure", axes: Any, sample: dict[str, Any]) -> None:
    shown = [numbers(sample[kind]) for kind in ("truth", "prediction") if sample[kind] is not None]
    limits = float(np.nanmin(np.stack(shown))), float(np.nanmax(np.stack(shown)))  # one scale for both depths
    for axis, (kind, (_, _, colours)) in zip(axes, _MAPS.items(), strict=True):
        if sample[kind] is None:
            axis.text(0.5, 0.5, "not compared", ha="center", va="center", transform=axis.transAxes)
            axis.set_frame_on(False)
            continue
        depth = kind in ("truth", "prediction")
        values = numbers(sample[kind])
        low, high = limits if depth else (np.nanquantile(values, 0.01), np.nanquantile(values, 0.99))
        axis.set_facecolor("#FFFFFF")  # where there is no reading
        image = axis.imshow(values, cmap=colours, vmin=low, vmax=high)
        figure.colorbar(image, ax=axis, extend="neither" if depth else "both")


EXPERIMENT = Experiment(
    "depth-maps",
    "Predicted depth and its uncertainties on NYU Depth v2",
    ("nyu",),
    NETWORKS,
    run_one,
    seeds=1,
    needs=("nyu", "kitti"),
)
