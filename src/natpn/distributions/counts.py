"""What distributions of counts share: quantiles by search, and entropy by summation."""

from abc import abstractmethod

import numpy as np
import torch
from scipy import special as sp
from torch import Tensor

from natpn.distributions.base import Array, ScalarDistribution, array

_HEAD = 128  # counts summed one by one
_PANELS = 8
_NODES, _WEIGHTS = (torch.from_numpy(np.asarray(a)) for a in sp.roots_legendre(24))
_ROWS = 2048  # rows whose tables are in memory at a time
_LARGEST = 2.0**63  # quantiles beyond are given as inf
TAIL = 36.0
"""−log of the probability that entropy leaves out."""


class CountDistribution(ScalarDistribution):
    """A distribution on the whole numbers from 0 on."""

    def _entropy(self) -> Tensor:
        """Sum −p log p over the first counts, and integrate it over log y from there to where nothing is left."""
        low, high = (t.expand(self.batch_shape).reshape(-1) for t in self._bulk())
        rows = range(0, low.numel(), _ROWS)
        parts = [self._flat(i, i + _ROWS)._entropy_table(low[i : i + _ROWS], high[i : i + _ROWS]) for i in rows]
        return torch.cat(parts).reshape(self.batch_shape) if parts else low.reshape(self.batch_shape)

    def _entropy_table(self, low: Tensor, high: Tensor) -> Tensor:
        y = torch.arange(_HEAD, dtype=low.dtype, device=low.device).unsqueeze(-1)
        head = self._surprise(y)
        start = low.clamp(min=_HEAD - 0.5).log()
        length = (high.clamp(min=_HEAD - 0.5).log() - start).clamp(min=0) / _PANELS
        panel = torch.arange(_PANELS, dtype=low.dtype, device=low.device)
        nodes = (panel.unsqueeze(-1) + (_NODES.to(panel) + 1) / 2).reshape(-1, 1)
        y = (start + nodes * length).exp()
        weights = _WEIGHTS.to(panel).repeat(_PANELS).unsqueeze(-1) / 2 * length * y
        # Euler and Maclaurin: the sum from _HEAD on is the integral from _HEAD − ½ plus the slope there over 24.
        slope = self._surprise(y.new_tensor([[float(_HEAD)]]))[0] - head[-1]
        correction = torch.where((low < _HEAD) & (high > _HEAD), slope / 24, 0.0)
        return head.sum(0) + (self._surprise(y) * weights).sum(0) + correction

    def _surprise(self, y: Tensor) -> Tensor:
        log_p = self._log_prob(y)
        return -log_p * log_p.exp()

    def _icdf(self, q: Array) -> Array:
        """Search for the smallest count whose cdf is at least q: bracket by doubling around a guess, then halve."""
        shape = np.broadcast_shapes(q.shape, tuple(self.batch_shape))
        q = np.broadcast_to(q, shape)
        sd = np.sqrt(np.nan_to_num(array(self._variance()), posinf=1.0))
        guess = np.floor(np.clip(self._guess(q, sd), 0, _LARGEST))
        step = np.ceil(1 + np.broadcast_to(sd, shape) / 8)
        low, high = guess.copy(), guess.copy()
        while (grow := (self._cdf(high) < q) & (high < _LARGEST)).any():
            low, high = np.where(grow, high, low), np.where(grow, high + step, high)
            step = np.where(grow, 2 * step, step)
        step = np.ceil(1 + np.broadcast_to(sd, shape) / 8)
        low = np.where(low == high, low - 1, low)
        while (grow := (low >= 0) & (self._cdf(np.maximum(low, 0)) >= q)).any():
            high, low = np.where(grow, low, high), np.where(grow, np.maximum(low - step, -1), low)
            step = np.where(grow, 2 * step, step)
        while (gap := high - low > np.maximum(1, np.abs(high) * 2e-16)).any():
            middle = np.floor((low + high) / 2)
            above = self._cdf(middle) >= q
            low, high = np.where(gap & ~above, middle, low), np.where(gap & above, middle, high)
        return np.where((q == 1) | (high >= _LARGEST), np.inf, high)

    def _guess(self, q: Array, sd: Array) -> Array:
        """Return about which count has a cdf of q: here that of the Normal with the same mean and deviation."""
        centre = np.nan_to_num(array(self._mean()), posinf=1.0)
        return np.asarray(centre + sd * sp.ndtri(np.clip(q, 1e-9, 1 - 1e-9)))

    @abstractmethod
    def _bulk(self) -> tuple[Tensor, Tensor]:
        """Return counts below and above which the distribution has at most exp(−TAIL) of its mass."""

    @abstractmethod
    def _flat(self, start: int, stop: int) -> "CountDistribution":
        """Return the rows from start to stop of the flattened batch."""
