"""The paper's competitors behind the estimators' interface: `get("Dropout", "classes")`."""

from natpn.baselines.answers import BaselineClassDistribution, BaselineDistribution
from natpn.baselines.base import Baseline
from natpn.baselines.distillation import EnD2Classifier
from natpn.baselines.dropout import DropoutClassifier, DropoutRegressor
from natpn.baselines.ensemble import EnsembleClassifier, EnsembleRegressor
from natpn.baselines.evidential import EvRegRegressor
from natpn.baselines.posterior_network import PostNetClassifier
from natpn.baselines.prior_network import RPriorNetClassifier
from natpn.baselines.registry import BASELINES, Entry, get
from natpn.baselines.sngp import SNGPClassifier
from natpn.baselines.standard import StandardNetClassifier, StandardNetRegressor

__all__ = [
    "BASELINES",
    "Baseline",
    "BaselineClassDistribution",
    "BaselineDistribution",
    "DropoutClassifier",
    "DropoutRegressor",
    "EnD2Classifier",
    "EnsembleClassifier",
    "EnsembleRegressor",
    "Entry",
    "EvRegRegressor",
    "PostNetClassifier",
    "RPriorNetClassifier",
    "SNGPClassifier",
    "StandardNetClassifier",
    "StandardNetRegressor",
    "get",
]
