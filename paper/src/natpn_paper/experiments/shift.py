"""Figure 2: accuracy and confidence on CIFAR-10 under 15 corruptions of severity 0 to 5, where 0 is the clean image.

For a model that predicts a Dirichlet distribution, the confidence in an image is α₀, the number of observations behind
the answer, prior included; for a model that samples, it is the highest probability. The figure shows the ratio of its
mean to that on clean images (Section 4.2), averaged over the corruptions.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from natpn_paper import datasets
from natpn_paper.experiments.base import Experiment, Outcome, Run
from natpn_paper.experiments.drawing import COLOURS, MARKERS, Line, first_lines, numbers, rounded
from natpn_paper.experiments.paper_tables import CIFAR10_QUICK_ROWS, CIFAR10_SETTING
from natpn_paper.experiments.table_rows import NETWORKS, fitted

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Floats = NDArray[np.float64]

SEVERITIES = range(6)
SAMPLING = ("Dropout", "Ensemble")
MODELS = (*SAMPLING, "R-PriorNet", "EnD2", "PostNet", *NETWORKS)
_IMAGES, _QUICK_IMAGES = 10_000, 8
_CHUNK = 1_000


def run_one(run: Run) -> Outcome:
    """Make a run: one fit, then every corruption of the same test images."""
    from natpn import metrics

    data = datasets.load("cifar10", seed=run.seed, limit=run.rows(CIFAR10_QUICK_ROWS))
    model = fitted(run, "classes", data, CIFAR10_SETTING)
    n_images = _QUICK_IMAGES if run.quick else _IMAGES
    images, labels = (part[:n_images] for part in data.test)
    index = np.searchsorted(model.classes_, labels)
    probabilities, clean = answer(model, images)
    first = metrics.accuracy(index, probabilities)
    accuracy, change = {}, {}
    for name in datasets.CORRUPTIONS:
        levels = [datasets.corrupt(images, name, severity, seed=run.seed) for severity in SEVERITIES[1:]]
        probabilities, shifted = answer(model, np.concatenate(levels))  # all levels in one call
        each = zip(np.split(probabilities, len(levels)), np.split(shifted, len(levels)), strict=True)
        found = [(metrics.accuracy(index, p), metrics.average_confidence_change(log, clean)) for p, log in each]
        accuracy[name] = [first, *(right for right, _ in found)]
        change[name] = [1.0, *(ratio for _, ratio in found)]
    means = {what: np.mean(list(found.values()), 0) for what, found in (("accuracy", accuracy), ("change", change))}
    scores = {f"Accuracy, severity {s}": float(means["accuracy"][s]) for s in SEVERITIES}
    scores |= {f"Confidence change, severity {s}": float(means["change"][s]) for s in SEVERITIES}
    values = {"accuracy": {k: rounded(v) for k, v in accuracy.items()}}
    values["confidence change"] = {k: rounded(v, 6) for k, v in change.items()}
    note = f"{len(images)} of the test images; frost and glass blur by code of our own"
    return Outcome(scores, values, "; ".join(n for n in (data.note, note) if n))


def answer(model: Any, images: Any) -> tuple[Floats, Floats]:
    """Return the probabilities, (N, classes), and the log-confidence of each image."""
    from natpn_paper.experiments.scoring import in_parts

    parts = in_parts(model, images, _CHUNK)
    sure = [log_confidence(model, part) for part in parts]
    return np.concatenate([part.probabilities for part in parts]), np.concatenate(sure)


def log_confidence(model: Any, found: Any) -> Floats:
    """Return log α₀, or the log of the highest probability for models that have no α₀."""
    from natpn_paper.baselines.members import MembersClassifier

    if isinstance(model, MembersClassifier):
        highest: Floats = np.log(found.probabilities.max(1))
        return highest
    return np.asarray(-found.epistemic)


def draw(lines: Sequence[Line]) -> "Figure":
    """Draw accuracy on the left and the change of confidence on the right, with the spread over seeds."""
    from matplotlib.figure import Figure

    models = list(dict.fromkeys(model for _, model in first_lines(lines)))
    figure = Figure(figsize=(10, 4.2), layout="constrained")
    axes = figure.subplots(1, 2)
    for i, model in enumerate(models):
        style = {"color": COLOURS[i % len(COLOURS)], "marker": MARKERS[i % len(MARKERS)], "label": model, "ms": 5}
        for axis, what in zip(axes, ("accuracy", "confidence change"), strict=True):
            every = [list(line["values"][what].values()) for line in lines if line["model"] == model]
            runs = numbers(every).mean(1)  # over corruptions: (seeds, severities)
            axis.plot(SEVERITIES, runs.mean(0), **style)
            if len(runs) > 1:
                low, high = runs.min(0), runs.max(0)
                axis.fill_between(SEVERITIES, low, high, color=style["color"], alpha=0.15, lw=0)
    axes[0].set(title="Accuracy, mean of 15 corruptions", xlabel="severity (0: clean)", ylabel="accuracy in %")
    axes[1].set(title="Average confidence change", xlabel="severity (0: clean)", ylabel="mean confidence ÷ that at 0")
    axes[1].axhline(1, color="#888888", lw=0.8, zorder=0)
    if any((numbers(list(line["values"]["confidence change"].values())) > 10).any() for line in lines):
        axes[1].set_yscale("log")
    axes[0].legend(fontsize=8)
    for axis in axes:
        axis.grid(alpha=0.3)
    return figure


EXPERIMENT = Experiment(
    "dataset-shift",
    "Accuracy and confidence on corrupted CIFAR-10",
    ("cifar10",),
    MODELS,
    run_one,
    needs=("cifar10",),
)
