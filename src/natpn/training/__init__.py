"""Training: `fit` runs a scheme, a list of phases, on a network or an ensemble; `minimise` one descent on any loss."""

from natpn.training.batches import Data
from natpn.training.descent import Descent
from natpn.training.fitting import SCHEMES, Scheme, fit, minimise
from natpn.training.losses import Trainee
from natpn.training.paper import Paper
from natpn.training.session import TrainingError, TrainingResult
from natpn.training.staged import Staged

__all__ = [
    "SCHEMES",
    "Data",
    "Descent",
    "Paper",
    "Scheme",
    "Staged",
    "Trainee",
    "TrainingError",
    "TrainingResult",
    "fit",
    "minimise",
]
