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

They replace the approximations for large arguments of the paper's Appendix D, which jump where they set in.

Families calculate in float64 whatever comes in (`widen`), and answer in the caller's precision (`narrow`). Only H,
which the loss of a classifier evaluates for every class, may be asked for in float32.
"""

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.autograd import Function

HALF_LOG_2PI = 0.5 * math.log(2 * math.pi)

_PIECE = 16384  # elements that a kernel handles at a time
_SETTLED = {torch.float32: 1e12, torch.float64: 1e100}  # where H(x) − ½ log x and x H′(x) have reached their limits
_TINY = 1e-300  # keeps 0/0 away where nothing was expected and nothing came

_BERNOULLI = (1 / 6, -1 / 30, 1 / 42, -1 / 30, 5 / 66, -691 / 2730, 7 / 6)
_BINET_SERIES = tuple(b / (2 * k * (2 * k - 1)) for k, b in enumerate(_BERNOULLI, start=1))
_DIGAMMA_SERIES = tuple(-b / (2 * k) for k, b in enumerate(_BERNOULLI, start=1))
# (x + k)(x + 7 - k) = x(x + 7) + k(7 - k): the eight shifted arguments in four pairs, half the divisions.
_PAIRS = (0.0, 6.0, 10.0, 12.0)


def widen(x: Tensor) -> Tensor:
    """Return x in float64; gradients come back in x's precision, saturated instead of infinite."""
    if x.dtype == torch.float64 or x.device.type == "mps":  # Apple's GPUs have no doubles
        return x
    return _apply(_Widen, x) if x.requires_grad else x.double()


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
    """Return D(x, e) = x log(x/e) − x + e for x, e ≥ 0, given gap = x − e, formed without cancellation."""
    return _apply(_Deviance, *torch.broadcast_tensors(x, e, gap.detach()))


def factorial_remainder(y: Tensor) -> Tensor:
    """Return S(y) = log y! − y log y + y for y ≥ 0 that is 0 or at least 1/2."""
    positive = y.clamp(min=0.5)
    return torch.where(y > 0, HALF_LOG_2PI + 0.5 * positive.log() + binet(positive), 0.0)


def _apply(function: type[Function], *arguments: Tensor) -> Tensor:
    # `Function.apply` reads the signature of `forward` at every call, which takes far longer than a batch's arithmetic.
    # Only compilers and `torch.func` need what it does with it.
    special = torch.compiler.is_compiling() or torch._C._are_functorch_transforms_active()
    plain: Any = function if special else super(Function, function)
    result: Tensor = plain.apply(*arguments)
    return result


# The kernels below overwrite their own intermediate results and run over pieces of a batch that stay in the cache:
# fresh memory would cost more than the arithmetic. They are only called inside autograd functions.


def _in_pieces(kernel: Callable[[Tensor], Tensor], x: Tensor) -> Tensor:
    # a graph for any number of rows cannot branch on that number
    if torch.compiler.is_compiling() or x.numel() <= _PIECE or x.device.type != "cpu":
        return kernel(x)
    flat = x.reshape(-1)
    result = torch.empty_like(flat)
    for start in range(0, len(flat), _PIECE):
        result[start : start + _PIECE] = kernel(flat[start : start + _PIECE])
    return result.reshape(x.shape)


def _polynomial(coefficients: tuple[float, ...], x: Tensor) -> Tensor:
    """Return Σ c_k x^k for x ≤ 1/64, with as many terms as the precision needs."""
    if x.dtype == torch.float32:
        coefficients = coefficients[:3]
    value = x * coefficients[-1]
    for c in coefficients[-2:0:-1]:
        value.add_(c).mul_(x)
    return value.add_(coefficients[0])


def _pairs(x: Tensor) -> list[Tensor]:
    """Return (x + k)(x + 7 - k) for the four pairs of the eight arguments that a shift by 8 passes over."""
    product = (x + 7).mul_(x)
    return [product, *(product + c for c in _PAIRS[1:])]


def _harmonic(pairs: list[Tensor], x: Tensor) -> Tensor:
    """Return 1/x + … + 1/(x + 7), overwriting the pairs."""
    total = pairs[0].reciprocal_()
    for pair in pairs[1:]:
        total.add_(pair.reciprocal_())
    return total.mul_((2 * x).add_(7))


def _log_product(pairs: list[Tensor], squared: Tensor) -> Tensor:
    """Return log of x … (x + 7)/(x + 8)⁸, given 1/(x + 8)², overwriting nothing."""
    ratio = pairs[0] * squared
    for pair in pairs[1:]:
        ratio.mul_(pair * squared)
    return ratio.log_()


def _digamma_remainder(x: Tensor) -> Tensor:
    r = (x + 8).reciprocal_()
    value = _polynomial(_DIGAMMA_SERIES, r * r).mul_(r).sub_(0.5).mul_(r)
    return value.add_((8 / x).log1p_()).sub_(_harmonic(_pairs(x), x))


def _trigamma_remainder(x: Tensor) -> Tensor:
    """Return φ′(x) = ψ′(x) − 1/x → 1/(2x²)."""
    r = (x + 8).reciprocal_()
    squared = r * r
    value = _polynomial(_BERNOULLI, squared).mul_(r).add_(0.5).mul_(squared)
    value.sub_(r.mul_(8).div_(x))
    total = (2 * x).add_(7).square_()
    for pair in _pairs(x):
        w = pair.reciprocal_()
        value.add_((total * w).sub_(2).mul_(w))
    return value


def _binet(x: Tensor) -> Tensor:
    r = (x + 8).reciprocal_()
    squared = r * r
    value = _polynomial(_BINET_SERIES, squared).mul_(r)
    value.add_((8 / x).log1p_().mul_(x - 0.5)).sub_(8)
    return value.sub_(_log_product(_pairs(x), squared))


def _gamma_entropy(x: Tensor) -> Tensor:
    """Return ½ log 2πx + R(x) + (1 − x) φ(x), the sum of the two kernels above with what they share."""
    x = x.clamp(max=torch.finfo(x.dtype).max)
    near = x.clamp(max=_SETTLED[x.dtype])
    r = (near + 8).reciprocal_()
    squared = r * r
    pairs = _pairs(near)
    value = _polynomial(_BINET_SERIES, squared).mul_(r).sub_(_log_product(pairs, squared))
    phi = _polynomial(_DIGAMMA_SERIES, squared).mul_(r).sub_(0.5).mul_(r)
    phi.sub_(_harmonic(pairs, near)).mul_(1 - near)
    # the shift's logarithm enters R with the factor x − ½ and φ with 1 − x
    value.add_(phi).add_((8 / near).log1p_().add_(x.log()).mul_(0.5))
    return value.add_(HALF_LOG_2PI - 8)


def _gamma_entropy_slope(x: Tensor) -> Tensor:
    """Return H′(x) = (1 + x(1 − x) φ′(x))/x."""
    near = x.clamp(max=_SETTLED[x.dtype])
    value = _trigamma_remainder(near).mul_(near).mul_(1 - near).add_(1)
    return value.div_(x).clamp_(max=torch.finfo(x.dtype).max)


def _elementwise(kernel: Callable[[Tensor], Tensor], slope: Callable[[Tensor], Tensor]) -> type[Function]:
    """Return a kernel as a function for autograd and `torch.func`, given its derivative."""

    class Elementwise(Function):
        generate_vmap_rule = True

        @staticmethod
        def forward(x: Tensor) -> Tensor:
            return _in_pieces(kernel, x)

        @staticmethod
        def setup_context(ctx: Any, inputs: tuple[Tensor], output: Tensor) -> None:
            ctx.save_for_backward(*inputs)

        @staticmethod
        def backward(ctx: Any, gradient: Tensor) -> Tensor:
            return gradient * slope(ctx.saved_tensors[0])

    return Elementwise


_TrigammaRemainder = _elementwise(_trigamma_remainder, lambda x: torch.polygamma(2, x) + 1 / x.square())
_DigammaRemainder = _elementwise(_digamma_remainder, lambda x: _apply(_TrigammaRemainder, x))
_Binet = _elementwise(_binet, lambda x: digamma_remainder(x) + 0.5 / x)
_GammaEntropySlope = _elementwise(
    _gamma_entropy_slope, lambda x: (1 - x) * torch.polygamma(2, x) - torch.polygamma(1, x)
)
_GammaEntropy = _elementwise(_gamma_entropy, lambda x: _apply(_GammaEntropySlope, x))


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


class _Deviance(Function):
    generate_vmap_rule = True

    @staticmethod
    def forward(x: Tensor, e: Tensor, gap: Tensor) -> Tensor:
        ratio, d = _ratio_and_excess(x, e, gap)
        return e * (torch.where(d < -0.5, torch.xlogy(ratio, ratio), torch.special.xlog1py(ratio, d)) - d)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, ...], output: Tensor) -> None:
        ctx.save_for_backward(*inputs)

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
