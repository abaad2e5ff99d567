"""What `predict_dist` of a Natural Posterior Network returns: predictive distributions with their uncertainties."""

from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike
from scipy.special import expit
from torch import Tensor

from natpn.distributions import ScalarDistribution
from natpn.estimators.conformal import Calibration
from natpn.estimators.predictive import ClassPredictive, Floats, Predictive, as_floats, encode_labels
from natpn.families import Posterior


class PredictiveDistribution(Predictive):
    """Predictive distributions, one a row, in the units of the training targets.

    Args:
        posterior: Over the parameters, prior included, in the user's units.
        log_evidence: Log of the number of pseudo-observations that the network adds to the prior, one a row.
        prior_log_n: That of the prior.
        calibration: What held-out rows showed.
        trials: How many trials a target has; for counts of classes.
    """

    def __init__(
        self,
        posterior: Posterior[Any],
        log_evidence: Tensor,
        prior_log_n: float,
        calibration: Calibration,
        trials: float | None = None,
    ) -> None:
        self.posterior = posterior
        self._trials = () if trials is None else (torch.tensor(trials, dtype=torch.float64),)
        super().__init__(posterior.predictive(*self._trials), calibration)
        self.log_evidence: Floats = as_floats(log_evidence)
        self._prior_log_n = prior_log_n

    @property
    def evidence(self) -> Floats:
        """How many pseudo-observations the network adds to the prior."""
        n: Floats = np.exp(self.log_evidence)
        return n

    @property
    def familiarity(self) -> Floats:
        """The weight n/(n_prior + n) of the evidence: 0 means that the prior speaks, 1 the data."""
        weight: Floats = expit(self.log_evidence - self._prior_log_n)
        return weight

    @property
    def epistemic(self) -> Floats:
        """What is not known: −log(n_prior + n)."""
        total: Floats = np.logaddexp(self.log_evidence, self._prior_log_n)
        return -total

    @property
    def aleatoric(self) -> Floats:
        """The noise in the data: the entropy, in nats, of the likelihood at the posterior mean."""
        return as_floats(self.posterior.likelihood(*self._trials).entropy())

    @property
    def novelty_p(self) -> Floats:
        """Conformal p-values: the share of held-out rows that were as unfamiliar, as a bound on false alarms."""
        return self._calibration.novelty_p(self.log_evidence)

    def conformal_scores(self, y: ArrayLike) -> Floats | None:
        """Return how far each target lies from its median, in probability; None for vectors."""
        if not isinstance(self.predictive, ScalarDistribution):
            return None
        values = np.asarray(y, float)
        below = self.cdf(values - 1) if self.predictive.target.discrete else self.cdf(values)
        scores: Floats = np.maximum(np.maximum(0.5 - self.cdf(values), below - 0.5), 0.0)
        return scores


class ClassDistribution(ClassPredictive, PredictiveDistribution):
    """Predictive distributions over classes, with their uncertainties.

    Args:
        classes: The labels.
        *arguments: Those of `PredictiveDistribution`.
    """

    def conformal_scores(self, y: ArrayLike) -> Floats | None:
        """Return 1 − p of each label."""
        index = encode_labels(np.asarray(y), self.classes)
        scores: Floats = 1 - self.probabilities[np.arange(len(index)), index]
        return scores
