"""Pseudo-observations and their sum.

Everything a network, a prior or a data point says about a target is `n` pseudo-observations with mean sufficient
statistics `χ`. Adding two of them pools the observations: n = n₁ + n₂ and χ = (n₁χ₁ + n₂χ₂)/n. So the Bayesian update
is `prior + evidence`, and an ensemble is `prior + e₁ + … + e_M`.

Numerically, n lives in log space, weights are formed in float64, and what rounding takes from χ and log n is carried
along: a prior that weighs 10⁻¹⁸ against a mean of 10⁶ is not lost.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from natpn.special import widen

Pool = Callable[[Tensor, Tensor, Tensor], tuple[Tensor, Tensor]]
"""(χ, its carry, weights), all with the summands in front and weights ending in 1 → the pooled χ and its carry."""


@dataclass(frozen=True, eq=False)
class Evidence:
    """`exp(log_n)` pseudo-observations whose mean sufficient statistics are `chi`.

    Attributes:
        chi: Mean sufficient statistics, shape (..., S).
        log_n: Natural logarithm of the number of pseudo-observations, shape (...) or a number; −inf is no evidence.
        pool: How χ of several is pooled; None is decided by what it is added to, and is the weighted mean
            where nothing decides.
        carry: What rounding took from `chi` and from `log_n`.

    Examples:
        >>> a = Evidence(torch.tensor([0.0]), 0.0)
        >>> b = Evidence(torch.tensor([3.0]), torch.tensor(2.0).log())
        >>> (a + b).chi, (a + b).log_n.exp()
        (tensor([2.]), tensor(3.))
    """

    chi: Tensor
    log_n: Tensor
    pool: Pool | None = None
    carry: tuple[Tensor, Tensor] | None = None

    def __init__(
        self,
        chi: Tensor,
        log_n: Tensor | float,
        pool: Pool | None = None,
        carry: tuple[Tensor, Tensor] | None = None,
    ) -> None:
        if not isinstance(chi, Tensor) or not chi.is_floating_point() or chi.dim() == 0:
            raise ValueError(f"chi: expected a floating-point tensor of shape (..., S), got {_describe(chi)}")
        log_n = torch.as_tensor(log_n, dtype=chi.dtype, device=chi.device)
        shape = _broadcast(chi.shape[:-1], log_n.shape, "chi", "log_n")
        object.__setattr__(self, "chi", chi.expand(*shape, -1))
        object.__setattr__(self, "log_n", log_n.expand(shape))
        object.__setattr__(self, "pool", pool)
        object.__setattr__(self, "carry", carry)

    @property
    def batch_shape(self) -> torch.Size:
        """The shape of `log_n`."""
        return self.log_n.shape

    def wide(self) -> tuple[Tensor, Tensor, Tensor]:
        """Return χ, what is still to be added to it, and log n, in float64."""
        chi, log_n = widen(self.chi), widen(self.log_n)
        if self.carry is None:
            return chi, torch.zeros_like(chi), log_n
        rest, log_rest = (widen(c) for c in self.carry)
        if chi is self.chi:  # it was float64 already, and the sum would lose the carry again
            return chi, rest, log_n + log_rest
        return chi + rest, torch.zeros_like(chi), log_n + log_rest

    def __add__(self, other: Evidence) -> Evidence:
        if not isinstance(other, Evidence):
            return NotImplemented
        if self.chi.shape[-1] != other.chi.shape[-1]:
            raise ValueError(
                f"evidence with {self.chi.shape[-1]} statistics cannot be added to evidence with "
                f"{other.chi.shape[-1]}: both must belong to the same family"
            )
        if None not in (self.pool, other.pool) and self.pool is not other.pool:
            raise ValueError(
                "evidence pooled by different rules cannot be added: make both with family.evidence(chi, log_n) "
                "of the same family"
            )
        _broadcast(self.batch_shape, other.batch_shape, "the first evidence", "the second")
        dtype = torch.promote_types(self.chi.dtype, other.chi.dtype)
        chi, carry, log_n = (
            torch.stack(torch.broadcast_tensors(a, b)) for a, b in zip(self.wide(), other.wide(), strict=True)
        )
        return _pooled(chi, carry, log_n, self.pool or other.pool, dtype)

    def __radd__(self, other: object) -> Evidence:
        """Let the built-in `sum` start from 0."""
        return self if isinstance(other, int) and other == 0 else NotImplemented

    def sum(self, dim: int) -> Evidence:
        """Pool along one dimension of the batch shape."""
        dims = len(self.batch_shape)
        if not -dims <= dim < dims or self.batch_shape[dim] == 0:
            raise ValueError(
                f"dim: expected a non-empty dimension of the batch shape {tuple(self.batch_shape)}, got {dim}"
            )
        chi, carry, log_n = (t.movedim(dim % dims, 0) for t in self.wide())
        return _pooled(chi, carry, log_n, self.pool, self.chi.dtype)


def exactly(chi: Tensor, log_n: Tensor, pool: Pool | None, dtype: torch.dtype) -> Evidence:
    """Return float64 χ and log n as evidence of the given precision that carries what rounding takes."""
    (high, rest), (log_high, log_rest) = split(chi, dtype), split(log_n, dtype)
    return Evidence(high, log_high, pool, (rest, log_rest))


def split(x: Tensor, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    """Return x in the given precision, and what that took from it."""
    high = x.to(dtype)
    with torch.no_grad():
        rest = torch.where(high.isfinite(), x - high.to(x.dtype), 0.0).to(dtype)
    return high, rest


def weighted_mean(chi: Tensor, carry: Tensor, weight: Tensor) -> tuple[Tensor, Tensor]:
    """Pool by the weighted mean: what all families do whose statistics do not cancel."""
    mean, rest, _ = centre(chi, carry, weight)
    return mean, rest


def centre(chi: Tensor, carry: Tensor, weight: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return the weighted mean over the first dimension, its carry, and each summand's deviation from it.

    The mean is measured from the heaviest summand, so that a light one shifts it by a small number that is kept in
    full.
    """
    heaviest = weight.argmax(0, keepdim=True)
    anchor = torch.take_along_dim(chi, heaviest, 0)
    anchor_carry = torch.take_along_dim(carry, heaviest, 0)
    offset = (chi - anchor) + (carry - anchor_carry)
    shift = (weight * offset).sum(0, keepdim=True)
    mean = anchor + (shift + anchor_carry)
    with torch.no_grad():  # the error of that sum (Knuth); its derivative is zero
        back = mean - anchor
        rest = (anchor - (mean - back)) + ((shift + anchor_carry) - back)
    return mean[0], rest[0], offset - shift


def _pooled(chi: Tensor, carry: Tensor, log_n: Tensor, pool: Pool | None, dtype: torch.dtype) -> Evidence:
    """Pool over the first dimension, which is not empty, and round to the given precision."""
    pool = pool or weighted_mean
    largest = log_n.detach().amax(0).clamp(min=torch.finfo(log_n.dtype).min)  # finite even if there is no evidence
    weight = (log_n - largest).exp()
    total = weight.sum(0)
    silent = total == 0
    total = total.masked_fill(silent, 1.0)
    weight = (weight / total).unsqueeze(-1)
    # A summand without weight is replaced by the heaviest one: whatever its χ was, infinities included, it
    # says nothing.
    heaviest = torch.take_along_dim(chi, weight.argmax(0, keepdim=True), 0).detach()
    mean, rest = pool(torch.where(weight > 0, chi, heaviest), carry, weight)
    high, error = split(mean, dtype)
    log_high, log_rest = split((largest + total.log()).masked_fill(silent, -torch.inf), dtype)
    return Evidence(high, log_high, pool, ((error + rest).to(dtype), log_rest))


def _broadcast(a: torch.Size, b: torch.Size, first: str, second: str) -> torch.Size:
    try:
        shape: torch.Size = torch.broadcast_shapes(a, b)
    except RuntimeError:
        raise ValueError(f"{first} has batch shape {tuple(a)}, which does not go with {tuple(b)} of {second}") from None
    return shape


def _describe(x: object) -> str:
    return f"{x.dtype} of shape {tuple(x.shape)}" if isinstance(x, Tensor) else type(x).__name__
