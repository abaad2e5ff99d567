"""Table 2 and its parts in the appendix: CIFAR-10 against SVHN and CelebA."""

from natpn_paper.experiments.base import ROC, Experiment, View
from natpn_paper.experiments.models import IMAGES, Setting
from natpn_paper.experiments.tables import Training

OOD = tuple(f"{other} {kind}" for other in ("SVHN", "CelebA", "OODom") for kind in ("Alea.", "Epist."))
SETTING = Setting(patience=20, budget="exp")
QUICK_ROWS = 40

EXPERIMENT = Experiment(
    "cifar10",
    "CIFAR-10 against SVHN and CelebA",
    ("cifar10",),
    IMAGES,
    Training("classes", shown="SVHN", default=SETTING, quick_rows=QUICK_ROWS),
    (
        View("cifar10", "cifar10", ("Accuracy", "Brier", *OOD)),
        View("cifar10-app", "cifar10", ("Accuracy", "Brier", *OOD)),
        View("auroc-cifar10", "cifar10", OOD, prefix=ROC),
    ),
    needs=("cifar10",),
)
