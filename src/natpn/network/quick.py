"""A few rows at a time, quickly: the default network for tables in numpy.

For a single row nearly all time goes into calls, not arithmetic: torch takes several microseconds for each of a hundred
operations, numpy one. Encoder, bypass, density and budget of a frozen tabular network are therefore stated here once
more; the family and the Bayesian update are torch's. Answers agree with the network's to the rounding of float64.
"""

from collections.abc import Callable
from typing import NamedTuple, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from natpn.densities import GaussianMixture, Surprise
from natpn.densities.base import FLOOR, REACH
from natpn.encoders import TabularEncoder
from natpn.encoders.base import LIMIT, Activation, Dropout, SmoothActivation
from natpn.encoders.piecewise import NumbersAndPieces
from natpn.evidence import Evidence
from natpn.network.budgets import CORNER, FAR, OUTSIDE, Budget, GradualBudget
from natpn.network.default import PrincipalComponents
from natpn.network.ensemble import NaturalPosteriorEnsemble
from natpn.network.natural_posterior import NaturalPosteriorNetwork

Floats = NDArray[np.float64]
MAX_ROWS = 256  # numpy stays faster for a few more
_SHRINK = 1e-15
_LOWEST = 700.0  # the exponential of more is infinite


class QuickNetwork:
    """Answers of a frozen network, or ensemble, for up to `MAX_ROWS` rows; see `quick`."""

    def __init__(self, network: NaturalPosteriorNetwork | NaturalPosteriorEnsemble) -> None:
        self.network = network
        members = [network] if isinstance(network, NaturalPosteriorNetwork) else list(network.members)
        self._members = [cast(NaturalPosteriorNetwork, member) for member in members]
        self._tables = [_Table(member) for member in self._members]

    @torch.no_grad()
    def __call__(self, x: Floats) -> Evidence:
        """Return the evidence for inputs (rows, columns)."""
        said = [table(x) for table in self._tables]
        raw, log_n = (torch.from_numpy(np.stack(parts)) for parts in zip(*said, strict=True))
        first, chi = self._members[0], self._members[0].family.link(raw)
        if isinstance(self.network, NaturalPosteriorNetwork):
            return first.family.evidence(chi[0], log_n[0])
        return self.network.combine(chi, log_n)


def quick(network: NaturalPosteriorNetwork | NaturalPosteriorEnsemble) -> QuickNetwork | None:
    """Return a quick way to answer single rows, if the network is of the kind that has one.

    Args:
        network: In evaluation mode and in float64, on the CPU; it must not change afterwards.
    """
    members = [network] if isinstance(network, NaturalPosteriorNetwork) else list(network.members)
    return QuickNetwork(network) if all(_is_known(cast(NaturalPosteriorNetwork, m)) for m in members) else None


def _is_known(member: NaturalPosteriorNetwork) -> bool:
    encoder, bypass = member.encoder, member.bypass
    density = member.density.density if isinstance(member.density, Surprise) else member.density
    return (
        isinstance(encoder, TabularEncoder)
        and (encoder.encoding is None or isinstance(encoder.encoding, NumbersAndPieces))
        and all(isinstance(layer, nn.Linear | Activation | SmoothActivation | Dropout) for layer in encoder.layers)
        and (bypass is None or isinstance(bypass, PrincipalComponents))
        and isinstance(density, GaussianMixture)
        and all(t.dtype == torch.float64 and t.device.type == "cpu" for t in member.parameters())
    )


class _Mixture(NamedTuple):
    location: Floats
    scale: Floats
    log_scale: float
    coefficients: Floats  # (features, components)
    upper: tuple[NDArray[np.intp], NDArray[np.intp]]

    def __call__(self, z: Floats) -> Floats:
        u = _within((z - self.location) / self.scale, FLOOR)
        radius = np.sqrt(np.square(u * _SHRINK).sum(1))
        stretch = np.maximum(radius / (_SHRINK * REACH), 1.0)
        v = u / stretch[:, None]
        i, j = self.upper
        scores = np.concatenate([np.ones((len(v), 1)), v, v[:, i] * v[:, j]], 1) @ self.coefficients
        top = scores.max(1)
        inner = top + np.log(np.exp(scores - top[:, None]).sum(1))
        tail = np.maximum(-inner, REACH**2 / 2) * (stretch - 1)
        value: Floats = np.maximum(inner - tail - self.log_scale, -FLOOR)
        return value


class _Table:
    """x → raw outputs and log n of one member."""

    def __init__(self, member: NaturalPosteriorNetwork) -> None:
        encoder = cast(TabularEncoder, member.encoder)
        self.n_features, self.n_numbers = encoder.n_features, encoder.n_numbers
        self.encode = _encoding(encoder)
        linear = [layer for layer in encoder.layers if isinstance(layer, nn.Linear)]
        self.layers = [(_array(layer.weight).T.copy(), _array(layer.bias)) for layer in linear]
        self.activate = _silu if encoder.activation == "silu" else _leaky_relu
        normalisation = member.normalisation
        self.mean = _array(normalisation.running_mean)
        self.factor = _array(normalisation.factor)
        self.decoder = _array(member.decoder.weight).T.copy(), _array(member.decoder.bias)
        self.bypass = cast(PrincipalComponents | None, member.bypass)
        if self.bypass is not None:
            self.centre, self.components = _array(self.bypass.mean), _array(self.bypass.components)
        self.budget = _gradual(member.budget) if isinstance(member.budget, GradualBudget) else _torch(member.budget)
        self.surprising = isinstance(member.density, Surprise)
        self.weight = float(member.density.weight) if isinstance(member.density, Surprise) else 0.0
        density = cast(GaussianMixture, member.density.density if self.surprising else member.density)
        self.mixture = _Mixture(
            _array(density.location),
            _array(density.scale),
            float(density.scale.log().sum()),
            _array(density._coefficients()).T.copy(),
            np.triu_indices(density.dim),
        )

    def __call__(self, x: Floats) -> tuple[Floats, Floats]:
        x = _within(x, LIMIT)
        h = x[:, : self.n_features]
        if self.encode is not None:
            h = np.concatenate([self.encode(h[:, : self.n_numbers]), h[:, self.n_numbers :]], 1)
        for weight, bias in self.layers[:-1]:
            h = _within(self.activate(h @ weight + bias), LIMIT)
        weight, bias = self.layers[-1]
        latent = (_within(h @ weight + bias, LIMIT) - self.mean) * self.factor
        features = latent
        if self.bypass is not None:
            inner = x[:, : len(self.centre)]
            soft = inner - 0.9 * (inner - _within(inner, 8))
            beside = _within((soft - self.centre) @ self.components, LIMIT)
            features = np.concatenate([latent, beside], 1)
        log_density = self.mixture(features)
        if self.surprising:
            log_density = np.maximum(log_density + self.weight * x[:, -1], -FLOOR)
        return latent @ self.decoder[0] + self.decoder[1], self.budget(log_density)


def _leaky_relu(h: Floats) -> Floats:
    value: Floats = np.maximum(h, 0.01 * h)
    return value


def _silu(h: Floats) -> Floats:
    value: Floats = h / (1 + np.exp(-np.maximum(h, -_LOWEST)))
    return value


def _encoding(encoder: TabularEncoder) -> Callable[[Floats], Floats] | None:
    encoding = encoder.encoding
    if not isinstance(encoding, NumbersAndPieces):
        return None
    knots = encoding.pieces.knots
    low, reach = _array(knots[:, :-1]), _array(knots.diff().clamp_min(1e-30).reciprocal())
    scale = encoding.WEIGHT / _array(encoding.deviation)
    shift = _array(encoding.mean) * scale

    def encode(x: Floats) -> Floats:
        size = np.abs(x)
        excess = np.maximum(size - 4, 0.0)
        number = np.sign(x) * (size - excess + np.log1p(excess))
        pieces = np.minimum(np.maximum((x[:, :, None] - low) * reach, 0.0), 1.0).reshape(len(x), -1)
        return np.concatenate([number, pieces * scale - shift], 1)

    return encode


def _gradual(budget: GradualBudget) -> Callable[[Floats], Floats]:
    centre, unit, level = float(budget.centre), float(budget.unit), float(budget.level)
    power, onset, rise, prior = (float(t) for t in (budget.power, budget.onset, budget.rise, budget.prior))

    def log_n(log_density: Floats) -> Floats:
        distance = (centre - log_density) / unit
        size = np.abs(distance)
        apart = size + np.maximum(np.sqrt(np.square(np.minimum(size, 1e6)) + (2 * CORNER) ** 2), size)
        beyond = np.where(distance > 0, apart / 2, 2 * CORNER**2 / apart)
        outside = 1 / (1 + np.maximum(beyond, 1e-6) ** -4)
        slow = power * np.log1p(beyond / onset)
        near = slow + np.log1p(rise * outside * np.exp(-slow)) - level
        both = np.logaddexp(near, 3 * np.log(beyond / OUTSIDE) - prior)
        value: Floats = -both - 2 * np.log1p(beyond / FAR)
        return value

    return log_n


def _torch(budget: Budget) -> Callable[[Floats], Floats]:
    return lambda log_density: budget(torch.from_numpy(log_density)).numpy()


def _within(x: Floats, limit: float) -> Floats:
    """Return x from −limit to limit; `numpy.clip` takes several times as long for a row."""
    value: Floats = np.minimum(np.maximum(x, -limit), limit)
    return value


def _array(t: Tensor) -> Floats:
    return np.ascontiguousarray(t.detach().numpy(), dtype=np.float64)
