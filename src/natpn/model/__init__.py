"""A fitted model: what it learned about inputs and targets, its network, and the one path from rows to answers."""

from natpn.model.answers import ClassDistribution, PredictiveDistribution
from natpn.model.calibration import NOVEL, Calibration
from natpn.model.drift import LEVEL, DriftAlarm, Watch
from natpn.model.fitted import PIECE, Model, Network
from natpn.model.inputs import ArrayInputs, Inputs, TableInputs
from natpn.model.targets import Labels, Targets, Units

__all__ = [
    "LEVEL",
    "NOVEL",
    "PIECE",
    "ArrayInputs",
    "Calibration",
    "ClassDistribution",
    "DriftAlarm",
    "Inputs",
    "Labels",
    "Model",
    "Network",
    "PredictiveDistribution",
    "TableInputs",
    "Targets",
    "Units",
    "Watch",
]
