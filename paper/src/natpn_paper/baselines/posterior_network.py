"""Posterior Networks (Charpentier, Zügner and Günnemann 2020), PostNet in the paper: one density for each class.

    z = normalise(encoder(x)),   α_c = 1 + N_c · p(z | c)
    loss = −E[log p_y] − λ H(Dir(α)),   E[log p_y] = ψ(α_y) − ψ(α₀)

N_c is the number (or the total weight) of training rows of class c, and p(z | c) a normalising flow. The loss is the
expected cross-entropy less an entropy that keeps α flat where the cross-entropy allows it.

Its gradient is proportional to N_y p(z | y), so a class whose density starts far from its rows would not be learned. In
training w · max(0, −log N_y p(z | y)) is therefore added, which is 0 once a row has one pseudo-observation.
"""

import copy
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call, stack_module_state, vmap
from torch.nn.functional import softplus

from natpn import densities
from natpn.densities import Density
from natpn.estimators.rows import Prepared
from natpn.families import Family
from natpn.network.budgets import LARGEST
from natpn.training import Trainee
from natpn_paper.baselines.checks import check_number
from natpn_paper.baselines.dirichlet import DirichletClassifier
from natpn_paper.baselines.normalisation import LatentNormalisation, NormalisedLoss
from natpn_paper.baselines.plain_network import checked_latent

_PULL = 0.1  # w
POSTNET_DIM = 6


class StackedDensities(nn.Module):
    """Densities of one kind, evaluated at the same time: latents (B, H) → log-densities (B, C).

    Args:
        densities: At least one; they are copied.
    """

    def __init__(self, densities: Sequence[Density]) -> None:
        super().__init__()
        parameters, buffers = stack_module_state(list(densities))
        self._names = list(parameters), list(buffers)
        self._template = (copy.deepcopy(densities[0]),)  # in a tuple, so that its own parameters are not registered
        self.values = nn.ParameterList(value.detach().clone() for value in parameters.values())
        for i, buffer in enumerate(buffers.values()):
            self.register_buffer(f"buffer_{i}", buffer.detach().clone())

    def forward(self, z: Tensor) -> Tensor:
        """Return the log-densities of latents."""
        parameters = dict(zip(self._names[0], self.values, strict=True))
        buffers = dict(zip(self._names[1], self.buffers(), strict=True))

        def one(parameters: dict[str, Tensor], buffers: dict[str, Tensor]) -> Tensor:
            found: Tensor = functional_call(self._template[0], (parameters, buffers), (z,))
            return found

        log_p: Tensor = vmap(one, out_dims=-1)(parameters, buffers)
        return log_p


class PosteriorNetwork(nn.Module):
    """Encoder and one density a class: log α, (B, C).

    Args:
        encoder: Any module x → (B, latent_dim).
        latent_dim: The size of the latent vector.
        class_densities: One for each class, all of one kind.
        counts: N_c, (C,).
    """

    log_counts: Tensor

    def __init__(self, encoder: nn.Module, latent_dim: int, class_densities: Sequence[Density], counts: Tensor) -> None:
        super().__init__()
        self.encoder = encoder
        self.latent_dim = latent_dim
        self.normalisation = LatentNormalisation(latent_dim)
        self.densities = StackedDensities(class_densities)
        self.register_buffer("log_counts", counts.log())

    def latent(self, x: Tensor) -> Tensor:
        """Return normalised latents, (B, latent_dim)."""
        z: Tensor = self.normalisation(checked_latent(self.encoder(x), self.latent_dim))
        return z

    def log_evidence(self, x: Tensor) -> Tensor:
        """Return log N_c p(z | c), (B, C)."""
        log_p: Tensor = self.densities(self.latent(x))
        return (log_p + self.log_counts).clamp(max=LARGEST)

    def forward(self, x: Tensor) -> Tensor:
        """Return log α."""
        return softplus(self.log_evidence(x))


class ExpectedCrossEntropy(NormalisedLoss):
    """The expected cross-entropy, less the weighted entropy of the Dirichlet.

    Args:
        network: The network, which returns log α.
        family: The classes.
        entropy_weight: λ.
    """

    network: PosteriorNetwork

    def __init__(self, network: PosteriorNetwork, family: Family, entropy_weight: float) -> None:
        super().__init__(network)
        self.family, self.entropy_weight = family, entropy_weight

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        """Return losses, (B,)."""
        log_n = self.network.log_evidence(x)
        log_alpha = softplus(log_n)
        evidence = self.family.evidence(log_alpha.softmax(-1), log_alpha.logsumexp(-1))
        posterior = self.family.posterior(evidence)
        losses: Tensor = -posterior.expected_log_likelihood(y) - self.entropy_weight * posterior.entropy()
        if not self.training:
            return losses
        return losses + _PULL * (-log_n.gather(-1, y.long().unsqueeze(-1))[..., 0]).clamp(min=0.0)


class PostNetClassifier(DirichletClassifier):
    """A Posterior Network for classes.

    Args:
        density: A name in `natpn.densities.DENSITIES`, or a density over the latents, which is copied for each class.
        entropy_weight: λ of the entropy in the loss.
        latent_dim: The size of the latent vector. In many dimensions densities are so low that N_c times them is
            almost 0 at first, and nothing is learned.
        **settings: Those of `Baseline`.
    """

    _rate = 1e-2
    _steps = 3000
    _epochs = (15, 300)

    def __init__(
        self,
        *,
        density: str | Density = "radial",
        entropy_weight: float = 1e-5,
        latent_dim: int = POSTNET_DIM,
        **settings: Any,
    ) -> None:
        super().__init__(latent_dim=latent_dim, **settings)
        self.density = density
        self.entropy_weight = entropy_weight

    def _check_parameters(self) -> None:
        super()._check_parameters()
        check_number(self, "entropy_weight", 0, inclusive=True)
        if not isinstance(self.density, (str, Density)):
            raise ValueError(f"density: expected a name or a natpn.densities.Density, got {self.density!r}")

    def _network(self, n_outputs: int, data: Prepared, seed: int) -> nn.Module:
        dim = int(self.latent_dim)
        _, y, weight = data.train
        counts = torch.zeros(n_outputs).index_add(0, y.long(), weight)
        each = [
            densities.get(self.density, dim) if isinstance(self.density, str) else copy.deepcopy(self.density)
            for _ in range(n_outputs)
        ]
        if any(density.dim != dim for density in each):
            raise ValueError(f"density: expected one over latent_dim = {dim} features, got one over {each[0].dim}")
        if each[0].refit_suffices:
            raise ValueError(
                f"density: expected one that gradient descent fits, got {type(each[0]).__name__}; choose 'radial', "
                "'maf' or 'spline'"
            )
        return PosteriorNetwork(self._encoder(), dim, each, counts.clamp(min=1e-6))

    def _loss(self, network: Any, data: Prepared, seed: int) -> Trainee:
        return ExpectedCrossEntropy(network, self.family_, float(self.entropy_weight))
