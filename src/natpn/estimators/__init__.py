"""scikit-learn estimators: fit on a data frame, get a distribution, know when not to trust it."""

from natpn.estimators.classifier import NatPNClassifier
from natpn.estimators.loading import load
from natpn.estimators.regressor import NatPNRegressor
from natpn.model import ClassDistribution, PredictiveDistribution

__all__ = ["ClassDistribution", "NatPNClassifier", "NatPNRegressor", "PredictiveDistribution", "load"]
