"""Quick runs of every figure: what they hold, and that the drawing shows it."""

import importlib
import io
import json
import os
import pkgutil
from functools import cache
from pathlib import Path

import matplotlib as mpl
import numpy as np
import pytest

from natpn_paper import datasets, experiments
from natpn_paper.experiments import Run, depth_maps, execute, histograms, latent_space, shift, toy_uncertainty
from natpn_paper.experiments.drawing import first_lines, numbers, rounded
from natpn_paper.experiments.registry import DRAWINGS, EXPERIMENTS
from natpn_paper.experiments.table_rows import NETWORKS, build

DATA = Path(os.environ.get("NATPN_DATA", "nowhere"))
real = pytest.mark.skipif(not DATA.is_dir(), reason="NATPN_DATA names no directory")

MODELS = {  # those that are quick to fit, where the figure has slow ones
    "toy-uncertainty": NETWORKS,
    "dataset-shift": ("Dropout", "NatPN (paper)"),
    "latent-space": ("NatPN (paper)",),
    "entropy-histograms": ("NatPN (paper)",),
    "depth-maps": ("NatPN",),
}
LABELS = {
    "toy-uncertainty": ("NatPN (paper), numbers", "class 3", "epistemic: −log(n_prior + n)", "training rows"),
    "dataset-shift": ("Dropout", "NatPN (paper)", "severity (0: clean)", "accuracy in %"),
    "latent-space": ("KMNIST (OOD)", "perplexity 30", "log-evidence (bright: familiar)"),
    "entropy-histograms": ("FMNIST (OOD)", "KITTI (OOD)", "NYU (in-distribution)", "entropy of the posterior in nats"),
    "depth-maps": ("predicted depth in m", "KITTI (OOD)", "epistemic: −log n in nats"),
}
NEEDS_FILES = {name for name, experiment in EXPERIMENTS.items() if experiment.needs}


@cache
def quick(name):
    """The lines of a quick run, as they come back from a file."""
    runs = EXPERIMENTS[name].runs(1, models=MODELS[name], quick=True)
    return [json.loads(json.dumps(execute(EXPERIMENTS[name], run))) for run in runs]


def figures():
    return [pytest.param(name, marks=[real] if name in NEEDS_FILES else []) for name in DRAWINGS]


def test_every_module_with_an_experiment_is_registered():
    names = [m.name for m in pkgutil.iter_modules(experiments.__path__) if m.name != "registry"]
    modules = [importlib.import_module(f"natpn_paper.experiments.{name}") for name in names]
    own = [module for module in modules if hasattr(module, "EXPERIMENT")]
    assert {id(module.EXPERIMENT) for module in own} <= {id(e) for e in EXPERIMENTS.values()}
    assert {m.EXPERIMENT.name: m.draw for m in own if hasattr(m, "draw")} == DRAWINGS
    assert set(LABELS) == set(MODELS) == set(DRAWINGS)


@pytest.mark.slow
@pytest.mark.parametrize("name", figures())
def test_a_figure_shows_its_labels(name):
    lines = quick(name)
    assert {(line["data"], line["model"]) for line in lines} == {
        (data, model) for data in EXPERIMENTS[name].data for model in MODELS[name]
    }
    buffer = io.BytesIO()
    with mpl.rc_context({"svg.fonttype": "none"}):
        DRAWINGS[name](lines).savefig(buffer, format="svg")
    svg = buffer.getvalue().decode()
    for label in LABELS[name]:
        assert label in svg


@pytest.mark.parametrize("name", DRAWINGS)
def test_without_lines_there_is_nothing_to_draw(name):
    with pytest.raises(ValueError, match="run the experiment first"):
        DRAWINGS[name]([])


def test_numbers_survive_json():
    found = json.loads(json.dumps(rounded([[1.23456, np.nan], [np.inf, -2.0]])))
    assert found == [[1.2346, None], [None, -2.0]]
    np.testing.assert_array_equal(numbers(found), [[1.2346, np.nan], [np.nan, -2.0]])


def test_the_first_line_of_a_model_is_drawn():
    lines = [{"data": "a", "model": "m", "seed": s} for s in (3, 4)] + [{"data": "b", "model": "m", "seed": 5}]
    assert list(first_lines(lines)) == [("a", "m"), ("b", "m")]
    assert first_lines(lines)["a", "m"] == lines[0]


def test_the_plane_is_not_transposed():
    """A class lies round (0, 2), and nothing near (3, 0)."""
    values = first_lines(quick("toy-uncertainty"))["toy-classification", "NatPN"]["values"]
    side, epistemic = numbers(values["side"]), numbers(values["epistemic"])
    assert epistemic.shape == (60, 60)
    zero, three = (int(np.abs(side - place).argmin()) for place in (0, 3))
    assert epistemic[three, zero] < epistemic[zero, three] - 1
    assert -np.log(10) - 1 < epistemic.max() <= -np.log(10)  # most of it is the prior's


def test_bands_are_wide_where_nothing_is_known():
    values = first_lines(quick("toy-uncertainty"))["toy-regression", "NatPN"]["values"]
    low, middle, high = numbers(values["predictive"])
    assert (low < middle).all()
    assert (middle < high).all()
    noise = numbers(values["aleatoric"])
    assert (high - low >= noise[2] - noise[0] - 1e-3).all()  # both are rounded
    x = numbers(values["x"])
    assert (high - low)[np.abs(x) > 7].min() > 2 * (high - low)[np.abs(x + 2).argmin()]


@pytest.mark.slow
@real
def test_every_corruption_starts_from_the_clean_images():
    for line in quick("dataset-shift"):
        for what, first in (("accuracy", line["scores"]["Accuracy, severity 0"]), ("confidence change", 1.0)):
            table = line["values"][what]
            assert tuple(table) == tuple(datasets.CORRUPTIONS)
            assert [row[0] for row in table.values()] == pytest.approx([first] * len(table))
            mean = np.mean([row[5] for row in table.values()])
            name = "Accuracy" if what == "accuracy" else "Confidence change"
            assert line["scores"][f"{name}, severity 5"] == pytest.approx(mean, abs=1e-4)


def test_confidence_is_the_sum_of_alpha_or_the_highest_probability():
    data = datasets.load("toy-classification", limit=60)
    X, y = data.train
    for name in ("NatPN", "PostNet", "Dropout"):
        model = build(Run("", "", name, 0, quick=True), "classes", (2,), toy_uncertainty.SETTING).fit(X, y)
        found = model.predict_dist(X)
        if name == "NatPN":
            expected = (found.posterior.n[:, None] * found.posterior.mean_statistics).sum(1).numpy()
        elif name == "PostNet":
            expected = np.concatenate([raw.exp().sum(1).numpy() for raw in model._raws(X)])
        else:
            expected = model.predict_proba(X).max(1)
        np.testing.assert_allclose(np.exp(shift.log_confidence(model, found)), expected, rtol=1e-4)


@pytest.mark.slow
@real
def test_places_have_a_set_and_an_evidence():
    for line in quick("latent-space"):
        values = line["values"]
        assert numbers(values["places"]["30"]).shape == (len(values["set"]), 2)
        assert len(values["log evidence"]) == len(values["class"]) == len(values["set"])
        assert set(values["set"]) == set(latent_space.SETS)


def test_shares_are_counted_with_what_is_beyond():
    found = histograms.count({"a": np.array([0.0, 0.0, 0.0, 1.0]), "b": np.linspace(0, 1, 1000)})
    assert len(found["edges"]) == histograms.BINS + 1
    assert found["shares"]["a"][0] == 75
    assert found["shares"]["a"][-1] == 25
    assert sum(found["shares"]["b"]) == pytest.approx(100, abs=0.1)
    assert sum(histograms.count({"a": np.zeros(3)})["shares"]["a"]) == 100


@pytest.mark.parametrize("count", [1, 2, 3, 4, 5])
def test_panels_without_a_histogram_are_not_shown(count):
    values = histograms.count({"a": np.arange(9.0)})
    lines = [{"data": "mnist", "model": str(i), "seed": 0, "values": values} for i in range(count)]
    assert sum(axis.get_visible() for axis in histograms.draw(lines).axes) == count


def test_pictures_are_halved():
    picture = np.zeros((3, 4, 6))
    picture[0, :2, :2] = [[1, 1], [0, 0]]
    found = depth_maps.shrunk(picture)
    assert found["shape"] == [2, 3, 3]
    assert found["bytes"] == "800000" + "00" * 15


@pytest.mark.slow
@real
def test_maps_have_the_size_of_the_picture():
    (line,) = quick("depth-maps")
    for sample in line["values"]["samples"]:
        assert sample["image"]["shape"][:2] == [48, 64]
        for kind in ("prediction", "noise", "epistemic"):
            assert np.isfinite(numbers(sample[kind])).all()
            assert numbers(sample[kind]).shape == (48, 64)
        assert (numbers(sample["noise"]) > 0).all()
