"""The encoder for tables: a multi-layer perceptron, its numbers taken as they are or encoded piecewise-linearly."""

from typing import Any, Literal, Self, cast, get_args

import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from natpn.choices import check_choice
from natpn.encoders.base import bound, check_positive, clamp_own, perceptron
from natpn.encoders.piecewise import NumbersAndPieces, PiecewiseLinear

Encoding = Literal["plain", "piecewise", "both"]


class TabularEncoder(nn.Module):
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
    def first(self) -> nn.Linear:
        """The first layer."""
        return cast(nn.Linear, self.layers[0])

    @property
    def columns(self) -> Tensor:
        """The column that each input of the first layer belongs to, (inputs,)."""
        numbers, others = torch.arange(self.n_numbers), torch.arange(self.n_numbers, self.n_features)
        pieces = 0 if self.encoding is None else self.encoding.n_pieces
        by_themselves = [] if isinstance(self.encoding, PiecewiseLinear) else [numbers]
        columns = [*by_themselves, numbers.repeat_interleave(pieces), others]
        return torch.cat(columns).to(self.first.weight.device)

    def fit_knots(self, X: Tensor | NDArray[Any]) -> Self:
        """Place the knots of the piecewise encoding on training data; a plain encoder has none and does not change.

        Args:
            X: Training inputs, shape (rows, n_features + n_ignored), finite.

        Returns:
            This encoder.
        """
        if self.encoding is not None:
            self.encoding.fit_knots(X[:, : self.n_numbers])
        return self

    def forward(self, x: Tensor) -> Tensor:
        """Map ``x``, shape (..., n_features + n_ignored), to (..., latent_dim)."""
        return self.map(self.encode(x))

    def encode(self, x: Tensor) -> Tensor:
        """Return what the first layer sees: the numbers as they are, or encoded.

        Raises:
            ValueError: If the last dimension is not ``n_features + n_ignored``.
        """
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

    def map(self, encoded: Tensor) -> Tensor:
        """Map what `encode` returns to latents; training encodes each row once, and repeats only this step."""
        latent: Tensor = clamp_own(self.layers(encoded))
        return latent
