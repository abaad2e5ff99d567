"""Pseudo-observations and their sum.

Everything a network, a prior or a data point says about a target is `n` pseudo-observations with mean sufficient
statistics `χ`. Adding two of them pools the observations: n = n₁ + n₂ and χ = (n₁χ₁ + n₂χ₂)/n. So the Bayesian update
(Eq. 4 of the paper) is `prior + evidence`, and an ensemble (Sec. 3.4) is `prior + e₁ + … + e_M`.

Numerically, n lives in log space, and sums are formed and kept in float64.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from natpn.special import widen

Pool = Callable[[Tensor, Tensor, Tensor, Tensor], Tensor]
"""(χ and share of the one, χ and share of the other) → χ of both together, in float64.

It may return more columns than χ has, for its own use in the next sum; only the first ones are shown.
"""


@dataclass(frozen=True, eq=False)
class Evidence:
    """`exp(log_n)` pseudo-observations whose mean sufficient statistics are `chi`.

    Attributes:
        chi: Mean sufficient statistics, shape (..., S).
        log_n: Natural logarithm of the number of pseudo-observations, shape (...) or a number; −inf is no evidence.
        pool: Pools χ of several. None inherits the other operand's rule, or the weighted mean if that has none either.
        exact: χ and log n in float64, if they are known to more digits than `chi` and `log_n` have.

    Examples:
        >>> a = Evidence(torch.tensor([0.0]), 0.0)
        >>> b = Evidence(torch.tensor([3.0]), torch.tensor(2.0).log())
        >>> (a + b).chi, (a + b).log_n.exp()
        (tensor([2.]), tensor(3.))
    """

    chi: Tensor
    log_n: Tensor
    pool: Pool | None = None
    exact: tuple[Tensor, Tensor] | None = None

    def __init__(
        self,
        chi: Tensor,
        log_n: Tensor | float,
        pool: Pool | None = None,
        exact: tuple[Tensor, Tensor] | None = None,
    ) -> None:
        if not isinstance(chi, Tensor) or not chi.is_floating_point() or chi.dim() == 0:
            raise ValueError(f"chi: expected a floating-point tensor of shape (..., S), got {_describe(chi)}")
        log_n = torch.as_tensor(log_n, dtype=chi.dtype, device=chi.device)
        if chi.shape[:-1] != log_n.shape:
            shape = _broadcast(chi.shape[:-1], log_n.shape, "chi", "log_n")
            chi, log_n = chi.expand(*shape, -1), log_n.expand(shape)
        object.__setattr__(self, "chi", chi)
        object.__setattr__(self, "log_n", log_n)
        object.__setattr__(self, "pool", pool)
        object.__setattr__(self, "exact", exact)

    @property
    def batch_shape(self) -> torch.Size:
        """The shape of `log_n`."""
        return self.log_n.shape

    def wide(self) -> tuple[Tensor, Tensor]:
        """Return χ, with any columns that its pool added, and log n, in float64."""
        return self.exact or (widen(self.chi), widen(self.log_n))

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
        pool = self.pool or other.pool or weighted_mean
        dtype = torch.promote_types(self.chi.dtype, other.chi.dtype)
        return rounded(_pooled(self.wide(), other.wide(), pool), self.chi.shape[-1], pool, dtype)

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
        pool = self.pool or weighted_mean
        chi, log_n = (t.movedim(dim % dims, 0) for t in self.wide())
        while len(log_n) > 1:  # the first half with the second, and again; the odd one out with nothing
            half, odd = divmod(len(log_n), 2)
            nothing = log_n.new_full((odd, *log_n.shape[1:]), -torch.inf)
            first = torch.cat([chi[:half], chi[2 * half :]]), torch.cat([log_n[:half], log_n[2 * half :]])
            second = chi[half : 2 * half + odd], torch.cat([log_n[half : 2 * half], nothing])
            chi, log_n = _pooled(first, second, pool)
        return rounded((chi[0], log_n[0]), self.chi.shape[-1], pool, self.chi.dtype)


def rounded(exact: tuple[Tensor, Tensor], size: int, pool: Pool | None, dtype: torch.dtype) -> Evidence:
    """Return evidence that shows the first `size` columns of χ, and log n, in the given precision, and keeps all."""
    chi, log_n = exact
    return Evidence(chi[..., :size].to(dtype), log_n.to(dtype), pool, exact)


def weighted_mean(a: Tensor, a_share: Tensor, b: Tensor, b_share: Tensor) -> Tensor:
    """Pool by the weighted mean: for statistics of which only the ratio to their error matters."""
    return torch.addcmul(a_share * a, b_share, b)


def anchored_mean(a: Tensor, a_share: Tensor, b: Tensor, b_share: Tensor) -> Tensor:
    """Pool by the weighted mean, measured from the heavier of the two, whose digits a light one leaves alone."""
    heavier = a_share >= b_share
    return torch.where(heavier, a, b) + torch.where(heavier, b_share, -a_share) * (b - a)


def _pooled(first: tuple[Tensor, Tensor], second: tuple[Tensor, Tensor], pool: Pool) -> tuple[Tensor, Tensor]:
    (a, a_log), (b, b_log) = first, second
    lead = (a_log - b_log).nan_to_num(nan=0.0)  # −inf less −inf: neither has any evidence
    shares = [torch.sigmoid(x).unsqueeze(-1) for x in (lead, -lead)]
    log_n = torch.maximum(a_log, b_log) + torch.nn.functional.softplus(-lead.abs())
    # 0 where χ has no share in the sum: whatever it was there, infinities included, does not count
    none = log_n.isneginf().unsqueeze(-1)
    a, b = (chi.masked_fill(share.eq(0) | none, 0.0) for chi, share in zip((a, b), shares, strict=True))
    return pool(a, shares[0], b, shares[1]), log_n


def _broadcast(a: torch.Size, b: torch.Size, first: str, second: str) -> torch.Size:
    if a == b or not b:
        return a
    if not a:
        return b
    try:
        shape: torch.Size = torch.broadcast_shapes(a, b)
    except RuntimeError:
        raise ValueError(f"{first} has batch shape {tuple(a)}, which does not go with {tuple(b)} of {second}") from None
    return shape


def _describe(x: object) -> str:
    return f"{x.dtype} of shape {tuple(x.shape)}" if isinstance(x, Tensor) else type(x).__name__
