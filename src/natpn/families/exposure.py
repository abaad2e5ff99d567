"""Counts with an exposure: over how long, or among how many, they were counted.

A target is a pair (y, e), such as 12 claims in 3.5 years, or 40 cases among 80,000 people. A network predicts χ, the
mean of a count at exposure 1, and how many observations at exposure 1 it is worth. A family of counts says what that
amounts to at another exposure (`Family.at_exposure`); `ExposedCounts` is the same family for targets that are such
pairs. Training sees it in place of the family: everything there takes pairs as it takes vectors.

- Likelihood: that of y at the mean eχ. With an exponential link, log e is added to the raw outputs.
- u(y, e) = y/e, e observations of it. So the marginal of targets has χ = Σy/Σe, and its n matches Σ y²/e.
- Noise left unexplained: the variance that a network predicts, over that of the marginal at the same exposure, eχ +
  e²v, where χ + v is the variance of targets at exposure 1.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from natpn.evidence import Evidence
from natpn.families.base import SMALLEST_SHARE, Family, Posterior
from natpn.families.distribution import Distribution, Support

_LEAST_SPREAD = 0.1  # of the mean: counts that vary less than by chance would have a negative variance somewhere


def counts_with_exposure(counts: Support) -> Support:
    """Return what a pair of a count and its exposure may be."""
    return Support(
        f"{counts.expected} with an exposure above 0",
        lambda y: counts.holds(y[..., 0]) & (y[..., 1] > 0) & y[..., 1].isfinite(),
        (2,),
        discrete=True,
    )


@dataclass(frozen=True, repr=False)
class ExposedCounts(Family):
    """A family of counts whose targets are pairs (y, e), shape (..., 2).

    Attributes:
        counts: The family, which takes exposures.

    Raises:
        ValueError: If it does not.

    Example:
        >>> from natpn import families
        >>> family = ExposedCounts(families.get("poisson"))
        >>> seen = family.observe(torch.tensor([[3.0, 2.0], [9.0, 4.0]])).sum(0)  # 3 in 2 years, 9 in 4
        >>> seen.chi, seen.log_n.exp()
        (tensor([2.]), tensor(6.))
    """

    counts: Family

    def __post_init__(self) -> None:
        self.counts.check_exposure()

    @property
    def n_statistics(self) -> int:
        """That of the counts."""
        return self.counts.n_statistics

    @property
    def support(self) -> Support:
        """Counts with positive exposures."""
        return counts_with_exposure(self.counts.support)

    def link(self, raw: Tensor) -> Tensor:
        """Map raw outputs to means at exposure 1."""
        return self.counts.link(raw)

    def inverse_link(self, chi: Tensor) -> Tensor:
        """Map means at exposure 1 to raw outputs."""
        return self.counts.inverse_link(chi)

    def observe(self, y: Tensor) -> Evidence:
        """Return observed counts as evidence: e observations of y/e."""
        y = torch.as_tensor(y)
        return self.evidence(self.statistics(y), y[..., 1].log())

    def log_likelihood(self, raw: Tensor, y: Tensor) -> Tensor:
        """Return log p(y) at the mean e·link(raw)."""
        return self.counts.log_likelihood(*self._offset(raw, y))

    def training_loss(self, raw: Tensor, y: Tensor, usual: Tensor) -> Tensor:
        """Return what the counts minimise."""
        return self.counts.training_loss(*self._offset(raw, y), usual)

    def opened(self) -> Family:
        """Return it with those parameters of the counts left open that `refined` can find."""
        return ExposedCounts(self.counts.opened())

    def refined(self, raw: Tensor, y: Tensor, weight: Tensor) -> Family:
        """Return it with the parameters of the counts set to what fits best."""
        return ExposedCounts(self.counts.refined(*self._offset(raw, y), weight))

    def noise_share(self, chi: Tensor, y: Tensor, weight: Tensor) -> float:
        """Return what share of the variation a network leaves unexplained, each row beside others of its exposure."""
        checked = self.support.check(y)
        exposure, share = checked[..., 1], weight / weight.sum()
        variance = self.counts.at_exposure(self.evidence(chi, 0.0), exposure).likelihood().variance
        rate = self._statistics(checked)[..., 0]
        mean, square = (share * exposure @ moment / (share @ exposure) for moment in (rate, rate.square()))
        spread = exposure * mean + exposure.square() * (square - mean.square() - mean)
        ratio = variance / torch.maximum(spread, _LEAST_SPREAD * exposure * mean).clamp(min=1e-30)
        return float((share @ ratio.clamp(SMALLEST_SHARE, 1.0).log()).exp())

    def largest_mean(self, y: Tensor) -> float | None:
        """Return the largest mean that the counts can have, if some exceed it."""
        return self.counts.largest_mean(y[..., 0] / y[..., 1].clamp(min=1.0))

    def _offset(self, raw: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        return raw + y[..., 1:].to(raw.dtype).log(), y[..., 0]

    def _statistics(self, y: Tensor) -> Tensor:
        return y[..., :1] / y[..., 1:]

    def _default_prior(self) -> tuple[Sequence[float], float]:
        return self.counts._default_prior()

    def _marginal(self, y: Tensor, weight: Tensor) -> tuple[Tensor, float]:
        return self.counts._exposed_marginal(self._statistics(y)[..., 0], weight * y[..., 1])

    def _posterior(self, evidence: Evidence) -> "ExposedPosterior":
        return ExposedPosterior(self, evidence)


class ExposedPosterior(Posterior[ExposedCounts]):
    """What is known of counts, at exposure 1 and at that of each target."""

    def at(self, exposure: Tensor) -> Posterior[Any]:
        """Return what is known of counts at some exposures."""
        return self.family.counts.at_exposure(self.evidence, exposure)

    def expected_log_likelihood(self, y: Tensor) -> Tensor:
        """Return E[log p(y | θ)] at the exposures of the targets."""
        checked = self.family.support.check(y)
        return self.at(checked[..., 1]).expected_log_likelihood(checked[..., 0])

    def surprise(self, y: Tensor, weight: Tensor) -> float:
        """Return the weighted mean of −log p at the exposures of the targets."""
        checked = self.family.support.check(y)
        return self.at(checked[..., 1]).surprise(checked[..., 0], weight)

    def predictive(self) -> Distribution:
        """Return the distribution of a new count at exposure 1."""
        return self._at_one.predictive()

    def likelihood(self) -> Distribution:
        """Return the noise of a count at exposure 1."""
        return self._at_one.likelihood()

    @property
    def _at_one(self) -> Posterior[Any]:
        return self.at(torch.ones_like(self.n))

    def _expected_log_likelihood(self, y: Tensor) -> Tensor:
        return self.at(y[..., 1])._expected_log_likelihood(y[..., 0])

    def _entropy(self) -> Tensor:
        return self._at_one._entropy()
