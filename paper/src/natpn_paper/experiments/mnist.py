"""Tables 7 and 8: MNIST and Fashion-MNIST, each with the other and KMNIST as OOD sets."""

from natpn_paper.experiments.base import ROC, Experiment, View
from natpn_paper.experiments.models import IMAGES, Setting
from natpn_paper.experiments.tables import Training

SETTING = Setting(patience=15, budget="exp_half")


def _ood(*others: str) -> tuple[str, ...]:
    return tuple(f"{other} {kind}" for other in others for kind in ("Alea.", "Epist."))


MNIST_OOD, FMNIST_OOD = _ood("K.", "F.", "OODom"), _ood("M.", "K.", "OODom")

MNIST = Experiment(
    "mnist",
    "MNIST against KMNIST and Fashion-MNIST",
    ("mnist",),
    IMAGES,
    Training("classes", names={"KMNIST": "K.", "FMNIST": "F."}, shown="FMNIST", default=SETTING),
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
    IMAGES,
    Training("classes", names={"MNIST": "M.", "KMNIST": "K."}, shown="KMNIST", default=SETTING),
    (View("fmnist", "fmnist", ("Accuracy", "Brier", *FMNIST_OOD)),),
    needs=("mnist", "fmnist"),
)
