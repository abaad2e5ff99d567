"""Table 1: classes of Sensorless Drive, with the last two left out."""

from natpn_paper.experiments.base import Experiment, View
from natpn_paper.experiments.models import CLASSES, Setting
from natpn_paper.experiments.tables import Training

COLUMNS = ("Accuracy", "Brier", "9/10 Alea.", "9/10 Epist.", "OODom Alea.", "OODom Epist.")

EXPERIMENT = Experiment(
    "sensorless-drive",
    "Sensorless Drive, classes 9 and 10 left out",
    ("sensorless-drive",),
    CLASSES,
    Training("classes", default=Setting(patience=15)),
    (View("sensorless-drive", "sensorless-drive", COLUMNS),),
    needs=("sensorless-drive",),
)
