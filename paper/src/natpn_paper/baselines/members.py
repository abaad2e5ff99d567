"""What sampling models share: several answers to an input, and their spread.

With members s = 1 … S whose mean statistics are χ_s (class probabilities p_s; mean and variance; rate):

- predictive: the mixture of the members;
- aleatoric: the entropy of the likelihood at the mean of the χ_s, so for numbers that of a Normal with the mean of the
  members' variances;
- epistemic: the variance over members of the probability of the class that wins, or of the predicted mean.
"""

from typing import cast

from torch import Tensor

from natpn.distributions import Categorical, ScalarDistribution
from natpn_paper.baselines.answers import Answer
from natpn_paper.baselines.base import BaselineClassifier, BaselineRegressor
from natpn_paper.baselines.mixtures import mixture


class MembersClassifier(BaselineClassifier):
    """A classifier whose network returns raw outputs of several members, (S, B, C)."""

    def _read(self, raw: Tensor) -> Answer:
        members = self.family_.link(raw)
        p = members.mean(0)
        winner = p.argmax(-1, keepdim=True).expand(len(raw), -1, 1)
        return Answer(Categorical(p), Categorical(p), members.gather(-1, winner)[..., 0].var(0, correction=0))


class MembersRegressor(BaselineRegressor):
    """A regressor whose network returns raw outputs of several members, (S, B, K)."""

    def _read(self, raw: Tensor) -> Answer:
        chi = self.family_.link(raw)
        members = cast(ScalarDistribution, self._likelihood(chi))
        return Answer(mixture(members), self._likelihood(chi.mean(0)), members.mean.var(0, correction=0))
