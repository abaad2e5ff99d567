"""What sampling models share: several answers to an input, and their spread.

With members s = 1 … S whose mean statistics are χ_s (class probabilities p_s; mean and variance; rate):

- predictive: the mixture of the members;
- aleatoric: the entropy of the likelihood at the mean of the χ_s; for numbers, that of a Normal with the mean of the
  members' variances;
- epistemic: the variance over members of the predicted mean, or of the probability of the predicted class.

The mixture has equally probable members p_s(y) of means m_s and variances v_s:

- p(y) = (1/S) Σ p_s(y), and the same for the distribution function;
- mean m = (1/S) Σ m_s, variance = (1/S) Σ (v_s + (m_s − m)²);
- a quantile lies between the least and the largest quantile of the members, where bisection finds it;
- entropy = −(1/S) Σ E_s[log p(y)]: for Normal members by Gauss–Hermite quadrature, which is right to 0.02 nats where
  their widths differ by a factor of 20, and for counts by summation.
"""

import math
from typing import cast

import numpy as np
import torch
from torch import Tensor

from natpn.families import (
    CategoricalDistribution,
    CountDistribution,
    NegativeBinomialDistribution,
    ScalarDistribution,
    StudentT,
)
from natpn.families.distribution import Array
from natpn_paper.baselines.base import BaselineClassifier, BaselineRegressor
from natpn_paper.baselines.readings import Reading

_NODES, _WEIGHTS = (torch.from_numpy(a) for a in np.polynomial.hermite_e.hermegauss(64))
_BISECTIONS = 200


class Mixture(ScalarDistribution):
    """A mixture of distributions.

    Args:
        members: A distribution of batch shape (S, …), with one member in each entry of the first dimension.
    """

    def __init__(self, members: ScalarDistribution) -> None:
        self.members = members
        super().__init__(members._mean()[0], members.target, members.dtype)

    def _mean(self) -> Tensor:
        return self.members._mean().mean(0)

    def _variance(self) -> Tensor:
        return self.members._variance().mean(0) + self.members._mean().var(0, correction=0)

    def _log_prob(self, y: Tensor) -> Tensor:
        size = len(self.batch_shape)
        log_p = self.members._log_prob(y.unsqueeze(-size - 1) if y.ndim >= size else y)
        mixed: Tensor = torch.logsumexp(log_p, -size - 1) - math.log(self.members.batch_shape[0])
        return mixed

    def _sample(self, shape: torch.Size) -> Tensor:
        drawn = self.members._sample(shape).movedim(len(shape), 0)
        pick = torch.randint(self.members.batch_shape[0], drawn.shape[1:], device=drawn.device)
        chosen: Tensor = drawn.gather(0, pick[None])[0]
        return chosen

    def _cdf(self, y: Array) -> Array:
        size = len(self.batch_shape)
        cdf: Array = self.members._cdf(np.expand_dims(y, -size - 1) if y.ndim >= size else y).mean(-size - 1)
        return cdf

    def _icdf(self, q: Array) -> Array:
        shape = np.broadcast_shapes(q.shape, tuple(self.batch_shape))
        q = np.broadcast_to(q, shape)
        found = self.members._icdf(np.expand_dims(q, -len(self.batch_shape) - 1))
        low, high = found.min(-len(self.batch_shape) - 1), found.max(-len(self.batch_shape) - 1)
        low, high = self._below(low), np.asarray(high, dtype=np.float64)
        for _ in range(_BISECTIONS):
            with np.errstate(invalid="ignore"):
                middle = self._between(low, high)
            open_ = (low < middle) & (middle < high)
            if not open_.any():
                break
            above = self._cdf(np.where(open_, middle, 0.0)) >= q
            low, high = np.where(open_ & ~above, middle, low), np.where(open_ & above, middle, high)
        return np.asarray(high)

    def _below(self, low: Array) -> Array:
        """Return a lower bound of the quantile."""
        return low

    def _between(self, low: Array, high: Array) -> Array:
        """Return a value between two others, or one of the two if nothing lies between them."""
        return np.asarray(low / 2 + high / 2)


class NormalMixture(Mixture):
    """A mixture of Normal distributions.

    Args:
        members: Student's t with df = inf, batch shape (S, …).
    """

    members: StudentT

    def _entropy(self) -> Tensor:
        nodes = _NODES.to(self.members.loc.device).reshape(-1, *[1] * self.members.loc.ndim)
        weights = (_WEIGHTS / _WEIGHTS.sum()).to(nodes)
        y = self.members.loc + self.members.scale * nodes  # (nodes, S, …)
        log_p = self._log_prob(y.reshape(-1, *self.batch_shape)).reshape(len(weights), -1, *self.batch_shape)
        return -torch.einsum("ns...,n->...", log_p, weights) / len(self.members.loc)


class CountMixture(Mixture, CountDistribution):
    """A mixture of Poisson or negative binomial distributions.

    Args:
        members: Of batch shape (S, …).
    """

    members: NegativeBinomialDistribution

    def _below(self, low: Array) -> Array:
        return low - 1

    def _between(self, low: Array, high: Array) -> Array:
        return np.floor(low / 2 + high / 2)

    def _bulk(self) -> tuple[Tensor, Tensor]:
        low, high = self.members._bulk()
        return low.min(0).values, high.max(0).values

    def _flat(self, start: int, stop: int) -> "CountMixture":
        rate, size = (t.flatten(1)[:, start:stop] for t in (self.members.rate, self.members.size))
        return CountMixture(NegativeBinomialDistribution(rate, size, self.dtype))


def mixture(members: ScalarDistribution) -> Mixture:
    """Return the mixture of members that are Normal or counts.

    Raises:
        ValueError: If they are something else.
    """
    if isinstance(members, StudentT):
        return NormalMixture(members)
    if isinstance(members, NegativeBinomialDistribution):
        return CountMixture(members)
    raise ValueError(f"members: expected Normal distributions or counts, got {type(members).__name__}")


class MembersClassifier(BaselineClassifier):
    """A classifier whose network returns raw outputs of several members, (S, B, C)."""

    def _read(self, raw: Tensor) -> Reading:
        members = self.family_.link(raw)
        p = members.mean(0)
        winner = p.argmax(-1, keepdim=True).expand(len(raw), -1, 1)
        spread = members.gather(-1, winner)[..., 0].var(0, correction=0)
        return Reading(CategoricalDistribution(p), CategoricalDistribution(p), spread)


class MembersRegressor(BaselineRegressor):
    """A regressor whose network returns raw outputs of several members, (S, B, K)."""

    def _read(self, raw: Tensor) -> Reading:
        chi = self.family_.link(raw)
        members = cast(ScalarDistribution, self._likelihood(chi))
        return Reading(mixture(members), self._likelihood(chi.mean(0)), members.mean.var(0, correction=0))
