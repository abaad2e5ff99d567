"""What a baseline's raw outputs mean, and what `predict_dist` returns."""

from dataclasses import dataclass

from torch import Tensor

from natpn.distributions import Distribution
from natpn.estimators.data import Floats
from natpn.estimators.predictive import ClassPredictive, Predictive, as_floats


@dataclass(frozen=True)
class Answer:
    """What raw outputs mean.

    Attributes:
        predictive: The distribution of a target.
        likelihood: The noise alone; its entropy is the aleatoric uncertainty.
        epistemic: What is not known, one number a row: higher is less known.
    """

    predictive: Distribution
    likelihood: Distribution
    epistemic: Tensor


class BaselineDistribution(Predictive):
    """Predictive distributions with their uncertainties, one a row.

    Args:
        answer: What the network said, in the user's units.
    """

    def __init__(self, answer: Answer) -> None:
        super().__init__(answer.predictive)
        self._answer = answer

    @property
    def aleatoric(self) -> Floats:
        """The noise in the data: the entropy of the expected likelihood, in nats."""
        return as_floats(self._answer.likelihood.entropy())

    @property
    def epistemic(self) -> Floats:
        """What is not known: higher is less known; the scale is each model's own, NaN if it has no such measure."""
        return as_floats(self._answer.epistemic)


class BaselineClassDistribution(ClassPredictive, BaselineDistribution):
    """Predictive distributions over classes with their uncertainties, one a row.

    Args:
        classes: The labels.
        *arguments: Those of `BaselineDistribution`.
    """
