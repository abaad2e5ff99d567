"""Table 5: depth of every pixel of NYU Depth v2 against LSUN, KITTI and out-of-domain pictures.

RMSE (in cm) and calibration are over all readings of the test pictures. A picture's uncertainty is the mean over its
pixels, so the areas are over pictures.
"""

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from natpn_paper.datasets import Splits
from natpn_paper.experiments.base import ROC, Experiment, Outcome, Run, View
from natpn_paper.experiments.table_rows import NETWORKS

if TYPE_CHECKING:
    from natpn_paper.experiments.pixels import PixelModel

Floats = NDArray[np.float64]

MODELS = ("Dropout", "EvReg", *NETWORKS)
COLUMNS = ("RMSE", "Calibration", *(f"{o} {kind}" for o in ("LSUN", "KITTI", "OODom") for kind in ("Alea.", "Epist.")))
_NAMES = {"LSUN classroom": "LSUN"}  # the first of the two scores in the paper's cells
_CENTIMETRES = 100
_MANY = 1_000  # pictures


def score_pictures(model: "PixelModel", data: Splits) -> dict[str, float]:
    """Score readings of the test pictures, and pictures against every OOD set that is there."""
    from natpn import metrics

    X, depth = data.test
    there = ~np.isnan(depth)
    found = {
        "RMSE": _CENTIMETRES * metrics.rmse(depth[there], model.depth(X)[there]),
        "Calibration": metrics.quantile_calibration(np.clip(model.cdf(X, depth)[there], 0, 1)),
    }
    inside = confidences(model, X)
    for name, other in data.ood.items():
        column, outside = _NAMES.get(name, name), confidences(model, other)
        for kind in inside:
            pr, roc = metrics.detection(inside[kind], outside[kind])
            found |= {f"{column} {kind}": pr, f"{ROC}{column} {kind}": roc}
    return found


def confidences(model: "PixelModel", X: NDArray[np.float32]) -> dict[str, Floats]:
    """Return the confidence in each picture, by aleatoric and by epistemic uncertainty."""
    noise, unknown = (-maps.mean((1, 2)) for maps in model.uncertainties(X))
    return {"Alea.": noise, "Epist.": unknown}


def describe(data: Splits) -> str:
    """Say what differs from the paper."""
    height, width = data.train[0].shape[-2:]
    counts = "/".join(str(len(X)) for X, _ in (data.train, data.validation, data.test))
    own = (
        f"{counts} pictures of {height}×{width} pixels for training, validation and test",
        "an encoder from scratch in place of a pretrained DenseNet",
        "missing depths filled by the nearest reading in training, not scored",
    )
    return "; ".join((*own, *((data.note,) if data.note else ())))


def part(data: Splits) -> str:
    """Say how many pictures there are, if they are far from the paper's 50,688."""
    count = sum(len(X) for X, _ in (data.train, data.validation, data.test))
    return f"{count:,} pictures" if count < _MANY else ""


def run_one(run: Run) -> Outcome:
    """Make a run."""
    from natpn_paper.experiments import pixels

    data = pixels.load_pictures(run)
    return Outcome(score_pictures(pixels.train(run, data), data), note=describe(data), part=part(data))


EXPERIMENT = Experiment(
    "nyu",
    "Depth per pixel of NYU Depth v2 against LSUN and KITTI",
    ("nyu",),
    MODELS,
    run_one,
    (View("nyu", "nyu", COLUMNS),),
    needs=("nyu", "kitti", "lsun"),
)
