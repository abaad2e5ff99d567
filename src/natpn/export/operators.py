"""Operators that ONNX, or onnxruntime in float64, lacks, expressed by those it has.

| operator | here |
|---|---|
| `leaky_relu` | max(x, slope · x) |
| `clamp`, `full_like` | with bounds and values as float64 tensors; ONNX's would be rounded to float32, 10⁻²⁰⁰ to 0 |
| `softplus`, `logaddexp` | the larger one + log(1 + e^{−distance}) |
| `log1p` | x log(u)/(u − 1) with u = 1 + x rounded, which cancels the rounding; ONNX would lose small x |
| `expm1` | (u − 1) x/log u with u = eˣ rounded, for the same reason |
| `i0e`, `i1e` | the mean of e^{x(cos θ − 1)}, times cos θ, over the circle; beyond x = 50 the expansion in 1/x |
| `qr` | modified Gram–Schmidt, whose R is as exact as Householder's |

Each is a function of torch tensors with the operator's signature, so that a graph is rewritten before it is translated.
"""

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

_FAR = 50.0  # from here on eight terms of the Bessel functions' expansions are exact
_NODES = 40  # up to there as many nodes on half a circle are
_TERMS = 8
_TINY = 1e-300


def leaky_relu(x: Tensor, slope: float = 0.01) -> Tensor:
    """Return x where it is positive, else slope · x."""
    return torch.where(x > 0, x, x * slope)


def clamp(x: Tensor, low: float | None = None, high: float | None = None) -> Tensor:
    """Return x cut to [low, high]; NaN stays NaN."""
    if low is not None:
        x = torch.maximum(x, _constant(low, x))
    return x if high is None else torch.minimum(x, _constant(high, x))


def full_like(x: Tensor, value: float, dtype: torch.dtype | None = None, **_: Any) -> Tensor:
    """Return a tensor of x's shape with the value everywhere."""
    return _constant(value, x, dtype).expand(x.shape)


def _constant(value: float, like: Tensor, dtype: torch.dtype | None = None) -> Tensor:
    """Return a number in full precision: ONNX keeps that of a summand, and would round other constants to float32."""
    return torch.zeros((), dtype=dtype or like.dtype, device=like.device) + value


def softplus(x: Tensor, beta: float = 1, threshold: float = 20) -> Tensor:
    """Return log(1 + e^{βx})/β, which needs no threshold."""
    return clamp(x, 0.0) + log1p((-beta * x.abs()).exp()) / beta


def logaddexp(a: Tensor, b: Tensor) -> Tensor:
    """Return log(eᵃ + eᵇ); at most one of a and b may be infinite."""
    return torch.maximum(a, b) + log1p((-(a - b).abs()).exp())


def log1p(x: Tensor) -> Tensor:
    """Return log(1 + x)."""
    u = x + 1
    near = (u == 1) | (u.abs() == torch.inf)
    return torch.where(near, torch.where(u == 1, x, u), u.log() * (x / torch.where(near, 1.0, u - 1)))


def expm1(x: Tensor) -> Tensor:
    """Return eˣ − 1."""
    u = x.exp()
    edge = (u == 1) | (u == 0) | (u == torch.inf)
    inner = torch.where(edge, 2.0, u)
    return torch.where(u == 1, x, torch.where(edge, u - 1, (inner - 1) * (x / inner.log())))


def _bessel(x: Tensor, order: int) -> Tensor:
    """Return e^{−x} Iₖ(x) for x ≥ 0, where k is the order, 0 or 1."""
    angles = (torch.arange(_NODES, dtype=x.dtype, device=x.device) + 0.5) * (math.pi / _NODES)
    cosine = torch.cos(angles)
    near = ((clamp(x, None, _FAR).unsqueeze(-1) * (cosine - 1)).exp() * cosine**order).mean(-1)
    far = clamp(x, _FAR)
    term = total = torch.ones_like(far)
    for k in range(1, _TERMS + 1):
        term = term * ((2 * k - 1) ** 2 - 4 * order**2) / (8 * k * far)
        total = total + term
    return torch.where(x < _FAR, near, total / (2 * math.pi * far).sqrt())


def qr(a: Tensor, mode: str = "reduced") -> tuple[Tensor, Tensor]:
    """Return Q and R of matrices (..., rows, columns) with at least as many rows as columns; R's diagonal is ≥ 0."""
    rest, directions, rows = a, [], []
    columns = a.shape[-1]
    for j in range(columns):
        length = rest[..., :1].square().sum(-2, keepdim=True).sqrt()  # (..., 1, 1)
        direction = rest[..., :1] / clamp(length, _TINY)
        others = (direction * rest[..., 1:]).sum(-2, keepdim=True)
        before = torch.zeros_like(a[..., :1, :j])
        rows.append(torch.cat([before, length, others], -1))
        directions.append(direction)
        rest = rest[..., 1:] - direction * others
    return torch.cat(directions, -1), torch.cat(rows, -2)


def operators() -> dict[Any, Callable[..., Any]]:
    """Return the replacement of each operator of torch."""
    aten = torch.ops.aten
    return {
        aten.leaky_relu.default: leaky_relu,
        aten.clamp.default: clamp,
        aten.full_like.default: full_like,
        aten.softplus.default: softplus,
        aten.logaddexp.default: logaddexp,
        aten.log1p.default: log1p,
        aten.expm1.default: expm1,
        aten.special_i0e.default: lambda x: _bessel(x, 0),
        aten.special_i1e.default: lambda x: _bessel(x, 1),
        aten.linalg_qr.default: qr,
    }
