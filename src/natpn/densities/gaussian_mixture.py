"""Mixture of normals with full covariances.

    log q(u) = log Σ_k π_k N(u | μ_k, Σ_k),   Σ_k⁻¹ = A_kᵀ A_k,   π = softmax(logits)

A_k is lower triangular: the strict lower triangle of `factor` as it is, its diagonal exponentiated (the upper
triangle is not used). Any value of the parameters is thus a valid mixture and gradient descent needs no constraint.
Then

    log N(u | μ_k, Σ_k) = Σ_i log (A_k)_ii − ½ ‖A_k (u − μ_k)‖² − H/2 log 2π

and one batched product whitens all rows by all components. `refit` sets the frame and the parameters by
expectation-maximisation.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from natpn.densities import expectation_maximization as em
from natpn.densities.base import REACH, Density, Reduce, identity
from natpn.few_rows import Floats, Form, array

LADDER = (1, 2, 4, 8, 16, 32, 64)
_UNFITTED = 8  # components before the first refit, if their number is to be chosen
_HELD_OUT = 0.2
_WIDE = torch.float64  # the quadratic form is expanded, which costs digits
_SAMPLE = 16384  # rows that suffice to choose a number of components


class GaussianMixture(Density):
    """Gaussian mixture, trainable by gradient descent and by expectation-maximisation.

    `refit` may leave another number of components than before: with "auto", and when the sample has fewer distinct
    rows than asked for. The parameters are then new tensors, so make optimisers after it. `load_state_dict` takes any
    number of components.

    Args:
        dim: The number of latent features H.
        n_components: Their number, or "auto": `refit` then climbs the ladder 1, 2, 4, … 64 on a sample of the rows, as
            long as a component has H + 2 of them. It keeps the last number that raised the log-likelihood on a held-out
            fifth by more than a standard error, and goes on with it on all rows.
        shrinkage: For how many rows the pooled covariance counts in each component's own, in `refit`.
        bandwidth: Blurs the mixture after `refit`, by a Normal of this deviation in the frame. Latents may fill a thin
            sheet only; without a blur a step of a thousandth of the data's range off that sheet would count as far.
    """

    refit_suffices = True

    def __init__(
        self, dim: int, n_components: int | str = "auto", shrinkage: float = 1.0, bandwidth: float = 0.0
    ) -> None:
        super().__init__(dim)
        automatic = n_components == "auto"
        if not automatic and (isinstance(n_components, bool | str) or n_components < 1):
            raise ValueError(f'n_components: expected a whole number of at least 1 or "auto", got {n_components!r}')
        for name, value in (("shrinkage", shrinkage), ("bandwidth", bandwidth)):
            if not value >= 0:
                raise ValueError(f"{name}: expected 0 or more, got {value!r}")
        self.target: int | None = None if automatic else int(n_components)
        self.shrinkage = shrinkage
        self.bandwidth = bandwidth
        self._hastened = False
        self._kept: tuple[list[tuple[int, int, torch.dtype]], Tensor] | None = None
        k = self.target or _UNFITTED
        self.logits = nn.Parameter(torch.zeros(k))
        self.mean = nn.Parameter(torch.randn(k, dim))
        self.factor = nn.Parameter(0.1 * torch.randn(k, dim, dim))

    @property
    def n_components(self) -> int:
        """The number of components now."""
        return len(self.logits)

    def _log_prob(self, u: Tensor) -> Tensor:
        precision = u.dtype if self._hastened else _WIDE
        return em.log_density(u.to(precision), self._coefficients().to(precision)).to(u.dtype)

    def hasten(self) -> None:
        """Expand the quadratic form in the precision of the latents; a bandwidth keeps the digits this costs few."""
        self._hastened = True

    def _inner_in_numpy(self) -> Form:
        coefficients, (i, j) = array(self._coefficients()).T.copy(), np.triu_indices(self.dim)

        def log_q(u: Floats) -> Floats:
            scores = np.concatenate([np.ones((len(u), 1)), u, u[:, i] * u[:, j]], 1) @ coefficients
            top = scores.max(1)
            value: Floats = top + np.log(np.exp(scores - top[:, None]).sum(1))
            return value

        return log_q

    def _coefficients(self) -> Tensor:
        """Return what the quadratic features are multiplied with; those of frozen parameters are kept."""
        parameters = (self.logits, self.mean, self.factor)
        if any(p.requires_grad for p in parameters):
            return self._natural()
        state = [(p.data_ptr(), p._version, p.dtype) for p in parameters]
        if self._kept is None or self._kept[0] != state:
            self._kept = (state, self._natural())
        return self._kept[1]

    def _mixture(self) -> em.Mixture:
        factor = self.factor.to(_WIDE)
        whitener = factor.tril(-1) + torch.diag_embed(factor.diagonal(dim1=1, dim2=2).exp())
        return em.Mixture(self.logits.to(_WIDE).log_softmax(0), self.mean.to(_WIDE), whitener)

    def _natural(self) -> Tensor:
        return em.natural(self._mixture())

    @torch.no_grad()
    def marginal(self, first: int) -> em.Mixture:
        """Return the mixture of the standardised features from the `first` on alone, in float64."""
        log_weight, mean, whitener = self._mixture()
        root = torch.linalg.inv(whitener)
        covariance = (root @ root.mT)[:, first:, first:]
        return em.Mixture(log_weight, mean[:, first:], torch.linalg.inv(torch.linalg.cholesky(covariance)).tril())

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"_kept": None}  # addresses do not survive a copy

    @torch.no_grad()
    def refit(
        self,
        z: Tensor,
        weight: Tensor | None = None,
        generator: torch.Generator | None = None,
        reduce: Reduce = identity,
    ) -> None:
        """Fit frame, weights, means and covariances to a sample (see `Density.refit` for the arguments)."""
        super().refit(z, weight, generator, reduce)
        generator = generator or torch.Generator().manual_seed(0)
        z, weight = self._checked(z, weight)
        u = (z - self.location.to(z)) / self.scale.to(z)
        u, weight = u[weight > 0], weight[weight > 0]
        if self.target is None:
            mixture, prior = self._select(u, weight, generator, reduce)
        else:
            mixture, prior = em.start(u, weight, self.target, self.shrinkage, generator, reduce)
        self._take(em.improve(u, weight, mixture, prior, reduce))

    @torch.no_grad()
    def refit_beside(self, other: "GaussianMixture", z: Tensor, weight: Tensor) -> None:
        """Fit to rows that may be few, in the frame of another mixture, which has fewer features or as many.

        Each component borrows from the other mixture's pooled covariance, as if that had been seen in as many rows as
        there are features; features that it does not have are borrowed with unit variance. So a single row will do.

        Args:
            other: The mixture whose features come first.
            z: Latents of shape (N, H), in as many rows as there are, of which at least one counts.
            weight: How often each counts, (N,).
        """
        extra = self.dim - other.dim
        self.location.copy_(torch.cat([other.location, other.location.new_zeros(extra)]))
        self.scale.copy_(torch.cat([other.scale, other.scale.new_ones(extra)]))
        z, weight = self._checked(z, weight)
        u = (z - self.location.to(z)) / self.scale.to(z)
        u = u / (torch.linalg.vector_norm(u, dim=1, keepdim=True) / REACH).clamp(min=1)
        borrowed = torch.eye(self.dim, dtype=u.dtype, device=u.device)
        borrowed[: other.dim, : other.dim] = other.pooled_covariance().to(u)
        generator = torch.Generator().manual_seed(0)
        mixture, own = em.start(u, weight, self.target or 1, self.shrinkage, generator)
        rows = float(weight.sum())
        pooled = (rows * own.covariance + self.dim * borrowed) / (rows + self.dim)
        self._take(em.improve(u, weight, mixture, em.Prior(pooled, float(self.dim))))

    def pooled_covariance(self) -> Tensor:
        """Return the mean covariance of the components, in the frame."""
        factor = self.factor.to(_WIDE)
        root = torch.linalg.inv(factor.tril(-1) + torch.diag_embed(factor.diagonal(dim1=1, dim2=2).exp()))
        covariance: Tensor = torch.einsum("k,kij,klj->il", self.logits.to(_WIDE).softmax(0), root, root)
        return covariance

    def _take(self, mixture: em.Mixture) -> None:
        """Take the parameters of a mixture, blurred."""
        whitener = mixture.whitener if not self.bandwidth else _blurred(mixture.whitener, self.bandwidth)
        log_diagonal = whitener.diagonal(dim1=1, dim2=2).log()
        self._resize(len(mixture.log_weight))
        self.logits.copy_(mixture.log_weight)
        self.mean.copy_(mixture.mean)
        self.factor.copy_(whitener.tril(-1) + torch.diag_embed(log_diagonal))

    def _select(
        self, u: Tensor, weight: Tensor, generator: torch.Generator, reduce: Reduce
    ) -> tuple[em.Mixture, em.Prior]:
        """Return the best mixture on held-out rows, with its prior; equal rows are held out together."""
        direction = torch.randn(self.dim, generator=generator, dtype=torch.float64).to(u)
        chance = (1e4 * (u * direction).sum(-1)).remainder(1)
        share = min(1.0, _SAMPLE / float(reduce(weight.sum())))
        held_out = chance < _HELD_OUT * share
        kept = (chance < share) & ~held_out
        if not min(reduce(weight[kept].sum()), reduce(weight[held_out].sum())) > 0:  # too few distinct rows to divide
            kept = held_out = weight > 0
        available, worse = float(reduce(weight[kept].sum())), 0
        for k in LADDER:
            if k > 1 and k * (self.dim + 2) > available:
                break
            mixture, prior = em.start(u[kept], weight[kept], k, self.shrinkage, generator, reduce)
            mixture = em.improve(u[kept], weight[kept], mixture, prior, reduce, tolerance=1e-2, max_steps=20)
            score = em.log_density(u[held_out], em.natural(mixture))
            if k == 1:
                best, chosen = score, (mixture, prior)
                continue
            gain = score - best
            if reduce(weight[held_out] @ gain) > reduce(weight[held_out] @ gain.square()).sqrt():
                best, worse, chosen = score, 0, (mixture, prior)
            else:
                worse += 1
            if worse == 2 or len(mixture.log_weight) < k:
                break
        return chosen

    def _resize(self, k: int) -> None:
        if k != self.n_components:
            for name, shape in (("logits", (k,)), ("mean", (k, self.dim)), ("factor", (k, self.dim, self.dim))):
                old = getattr(self, name)
                setattr(self, name, nn.Parameter(old.new_zeros(shape), requires_grad=old.requires_grad))

    def _load_from_state_dict(self, state_dict: Mapping[str, Any], prefix: str, *args: Any) -> None:
        stored = state_dict.get(prefix + "logits")
        if stored is not None and stored.ndim == 1:
            self._resize(len(stored))
        super()._load_from_state_dict(state_dict, prefix, *args)


def _blurred(whitener: Tensor, bandwidth: float) -> Tensor:
    """Return the whiteners of components whose covariances have grown by the square of the bandwidth."""
    root = torch.linalg.inv(whitener)
    covariance = root @ root.mT + bandwidth**2 * torch.eye(root.shape[-1], dtype=root.dtype, device=root.device)
    blurred: Tensor = torch.linalg.inv(torch.linalg.cholesky(covariance)).tril()
    return blurred
