"""Gamma functions in forms whose large parts have been cancelled on paper.

Posteriors are differences of log-gammas: at 10³⁵ pseudo-observations the terms are near 10³⁷, and what matters is of
order one. Everything here is therefore a *remainder* after Stirling's main part, smooth from 0 to 10¹⁵⁰, with no switch
between an exact and an asymptotic regime: a short series in 1/(x + 8) plus a closed form in x.

- φ(x) = ψ(x) − log x, the `digamma_remainder`; φ → −1/(2x).
- R(x) = log Γ(x) − (x − ½) log x + x − ½ log 2π, the `binet` function; R → 1/(12x), R′ = φ + 1/(2x).
- H(x) = x + log Γ(x) + (1 − x) ψ(x), the `gamma_entropy` of Gamma(x, 1); H → ½ log 2πex.
- C(a, y) = log Γ(a + y) − log Γ(a) − y log a, the `rising_remainder`; C → y(y − 1)/(2a).
- T(a, y) = t(a + y) − t(a) with t(x) = log Γ(x) − x log x + x, the `stirling_step`.
- D(x, e) = x log(x/e) − x + e ≥ 0, the `deviance`, from x − e, which the caller forms without cancellation.
- S(y) = log y! − y log y + y, the `factorial_remainder`; S → ½ log 2πy.

Arithmetic is in float64 whatever comes in (`widen`), and results go back to the caller's precision (`narrow`).
"""

import math
from typing import Any

import torch
from torch import Tensor
from torch.autograd import Function

HALF_LOG_2PI = 0.5 * math.log(2 * math.pi)

_TINY = 1e-300  # keeps 0/0 away where nothing was expected and nothing came

_BERNOULLI = (1 / 6, -1 / 30, 1 / 42, -1 / 30, 5 / 66, -691 / 2730, 7 / 6, -3617 / 510)
_BINET_SERIES = tuple(b / (2 * k * (2 * k - 1)) for k, b in enumerate(_BERNOULLI, start=1))
_DIGAMMA_SERIES = tuple(-b / (2 * k) for k, b in enumerate(_BERNOULLI, start=1))
# (x + k)(x + 7 - k) = x(x + 7) + k(7 - k): the eight shifted arguments in four pairs, half the divisions.
_PAIRS = (0.0, 6.0, 10.0, 12.0)


def widen(x: Tensor) -> Tensor:
    """Return x in float64; gradients come back in x's precision, saturated instead of infinite."""
    if x.dtype == torch.float64 or x.device.type == "mps":  # Apple's GPUs have no doubles
        return x
    return _apply(_Widen, x) if x.is_floating_point() else x.double()


def narrow(x: Tensor, dtype: torch.dtype) -> Tensor:
    """Return x in the given precision, saturated at its largest finite values."""
    if x.dtype == dtype:
        return x
    largest = torch.finfo(dtype).max
    return x.clamp(-largest, largest).to(dtype)


def digamma_remainder(x: Tensor) -> Tensor:
    """Return φ(x) = ψ(x) − log x for x > 0."""
    return _apply(_DigammaRemainder, x)


def digamma(x: Tensor) -> Tensor:
    """Return ψ(x) for x > 0."""
    return digamma_remainder(x) + x.log()


def binet(x: Tensor) -> Tensor:
    """Return R(x), what Stirling's formula leaves of log Γ(x), for x > 0."""
    return _apply(_Binet, x)


def gamma_entropy(x: Tensor) -> Tensor:
    """Return the entropy of the Gamma distribution with shape x > 0 and rate 1."""
    return _apply(_GammaEntropy, x)


def rising_remainder(a: Tensor, y: Tensor) -> Tensor:
    """Return C(a, y) = log Γ(a + y) − log Γ(a) − y log a for a > 0, y ≥ 0."""
    return (a + y - 0.5) * torch.log1p(y / a) - y + binet(a + y) - binet(a)


def stirling_step(a: Tensor, y: Tensor) -> Tensor:
    """Return T(a, y), by how much Stirling's constant t(x) = R(x) − ½ log x + ½ log 2π grows from a > 0 to a + y."""
    return binet(a + y) - binet(a) - 0.5 * torch.log1p(y / a)


def deviance(x: Tensor, e: Tensor, gap: Tensor) -> Tensor:
    """Return D(x, e) = x log(x/e) − x + e for x, e ≥ 0, given gap = x − e as exactly as it can be had."""
    return _apply(_Deviance, *torch.broadcast_tensors(x, e, gap.detach()))


def factorial_remainder(y: Tensor) -> Tensor:
    """Return S(y) = log y! − y log y + y for y ≥ 0 that is 0 or at least 1/2."""
    positive = y.clamp(min=0.5)
    return torch.where(y > 0, HALF_LOG_2PI + 0.5 * positive.log() + binet(positive), 0.0)


def _apply(function: type[Function], *arguments: Tensor) -> Tensor:
    result: Tensor = function.apply(*arguments)
    return result


def _polynomial(coefficients: tuple[float, ...], x: Tensor) -> Tensor:
    value = x * coefficients[-1]
    for c in coefficients[-2:0:-1]:
        value = (value + c) * x
    return value + coefficients[0]


def _reciprocals(x: Tensor) -> tuple[Tensor, list[Tensor]]:
    """Return 2x + 7 and 1/((x + k)(x + 7 - k)) for the four pairs."""
    product = x * (x + 7)
    return 2 * x + 7, [1 / (product + c) for c in _PAIRS]


def _digamma_remainder(x: Tensor) -> Tensor:
    z = x + 8
    r = 1 / z
    total, pairs = _reciprocals(x)
    series = _polynomial(_DIGAMMA_SERIES, r * r) * r - 0.5
    return series * r + torch.log1p(8 / x) - total * (pairs[0] + pairs[1] + pairs[2] + pairs[3])


def _trigamma_remainder(x: Tensor) -> Tensor:
    """Return φ′(x) = ψ′(x) − 1/x → 1/(2x²)."""
    r = 1 / (x + 8)
    squared = r * r
    total, pairs = _reciprocals(x)
    total = total * total
    shifts = sum(((total * w - 2) * w for w in pairs[1:]), (total * pairs[0] - 2) * pairs[0])
    return (_polynomial(_BERNOULLI, squared) * r + 0.5) * squared + (shifts - 8 * r / x)


def _binet(x: Tensor) -> Tensor:
    z = x + 8
    r = 1 / z
    squared = r * r
    product = x * (x + 7)
    ratios = [(product + c) * squared for c in _PAIRS]
    logs = (x - 0.5) * torch.log1p(8 / x) - 8 - (ratios[0] * ratios[1] * ratios[2] * ratios[3]).log()
    return _polynomial(_BINET_SERIES, squared) * r + logs


class _Elementwise(Function):
    """A function of one tensor that keeps it for the backward pass and works under `torch.func`."""

    generate_vmap_rule = True

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, ...], output: Tensor) -> None:
        ctx.save_for_backward(*inputs)


class _Widen(Function):
    generate_vmap_rule = True

    @staticmethod
    def forward(x: Tensor) -> Tensor:
        return x.double()

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor], output: Tensor) -> None:
        ctx.dtype = inputs[0].dtype

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        return narrow(gradient, ctx.dtype)


class _DigammaRemainder(_Elementwise):
    @staticmethod
    def forward(x: Tensor) -> Tensor:
        return _digamma_remainder(x)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        x: Tensor = ctx.saved_tensors[0]
        return gradient * _trigamma_remainder(x)


class _Binet(_Elementwise):
    @staticmethod
    def forward(x: Tensor) -> Tensor:
        return _binet(x)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        x: Tensor = ctx.saved_tensors[0]
        return gradient * (digamma_remainder(x) + 0.5 / x)


class _GammaEntropy(_Elementwise):
    @staticmethod
    def forward(x: Tensor) -> Tensor:
        return HALF_LOG_2PI + 0.5 * x.log() + _binet(x) + (1 - x) * _digamma_remainder(x)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        x: Tensor = ctx.saved_tensors[0]
        return gradient * (1 / x + (1 - x) * _trigamma_remainder(x))


class _Deviance(_Elementwise):
    @staticmethod
    def forward(x: Tensor, e: Tensor, gap: Tensor) -> Tensor:
        ratio, d = _ratio_and_excess(x, e, gap)
        return e * (torch.where(d < -0.5, torch.xlogy(ratio, ratio), torch.special.xlog1py(ratio, d)) - d)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, Tensor | None, None]:
        ratio, d = _ratio_and_excess(*ctx.saved_tensors)
        log_ratio = torch.where(d < -0.5, ratio.clamp(min=_TINY).log(), torch.log1p(d))
        return (
            gradient * log_ratio if ctx.needs_input_grad[0] else None,
            gradient * -d if ctx.needs_input_grad[1] else None,
            None,
        )


def _ratio_and_excess(x: Tensor, e: Tensor, gap: Tensor) -> tuple[Tensor, Tensor]:
    """Return x/e and x/e − 1, each with its own digits."""
    e = e.clamp(min=_TINY)
    return x / e, gap / e
