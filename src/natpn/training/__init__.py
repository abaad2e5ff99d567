"""Training: `fit` runs a scheme, a list of phases, on a network or an ensemble."""

from natpn.training.fitting import SCHEMES, Scheme, fit
from natpn.training.paper import Paper
from natpn.training.session import TrainingError, TrainingResult
from natpn.training.staged import Staged

__all__ = ["SCHEMES", "Paper", "Scheme", "Staged", "TrainingError", "TrainingResult", "fit"]
