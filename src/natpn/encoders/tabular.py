"""The encoder for tables: a multi-layer perceptron, its numbers taken as they are or encoded piecewise-linearly.

The piecewise-linear encoding has one component for each bin between knots, the outer bins being open.
"""

from typing import Any, Literal, Self, get_args

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from natpn.choices import check_choice
from natpn.encoders.base import LIMIT, ChainEncoder, bound, check_positive, clamp_own, perceptron
from natpn.few_rows import Floats, Form, array, form_of, within

Encoding = Literal["plain", "piecewise", "both"]


def quantile_knots(values: NDArray[np.float64], n_knots: int) -> NDArray[np.float64]:
    """Place `n_knots` strictly increasing knots, at least 2, on one column of finite numbers.

    The knots are quantiles. Where quantiles coincide, because one value is frequent, the places left over go to the
    other values, evenly by rank. A column with fewer values than knots gets all its values, and its widest gaps are
    halved until there are enough. A constant column gets evenly spaced knots around its value, so that departures from
    it are seen.
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
        """Place the knots on the quantiles of training inputs, shape (rows, n_features), finite."""
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

    It takes the arguments of `PiecewiseLinear`.
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

    def in_numpy(self) -> Form:
        """Return the numpy form."""
        knots = self.pieces.knots
        low, reach = array(knots[:, :-1]), array(knots.diff().clamp_min(1e-30).reciprocal())
        scale = self.WEIGHT / array(self.deviation)
        shift = array(self.mean) * scale

        def encode(x: Floats) -> Floats:
            size = np.abs(x)
            excess = np.maximum(size - 4, 0.0)
            number = np.sign(x) * (size - excess + np.log1p(excess))
            pieces = np.minimum(np.maximum((x[:, :, None] - low) * reach, 0.0), 1.0).reshape(len(x), -1)
            return np.concatenate([number, pieces * scale - shift], 1)

        return encode


class TabularEncoder(ChainEncoder):
    """Map rows of standardised numbers to latent vectors.

    ``n_layers`` hidden layers with LeakyReLU, or SiLU, and a linear map to the latent space: in the paper 3 of width 64
    (Sensorless Drive), 3 of 16 (Bike Sharing), 2 of 16 (Concrete, Kin8nm). The forward pass has no branches on data and
    writes no buffer.

    Args:
        n_features: The number of columns.
        latent_dim: The size of the latent vector.
        hidden: The width of the hidden layers.
        n_layers: The number of hidden layers.
        encoding: "plain" feeds the numbers to the first layer; "piecewise" first encodes each by ``PiecewiseLinear``,
            whose knots ``fit_knots`` places; "both" by ``NumbersAndPieces``, which grows like a logarithm far out, so
            that a density over its latents should also see the input in another way.
        knots: The number of knots in each column, for the piecewise encoding.
        dropout: The share of hidden activations set to zero in training.
        activation: "leaky_relu" or "silu".
        n_numbers: How many of the first columns are encoded, by default all; the others are fed as they are.
        n_ignored: How many more columns follow that the encoder ignores.

    Example:
        >>> import torch
        >>> X = torch.randn(100, 4)
        >>> encoder = TabularEncoder(n_features=4, latent_dim=8, encoding="piecewise").fit_knots(X)
        >>> encoder(X).shape
        torch.Size([100, 8])
    """

    n_dims = 1

    def __init__(
        self,
        n_features: int,
        latent_dim: int = 16,
        *,
        hidden: int = 64,
        n_layers: int = 3,
        encoding: Encoding = "plain",
        knots: int = 16,
        dropout: float = 0.0,
        activation: str = "leaky_relu",
        n_numbers: int | None = None,
        n_ignored: int = 0,
    ) -> None:
        super().__init__()
        check_positive(n_features=n_features, latent_dim=latent_dim, hidden=hidden, n_layers=n_layers)
        check_choice("encoding", encoding, get_args(Encoding))
        self.n_features = n_features
        self.n_numbers = n_features if n_numbers is None else n_numbers
        self.n_ignored = n_ignored
        if not 0 <= self.n_numbers <= n_features or n_ignored < 0:
            raise ValueError(
                f"n_numbers = {n_numbers!r} and n_ignored = {n_ignored!r}, but at most n_features = {n_features} "
                "columns can be numbers, and neither may be negative."
            )
        self.latent_dim = latent_dim
        self.activation = activation
        self.encoding: PiecewiseLinear | NumbersAndPieces | None = None
        n_inputs = self.n_numbers
        if self.n_numbers and encoding == "piecewise":
            self.encoding, n_inputs = PiecewiseLinear(self.n_numbers, knots), self.n_numbers * (knots - 1)
        elif self.n_numbers and encoding == "both":
            self.encoding, n_inputs = NumbersAndPieces(self.n_numbers, knots), self.n_numbers * knots
        n_inputs += n_features - self.n_numbers
        self.layers = perceptron(n_inputs, *[hidden] * n_layers, latent_dim, dropout=dropout, activation=activation)

    @property
    def columns(self) -> Tensor:
        """The column that each input of the first layer belongs to, (inputs,)."""
        numbers, others = torch.arange(self.n_numbers), torch.arange(self.n_numbers, self.n_features)
        pieces = 0 if self.encoding is None else self.encoding.n_pieces
        by_themselves = [] if isinstance(self.encoding, PiecewiseLinear) else [numbers]
        columns = [*by_themselves, numbers.repeat_interleave(pieces), others]
        return torch.cat(columns).to(self.first.weight.device)

    def fit_knots(self, X: Tensor | NDArray[Any]) -> Self:
        """Place the knots of the piecewise encoding on training inputs; a plain encoder has none and does not change.

        Args:
            X: Training inputs, shape (rows, n_features + n_ignored), finite.

        Returns:
            This encoder.
        """
        if self.encoding is not None:
            self.encoding.fit_knots(X[:, : self.n_numbers])
        return self

    def prepare(self, x: Tensor) -> Tensor:
        """Return what the first layer sees of inputs (..., n_features + n_ignored): the numbers, or their encoding."""
        if x.ndim == 0 or x.shape[-1] != self.n_features + self.n_ignored:
            ignored = f" and n_ignored = {self.n_ignored}" if self.n_ignored else ""
            raise ValueError(
                f"The input has shape {tuple(x.shape)}, but this encoder was built for n_features = {self.n_features}"
                f"{ignored} in the last dimension."
            )
        x = bound(x[..., : self.n_features])
        if self.encoding is None:
            return x
        encoded: Tensor = self.encoding(x[..., : self.n_numbers])
        if self.n_numbers == self.n_features:
            return encoded
        return torch.cat([encoded, x[..., self.n_numbers :]], -1)

    def in_numpy(self) -> Form | None:
        """Return the numpy form, if encoding and layers have one."""
        encode, mapped = form_of(self.encoding), self.map_in_numpy()
        if mapped is None or (encode is None and self.encoding is not None):
            return None

        def form(x: Floats) -> Floats:
            x = within(x[:, : self.n_features], LIMIT)
            if encode is not None:
                x = np.concatenate([encode(x[:, : self.n_numbers]), x[:, self.n_numbers :]], 1)
            return mapped(x)

        return form
