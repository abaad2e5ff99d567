"""A plain network: softmax, mean and variance, or rate, by maximum likelihood. It knows noise, and not what it knows.

- predictive: the likelihood at the network's outputs;
- aleatoric: its entropy;
- epistemic: none, NaN.
"""

import torch
from torch import Tensor

from natpn_paper.baselines.answers import Answer
from natpn_paper.baselines.base import Baseline, BaselineClassifier, BaselineRegressor


class StandardNet(Baseline):
    """A single network, trained by maximum likelihood."""

    def _read(self, raw: Tensor) -> Answer:
        likelihood = self._likelihood(self.family_.link(raw))
        return Answer(likelihood, likelihood, torch.full(raw.shape[:-1], torch.nan, dtype=torch.float64))


class StandardNetClassifier(StandardNet, BaselineClassifier):
    """A softmax network. It has no epistemic uncertainty: that is NaN.

    Args:
        **settings: Those of `Baseline`.

    Example:
        >>> from sklearn.datasets import load_iris
        >>> X, y = load_iris(return_X_y=True)
        >>> StandardNetClassifier(random_state=0).fit(X, y).score(X, y) > 0.95
        True
    """


class StandardNetRegressor(StandardNet, BaselineRegressor):
    """A network with a Normal or a Poisson distribution as its output. Its epistemic uncertainty is NaN.

    Args:
        family: "normal" or "poisson".
        **settings: Those of `Baseline`.
    """
