"""The meaning of a baseline's raw outputs, and what `predict_dist` returns."""

from dataclasses import dataclass

from torch import Tensor

from natpn.estimators.data_estimator import Floats
from natpn.families import Distribution
from natpn.model.answers import ClassPredictive, Columns, Predictive, as_floats


@dataclass(frozen=True)
class Reading:
    """What raw outputs mean.

    Attributes:
        predictive: The distribution of a target.
        likelihood: The noise alone; its entropy is the aleatoric uncertainty.
        epistemic: The lack of knowledge, one number a row: higher means that less is known.
    """

    predictive: Distribution
    likelihood: Distribution
    epistemic: Tensor


class BaselineDistribution(Predictive):
    """Predictive distributions with their uncertainties, one a row.

    Args:
        reading: The network's outputs in the user's units.
    """

    def __init__(self, reading: Reading) -> None:
        super().__init__(reading.predictive)
        self._reading = reading

    @property
    def aleatoric(self) -> Floats:
        """The noise in the data: the entropy of the expected likelihood, in nats."""
        return as_floats(self._reading.likelihood.entropy())

    @property
    def epistemic(self) -> Floats:
        """The lack of knowledge, on a scale of each model's own; NaN if it has no such measure."""
        return as_floats(self._reading.epistemic)

    def uncertainties(self) -> Columns:
        """Return both by name."""
        return {"aleatoric": lambda: self.aleatoric, "epistemic": lambda: self.epistemic}


class BaselineClassDistribution(ClassPredictive, BaselineDistribution):
    """Predictive distributions over classes with their uncertainties, one a row.

    Args:
        classes: The labels.
        *arguments: Those of `BaselineDistribution`.
    """
