"""What several families share: those of classes with a Dirichlet prior, and those of a positive mean."""

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, TypeVar

import torch
from torch import Tensor

from natpn.evidence import Evidence
from natpn.families.base import FEW, SMALLEST_SHARE, Family, Posterior, whole_parameter
from natpn.families.description import Noise
from natpn.special import gamma_entropy

_SHARE_OF_ENTROPY = 0.2


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
class PositiveMeanFamily(Family):
    """Families of one statistic of positive mean, by default u(y) = y; the paper's prior is one observation of 1."""

    n_statistics = 1

    def link(self, raw: Tensor) -> Tensor:
        """Map raw outputs to means from 10⁻⁸ to 10⁸, by the exponential."""
        return raw.clamp(-18.42, 18.42).exp()

    def inverse_link(self, chi: Tensor) -> Tensor:
        """Map means to raw outputs."""
        return chi.clamp(1e-8, 1e8).log()

    def largest_mean(self, y: Tensor) -> float | None:
        """Return the largest mean that `link` reaches, if statistics of targets lie beyond."""
        largest = self._statistics(y.double()).max().reshape(1, 1)
        reached = float(self.link(self.inverse_link(largest)))
        return reached if reached < 0.99 * float(largest) else None

    def _statistics(self, y: Tensor) -> Tensor:
        return y.unsqueeze(-1)

    def _default_prior(self) -> tuple[Sequence[float], float]:
        return [1.0], 1.0

    def _marginal(self, y: Tensor, weight: Tensor) -> tuple[Tensor, float]:
        u = self._statistics(y)[..., 0]
        # if all targets are 0, half a count in all of them: a rate of 0 would be certainty
        mean = (weight @ u) / weight.sum() if bool((u > 0).any()) else 0.5 / weight.sum()
        square = (weight @ u.square()) / weight.sum()
        n = float(self._marginal_n(mean, torch.maximum(square, mean.square())))
        return mean.unsqueeze(-1), n if 0 < n < FEW else FEW

    @abstractmethod
    def _marginal_n(self, mean: Tensor, square: Tensor) -> Tensor:
        """Return n of the prior whose predictive has this mean and mean square; not positive if none has."""
