"""A plain network, trained by maximum likelihood: it predicts noise, but not how much it knows.

Its outputs are class probabilities, a mean and a variance, or a rate.

- predictive: the likelihood at the network's outputs;
- aleatoric: its entropy;
- epistemic: none, NaN.
"""

import torch
from torch import Tensor

from natpn_paper.baselines.base import Baseline, BaselineClassifier, BaselineRegressor
from natpn_paper.baselines.readings import Reading


class StandardNet(Baseline):
    """A single network, trained by maximum likelihood."""

    def _read(self, raw: Tensor) -> Reading:
        likelihood = self._likelihood(self.family_.link(raw))
        return Reading(likelihood, likelihood, torch.full(raw.shape[:-1], torch.nan, dtype=torch.float64))


class StandardNetClassifier(StandardNet, BaselineClassifier):
    """A softmax network; see `Baseline`. Its epistemic uncertainty is NaN.

    Example:
        >>> from sklearn.datasets import load_iris
        >>> X, y = load_iris(return_X_y=True)
        >>> StandardNetClassifier(random_state=0).fit(X, y).score(X, y) > 0.95
        True
    """


class StandardNetRegressor(StandardNet, BaselineRegressor):
    """A network with a Normal or Poisson output; see `BaselineRegressor`. Its epistemic uncertainty is NaN."""
