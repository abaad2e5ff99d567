"""The masked autoregressive flow (Papamakarios, Pavlakou and Murray 2017), with batch norm between its layers.

A layer maps feature i by f_i(u) = exp(a_i) u_i + b_i, where a network reads a_i and b_i off the features before it and
exp(a_i) is between 1/10 and 10: a = r/(1 + |r|/log 10) of the network's own output r. `flows.py` says what all
autoregressive flows share. Between layers stands batch norm, u ↦ (u − m)/√(v + ε) for each feature, whose
log-determinant is −½ Σ log(v + ε). In training mode m and v are those of the batch, and gradients pass through them; in
evaluation mode they are fixed, and q is a density: `settle` sets them to those of a sample.
"""

import math
from collections.abc import Sequence
from functools import partial
from typing import Any, cast

import torch
import zuko  # type: ignore[import-untyped]
from torch import Tensor, nn

from natpn.densities.flows import AutoregressiveFlow, check_sizes

_LEAST_SCALE = 0.1
_EPSILON = 1e-5  # added to variances
_MOMENTUM = 0.1


class BatchNormLayer(nn.Module):
    """Normalise features (B, H) by the moments of the batch, or by fixed ones in evaluation mode.

    A batch of one row has no variance; it is normalised by the fixed moments. Those start as the identity.
    """

    mean: Tensor
    variance: Tensor

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.momentum = _MOMENTUM  # the weight of a batch in the fixed moments
        self.register_buffer("mean", torch.zeros(dim))
        self.register_buffer("variance", torch.full((dim,), 1 - _EPSILON))

    def forward(self, u: Tensor) -> tuple[Tensor, Tensor]:
        """Return normalised features, and log |det|, a number for all rows."""
        mean, variance = self.mean, self.variance
        if self.training and len(u) > 1:
            variance, mean = torch.var_mean(u, 0, correction=0)
            with torch.no_grad():
                for fixed, found in ((self.mean, mean), (self.variance, variance)):
                    fixed.mul_(1 - self.momentum).add_(found, alpha=self.momentum)
        variance = variance + _EPSILON
        return (u - mean) * variance.rsqrt(), -0.5 * variance.log().sum()


class MaskedAutoregressiveFlow(AutoregressiveFlow):
    """Masked autoregressive flow: affine layers, with batch norm between them.

    Args:
        dim: The number of latent features H.
        n_layers: The number of autoregressive layers.
        hidden_dims: Widths of the hidden layers of each network.
    """

    def __init__(self, dim: int, n_layers: int = 3, hidden_dims: Sequence[int] = (64, 64)) -> None:
        check_sizes(n_layers, hidden_dims)
        affine = partial(zuko.transforms.MonotonicAffineTransform, slope=_LEAST_SCALE)
        super().__init__(
            dim, zuko.flows.MAF(dim, transforms=n_layers, hidden_features=tuple(hidden_dims), univariate=affine)
        )
        self.norms = nn.ModuleList(BatchNormLayer(dim) for _ in range(n_layers - 1))

    def _to_base(self, u: Tensor) -> tuple[Tensor, Tensor]:
        # written out: zuko's objects for transforms take as long as the arithmetic
        total = torch.zeros_like(u[:, 0])
        for layer, norm in zip(self.layers.transforms, [*self.norms, None], strict=True):
            shift, raw = layer.hyper(u).unflatten(-1, (-1, 2)).unbind(-1) if self.dim > 1 else layer.phi
            log_scale = raw / (1 + (raw / math.log(_LEAST_SCALE)).abs())
            u = torch.addcmul(shift, u, log_scale.exp())
            total = total + log_scale.sum(-1)
            if norm is not None:
                u, log_det = norm(u)
                total = total + log_det
        return u, total

    @torch.no_grad()
    def settle(self, z: Tensor) -> None:
        """Set the moments of batch norm to those of a sample as it comes through the layers."""
        self.norms.train()
        self._set_momentum(1.0)
        self._to_base((z.flatten(0, -2).to(self.scale.dtype) - self.location) / self.scale)
        self._set_momentum(_MOMENTUM)
        self.norms.train(self.training)

    def _set_momentum(self, momentum: float) -> None:
        for norm in self.norms:
            cast(BatchNormLayer, norm).momentum = momentum

    def _load_from_state_dict(self, state_dict: dict[str, Tensor], prefix: str, *args: Any) -> None:
        # models that earlier versions saved have no batch norm: then it does nothing
        for name, value in BatchNormLayer(self.dim).state_dict().items():
            for i in range(len(self.norms)):
                state_dict.setdefault(f"{prefix}norms.{i}.{name}", value)
        super()._load_from_state_dict(state_dict, prefix, *args)
