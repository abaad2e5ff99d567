"""Normal: numbers with unknown mean and variance (Table 1 and Appendix C.3 of the paper).

- Likelihood: N(y | μ, σ²); u(y) = (y, y²), held centred as χ = (m, v), a mean and a variance around it, so that an
  observation is (y, 0). Pooling adds the variance of the means to the mean of the variances.
- Prior: Normal-Inverse-Gamma with μ₀ = m, λ = n, α = n/2, β = nv/2; the paper's is χ = (0, 100), n = 1. The marginal of
  targets with variance s² has v = s² (n − 2)/(n + 1), so that the variance of its predictive is s².
- Expected log-likelihood, with φ(a) = ψ(a) − log a: −½ [log 2πv − φ(n/2) + (y − m)²/v + 1/n].
- Predictive: Student's t with df = n, centre m and scale² = v(n + 1)/n. With a = df/2 and x = (y − m)²/(df·scale²), and
  C of `natpn.special`, what log Γ(a + ½) − log Γ(a) exceeds ½ log a by:
  log p(y) = C(a, ½) − ½ log 2π − log scale − (a + ½) log(1 + x);
  its entropy is (a + ½)(ψ(a + ½) − ψ(a)) + ½ log 2π − C(a, ½) + log scale.
  df = inf is the Normal distribution. Without a mean (df ≤ 1) the centre of symmetry is given; the variance is inf for
  df ≤ 2.
- Entropy: with respect to dμ dσ². With a = n/2 and H(a) the entropy of Gamma(a, 1) it is
  H(a) − 5/2 φ(a) + 3/2 log v − log a − ½ log n + ½ log 2πe.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch
from scipy import special as sp
from torch import Tensor

from natpn.evidence import Evidence, anchored_mean
from natpn.families.base import FEW, Family, Posterior, share_of_variance
from natpn.families.description import Graph, Noise, mean_and_deviation
from natpn.families.distribution import INFINITE, REALS, Array, ScalarDistribution, Support, array, broadcast
from natpn.special import HALF_LOG_2PI, digamma_remainder, gamma_entropy, narrow, rising_remainder, widen

_SMALLEST_VARIANCE = 1e-6
_LARGEST = 1e6
_MEAN_WEIGHT = 3.0
_LARGEST_LOG_VARIANCE = 27.6
_LARGEST_DISTANCE = 1e150  # from the centre, beyond which squares overflow
_ROUNDING = 1e-14  # of 1 − q, relative to it
_OCTAVES = (-3, 40)  # powers of two between which degrees of freedom lie in a graph; beyond, t is the Normal to 10⁻¹²
_TERMS = 10  # of polynomials
_NORMAL_FROM = 1e10  # degrees of freedom from which two terms of the expansion around the Normal are exact


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


def student_quantiles(levels: Sequence[float]) -> Callable[["StudentT"], Tensor]:
    """Return what returns quantiles at these levels in operations that a graph has, by tables made here from scipy.

    In each octave of degrees of freedom the logarithm of a quantile is a polynomial in the logarithm of df, through
    Chebyshev's points. From df = 1/8 on, the relative error is below 10⁻⁹; below, quantiles are those of 1/8.
    """
    points = np.cos(np.pi * (np.arange(_TERMS) + 0.5) / _TERMS)
    octaves = np.arange(*_OCTAVES)
    df = np.exp2(octaves[:, None] + (points + 1) / 2)
    q = np.asarray(levels, float)
    standard = StudentT(torch.zeros(df.shape), torch.ones(df.shape), torch.from_numpy(df))
    tails = np.minimum(q, 1 - q)[:, None, None]
    with np.errstate(divide="ignore"):
        logs = np.log(-standard._icdf(tails))  # (levels, octaves, points), infinite at q = 0, ½ and 1
    known = np.where(np.isfinite(logs), logs, 0.0).reshape(-1, _TERMS)
    fitted = np.polynomial.polynomial.polyfit(points, known.T, _TERMS - 1).T.reshape(logs.shape)
    fitted[..., 0] = np.where(np.isfinite(logs[..., 0]), fitted[..., 0], logs[..., 0])
    table, sign = torch.from_numpy(fitted.swapaxes(0, 1).copy()), torch.from_numpy(np.sign(q - 0.5))

    def quantiles(predictive: "StudentT") -> Tensor:
        place = predictive.df.clamp(2.0 ** _OCTAVES[0], 2.0 ** _OCTAVES[1]).log() / math.log(2) - _OCTAVES[0]
        octave = place.floor().clamp(0.0, len(octaves) - 1.0)
        x = (2 * (place - octave) - 1).unsqueeze(-1)
        terms = table[octave.long()].unbind(-1)  # (rows, levels) each
        power = terms[-1]
        for term in reversed(terms[:-1]):
            power = power * x + term
        return predictive.loc.unsqueeze(-1) + predictive.scale.unsqueeze(-1) * (sign * power.exp())

    return quantiles


@dataclass(frozen=True, repr=False)
class Normal(Family):
    """Numbers with unknown mean and variance, with a Normal-Inverse-Gamma prior."""

    suits: ClassVar[str] = "numbers of either sign, or without a long upper tail"
    predicts: ClassVar[str] = "a number"
    noise: ClassVar[Noise | None] = "variance"
    graph = Graph(
        "mean and variance; the predictive is Student's t with n degrees of freedom, that centre, and scale² = "
        "variance·(n + 1)/n",
        aleatoric=lambda posterior: HALF_LOG_2PI + 0.5 + 0.5 * posterior.variance.log(),
        quantiles=student_quantiles,
    )
    pool = staticmethod(pool_mean_and_variance)
    n_statistics = 2
    support = REALS

    @classmethod
    def suited(cls, y: Array) -> int | None:
        """Take all numbers, if no other family does."""
        return None if y.ndim == 2 else 0

    def location_and_scale(self, y: Array, weight: Array | None) -> tuple[Array, Array]:
        """Return mean and standard deviation."""
        return mean_and_deviation(y, weight)

    def standardise(self, y: Array, location: Array, scale: Array) -> Array:
        """Return (y − l)/s."""
        return (y - location) / scale

    def rescaling(self, location: Tensor, scale: Tensor) -> tuple[Tensor, Tensor]:
        """Return what turns (m, v) into (s m + l, s² v)."""
        return torch.cat([scale, scale.square()]), torch.cat([location, torch.zeros_like(location)])

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

    def predictive(self) -> "StudentT":
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

    def likelihood(self) -> "StudentT":
        """Return the Normal with mean m and variance v."""
        return StudentT(self.mean, self.variance.sqrt(), torch.full_like(self.n, torch.inf), self.dtype)


class StudentT(ScalarDistribution):
    """Student's t with the given centre, scale and degrees of freedom; df = inf is the Normal."""

    values: ClassVar[Support] = REALS

    def __init__(self, loc: Tensor, scale: Tensor, df: Tensor, dtype: torch.dtype = torch.float64) -> None:
        self.loc, self.scale, self.df = broadcast(loc, scale, df.clamp(max=INFINITE))
        super().__init__(self.loc, self.values, dtype)

    def _mean(self) -> Tensor:
        return self.loc

    def _variance(self) -> Tensor:
        inflation = self.df / (self.df - 2).clamp(min=0)
        return torch.where(self.df > 2, self.scale**2 * inflation, torch.inf)

    def _log_prob(self, y: Tensor) -> Tensor:
        z = ((y - self.loc) / self.scale).clamp(-_LARGEST_DISTANCE, _LARGEST_DISTANCE)
        a = self.df / 2
        spread = torch.log1p(z.square() / self.df)
        return rising_remainder(a, a.new_tensor(0.5)) - HALF_LOG_2PI - self.scale.log() - (a + 0.5) * spread

    def _sample(self, shape: torch.Size) -> Tensor:
        size = shape + self.batch_shape
        a = (self.df / 2).expand(size)
        normal = torch.randn(size, dtype=self.loc.dtype, device=self.loc.device)
        return self.loc + self.scale * normal * (a / torch._standard_gamma(a)).sqrt()

    def _entropy(self) -> Tensor:
        # the Normal's, as every answer asks for it; a graph that takes any numbers cannot look at them
        if not torch.compiler.is_compiling() and bool((self.df >= INFINITE).all()):
            return HALF_LOG_2PI + 0.5 + self.scale.log()
        a = self.df / 2
        step = torch.log1p(0.5 / a) + digamma_remainder(a + 0.5) - digamma_remainder(a)
        return (a + 0.5) * step + HALF_LOG_2PI - rising_remainder(a, a.new_tensor(0.5)) + self.scale.log()

    def _cdf(self, y: Array) -> Array:
        df = array(self.df)
        with np.errstate(invalid="ignore", over="ignore"):
            z = (y - array(self.loc)) / array(self.scale)
            corrected = np.where(np.isfinite(z), z * (1 - (z * z + 1) / (4 * df)), z)
        near = np.minimum(df, _NORMAL_FROM)
        return np.where(df < _NORMAL_FROM, sp.stdtr(near, z), sp.ndtr(corrected))

    def _icdf(self, q: Array) -> Array:
        df = array(self.df)
        with np.errstate(invalid="ignore", over="ignore"):
            normal = sp.ndtri(q)
            normal = np.where(np.isfinite(normal), normal * (1 + (normal * normal + 1) / (4 * df)), normal)
            tail = np.minimum(q, 1 - q)
            if tail.ndim > 1 and np.ptp(tail) <= _ROUNDING * tail.min():
                tail = tail[:1]  # the ends of an interval: by symmetry, one gives the other
            heavy = np.copysign(sp.stdtrit(np.minimum(df, _NORMAL_FROM), tail), q - 0.5)
            heavy = np.where((q == 0) | (q == 1), np.where(q == 0, -np.inf, np.inf), heavy)
            return array(self.loc) + array(self.scale) * np.where(df < _NORMAL_FROM, heavy, normal)
