"""Categorical: one of C classes (Table 1 and Appendix C.2 of the paper), and what families with Dirichlet priors share.

- Likelihood: p_y; u(y) is the indicator of class y.
- Prior: Dirichlet(α = nχ), α₀ = Σ α_c; the paper's is χ = 1/C, n = C, the uniform distribution.
- Expected log-likelihood: ψ(α_y) − ψ(α₀).
- Predictive: categorical with probabilities α/α₀.
- Entropy: on the simplex, with respect to dp₁ … dp_{C−1}.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, TypeVar

import numpy as np
import torch
from torch import Tensor

from natpn.evidence import Evidence
from natpn.families.base import FEW, SMALLEST_SHARE, Family, Posterior, whole_parameter
from natpn.families.description import Graph, Noise
from natpn.families.distribution import Array, ScalarDistribution, Support, array
from natpn.special import gamma_entropy

_SHARE_OF_ENTROPY = 0.2


def classes(n_classes: int) -> Support:
    """Return what a class index from 0 to n_classes − 1 may be."""
    expected = f"a class index from 0 to {n_classes - 1}"
    return Support(expected, lambda y: (y >= 0) & (y < n_classes) & (y == y.floor()), discrete=True)


@dataclass(frozen=True, repr=False)
class DirichletFamily(Family):
    """Families of classes: χ are class probabilities, the prior is Dirichlet(α = nχ), uniform by default."""

    noise: ClassVar[Noise | None] = "temperature"

    n_classes: int

    def __post_init__(self) -> None:
        whole_parameter("n_classes", self.n_classes, range(2, 10**9))

    @property
    def n_statistics(self) -> int:
        """One per class."""
        return self.n_classes

    def link(self, raw: Tensor) -> Tensor:
        """Map raw outputs to class probabilities, by the softmax."""
        return raw.clamp(-1e30, 1e30).softmax(-1)

    def inverse_link(self, chi: Tensor) -> Tensor:
        """Map class probabilities to raw outputs."""
        return chi.clamp(min=1e-30).log()

    def noise_share(self, chi: Tensor, y: Tensor, weight: Tensor) -> float:
        """Return a fifth of the mean entropy of the predictions."""
        return share_of_entropy(-torch.special.xlogy(chi, chi).sum(-1), weight)

    def _default_prior(self) -> tuple[Sequence[float], float]:
        return [1 / self.n_classes] * self.n_classes, float(self.n_classes)

    def _marginal(self, y: Tensor, weight: Tensor) -> tuple[Tensor, float]:
        counts = weight @ self._statistics(y).double()
        return (counts + 1) / (counts.sum() + self.n_classes), FEW  # one more of each, so that no class is impossible


def share_of_entropy(entropy: Tensor, weight: Tensor) -> float:
    """Return the noise of classes: a fifth of the mean entropy of the rows' predictions.

    Mixing a share s of the prior into an answer costs about s nats, which should be little beside the entropy.
    """
    return max(_SHARE_OF_ENTROPY * float(weight @ entropy / weight.sum()), SMALLEST_SHARE)


D = TypeVar("D", bound=DirichletFamily)


class DirichletPosterior(Posterior[D]):
    """Dirichlet over class probabilities."""

    def __init__(self, family: D, evidence: Evidence) -> None:
        super().__init__(family, evidence)
        self.alpha = self.n.unsqueeze(-1) * self.mean_statistics
        self.total = self.alpha.sum(-1)

    def _entropy(self) -> Tensor:
        return dirichlet_entropy(self.alpha, self.total, self.dtype)


def dirichlet_entropy(alpha: Tensor, total: Tensor, dtype: torch.dtype = torch.float64) -> Tensor:
    """Return the entropy of Dirichlet(α) from Gamma entropies H: Σ H(α_c) − H(α₀) − (C − 1) ψ(α₀).

    It is the paper's (Appendix C.2) in a form that does not cancel: C independent Gamma variables are a Dirichlet
    vector and their sum, in other coordinates. H, by far the most of the work, is evaluated in the given precision, or
    in float32 if that is less.
    """
    dtype = dtype if dtype == torch.float64 else torch.float32
    signs = torch.ones(alpha.shape[-1] + 1, dtype=dtype, device=alpha.device)
    signs[-1] = -1
    parts = signs * gamma_entropy(torch.cat([alpha, total.unsqueeze(-1)], -1).to(dtype))
    return parts.sum(-1, dtype=alpha.dtype) - (alpha.shape[-1] - 1) * torch.digamma(total)


@dataclass(frozen=True, repr=False)
class Categorical(DirichletFamily):
    """One of `n_classes` classes, with a Dirichlet prior."""

    predicts: ClassVar[str] = "one of several labels"
    is_classes: ClassVar[bool] = True
    graph = Graph(
        "class probabilities; n·chi is the parameter of the Dirichlet posterior",
        "the probability of each class, in the order of `classes`",
        deviation=False,  # a class has none
    )

    @property
    def support(self) -> Support:
        """Class indices."""
        return classes(self.n_classes)

    def log_likelihood(self, raw: Tensor, y: Tensor) -> Tensor:
        """Return log p(y) from the raw outputs, where small probabilities keep their digits."""
        index = self.support.check(y).long().unsqueeze(-1)
        return raw.clamp(-1e30, 1e30).log_softmax(-1).gather(-1, index).squeeze(-1)

    @torch.no_grad()
    def training_slope(self, raw: Tensor, y: Tensor, usual: Tensor, share: Tensor) -> tuple[Tensor, Tensor]:
        """Return the training loss and its gradient, without autograd."""
        index = self.support.check(y).long().unsqueeze(-1)
        log_p = raw.clamp(-1e30, 1e30).log_softmax(-1)
        slope = log_p.exp()
        slope.scatter_add_(-1, index, slope.new_full((), -1.0).expand(index.shape))
        return -log_p.gather(-1, index).squeeze(-1), slope * share.unsqueeze(-1)

    def _statistics(self, y: Tensor) -> Tensor:
        return torch.nn.functional.one_hot(y.long(), self.n_classes)

    def _posterior(self, evidence: Evidence) -> "CategoricalPosterior":
        return CategoricalPosterior(self, evidence)


class CategoricalPosterior(DirichletPosterior[Categorical]):
    """Dirichlet over class probabilities."""

    def _expected_log_likelihood(self, y: Tensor) -> Tensor:
        shape = torch.broadcast_shapes(y.shape, self.total.shape)
        alpha = self.alpha.expand(*shape, -1).gather(-1, y.long().expand(shape).unsqueeze(-1)).squeeze(-1)
        return torch.digamma(alpha) - torch.digamma(self.total)

    def predictive(self) -> "CategoricalDistribution":
        """Return the classes with their posterior mean probabilities."""
        return CategoricalDistribution(self.alpha / self.total.unsqueeze(-1), self.dtype)

    likelihood = predictive


class CategoricalDistribution(ScalarDistribution):
    """Class indices 0 … C − 1 with the given probabilities, shape (..., C).

    A class index has no mean; `mean` and `variance` are those of its indicator vector, shape (..., C).
    """

    def __init__(self, probs: Tensor, dtype: torch.dtype = torch.float64) -> None:
        self.probs = probs
        super().__init__(probs[..., 0], classes(probs.shape[-1]), dtype)

    def _mean(self) -> Tensor:
        return self.probs

    def _variance(self) -> Tensor:
        return self.probs * (1 - self.probs)

    def _log_prob(self, y: Tensor) -> Tensor:
        shape = torch.broadcast_shapes(y.shape, self.batch_shape)
        probs = self.probs.expand(*shape, -1)
        return probs.gather(-1, y.expand(shape).long().unsqueeze(-1)).squeeze(-1).log()

    def _sample(self, shape: torch.Size) -> Tensor:
        flat: Tensor = torch.multinomial(
            self.probs.reshape(-1, self.probs.shape[-1]), max(shape.numel(), 1), replacement=True
        )
        drawn: Tensor = flat.T[: shape.numel()].reshape(shape + self.batch_shape)
        return drawn

    def _entropy(self) -> Tensor:
        entropies: Tensor = torch.special.entr(self.probs)
        return entropies.sum(-1)

    def _cdf(self, y: Array) -> Array:
        total = self._cumulative()
        index = np.broadcast_to(np.floor(y), np.broadcast_shapes(y.shape, total.shape[:-1]))
        last = np.clip(index, 0, total.shape[-1] - 1).astype(np.int64)[..., None]
        total = np.broadcast_to(total, (*index.shape, total.shape[-1]))
        return np.where(index < 0, 0.0, np.take_along_axis(total, last, -1)[..., 0])

    def _icdf(self, q: Array) -> Array:
        return np.asarray((self._cumulative()[..., :-1] < q[..., None]).sum(-1), dtype=np.float64)

    def _cumulative(self) -> Array:
        total = np.cumsum(array(self.probs), -1)
        total[..., -1] = 1.0
        return total
