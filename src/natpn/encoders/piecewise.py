"""Piecewise-linear encoding of numbers: one component per bin, the outer bins open."""

from typing import Any, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from natpn.encoders.base import LIMIT, bound, check_positive, clamp_own


def quantile_knots(values: NDArray[np.float64], n_knots: int) -> NDArray[np.float64]:
    """Place strictly increasing knots on one column.

    The knots are quantiles. Where quantiles coincide, because one value is frequent, the places left over go to the
    other values, evenly by rank. A column with fewer values than knots gets all its values, and its widest gaps are
    halved until there are enough. A constant column gets evenly spaced knots around its value, so that departures from
    it are seen.

    Args:
        values: One column, finite.
        n_knots: How many knots to place, at least 2.

    Returns:
        The knots, ``n_knots`` of them.
    """
    distinct = np.unique(values)
    if distinct[-1] - distinct[0] <= 1e-6 * np.abs(distinct).max():  # constant but for rounding
        centre = 0.5 * (distinct[0] + distinct[-1])
        even: NDArray[np.float64] = centre + np.linspace(-0.5, 0.5, n_knots) * max(1.0, abs(centre))
        return even
    knots = distinct
    if distinct.size > n_knots:
        knots = np.unique(np.quantile(values, np.linspace(0, 1, n_knots)))
        missing = n_knots - knots.size
        if missing:
            others = np.setdiff1d(distinct, knots)
            ranks = (np.arange(missing) + 0.5) * others.size / missing
            knots = np.union1d(knots, others[ranks.astype(int)])
    while knots.size < n_knots:
        widest = int(np.argmax(np.diff(knots)))
        knots = np.insert(knots, widest + 1, 0.5 * (knots[widest] + knots[widest + 1]))
    return knots


class PiecewiseLinear(nn.Module):
    """Encode each number by how far it reaches into each bin between knots.

    With knots k₀ < … < k_T, component t of a number x is (x − k_{t−1}) / (k_t − k_{t−1}), cut to [0, 1]; the first is
    not cut below and the last not above. So x = k₀ + Σ_t (k_t − k_{t−1})·component_t everywhere, also outside the
    knots, where one component keeps growing linearly.

    The knots are a buffer and are saved with the weights. Until ``fit_knots`` they are quantiles of the standard normal
    distribution.

    Args:
        n_features: The number of columns.
        knots: The number of knots in each column, at least 2.
    """

    knots: Tensor
    lower: Tensor
    upper: Tensor

    def __init__(self, n_features: int, knots: int = 16) -> None:
        super().__init__()
        check_positive(n_features=n_features)
        if not isinstance(knots, int) or knots < 2:
            raise ValueError(f"knots = {knots!r}, but a whole number of at least 2 is needed.")
        start = torch.special.ndtri(torch.linspace(0.5 / knots, 1 - 0.5 / knots, knots, dtype=torch.float64))
        self.register_buffer("knots", start.to(torch.get_default_dtype()).expand(n_features, -1).clone())
        self.register_buffer("lower", torch.tensor([-torch.inf] + [0.0] * (knots - 2)), persistent=False)
        self.register_buffer("upper", torch.tensor([1.0] * (knots - 2) + [torch.inf]), persistent=False)

    @property
    def n_pieces(self) -> int:
        """How many pieces a column has."""
        return self.knots.shape[1] - 1

    @torch.no_grad()
    def fit_knots(self, X: Tensor | NDArray[Any]) -> Self:
        """Place the knots on the quantiles of training data.

        Args:
            X: Training inputs, shape (rows, n_features), finite.

        Returns:
            This module.

        Raises:
            ValueError: If X has another shape, no rows, or values that are NaN or infinite.
        """
        n_features, n_knots = self.knots.shape
        rows = np.asarray(X.detach().cpu() if isinstance(X, Tensor) else X, dtype=np.float64)
        if rows.ndim != 2 or rows.shape[1] != n_features or not rows.size:
            raise ValueError(f"X has shape {rows.shape}, but (rows, {n_features}) with at least one row is needed.")
        wrong = np.flatnonzero(~np.isfinite(rows).all(axis=0))
        if wrong.size:
            raise ValueError(f"X has NaN or infinite values in columns {wrong.tolist()}: impute them first.")
        precision = np.dtype(np.float64 if self.knots.dtype == torch.float64 else np.float32)
        rows = np.clip(rows, -LIMIT, LIMIT).astype(precision).astype(np.float64)
        placed = np.stack([quantile_knots(column, n_knots) for column in rows.T]).astype(precision)
        # Two knots may meet when they are rounded; such bins are opened by the smallest step there is.
        for t in range(1, n_knots):
            placed[:, t] = np.maximum(placed[:, t], np.nextafter(placed[:, t - 1], precision.type(np.inf)))
        self.knots.copy_(torch.from_numpy(placed))
        return self

    def forward(self, x: Tensor) -> Tensor:
        """Encode ``x``, shape (..., n_features), as (..., n_features · (knots − 1))."""
        width = self.knots.diff().clamp_min(1e-30)  # a module cast to lower precision may have knots that coincide
        components = (x.unsqueeze(-1) - self.knots[:, :-1]) / width
        return bound(components.clamp(self.lower, self.upper)).flatten(-2)


class NumbersAndPieces(nn.Module):
    """Encode each number by itself and by the bins it reaches into, both kept small.

    The number is identical up to ±4 and grows like a logarithm beyond, so that single rows far out do not decide the
    fit. The pieces are those of `PiecewiseLinear`, cut to [0, 1], brought to mean 0 and standard deviation `WEIGHT` on
    the training data: fine structure can be learned, but is not where the learning starts.

    Args:
        n_features: The number of columns.
        knots: The number of knots in each column, at least 2.
    """

    WEIGHT = 0.3
    mean: Tensor
    deviation: Tensor

    def __init__(self, n_features: int, knots: int = 9) -> None:
        super().__init__()
        self.pieces = PiecewiseLinear(n_features, knots)
        self.register_buffer("mean", torch.full((n_features * (knots - 1),), 0.5))
        self.register_buffer("deviation", torch.full((n_features * (knots - 1),), 0.5))

    @property
    def n_pieces(self) -> int:
        """How many pieces a column has."""
        return self.pieces.n_pieces

    @torch.no_grad()
    def fit_knots(self, X: Tensor | NDArray[Any]) -> Self:
        """Place the knots on the quantiles of training data (see `PiecewiseLinear.fit_knots`)."""
        self.pieces.fit_knots(X)
        components = self._components(torch.as_tensor(X).to(self.mean))
        self.mean.copy_(components.mean(0))
        self.deviation.copy_(components.std(0, correction=0).clamp(min=1e-2))
        return self

    def _components(self, x: Tensor) -> Tensor:
        knots = self.pieces.knots
        scale = knots.diff().clamp_min(1e-30).reciprocal()
        return clamp_own((x.unsqueeze(-1) - knots[:, :-1]).mul_(scale), 0, 1).flatten(-2)

    def forward(self, x: Tensor) -> Tensor:
        """Encode ``x``, shape (..., n_features), as (..., n_features · knots)."""
        excess = (x.abs() - 4).clamp(min=0)
        number = torch.sign(x) * (x.abs() - excess + torch.log1p(excess))
        scale = self.WEIGHT / self.deviation
        return torch.cat([number, self._components(x).mul_(scale).sub_(self.mean * scale)], -1)
