"""The negative binomial by its mean m and size r: variance m + m²/r.

With the expected split of r + y, e_r = (r + y) r/(r + m) and e_y = (r + y) m/(r + m), and D, T, S of `natpn.special`:
log p(y) = T(r, y) − S(y) − D(r, e_r) − D(y, e_y), where r − e_r = e_y − y = r(m − y)/(r + m).
No term is larger than the answer, so that it holds at m = 10⁸ as it does at 1. r = inf is the Poisson distribution.
"""

import numpy as np
import torch
from scipy import special as sp
from torch import Tensor

from natpn.distributions.base import INFINITE, TAIL, Array, CountDistribution, array, finite_count
from natpn.distributions.support import counts
from natpn.special import deviance, factorial_remainder, stirling_step

_POISSON_SERIES_FROM = 64.0
_LARGE = 1e5  # from here on Temme's expansion serves
# c(η) near 0, where 1/μ − 1/η cancels
_SERIES = (-1 / 3, 1 / 12, -2 / 135, 1 / 864, 1 / 2835, -139 / 777600)


def log_prob(y: Tensor, mean: Tensor, size: Tensor) -> Tensor:
    """Return the log-probability of counts y."""
    gap = size / (size + mean) * (mean - y)
    total = size + y
    e_size = total / (1 + mean / size)
    e_y = total * (mean / (size + mean))
    return stirling_step(size, y) - factorial_remainder(y) - deviance(size, e_size, gap) - deviance(y, e_y, -gap)


class NegativeBinomial(CountDistribution):
    """Counts with the given mean and size; size = inf is the Poisson."""

    def __init__(self, mean: Tensor, size: Tensor, dtype: torch.dtype = torch.float64) -> None:
        self.rate: Tensor
        self.size: Tensor
        self.rate, self.size = torch.broadcast_tensors(mean, finite_count(size))
        super().__init__(self.rate.shape, counts(), dtype)

    def _device(self) -> torch.device:
        return self.rate.device

    def _mean(self) -> Tensor:
        return self.rate

    def _variance(self) -> Tensor:
        return self.rate * (1 + self.rate / self.size)

    def _log_prob(self, y: Tensor) -> Tensor:
        return log_prob(y, self.rate, self.size)

    def _sample(self, shape: torch.Size) -> Tensor:
        size = self.size.expand(shape + self.batch_shape)
        return torch.poisson(self.rate * (torch._standard_gamma(size) / size))

    def _entropy(self) -> Tensor:
        return torch.where(
            (self.size >= INFINITE) & (self.rate >= _POISSON_SERIES_FROM), self._poisson_series(), super()._entropy()
        )

    def _poisson_series(self) -> Tensor:
        r = 1 / self.rate.clamp(min=_POISSON_SERIES_FROM)
        return 0.5 * (2 * torch.pi * torch.e / r).log() - r * (1 / 12 + r * (1 / 24 + r * (19 / 360 + r * 9 / 80)))

    def _cdf(self, y: Array) -> Array:
        return cdf(y, array(self.rate), array(self.size))

    def _bulk(self) -> tuple[Tensor, Tensor]:
        spread = TAIL * (1 / self.rate + 1 / self.size).detach()
        rate = self.rate.detach()
        return rate * (1 - (2 * spread).sqrt()).clamp(min=0), rate * (1 + (2 * spread).sqrt() + spread)

    def _flat(self, start: int, stop: int) -> "NegativeBinomial":
        rate, size = (t.reshape(-1)[start:stop] for t in (self.rate, self.size))
        return NegativeBinomial(rate, size, self.dtype)


def cdf(y: Array, mean: Array, size: Array) -> Array:
    """Return P(Y ≤ y): an incomplete beta function, or its gamma limit where the size dwarfs the count."""
    y = np.floor(y)
    k = np.clip(y, 0.0, 1e300) + 1
    with np.errstate(over="ignore"):
        limit = upper_gamma(k, (size + (k - 1) / 2) * np.log1p(mean / size))
    beta = sp.betaincc(k, np.minimum(size, 1e6 * k), mean / (size + mean))
    return np.where(y < 0, 0.0, np.where(y == np.inf, 1.0, np.where(size > 1e6 * k, limit, beta)))


def upper_gamma(a: Array, x: Array) -> Array:
    """Return the regularised incomplete gamma function Q(a, x) = Γ(a, x)/Γ(a) for a > 0, x ≥ 0 of any size.

    `scipy.special.gammaincc` loses its digits a few standard deviations from the centre once a is in the millions.
    There, Temme's uniform expansion holds: with μ = x/a − 1, η = ±√(2(μ − log(1 + μ))) and c(η) = 1/μ − 1/η,
    Q(a, x) = ½ erfc(η √(a/2)) + exp(−aη²/2)/√(2πa) · (c(η) − 1/(540 a) + …).
    """
    a, x = np.broadcast_arrays(np.asarray(a, dtype=np.float64), np.asarray(x, dtype=np.float64))
    large = np.maximum(a, _LARGE)
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        mu = np.maximum((np.where(a > _LARGE, x, large) - large) / large, -1 + 1e-15)
        eta = np.copysign(np.sqrt(2 * np.maximum(mu - np.log1p(mu), 0.0)), mu)
        near = np.clip(eta, -0.05, 0.05)
        c = np.where(np.abs(eta) < 0.05, np.polynomial.polynomial.polyval(near, _SERIES), 1 / mu - 1 / eta)
        tail = np.exp(-large * eta**2 / 2) / np.sqrt(2 * np.pi * large) * (c - 1 / (540 * large))
        uniform = np.clip(sp.erfc(eta * np.sqrt(large / 2)) / 2 + np.where(np.isfinite(tail), tail, 0.0), 0.0, 1.0)
        return np.where(a > _LARGE, uniform, sp.gammaincc(np.minimum(a, _LARGE), x))
