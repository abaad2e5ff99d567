"""The four studies of Appendix I.6: latent dimension × certainty budget × flow, by the paper's scheme.

All else is as in the table of the same data and target, the learning rate that was chosen for it included.

A row is named as in the paper: `H = 4, N_H = I, Flow = 8/0` has 4 latent dimensions, the first budget, 8 radial layers
and no MAF layers.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from itertools import product

from natpn_paper.experiments.base import Experiment, Outcome, Run, View
from natpn_paper.experiments.paper_tables import (
    BIKE_COLUMNS,
    BIKE_OOD,
    BIKE_SETTING,
    CIFAR10_OOD,
    CIFAR10_SETTING,
    MNIST_NAMES,
    MNIST_OOD,
    MNIST_SETTING,
)
from natpn_paper.experiments.table_rows import Setting, encoder, paper_scheme

BUDGETS = {"I": "constant", "II": "rows", "III": "exp_half", "IV": "exp", "V": "normal"}
FLOWS = ("8/0", "16/0", "0/4", "0/8")
ROWS = {
    f"H = {dim}, N_H = {budget}, Flow = {flow}": (dim, budget, flow)
    for dim, budget, flow in product((4, 16, 32), BUDGETS, FLOWS)
}


@dataclass(frozen=True)
class Study:
    """A run of a study."""

    data: str
    target: str
    setting: Setting
    names: Mapping[str, str] = field(default_factory=dict)

    def __call__(self, run: Run) -> Outcome:
        """Make a run."""
        from natpn_paper import baselines, datasets
        from natpn_paper.experiments.scoring import score

        data = datasets.load(self.data, seed=run.seed, limit=run.rows())
        (X, y), (X_val, y_val) = data.train, data.validation
        setting = row_setting(self.setting.chosen(f"{self.data}-{self.target}"), run.model)
        module = encoder(X.shape[1:], setting)
        parameters = {"encoder": module, "latent_dim": setting.latent_dim, "random_state": run.seed}
        model = baselines.get("NatPN", self.target, **parameters, **paper_scheme(run, setting))
        return Outcome(score(model.fit(X, y, X_val=X_val, y_val=y_val), data, self.names), note=data.note)


def row_setting(setting: Setting, row: str) -> Setting:
    """Return a setting with the latent dimension, budget and flow that the name of a row says."""
    dim, budget, flow = ROWS[row]
    radial, maf = map(int, flow.split("/"))
    return replace(setting, latent_dim=dim, budget=BUDGETS[budget], flow=("radial", radial) if radial else ("maf", maf))


def _study(name: str, title: str, table: str, columns: tuple[str, ...], run: Study) -> Experiment:
    return Experiment(name, title, (run.data,), tuple(ROWS), run, (View(table, run.data, columns),), needs=(run.data,))


EXPERIMENTS = (
    _study(
        "study-mnist",
        "MNIST by latent dimension, budget and flow",
        "ablation-mnist",
        ("Accuracy", "Brier", *MNIST_OOD),
        Study("mnist", "classes", MNIST_SETTING, MNIST_NAMES),
    ),
    _study(
        "study-cifar10",
        "CIFAR-10 by latent dimension, budget and flow",
        "ablation-cifar10",
        ("Accuracy", "Brier", *CIFAR10_OOD),
        Study("cifar10", "classes", CIFAR10_SETTING),
    ),
    _study(
        "study-bike-normal",
        "Bike Sharing (Normal) by latent dimension, budget and flow",
        "ablation-bikesharing-normal",
        BIKE_COLUMNS,
        Study("bike-sharing", "normal", BIKE_SETTING),
    ),
    _study(
        "study-bike-poisson",
        "Bike Sharing (Poisson) by latent dimension, budget and flow",
        "ablation-bikesharing-poisson",
        ("RMSE", *BIKE_OOD),
        Study("bike-sharing", "poisson", BIKE_SETTING),
    ),
)
