"""Tables 1 to 4, 7 and 8 and their parts in the appendix: one estimator a row, fitted and scored on one data set.

They differ only in data, target, settings and columns; `Training` makes their runs. Table 5 is `nyu`, and Table 6
`inference_time`.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from natpn_paper.experiments.base import ROC, Experiment, Outcome, Run, View
from natpn_paper.experiments.table_rows import CLASSES, NUMBERS, Setting, fitted

if TYPE_CHECKING:
    from natpn_paper.datasets import Splits


LONGEST = 1500  # epochs of a fit to a table; early stopping ends most of them earlier


@dataclass(frozen=True)
class Training:
    """How a table makes its runs: called with a run, it loads the data, fits the model and scores it.

    Attributes:
        target: "classes", "normal" or "poisson"; a part such as `bike-sharing-poisson` ends with its own target.
        setting: What the paper chose for the data.
        settings: What it chose for single parts, where they differ.
        names: What the paper's columns call OOD sets.
        quick_rows: The rows of a quick run.
    """

    target: str
    setting: Setting = field(default_factory=Setting)
    settings: Mapping[str, Setting] = field(default_factory=dict)
    names: Mapping[str, str] = field(default_factory=dict)
    quick_rows: int = 150

    def setting_of(self, part: str) -> Setting:
        """Return the setting of a part of the data, with what was chosen by the likelihood of held-out rows."""
        return self.settings.get(part, self.setting).chosen(part)

    def load(self, run: Run) -> tuple[str, "Splits"]:
        """Return the target and the data of a run."""
        from natpn_paper import datasets

        name, _, last = run.data.rpartition("-")
        name, target = (name, last) if last in ("normal", "poisson") else (run.data, self.target)
        return target, datasets.load(name, seed=run.seed, limit=run.rows(self.quick_rows))

    def __call__(self, run: Run) -> Outcome:
        """Make a run."""
        from natpn_paper.experiments.scoring import score

        target, data = self.load(run)
        model = fitted(run, target, data, self.setting_of(run.data))
        return Outcome(score(model, data, self.names), note=data.note)


def _by_kind(*others: str) -> tuple[str, ...]:
    """Return the columns of OOD sets, by aleatoric and by epistemic uncertainty."""
    return tuple(f"{other} {kind}" for other in others for kind in ("Alea.", "Epist."))


SENSORLESS_DRIVE = Experiment(
    "sensorless-drive",
    "Sensorless Drive, classes 9 and 10 left out",
    ("sensorless-drive",),
    CLASSES,
    Training("classes", Setting(patience=15, max_epochs=LONGEST, batch_size=1024)),
    (View("sensorless-drive", "sensorless-drive", ("Accuracy", "Brier", *_by_kind("9/10", "OODom"))),),
    needs=("sensorless-drive",),
)

# For pictures, what the default of the library has: one cycle of 12 epochs.
PICTURES = Setting(max_epochs=12, learning_rate=5e-3, batch_size=256, schedule="one_cycle")
CIFAR10_SETTING = replace(PICTURES, budget="exp")
CIFAR10_QUICK_ROWS = 40
CIFAR10_OOD = _by_kind("SVHN", "CelebA", "OODom")
CIFAR10 = Experiment(
    "cifar10",
    "CIFAR-10 against SVHN and CelebA",
    ("cifar10",),
    CLASSES,
    Training("classes", CIFAR10_SETTING, quick_rows=CIFAR10_QUICK_ROWS),
    (
        View("cifar10", "cifar10", ("Accuracy", "Brier", *CIFAR10_OOD)),
        View("cifar10-app", "cifar10", ("Accuracy", "Brier", *CIFAR10_OOD)),
        View("auroc-cifar10", "cifar10", CIFAR10_OOD, prefix=ROC),
    ),
    needs=("cifar10",),
)

CIFAR10_LEFT_OUT = Experiment(
    "cifar10-left-out",
    "CIFAR-10 without two classes against these and SVHN",
    ("cifar10-left-out",),
    CLASSES,
    Training("classes", CIFAR10_SETTING, quick_rows=CIFAR10_QUICK_ROWS),
    (View("cifar10-left-out", "cifar10-left-out", ("Accuracy", "Brier", *_by_kind("Left out", "SVHN", "OODom"))),),
    needs=("cifar10",),
)

BIKE_SETTING = Setting((16, 3), patience=50, max_epochs=LONGEST, flow=("maf", 8))
BIKE_OOD = tuple(f"{season} Epist." for season in ("Winter", "Spring", "Autumn", "OODom"))
BIKE_COLUMNS = ("RMSE", "Calibration", *BIKE_OOD)
BIKE_NORMAL, BIKE_POISSON = "bike-sharing-normal", "bike-sharing-poisson"
BIKE_SHARING = Experiment(
    "bike-sharing",
    "Bike Sharing, trained on one season, Normal and Poisson",
    (BIKE_NORMAL, BIKE_POISSON),
    NUMBERS,
    Training("normal", BIKE_SETTING, {BIKE_NORMAL: replace(BIKE_SETTING, latent_dim=32, budget="exp_half")}),
    (
        View("bike-sharing", BIKE_NORMAL, BIKE_COLUMNS, suffix="-Normal"),
        View("bike-sharing", BIKE_POISSON, BIKE_COLUMNS, suffix="-Poisson"),
        View("bike-sharing-app", BIKE_NORMAL, BIKE_COLUMNS, suffix="-Normal"),
        View("auroc-bikesharing", BIKE_NORMAL, BIKE_OOD, prefix=ROC, suffix="-Normal"),
        View("auroc-bikesharing", BIKE_POISSON, BIKE_OOD, prefix=ROC, suffix="-Poisson"),
    ),
    needs=("bike-sharing",),
)

UCI_SETTING = Setting((16, 2), max_epochs=LONGEST, density_phases=False, learning_rate=5e-3)
UCI = Experiment(
    "uci",
    "Kin8nm and Concrete",
    ("kin8nm", "concrete"),
    NUMBERS,
    Training(
        "normal",
        settings={
            "kin8nm": replace(UCI_SETTING, patience=30),
            "concrete": replace(UCI_SETTING, patience=50),
        },
    ),
    (
        View("uci", "kin8nm", ("RMSE", "Calibration", *_by_kind("Energy", "Concrete")), "kin8nm"),
        View("uci", "concrete", ("RMSE", "Calibration", *_by_kind("Energy", "Kin8nm")), "concrete"),
    ),
    needs=("kin8nm", "concrete", "energy"),
)

MNIST_SETTING = replace(PICTURES, budget="exp_half")
MNIST_NAMES = {"KMNIST": "K.", "FMNIST": "F."}
MNIST_OOD = _by_kind("K.", "F.", "OODom")
MNIST = Experiment(
    "mnist",
    "MNIST against KMNIST and Fashion-MNIST",
    ("mnist",),
    CLASSES,
    Training("classes", MNIST_SETTING, names=MNIST_NAMES),
    (
        View("mnist", "mnist", ("Accuracy", "Brier", *MNIST_OOD)),
        View("auroc-mnist", "mnist", MNIST_OOD, prefix=ROC),
    ),
    needs=("mnist", "fmnist"),
)
FMNIST = Experiment(
    "fmnist",
    "Fashion-MNIST against MNIST and KMNIST",
    ("fmnist",),
    CLASSES,
    Training("classes", MNIST_SETTING, names={"MNIST": "M.", "KMNIST": "K."}),
    (View("fmnist", "fmnist", ("Accuracy", "Brier", *_by_kind("M.", "K.", "OODom"))),),
    needs=("mnist", "fmnist"),
)
