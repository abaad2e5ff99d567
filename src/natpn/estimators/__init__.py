"""scikit-learn estimators: fit on a data frame, get a distribution, know when not to trust it."""

from natpn.estimators.classifier import NatPNClassifier
from natpn.estimators.loading import load
from natpn.estimators.prediction import ClassDistribution, PredictiveDistribution
from natpn.estimators.regressor import NatPNRegressor

__all__ = ["ClassDistribution", "NatPNClassifier", "NatPNRegressor", "PredictiveDistribution", "load"]
