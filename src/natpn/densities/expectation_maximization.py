"""Gaussian mixtures by expectation-maximisation, on standardised rows in float64.

With features φ(z) = (1, z, zzᵀ) the log of a weighted component is linear, log π_k N(z | μ_k, Σ_k) = θ_kᵀ φ(z), so
both steps are one matrix product: scores Θφ, and statistics Σ_i w_i r_ik φ(z_i) from the responsibilities r. Then,
with N_k = Σ_i w_i r_ik,

    π_k = N_k / N,   μ_k = Σ_i w_i r_ik z_i / N_k,   Σ_k = clip((S_k + ν Ψ) / (N_k + ν))

where S_k is the scatter about μ_k, Ψ the covariance within the clusters of the start, pooled, and ν the number of
rows it counts for: a component with few rows borrows the common shape at the common scale, and none collapses on a
point. `clip` raises eigenvalues to `FLOOR_VARIANCE`, for latent spaces that do not fill their dimensions; it is the
maximiser under that constraint. Hence each step increases (until it stays) the objective

    Σ_i w_i log p(z_i) − ν/2 Σ_k (log |Σ_k| + tr(Ψ Σ_k⁻¹)).

The start is k-means: centres drawn far apart (k-means++, the best of a few candidates each time), then Lloyd's
iterations, whose last one gives the same statistics with responsibilities rounded to 0 and 1. Everything a step sums
over rows passes through `reduce`, and rows are drawn by their content rather than their position, so the result does
not depend on their order or on how processes share them.
"""

import math
from typing import NamedTuple

import torch
from torch import Tensor

from natpn.densities.base import Reduce, identity

FLOOR_VARIANCE = 1e-6
_CACHE = 2**18  # numbers: the features of a chunk of rows stay in cache
_LLOYD = 10
_BISECTIONS = 48
_EMPTY = 1e-6  # rows: a component with less is gone
_LOWEST = -80.0  # the exponential of less adds nothing to 1
_FEW = 128  # rows below which more calls cost more than more passes over memory


class Mixture(NamedTuple):
    """A mixture of K normals: ‖whitener_k (z − mean_k)‖² is component k's Mahalanobis distance."""

    log_weight: Tensor  # (K,)
    mean: Tensor  # (K, H)
    whitener: Tensor  # (K, H, H), lower triangular: the inverse of the covariance's Cholesky factor


class Statistics(NamedTuple):
    """Sums over rows of responsibility × (1, z, zzᵀ), and the sum of log-densities."""

    rows: Tensor  # (K,)
    total: Tensor  # (K, H)
    outer: Tensor  # (K, H, H)
    log_likelihood: Tensor  # ()

    def alive(self) -> "Statistics":
        """Return the statistics without empty components."""
        alive = self.rows > _EMPTY
        return Statistics(self.rows[alive], self.total[alive], self.outer[alive], self.log_likelihood)

    def scatter(self) -> Tensor:
        """Return the scatter matrices about the means, (K, H, H)."""
        return self.outer - self.total[:, :, None] * self.total[:, None, :] / self.rows[:, None, None]


class Prior(NamedTuple):
    """A covariance Ψ that counts for `rows` rows in every component."""

    covariance: Tensor
    rows: float


def natural(mixture: Mixture) -> Tensor:
    """Return θ, (K, F): constant, linear and (upper triangle of) quadratic coefficients of the log joint."""
    log_weight, mean, whitener = mixture
    dim = mean.shape[1]
    i, j = torch.triu_indices(dim, dim, device=mean.device)
    precision = whitener.mT @ whitener
    linear = (precision @ mean[:, :, None]).squeeze(-1)
    quadratic = torch.where(i == j, -0.5, -1.0) * precision[:, i, j]
    log_det = whitener.diagonal(dim1=1, dim2=2).log().sum(-1)
    constant = log_weight + log_det - (dim * math.log(2 * math.pi) + (linear * mean).sum(-1)) / 2
    return torch.cat([constant[:, None], linear, quadratic], dim=1)


def _features(z: Tensor, memory: Tensor | None = None) -> Tensor:
    """Return φ of the rows as columns, (F, N), in memory of that shape if it is given and gradients do not need it."""
    rows, dim = z.shape
    if torch.compiler.is_compiling() or z.requires_grad or rows < _FEW:
        i, j = torch.triu_indices(dim, dim, device=z.device)
        column = z.T.contiguous()
        return torch.cat([torch.ones_like(column[:1]), column, column.index_select(0, i) * column.index_select(0, j)])
    # the same in place, without a pass over memory for each part
    if memory is None or memory.shape[1] != rows:
        memory = z.new_empty((dim + 1) * (dim + 2) // 2, rows)
    features = memory
    features[0] = 1.0
    column = features[1 : dim + 1].copy_(z.T)
    start = dim + 1
    for i in range(dim):
        torch.mul(column[i], column[i:], out=features[start : start + dim - i])
        start += dim - i
    return features


def _chunk(dim: int) -> int:
    """Return how many rows to take at a time."""
    return max(64, 2 * _CACHE // ((dim + 1) * (dim + 2)))


def log_density(z: Tensor, theta: Tensor) -> Tensor:
    """Return the log-density of each row, (N,), from natural coefficients."""
    size = 2 * _chunk(z.shape[1])  # a larger one, as nothing else is kept in the cache
    size = -(-len(z) // -(-len(z) // size)) if len(z) else 1  # even ones
    # All chunks use the same memory: new memory would be fetched page by page, and is not in the cache.
    memory = None if z.requires_grad or theta.requires_grad or len(z) <= size else z.new_empty(theta.shape[1], size)
    return torch.cat([log_density_at_once(rows, theta, memory) for rows in torch.split(z, size)])


def log_density_at_once(z: Tensor, theta: Tensor, memory: Tensor | None = None) -> Tensor:
    """Return the same without chunks: for few rows, and for graphs that take any number of them."""
    scores = theta @ _features(z, memory)
    if torch.is_grad_enabled() or torch.compiler.is_compiling():
        return scores.logsumexp(0)
    top = scores.amax(0)  # the same in place, without numbers so small that processors take many times as long
    return scores.sub_(top).clamp_(min=_LOWEST).exp_().sum(0).log_().add_(top)


def sufficient_statistics(
    z: Tensor, weight: Tensor, mixture: Mixture, reduce: Reduce = identity, hard: bool = False
) -> Statistics:
    """Sum what the maximisation step needs over all rows; `hard` gives each to its likeliest component alone."""
    dim, theta = z.shape[1], natural(mixture)
    i, j = torch.triu_indices(dim, dim, device=z.device)
    sums, log_likelihood, size = torch.zeros_like(theta), z.new_zeros(()), _chunk(dim)
    for rows, w in zip(torch.split(z, size), torch.split(weight, size), strict=True):
        features = _features(rows)
        scores = theta @ features
        top, likeliest = scores.max(0)
        share = scores.sub_(top).exp_()
        total = share.sum(0)
        log_sum = top + total.log()
        if hard:
            share = share.zero_().scatter_(0, likeliest[None], 1.0).mul_(w)
        else:
            share.mul_(w / total)
        sums += share @ features.T
        log_likelihood += w @ log_sum
    sums, log_likelihood = reduce(sums), reduce(log_likelihood)
    outer = sums.new_zeros(len(sums), dim, dim)
    outer[:, i, j] = sums[:, dim + 1 :]
    outer[:, j, i] = sums[:, dim + 1 :]
    return Statistics(sums[:, 0], sums[:, 1 : dim + 1], outer, log_likelihood)


def maximise(statistics: Statistics, prior: Prior) -> Mixture:
    """Return the mixture that maximises the objective given the responsibilities; empty components are dropped."""
    kept = statistics.alive()
    count = kept.rows[:, None, None]
    covariance = (kept.scatter() + prior.rows * prior.covariance) / (count + prior.rows)
    eye = torch.eye(covariance.shape[-1], dtype=covariance.dtype, device=covariance.device)
    lower = torch.linalg.cholesky_ex(covariance)[0]
    # Less the floor there is a factor only if no eigenvalue is below it. To find out takes a tenth of the eigenvalues'
    # time, and is all there is to do where latents fill their dimensions.
    thin = torch.linalg.cholesky_ex(covariance - FLOOR_VARIANCE * eye)[1] > 0
    if bool(thin.any()):
        value, vector = torch.linalg.eigh(covariance[thin])
        root = vector * value.clamp(min=FLOOR_VARIANCE).sqrt()[:, None, :]
        # Σ = root rootᵀ, so its Cholesky factor is Rᵀ of the QR decomposition of rootᵀ: no squared condition number.
        upper = torch.linalg.qr(root.mT).R
        lower[thin] = (upper * upper.diagonal(dim1=1, dim2=2).sign()[:, :, None]).mT
    whitener = torch.linalg.solve_triangular(lower, eye.expand_as(lower), upper=False)
    return Mixture((kept.rows / kept.rows.sum()).log(), kept.total / kept.rows[:, None], whitener)


def penalty(mixture: Mixture, prior: Prior) -> Tensor:
    """Return the prior's part of the objective."""
    log_det = -2 * mixture.whitener.diagonal(dim1=1, dim2=2).log().sum()
    trace = ((mixture.whitener @ prior.covariance) * mixture.whitener).sum()
    return -prior.rows / 2 * (log_det + trace)


def choose_centres(z: Tensor, weight: Tensor, n: int, generator: torch.Generator, reduce: Reduce = identity) -> Tensor:
    """Draw up to n rows far apart (k-means++), fewer if there are fewer distinct ones, as (n, H).

    A row is drawn with probability ∝ weight × squared distance to the centres so far: order rows by a random
    projection, and find by bisection the first at which the cumulated mass passes a uniform draw. Only sums over rows
    are needed, so processes agree.
    """
    key = torch.atan((z * torch.randn(z.shape[1], generator=generator, dtype=z.dtype).to(z.device)).sum(-1))
    key, order = key.sort()
    z, weight = z[order], weight[order]
    padded = torch.cat([z, z.new_zeros(1, z.shape[1])])
    length = z.square().sum(-1)
    distance = torch.ones_like(weight)
    centres: list[Tensor] = []
    negligible = 1e-10 * reduce(weight.sum())
    while len(centres) < n:
        cumulated = torch.cat([weight.new_zeros(1), (weight * distance).cumsum(0)])
        mass = reduce(cumulated[-1])
        if mass <= negligible:
            break
        trials = 1 if not centres else 2 + int(math.log(n))
        target = torch.rand(trials, generator=generator, dtype=z.dtype).to(z.device) * mass
        low, high = torch.full_like(target, -2.0), torch.full_like(target, 2.0)
        for _ in range(_BISECTIONS):
            middle = (low + high) / 2
            beyond = reduce(cumulated[torch.searchsorted(key, middle, right=True)]) > target
            low, high = torch.where(beyond, low, middle), torch.where(beyond, middle, high)
        first = torch.searchsorted(key, low, right=True)
        found = (first < torch.searchsorted(key, high, right=True)).to(z.dtype)
        drawn = reduce(padded[first] * found[:, None]) / reduce(found).clamp(min=1)[:, None]
        gap = (length - 2 * drawn @ z.T + drawn.square().sum(-1, keepdim=True)).clamp(min=0)
        nearest = torch.minimum(gap, distance) if centres else gap
        best = int(reduce(nearest @ weight).argmin())
        distance = nearest[best]
        centres.append(drawn[best])
    return torch.stack(centres)


def _centres_of_nearest(z: Tensor, weight: Tensor, centres: Tensor, reduce: Reduce) -> Tensor:
    """Return the mean of the rows that are nearest to each centre; centres without any are gone."""
    nearest = (z @ centres.T - centres.square().sum(-1) / 2).argmax(1)
    rows = reduce(weight.new_zeros(len(centres)).index_add_(0, nearest, weight))
    total = reduce(torch.zeros_like(centres).index_add_(0, nearest, weight[:, None] * z))
    return (total / rows[:, None])[rows > _EMPTY]


def start(
    z: Tensor, weight: Tensor, n: int, rows: float, generator: torch.Generator, reduce: Reduce = identity
) -> tuple[Mixture, Prior]:
    """Return the mixture of the k-means clusters, and their pooled covariance as the prior."""
    mean = choose_centres(z, weight, n, generator, reduce)
    for _ in range(_LLOYD - 1):
        last, mean = mean, _centres_of_nearest(z, weight, mean, reduce)
        if len(last) == len(mean) and torch.equal(last, mean):
            break
    eye = torch.eye(z.shape[1], dtype=z.dtype, device=z.device)
    spheres = Mixture(torch.zeros_like(mean[:, 0]), mean, eye.expand(len(mean), -1, -1))
    statistics = sufficient_statistics(z, weight, spheres, reduce, hard=True).alive()
    prior = Prior(statistics.scatter().sum(0) / statistics.rows.sum(), rows)
    return maximise(statistics, prior), prior


def improve(
    z: Tensor,
    weight: Tensor,
    mixture: Mixture,
    prior: Prior,
    reduce: Reduce = identity,
    tolerance: float = 1e-2,
    max_steps: int = 100,
) -> Mixture:
    """Repeat both steps until the objective grows by less than `tolerance` a row."""
    last = -math.inf
    for _ in range(max_steps):
        statistics = sufficient_statistics(z, weight, mixture, reduce)
        objective = float((statistics.log_likelihood + penalty(mixture, prior)) / statistics.rows.sum())
        if objective - last < tolerance:
            break
        mixture, last = maximise(statistics, prior), objective
    return mixture
