"""Every table and figure is what it says, and runs."""

import os
from pathlib import Path

import numpy as np
import pytest
import torch

from natpn.densities import MaskedAutoregressiveFlow
from natpn_paper import datasets
from natpn_paper.baselines import BASELINES
from natpn_paper.baselines.members import MembersClassifier, MembersRegressor
from natpn_paper.experiments import EXPERIMENTS, execute, grid, paper_tables, published, studies, table_rows
from natpn_paper.experiments.base import Run
from natpn_paper.experiments.registry import DRAWINGS
from natpn_paper.experiments.studies import BUDGETS, ROWS
from natpn_paper.experiments.table_rows import (
    ENCODER,
    OURS,
    PAPER,
    Setting,
    build,
    is_single_pass,
    plain_name,
)
from natpn_paper.results.tables import tables

HERE = Path(os.environ.get("NATPN_DATA", "/nowhere")).is_dir()


def two_models(experiment):
    """Return NatPN and the plainest other model, or what there is."""
    others = [m for m in experiment.models if plain_name(m) not in ("NatPN", "NatPE")]
    baseline = ["StandardNet"] if "StandardNet" in others else others[:1]
    found = [m for m in experiment.models if m == "NatPN"] + baseline
    return experiment.models[:1] if experiment.models[0] in ROWS else tuple(found) or experiment.models[:2]


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_names_are_known(name):
    experiment = EXPERIMENTS[name]
    assert experiment.name == name
    assert set(experiment.needs) <= set(datasets.DATASETS)
    for view in experiment.views:
        assert view.data in experiment.data
        if view.table in published.OURS:
            assert published.scores(view.table) == {}
            continue
        models, columns = (set(names) for names in zip(*published.scores(view.table, view.trained_on), strict=True))
        assert columns == set(view.columns)
        ours = {plain_name(model) + view.suffix for model in experiment.models}
        assert {model for model in models if model.endswith(view.suffix)} <= ours


def test_passes_are_those_of_the_baselines():
    for name, entry in BASELINES.items():
        samples = issubclass(entry.classifier or entry.regressor, (MembersClassifier, MembersRegressor))
        assert is_single_pass(name) == (not samples and entry.parameters.get("ensemble_size", 1) == 1), name
    assert not is_single_pass(f"NatPE{PAPER}")
    assert all(map(is_single_pass, ROWS))


@pytest.mark.skipif(not HERE, reason="NATPN_DATA names no directory")
def test_a_run_is_the_same_whatever_ran_before():
    experiment = EXPERIMENTS["uci"]
    run, other = (experiment.runs(2, ("NatPN (paper)",), ("concrete",), quick=True)[seed] for seed in (0, 1))
    first = execute(experiment, run)["scores"]
    torch.manual_seed(5)
    assert execute(experiment, run)["scores"] == first
    assert execute(experiment, other)["scores"] != first


@pytest.mark.slow
@pytest.mark.skipif(not HERE, reason="NATPN_DATA names no directory")
@pytest.mark.parametrize("name", [name for name in EXPERIMENTS if name not in DRAWINGS])
def test_a_quick_run_fills_its_tables(name):
    experiment = EXPERIMENTS[name]
    absent = [need for need in experiment.needs if datasets.missing_folder(need)]
    assert experiment.needs[:1] != absent[:1] or not absent, f"NATPN_DATA has no {absent[0]}"
    runs = experiment.runs(1, two_models(experiment), quick=True)
    assert runs
    lines = [execute(experiment, run) for run in runs]
    found = tables(lines, {name: experiment}, quick=True)
    assert [table.view for table in found] == list(experiment.views)
    for table in found:
        ours = table.rows[-1]
        assert any(cell.mean is not None for cell in ours.cells)
        if not absent and ours.model in ("NatPN", *ROWS):
            assert all(cell.mean is not None for cell in ours.cells)


@pytest.mark.parametrize("model", ["NatPN", "NatPN (paper)", "Dropout"])
def test_epochs_of_a_run_are_those_that_were_asked_for(model):
    setting = Setting((8, 1), max_epochs=9)
    run = Run("uci", "kin8nm", model, 0, epochs=2)
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 3)).astype(np.float32)
    fitted = build(run, "normal", (3,), setting).fit(X, X.sum(1))
    main = {"NatPN": "representation", "NatPN (paper)": "joint"}.get(model)
    last = [e["epoch"] for e in fitted.history_ if main in (None, e["phase"])][-1]
    assert last == 2
    if model == "NatPN (paper)":
        assert max(e["epoch"] for e in fitted.history_ if e["phase"] == "fine-tuning") <= 2


@pytest.mark.parametrize(
    ("study", "table", "model", "setting"),
    [
        ("ablation-mnist", "mnist", "NatPN", paper_tables.MNIST_SETTING),
        ("ablation-cifar10", "cifar10", "NatPN", paper_tables.CIFAR10_SETTING),
        ("ablation-bikesharing-poisson", "bike-sharing", "NatPN-Poisson", paper_tables.BIKE_SETTING),
    ],
)
def test_flow_and_budget_are_those_of_the_study_row_with_the_figures_of_the_table(study, table, model, setting):
    of_table = {column: figure for (name, column), figure in published.scores(table).items() if name == model}
    of_study: dict[str, dict[str, object]] = {}
    for (row, column), figure in published.scores(study).items():
        of_study.setdefault(row, {})[column] = figure
    (row,) = [row for row, found in of_study.items() if all(of_table[k] == v for k, v in found.items())]
    dim, budget, flow = ROWS[row]
    kind, layers = setting.flow
    assert (dim, BUDGETS[budget], flow) == (
        setting.latent_dim,
        setting.budget,
        f"{layers}/0" if kind == "radial" else f"0/{layers}",
    )


def test_the_papers_flow_and_budget_are_used():
    setting = Setting((8, 1), flow=("maf", 3), budget="exp", latent_dim=4)
    model = build(Run("uci", "kin8nm", "NatPN (paper)", 0), "normal", (3,), setting)
    assert isinstance(model.density, MaskedAutoregressiveFlow)
    assert model.density.dim == model.latent_dim == 4
    assert model.budget == "exp"


@pytest.mark.parametrize("name", ["sensorless-drive", "bike-sharing", "uci"])
def test_models_of_a_table_share_encoder_and_schedule(name):
    experiment = EXPERIMENTS[name]
    target = "classes" if name == "sensorless-drive" else "normal"
    setting = Setting((24, 2), learning_rate=4e-3, batch_size=100, patience=7, max_epochs=70)
    for model in experiment.models:
        found = build(Run(name, experiment.data[0], model, 0), target, (3,), setting)
        if model in OURS:
            assert found.encoder == "auto"
            continue
        encoder = found.encoder()
        widths = [layer.out_features for layer in encoder.modules() if isinstance(layer, torch.nn.Linear)]
        assert widths == [24, 24, 6 if model == "PostNet" else 16], model
        if model.endswith(ENCODER):
            assert found.scheme == "auto" or found.scheme == "staged"
            continue
        scheme = found.scheme if model.endswith(PAPER) else found
        assert (scheme.learning_rate, scheme.batch_size, scheme.patience, scheme.max_epochs) == (4e-3, 100, 7, 70)
        assert model.endswith(PAPER) or found.schedule == "constant"


@pytest.mark.parametrize("flow", [("radial", 2), ("maf", 2)])
def test_the_seed_decides_where_the_flow_starts(flow):
    def start(seed, before):
        torch.manual_seed(before)
        run = Run("concrete", "concrete", "NatPN (paper)", seed)
        return torch.cat([p.flatten() for p in build(run, "normal", (8,), Setting(flow=flow)).density.parameters()])

    assert torch.equal(start(0, 1), start(0, 2))
    assert not torch.equal(start(0, 1), start(1, 1))


def test_no_model_is_trained_on_what_it_is_scored_on():
    for model in ("R-PriorNet", "EnD2"):
        found = build(Run("mnist", "mnist", model, 0), "classes", (1, 28, 28), Setting())
        assert getattr(found, "ood", None) is None


def test_chosen_settings_replace_those_of_the_table(monkeypatch):
    monkeypatch.setattr(
        table_rows, "_chosen", lambda: {"here": {"hidden": [8, 2], "flow": ["maf", 4], "budget": "exp"}}
    )
    setting = Setting(patience=3)
    assert setting.chosen("elsewhere") == setting
    assert setting.chosen("here") == Setting((8, 2), patience=3, flow=("maf", 4), budget="exp")
    monkeypatch.undo()
    assert set(table_rows._chosen()) <= set(grid.PARTS)
    for part, training in grid.PARTS.items():
        assert isinstance(training.setting_of(part), Setting)


@pytest.mark.parametrize(
    ("part", "hidden", "patience"),
    [
        ("sensorless-drive", (64, 3), 15),
        ("bike-sharing-normal", (16, 3), 50),
        ("bike-sharing-poisson", (16, 3), 50),
        ("concrete", (16, 2), 50),
        ("kin8nm", (16, 2), 30),
    ],
)
def test_tables_have_what_the_paper_states(part, hidden, patience):
    setting = grid.PARTS[part].setting_of(part)
    assert (setting.hidden, setting.patience, setting.schedule) == (hidden, patience, "constant")


def test_fine_tuning_may_take_as_long_as_the_joint_training():
    def fine_tuning(setting, **options):
        run = Run("table", "table", "NatPN (paper)", 0, **options)
        return build(run, "normal", (3,), setting).scheme.fine_tuning_epochs

    assert fine_tuning(Setting(max_epochs=700)) == 700
    assert fine_tuning(Setting(max_epochs=700, density_phases=False)) == 0
    assert fine_tuning(Setting(max_epochs=700), epochs=5) == 5
    assert fine_tuning(Setting(max_epochs=700), quick=True) == 1
    assert fine_tuning(Setting(max_epochs=12, schedule="one_cycle")) == 100


@pytest.mark.skipif(not HERE, reason="NATPN_DATA names no directory")
@pytest.mark.parametrize("target", ["normal", "poisson"])
def test_a_study_has_the_settings_of_its_table(target, monkeypatch):
    class StopError(Exception):
        pass

    def stop(run, setting):
        raise StopError(setting)

    monkeypatch.setattr(studies, "paper_scheme", stop)
    row = "H = 4, N_H = I, Flow = 8/0"
    with pytest.raises(StopError) as found:
        EXPERIMENTS[f"study-bike-{target}"].run(Run(f"study-bike-{target}", "bike-sharing", row, 0, limit=50))
    table = grid.PARTS[f"bike-sharing-{target}"].setting_of(f"bike-sharing-{target}")
    assert found.value.args == (studies.row_setting(table, row),)


@pytest.mark.parametrize(("limit", "size"), [(None, 512), (1000, 64), (100_000, 256)])
def test_the_papers_scheme_has_smaller_batches_where_rows_are_few(limit, size):
    run = Run("mnist", "mnist", "NatPN (paper)", 0, limit=limit)
    assert build(run, "classes", (3,), Setting()).scheme.batch_size == size


def test_fits_to_pictures_are_kept_for_all_experiments():
    runs = [Run(name, "cifar10", "NatPN", 0) for name in ("cifar10", "dataset-shift")]
    places = {build(run, "classes", (3, 8, 8), Setting()).checkpoint_dir for run in runs}
    assert places == {os.path.join("reproduce", "checkpoints", "cifar10, NatPN, seed 0")}
    others = [Run("cifar10", "cifar10", "NatPN", 1), Run("cifar10", "cifar10", "NatPN", 0, limit=9)]
    others += [Run("cifar10", "cifar10", "NatPN", 0, epochs=9), Run("cifar10", "cifar10", "NatPE", 0)]
    others += [Run("cifar10", "cifar10", "NatPN (paper)", 0)]
    others += [Run("cifar10", "cifar10", name, 0) for name in ("StandardNet", "Dropout", "PostNet")]
    found = [build(run, "classes", (3, 8, 8), Setting()).checkpoint_dir for run in others]
    assert None not in found
    assert len({*places, *found}) == 9
    plain = [Run("cifar10", "cifar10", name, 0) for name in ("StandardNet", "Ensemble", "EnD2")]
    assert len({build(run, "classes", (3, 8, 8), Setting()).checkpoint_dir for run in plain}) == 1
    assert (
        build(Run("cifar10", "cifar10", "NatPN", 0, quick=True), "classes", (3, 8, 8), Setting()).checkpoint_dir is None
    )
    assert build(Run("uci", "kin8nm", "NatPN", 0), "normal", (3,), Setting()).checkpoint_dir is None
