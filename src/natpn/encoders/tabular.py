"""The encoder for tables: a multi-layer perceptron, its numbers taken as they are or encoded piecewise-linearly."""

from typing import Any, Literal, Self, get_args

from numpy.typing import NDArray
from torch import Tensor, nn

from natpn.encoders.base import bound, check_choice, check_positive, perceptron
from natpn.encoders.piecewise import NumbersAndPieces, PiecewiseLinear

Encoding = Literal["plain", "piecewise", "both"]


class TabularEncoder(nn.Module):
    """Map rows of standardised numbers to latent vectors.

    ``n_layers`` hidden layers with LeakyReLU and a linear map to the latent space: in the paper 3 of width 64
    (Sensorless Drive), 3 of 16 (Bike Sharing), 2 of 16 (Concrete, Kin8nm). The forward pass has no branches on data and
    writes no buffer.

    Args:
        n_features: The number of columns.
        latent_dim: The size of the latent vector.
        hidden: The width of the hidden layers.
        n_layers: The number of hidden layers.
        encoding: "plain" feeds the numbers to the first layer; "piecewise" first encodes each by ``PiecewiseLinear``,
            whose knots ``fit_knots`` places; "both" by ``NumbersAndPieces``, which grows like a logarithm far out, so
            that a density over its latents should see the input by another way too.
        knots: The number of knots in each column, for the piecewise encoding.
        dropout: The share of hidden activations set to zero in training.

    Example:
        >>> import torch
        >>> X = torch.randn(100, 4)
        >>> encoder = TabularEncoder(n_features=4, latent_dim=8, encoding="piecewise").fit_knots(X)
        >>> encoder(X).shape
        torch.Size([100, 8])
    """

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
    ) -> None:
        super().__init__()
        check_positive(n_features=n_features, latent_dim=latent_dim, hidden=hidden, n_layers=n_layers)
        check_choice("encoding", encoding, get_args(Encoding))
        self.n_features = n_features
        self.latent_dim = latent_dim
        self.encoding: PiecewiseLinear | NumbersAndPieces | None = None
        n_inputs = n_features
        if encoding == "piecewise":
            self.encoding, n_inputs = PiecewiseLinear(n_features, knots), n_features * (knots - 1)
        elif encoding == "both":
            self.encoding, n_inputs = NumbersAndPieces(n_features, knots), n_features * knots
        self.layers = perceptron(n_inputs, *[hidden] * n_layers, latent_dim, dropout=dropout)

    def fit_knots(self, X: Tensor | NDArray[Any]) -> Self:
        """Place the knots of the piecewise encoding on training data; a plain encoder has none and stays as it is.

        Args:
            X: Training inputs, shape (rows, n_features), finite.

        Returns:
            This encoder.
        """
        if self.encoding is not None:
            self.encoding.fit_knots(X)
        return self

    def forward(self, x: Tensor) -> Tensor:
        """Map ``x``, shape (..., n_features), to (..., latent_dim)."""
        return self.map(self.encode(x))

    def encode(self, x: Tensor) -> Tensor:
        """Return what the first layer sees: the numbers as they are, or encoded.

        Raises:
            ValueError: If the last dimension is not ``n_features``.
        """
        if x.ndim == 0 or x.shape[-1] != self.n_features:
            raise ValueError(
                f"The input has shape {tuple(x.shape)}, but this encoder was built for n_features = {self.n_features} "
                f"in the last dimension."
            )
        x = bound(x)
        if self.encoding is None:
            return x
        encoded: Tensor = self.encoding(x)
        return encoded

    def map(self, encoded: Tensor) -> Tensor:
        """Map what `encode` returns to latents; training encodes its rows once and repeats only this."""
        latent: Tensor = bound(self.layers(encoded))
        return latent
