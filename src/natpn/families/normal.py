"""Normal: numbers with unknown mean and variance (Table 1 and Appendix C.3 of the paper).

- Likelihood: N(y | μ, σ²); u(y) = (y, y²), held centred as χ = (m, v), a mean and a variance around it, so that an
  observation is (y, 0). Pooling adds the variance of the means to the mean of the variances.
- Prior: Normal-Inverse-Gamma with μ₀ = m, λ = n, α = n/2, β = nv/2; the paper's is χ = (0, 100), n = 1. The marginal of
  targets with variance s² has v = s² (n − 2)/(n + 1), so that the variance of its predictive is s².
- Expected log-likelihood, with φ(a) = ψ(a) − log a: −½ [log 2πv − φ(n/2) + (y − m)²/v + 1/n].
- Predictive: Student's t with df = n, centre m and scale² = v(n + 1)/n.
- Entropy: with respect to dμ dσ². With a = n/2 and H(a) the entropy of Gamma(a, 1) it is
  H(a) − 5/2 φ(a) + 3/2 log v − log a − ½ log n + ½ log 2πe.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor

from natpn.distributions import StudentT
from natpn.distributions.support import Support, reals
from natpn.evidence import Evidence, Pool, anchored_mean
from natpn.families.base import FEW, Family, Posterior, share_of_variance
from natpn.families.description import Floats, Graph, Noise, entropy_at, mean_and_deviation
from natpn.special import HALF_LOG_2PI, digamma_remainder, gamma_entropy, narrow, widen

_SMALLEST_VARIANCE = 1e-6
_LARGEST = 1e6
_MEAN_WEIGHT = 3.0
_LARGEST_LOG_VARIANCE = 27.6


def normal_crps(error: Tensor, scale: Tensor) -> Tensor:
    """Return the continuous ranked probability score of Normal predictions."""
    u = error / scale
    density = torch.exp(-0.5 * u.square()) / math.sqrt(2 * math.pi)
    result: Tensor = scale * (u * (2 * torch.special.ndtr(u) - 1) + 2 * density - 1 / math.sqrt(math.pi))
    return result


def pool_mean_and_variance(a: Tensor, a_share: Tensor, b: Tensor, b_share: Tensor) -> Tensor:
    """Pool (mean, variance): the mean of the variances plus the variance of the means."""
    total = anchored_mean(a, a_share, b, b_share)
    between = a_share * b_share * (b - a)[..., :1].square()
    return torch.cat([total[..., :1], total[..., 1:] + between], -1)


def without_quantiles(of: str = "") -> str:
    """Say that a graph has no quantiles, and how to calculate them; `of` is what is applied to Student's t."""
    return (
        f"Quantiles and intervals are left out: those of Student's t are not elementary. With scipy, {of}stats.t.ppf("
        "q, n, mean, sqrt(variance * (n + 1) / n)), where chi is mean and variance."
    )


@dataclass(frozen=True, repr=False)
class Normal(Family):
    """Numbers with unknown mean and variance, with a Normal-Inverse-Gamma prior."""

    suits: ClassVar[str] = "numbers of either sign, or without a long upper tail"
    predicts: ClassVar[str] = "a number"
    noise: ClassVar[Noise | None] = "variance"

    @classmethod
    def suited(cls, y: Floats) -> int | None:
        """Take all numbers, if no other family does."""
        return None if y.ndim == 2 else 0

    def location_and_scale(self, y: Floats, weight: Floats | None) -> tuple[Floats, Floats]:
        """Return mean and standard deviation."""
        return mean_and_deviation(y.reshape(len(y), -1), weight)

    def standardise(self, y: Floats, location: Floats, scale: Floats) -> Floats:
        """Return (y − l)/s."""
        return (y - location) / scale

    def restore(self, chi: Tensor, location: Tensor, scale: Tensor) -> Tensor:
        """Return (s m + l, s² v)."""
        return chi * torch.cat([scale, scale.square()]) + torch.cat([location, torch.zeros_like(location)])

    def express(self, chi: Tensor, location: Tensor, scale: Tensor) -> Tensor:
        """Return ((m − l)/s, v/s²)."""
        return torch.cat([(chi[..., :1] - location) / scale, chi[..., 1:] / scale**2], -1)

    def usual_targets(self, location: float, scale: float) -> tuple[float, float]:
        """Return the range within three standard deviations."""
        return location - 3.0 * scale, location + 3.0 * scale

    @property
    def graph(self) -> Graph:
        """Every output but quantiles."""
        standard = entropy_at(self, [0.0, 1.0])
        return Graph(
            "mean and variance; the predictive is Student's t with n degrees of freedom, that centre, and scale² = "
            "variance·(n + 1)/n",
            aleatoric=lambda posterior: standard + 0.5 * posterior.variance.log(),
            left_out=(without_quantiles(),),
        )

    @property
    def pool(self) -> Pool:
        """Pool around the means."""
        return pool_mean_and_variance

    @property
    def n_statistics(self) -> int:
        """Mean and variance."""
        return 2

    @property
    def support(self) -> Support:
        """Finite numbers."""
        return reals()

    def link(self, raw: Tensor) -> Tensor:
        """Map raw outputs to a mean within ±10⁶ and a variance, the exponential, from 10⁻⁶ to 10¹²."""
        mean = raw[..., :1].clamp(-_LARGEST, _LARGEST)
        variance = raw[..., 1:].clamp(max=_LARGEST_LOG_VARIANCE).exp() + _SMALLEST_VARIANCE
        return torch.cat([mean, variance], -1)

    def inverse_link(self, chi: Tensor) -> Tensor:
        """Map mean and variance to raw outputs."""
        excess = (chi[..., 1:] - _SMALLEST_VARIANCE).clamp(min=_SMALLEST_VARIANCE / 10)
        return torch.cat([chi[..., :1], excess.log()], -1)

    def log_likelihood(self, raw: Tensor, y: Tensor) -> Tensor:
        """Return log p(y) at `link(raw)`, in closed form: training asks for it at every step."""
        mean, variance = widen(self.link(raw)).unbind(-1)
        squared = (self.support.check(y) - mean).square() / variance
        return narrow(-HALF_LOG_2PI - 0.5 * (variance.log() + squared), raw.dtype)

    def training_loss(self, raw: Tensor, y: Tensor, usual: Tensor) -> Tensor:
        """Train the mean on its own error, in units of all targets' variance, and the variance given the mean.

        By the likelihood alone, training could explain a row with a large error by noise instead of learning it.
        """
        target = self.statistics(y)[..., 0]
        error = (target - raw[..., 0]).square() / usual[1].exp()
        given_mean = torch.cat([raw[..., :1].detach(), raw[..., 1:]], -1)
        return 0.5 * _MEAN_WEIGHT * error - Normal().log_likelihood(given_mean, target)

    def training_slope(self, raw: Tensor, y: Tensor, usual: Tensor, share: Tensor) -> tuple[Tensor, Tensor]:
        """Return the training loss and its gradient, without autograd; in numpy, whose calls take less time."""
        target = self._statistics(y.double())[..., 0].to(raw.dtype).numpy()
        values = raw.detach().numpy()
        log_variance = values[..., 1]
        slope = np.empty_like(values)
        with np.errstate(all="ignore"):  # a loss that is not finite ends training, which reports it
            apart = values[..., 0] - target
            spread = np.exp(np.minimum(log_variance, _LARGEST_LOG_VARIANCE))
            variance = spread + _SMALLEST_VARIANCE
            squared = np.square(apart)
            ratio, pull = squared / variance, _MEAN_WEIGHT / np.exp(usual.detach().numpy()[1])
            value = 0.5 * (np.log(variance) + ratio + pull * squared) + HALF_LOG_2PI
            slope[..., 0] = pull * apart
            slope[..., 1] = (0.5 - 0.5 * ratio) * (spread / variance) * (log_variance <= _LARGEST_LOG_VARIANCE)
            slope *= share.numpy()[..., None]
        return torch.from_numpy(value), torch.from_numpy(slope)

    def _statistics(self, y: Tensor) -> Tensor:
        return torch.stack([y, torch.zeros_like(y)], -1)

    def _default_prior(self) -> tuple[Sequence[float], float]:
        return [0.0, 100.0], 1.0

    def _marginal(self, y: Tensor, weight: Tensor) -> tuple[Tensor, float]:
        centre = self._statistics(y)[..., 0]
        mean = (weight @ centre) / weight.sum()
        variance = (weight @ (centre - mean).square()) / weight.sum()
        return torch.stack([mean, (variance * (FEW - 2) / (FEW + 1)).clamp(min=_SMALLEST_VARIANCE)]), FEW

    def noise_share(self, chi: Tensor, y: Tensor, weight: Tensor) -> float:
        """Return the geometric mean of predicted variances, over the variance of the targets."""
        return share_of_variance(chi[..., 1], self.statistics(y.double())[..., 0], weight)

    def _posterior(self, evidence: Evidence) -> "NormalPosterior":
        return NormalPosterior(self, evidence)


class NormalPosterior(Posterior[Normal]):
    """Normal-Inverse-Gamma over mean and variance."""

    def __init__(self, family: Normal, evidence: Evidence) -> None:
        super().__init__(family, evidence)
        self.mean, self.variance = self.mean_statistics.unbind(-1)

    def _expected_log_likelihood(self, y: Tensor) -> Tensor:
        squared = (y - self.mean).square() / self.variance
        return -HALF_LOG_2PI - 0.5 * (self.variance.log() - digamma_remainder(self.n / 2) + squared + 1 / self.n)

    def _entropy(self) -> Tensor:
        a = self.n / 2
        shape = gamma_entropy(a) - 2.5 * digamma_remainder(a) - a.log() - 0.5 * self.n.log()
        return shape + 1.5 * self.variance.log() + HALF_LOG_2PI + 0.5

    def predictive(self) -> StudentT:
        """Return Student's t with n degrees of freedom."""
        scale = (self.variance * (1 + 1 / self.n)).sqrt()
        return StudentT(self.mean, scale, self.n, self.dtype)

    def loss(self, y: Tensor, weight: Tensor) -> float:
        """Return the logarithm of the mean CRPS, as if the predictive were Normal; by −log p single rows would decide.

        A log-normal is judged by the logarithms of its targets.
        """
        found = self.predictive()
        error = self.family.statistics(y.double())[..., 0] - found.loc.double()
        return float(torch.log(weight.double() @ normal_crps(error, found.scale.double()) / weight.double().sum()))

    def likelihood(self) -> StudentT:
        """Return the Normal with mean m and variance v."""
        return StudentT(self.mean, self.variance.sqrt(), torch.full_like(self.n, torch.inf), self.dtype)
