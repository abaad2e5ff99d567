"""The paper's competitors behind the estimators' interface: `get("Dropout", "classes")`."""

from natpn_paper.baselines.answers import BaselineClassDistribution, BaselineDistribution
from natpn_paper.baselines.base import Baseline
from natpn_paper.baselines.distillation import EnD2Classifier
from natpn_paper.baselines.dropout import DropoutClassifier, DropoutRegressor
from natpn_paper.baselines.ensemble import EnsembleClassifier, EnsembleRegressor
from natpn_paper.baselines.evidential import EvRegRegressor
from natpn_paper.baselines.posterior_network import PostNetClassifier
from natpn_paper.baselines.prior_network import RPriorNetClassifier
from natpn_paper.baselines.registry import BASELINES, Entry, get
from natpn_paper.baselines.sngp import SNGPClassifier
from natpn_paper.baselines.standard import StandardNetClassifier, StandardNetRegressor

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
