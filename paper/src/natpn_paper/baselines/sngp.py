"""Spectral-normalised Neural Gaussian Process (Liu, Lin, Padhy, Tran, Bedrax-Weiss and Lakshminarayanan 2020), SNGP.

- Hidden layers stretch distances by a bounded factor: a weight matrix whose largest singular value σ exceeds
  `norm_bound` is multiplied by norm_bound/σ.
- The last layer is a Gaussian process by D random Fourier features of the latent vector, which is normalised:
  φ = √(2/D) cos(W z/ℓ + b) with fixed W ~ N(0, 1), b ~ U(0, 2π). Logits are m = φᵀβ with the prior β ~ N(0, I).
- Loss: cross-entropy + ‖β‖²/(2N), that of the maximum a posteriori.
- Laplace: Σ⁻¹ = ridge·I + Σᵢ wᵢ φᵢφᵢᵀ over the training rows, one matrix for all classes, as in the authors' code for
  more than two classes. The variance of a logit is s² = φᵀΣφ.
- predictive, mean field: softmax(m/√(1 + π s²/8)); aleatoric: its entropy; epistemic: s².
"""

import math
from typing import Any, Unpack

import torch
from torch import Tensor, nn
from torch.nn.utils import parametrize

from natpn.estimators.rows import Prepared
from natpn.families import CategoricalDistribution
from natpn.training import Trainee
from natpn_paper.baselines.base import BaselineClassifier, Settings
from natpn_paper.baselines.checks import check_count, check_number
from natpn_paper.baselines.normalisation import LatentNormalisation, NormalisedLoss
from natpn_paper.baselines.plain_network import checked_latent
from natpn_paper.baselines.readings import Reading

_CHUNK = 4096


class SpectralBound(nn.Module):
    """A parametrisation of weights that bounds their largest singular value.

    In training σ is tracked by one power iteration a step; in evaluation mode it is exact.

    Args:
        weight: The weights, (out, ...).
        bound: The largest value that σ may have.
    """

    left: Tensor

    def __init__(self, weight: Tensor, bound: float) -> None:
        super().__init__()
        self.bound = bound
        self.register_buffer("left", torch.linalg.svd(weight.detach().flatten(1), full_matrices=False)[0][:, 0])

    def forward(self, weight: Tensor) -> Tensor:
        """Return weights whose largest singular value is at most the bound."""
        matrix = weight.flatten(1)
        if not self.training:
            norm = torch.linalg.matrix_norm(matrix, 2)
        else:
            with torch.no_grad():
                right = nn.functional.normalize(matrix.T @ self.left, dim=0)
                left = nn.functional.normalize(matrix @ right, dim=0)
                self.left.copy_(left)
            norm = left @ (matrix @ right)
        bounded: Tensor = weight * (self.bound / norm.clamp(min=1e-12)).clamp(max=1.0)
        return bounded


def bound_layers(module: nn.Module, bound: float) -> None:
    """Bound the weights of all linear and convolutional layers."""
    for layer in list(module.modules()):
        if isinstance(layer, (nn.Linear, nn.Conv1d, nn.Conv2d, nn.Conv3d)):
            parametrize.register_parametrization(layer, "weight", SpectralBound(layer.weight, bound))


def release_layers(module: nn.Module) -> None:
    """Make the bounded weights plain weights again."""
    module.eval()
    for layer in list(module.modules()):
        if parametrize.is_parametrized(layer):
            parametrize.remove_parametrizations(layer, "weight")


class GaussianProcessNetwork(nn.Module):
    """Encoder, random features and a linear layer: logits and their variance, (B, C + 1).

    Args:
        encoder: Any module x → (B, latent_dim).
        latent_dim: The size of the latent vector.
        n_classes: The number of classes.
        n_features: D, the number of random features.
        length_scale: ℓ of the kernel.
    """

    frequencies: Tensor
    phases: Tensor
    covariance: Tensor

    def __init__(
        self, encoder: nn.Module, latent_dim: int, n_classes: int, n_features: int, length_scale: float
    ) -> None:
        super().__init__()
        self.encoder = encoder
        self.latent_dim = latent_dim
        self.normalisation = LatentNormalisation(latent_dim)
        self.register_buffer("frequencies", torch.randn(n_features, latent_dim) / length_scale)
        self.register_buffer("phases", 2 * math.pi * torch.rand(n_features))
        self.register_buffer("covariance", torch.eye(n_features))
        self.decoder = nn.Linear(n_features, n_classes, bias=False)
        nn.init.zeros_(self.decoder.weight)

    def features(self, x: Tensor) -> Tensor:
        """Return φ, (B, D)."""
        z = self.normalisation(checked_latent(self.encoder(x), self.latent_dim))
        angles = torch.remainder(z @ self.frequencies.T + self.phases, 2 * math.pi)
        return math.sqrt(2 / len(self.phases)) * angles.cos()

    def forward(self, x: Tensor) -> Tensor:
        """Return logits and the variance that they share."""
        features = self.features(x)
        variance = ((features @ self.covariance) * features).sum(-1, keepdim=True)
        return torch.cat([self.decoder(features), variance.clamp(min=0.0)], -1)

    @torch.no_grad()
    def fit_covariance(self, x: Tensor, weight: Tensor, ridge: float) -> None:
        """Set Σ from training rows."""
        self.eval()
        device = self.covariance.device
        precision = ridge * torch.eye(len(self.phases), dtype=torch.float64, device=device)
        for part, share in zip(x.split(_CHUNK), weight.split(_CHUNK), strict=True):
            features = self.features(part.to(device)).double()
            precision += features.T @ (features * share.to(features).unsqueeze(-1))
        self.covariance.copy_(torch.cholesky_inverse(torch.linalg.cholesky(precision)))


class PosteriorModeLoss(NormalisedLoss):
    """Cross-entropy with the prior of the last layer's weights.

    Args:
        network: The network.
        rows: N, the total weight of the training rows.
    """

    network: GaussianProcessNetwork

    def __init__(self, network: GaussianProcessNetwork, rows: float) -> None:
        super().__init__(network)
        self.rows = rows

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        """Return losses, (B,)."""
        weight = self.network.decoder.weight
        logits = self.network.decoder(self.network.features(x))
        cross = nn.functional.cross_entropy(logits, y.long(), reduction="none")
        return cross + weight.square().sum() / (2 * self.rows)


class SNGPClassifier(BaselineClassifier):
    """A Gaussian process on a network that keeps distances, for classes.

    Args:
        norm_bound: The largest singular value that a hidden layer may have.
        n_features: The number of random features that approximate the Gaussian process.
        length_scale: The length scale of its kernel, in standard deviations of a latent feature.
        ridge: The prior precision in the covariance.
        **settings: Those of `Baseline`.
    """

    _steps = 4000
    _epochs = (25, 300)

    def __init__(
        self,
        *,
        norm_bound: float = 2.0,
        n_features: int = 512,
        length_scale: float = 2.0,
        ridge: float = 1.0,
        **settings: Unpack[Settings],
    ) -> None:
        super().__init__(**settings)
        self.norm_bound = norm_bound
        self.n_features = n_features
        self.length_scale = length_scale
        self.ridge = ridge

    def _check_parameters(self) -> None:
        super()._check_parameters()
        check_count(self, "n_features")
        for name in ("norm_bound", "length_scale", "ridge"):
            check_number(self, name, 0)

    def _network(self, n_outputs: int, data: Prepared, seed: int) -> nn.Module:
        encoder = self._encoder()
        bound_layers(encoder, float(self.norm_bound))
        return GaussianProcessNetwork(
            encoder, int(self.latent_dim), n_outputs, int(self.n_features), float(self.length_scale)
        )

    def _loss(self, network: Any, data: Prepared, seed: int) -> Trainee:
        return PosteriorModeLoss(network, float(data.train[2].sum()))

    def _train(self, data: Prepared, seed: int) -> nn.Module:
        network = self._trained(data, seed)
        release_layers(network)
        if isinstance(network, GaussianProcessNetwork):
            network.fit_covariance(data.train[0], data.train[2], float(self.ridge))
        return network

    def _read(self, raw: Tensor) -> Reading:
        logits, variance = raw[..., :-1], raw[..., -1]
        p = CategoricalDistribution((logits / (1 + math.pi / 8 * variance.unsqueeze(-1)).sqrt()).softmax(-1))
        return Reading(p, p, variance)
