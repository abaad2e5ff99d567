"""Which of many unlabelled rows to label next: those whose labels would teach most about the other rows.

What is not known of a row is the variance v of its prediction under the posterior, as a share of the noise: 1/n, with n
the evidence. For classes it is that of the probabilities together, Σ p (1 − p) / n. Noise has no part in it. A label
tells about rows like its own: the errors of two rows go together as

    K_ij = √(v_i v_j) exp(−|z_i − z_j|² / (2 h²)),

where z is what the networks see of a row, and h² three tenths of the median squared distance. A label of row j, with a
noise as large as the mean of v, would take

    Σ_{i ≠ j} K_ij² / (K_jj + mean v)

off the variance of all other rows. The row for which this is largest is chosen, K is updated as by a Gaussian process
that has seen its label, and so on. So rows that are known well, rows like those chosen before, and rows of which there
are no others like them, are left for last.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from natpn.network import NaturalPosteriorNetwork

Floats = NDArray[np.float64]

MOST_ROWS = 3_000
"""Rows that are compared with each other; of more, as many are drawn at random."""
_NEAR = 0.3  # of the median squared distance


class Suggestions(NamedTuple):
    """Rows to label, the best first.

    Attributes:
        rows: Their numbers.
        shares: The share of what is not known of all rows that each label would take away.
    """

    rows: NDArray[np.intp]
    shares: Floats


def sample_rows(n_rows: int, n: int) -> NDArray[np.intp]:
    """Return which rows are compared, in order.

    Raises:
        ValueError: If fewer than n are.
    """
    if isinstance(n, bool) or not isinstance(n, (int, np.integer)) or not 1 <= n <= min(n_rows, MOST_ROWS):
        raise ValueError(
            f"n: expected a whole number from 1 to {min(n_rows, MOST_ROWS):,}, the rows that are compared, got {n!r}"
        )
    if n_rows <= MOST_ROWS:
        return np.arange(n_rows)
    return np.sort(np.random.default_rng(0).choice(n_rows, MOST_ROWS, replace=False))


@torch.no_grad()
def representation(members: Sequence[NaturalPosteriorNetwork], x: Tensor, surprise: bool) -> Floats:
    """Return what networks see of encoded rows, (rows, D), standardised.

    It is their latent vectors, which together count as much as that of one, and what the first one's density sees
    beside its own, without the surprise if that is the last of it.
    """
    parameter = next(members[0].parameters())
    x = members[0].divide(x)[0].to(parameter.device, parameter.dtype)
    parts = [(member.represent(x)[0], len(members)) for member in members]
    if members[0].bypass is not None:
        beside = members[0].bypass(x)
        parts.append((beside[:, :-1] if surprise else beside, 1))
    scaled = []
    for part, share in parts:
        spread = part.std(0, correction=0)
        scaled.append((part - part.mean(0)) / spread.where(spread > 1e-9, torch.ones_like(spread)) / share**0.5)
    return torch.cat(scaled, 1).double().cpu().numpy()


def suggest(seen: Floats, variance: Floats, n: int) -> Suggestions:
    """Return the n rows to label.

    Args:
        seen: What networks see of each row, (rows, D).
        variance: v of each row.
        n: How many.
    """
    scaled = np.sqrt(variance / variance.mean())
    K = _nearness(seen) * scaled[:, None] * scaled
    total = np.trace(K)
    rows, shares, left = [], [], np.ones(len(K), bool)
    for _ in range(n):
        own = np.diag(K)
        taught = np.where(left, (np.square(K).sum(0) - own**2) / (own + 1), -1.0)
        best = int(taught.argmax())
        left[best] = False
        rows.append(best)
        before = np.trace(K)
        K -= np.outer(K[best], K[best]) / (own[best] + 1)
        shares.append((before - np.trace(K)) / total)
    return Suggestions(np.array(rows, np.intp), np.array(shares))


def _nearness(z: Floats) -> Floats:
    """Return exp(−|z_i − z_j|² / (2 h²)) of all pairs of rows."""
    length = np.square(z).sum(1)
    distance = np.maximum(length[:, None] + length - 2 * z @ z.T, 0)
    np.fill_diagonal(distance, 0)
    width = 2 * _NEAR * float(np.median(distance[::4, ::4]))
    near: Floats = np.exp(-distance / max(width, 1e-12))
    return near
