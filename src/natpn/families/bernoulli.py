"""Bernoulli: 0 or 1.

- Likelihood: p^y (1 − p)^(1−y); u(y) = y.
- Prior: Beta(a = nχ, b = n(1 − χ)); the paper's is χ = 1/2, n = 2, the uniform distribution.
- Expected log-likelihood: ψ(a) − ψ(n) for y = 1 and ψ(b) − ψ(n) for y = 0.
- Predictive: Bernoulli with probability χ.
- Entropy: with respect to dp.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from natpn.evidence import Evidence, weighted_mean
from natpn.families.base import FEW, Family, Posterior
from natpn.families.categorical import CategoricalDistribution, classes, dirichlet_entropy, share_of_entropy
from natpn.families.description import Graph, Noise


def with_failure(chi: Tensor) -> Tensor:
    """Return (p, 1 − p), where χ may be p alone."""
    return chi if chi.shape[-1] == 2 else torch.cat([chi, 1 - chi], -1)


def pool_with_failure(a: Tensor, a_share: Tensor, b: Tensor, b_share: Tensor) -> Tensor:
    """Pool (p, 1 − p), so that 1 − p has digits of its own where p is nearly 1."""
    return weighted_mean(with_failure(a), a_share, with_failure(b), b_share)


def _quantiles(levels: Sequence[float]) -> Callable[["BernoulliDistribution"], Tensor]:
    q = torch.tensor(levels, dtype=torch.float64)
    return lambda predictive: (1 - predictive.mean.unsqueeze(-1) < q).double()


@dataclass(frozen=True, repr=False)
class Bernoulli(Family):
    """0 or 1, with a Beta prior."""

    predicts: ClassVar[str] = "yes or no (1 or 0)"
    noise: ClassVar[Noise | None] = "temperature"
    graph = Graph(
        "the probability p of 1; n·p and n·(1 − p) are the parameters of the Beta posterior",
        "the probability of 1",
        quantiles=_quantiles,
    )
    pool = staticmethod(pool_with_failure)
    n_statistics = 1
    support = classes(2)

    def link(self, raw: Tensor) -> Tensor:
        """Map raw outputs to the probability of 1."""
        return raw.sigmoid()

    def inverse_link(self, chi: Tensor) -> Tensor:
        """Map probabilities to raw outputs."""
        return chi.clamp(1e-30, 1 - torch.finfo(chi.dtype).eps).logit()

    def log_likelihood(self, raw: Tensor, y: Tensor) -> Tensor:
        """Return log p(y) from the raw output, where small probabilities keep their digits."""
        sign = 2 * self.support.check(y).to(raw.dtype) - 1
        return torch.nn.functional.logsigmoid(sign * raw.squeeze(-1))

    def noise_share(self, chi: Tensor, y: Tensor, weight: Tensor) -> float:
        """Return a fifth of the mean entropy of the predictions."""
        p = chi[..., 0]
        return share_of_entropy(-torch.special.xlogy(p, p) - torch.special.xlogy(1 - p, 1 - p), weight)

    def _statistics(self, y: Tensor) -> Tensor:
        return y.unsqueeze(-1)

    def _default_prior(self) -> tuple[Sequence[float], float]:
        return [0.5], 2.0

    def _marginal(self, y: Tensor, weight: Tensor) -> tuple[Tensor, float]:
        # one more of each, so that neither is impossible
        return ((weight @ y + 1) / (weight.sum() + 2)).unsqueeze(-1), FEW

    def _posterior(self, evidence: Evidence) -> "BernoulliPosterior":
        return BernoulliPosterior(self, evidence)


class BernoulliPosterior(Posterior[Bernoulli]):
    """Beta over the probability of 1."""

    def __init__(self, family: Bernoulli, evidence: Evidence) -> None:
        super().__init__(family, evidence)
        self.success, self.failure = with_failure(evidence.wide()[0]).unbind(-1)

    def _expected_log_likelihood(self, y: Tensor) -> Tensor:
        chosen = torch.where(y > 0.5, self.success, self.failure)
        return torch.digamma(self.n * chosen) - torch.digamma(self.n)

    def _entropy(self) -> Tensor:
        return dirichlet_entropy(self.n.unsqueeze(-1) * torch.stack([self.failure, self.success], -1), self.n)

    def predictive(self) -> "BernoulliDistribution":
        """Return 0 and 1 with their posterior mean probabilities."""
        return BernoulliDistribution(self.failure, self.success, self.dtype)

    likelihood = predictive


class BernoulliDistribution(CategoricalDistribution):
    """Targets 0 and 1 with their probabilities; `mean` and `variance` are those of the number itself."""

    def __init__(self, failure: Tensor, success: Tensor, dtype: torch.dtype = torch.float64) -> None:
        super().__init__(torch.stack([failure, success], -1), dtype)

    def _sample(self, shape: torch.Size) -> Tensor:
        drawn: Tensor = super()._sample(shape).to(self.probs.dtype)
        return drawn

    def _mean(self) -> Tensor:
        return self.probs[..., 1]

    def _variance(self) -> Tensor:
        return self.probs[..., 0] * self.probs[..., 1]
