"""A family: a likelihood, its conjugate prior in terms of (χ, n), and what follows from them (the paper's Sec. 3.1).

A family is a frozen value. It turns raw decoder outputs into χ (`link`), targets into sufficient statistics
(`statistics`), and evidence into a `Posterior`, which calculates in float64 and answers in the evidence's precision.
Whatever else depends on it, from units to words, it states by the methods of `natpn.families.description`.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import fields
from typing import Any, Generic, TypeVar

import torch
from torch import Tensor

from natpn.evidence import Evidence, rounded, weighted_mean
from natpn.families.description import Description
from natpn.families.distribution import Distribution, Support
from natpn.special import narrow

F = TypeVar("F", bound="Family")

FEW = 10.0
"""How many observations a prior that is the marginal of the targets counts for, at most."""

SMALLEST_SHARE = 1e-6
"""The least share of noise that is believed of any network."""

# Beyond e^±230 observations nothing changes in float64, and squares still fit.
_LOG_N = 230.0


class Family(Description, ABC):
    """A likelihood with its conjugate prior.

    Attributes:
        pool: How χ of several observations is pooled; families whose plain mean would cancel have a rule of their own.
    """

    pool = staticmethod(weighted_mean)

    @property
    @abstractmethod
    def n_statistics(self) -> int:
        """S, the number of sufficient statistics, and of raw outputs that `link` takes."""

    @property
    @abstractmethod
    def support(self) -> Support:
        """What a target may be."""

    @abstractmethod
    def link(self, raw: Tensor) -> Tensor:
        """Map any raw outputs, shape (..., S), to χ of the same shape."""

    @abstractmethod
    def inverse_link(self, chi: Tensor) -> Tensor:
        """Return finite raw outputs that `link` maps to χ, or as near to it as it can."""

    @abstractmethod
    def _statistics(self, y: Tensor) -> Tensor:
        """Return u(y) of checked float64 targets."""

    @abstractmethod
    def _default_prior(self) -> tuple[Sequence[float], float]:
        """Return χ and n of the prior."""

    @abstractmethod
    def _marginal(self, y: Tensor, weight: Tensor) -> tuple[Tensor, float]:
        """Return χ and n of the prior whose predictive is the marginal of checked targets; weights sum to the rows."""

    @abstractmethod
    def _posterior(self, evidence: Evidence) -> "Posterior[Any]": ...

    def statistics(self, y: Tensor) -> Tensor:
        """Return the sufficient statistics u(y), shape (..., S)."""
        y = torch.as_tensor(y)
        dtype = y.dtype if y.is_floating_point() else torch.get_default_dtype()
        return self._statistics(self.support.check(y)).to(dtype)

    def evidence(self, chi: Tensor, log_n: Tensor | float) -> Evidence:
        """Return n pseudo-observations with mean statistics χ, which pool as this family's do."""
        self._check_size(chi)
        return Evidence(chi, log_n, self.pool)

    def observe(self, y: Tensor) -> Evidence:
        """Return observed targets as evidence: one observation each."""
        return self.evidence(self.statistics(y), 0.0)

    def log_likelihood(self, raw: Tensor, y: Tensor) -> Tensor:
        """Return log p(y) at the mean statistics `link(raw)`: what the Bayesian loss tends to as n → ∞."""
        return self.posterior(self.evidence(self.link(raw), 0.0)).likelihood().log_prob(y)

    def training_loss(self, raw: Tensor, y: Tensor, usual: Tensor) -> Tensor:
        """Return what training minimises, one number a target: by default minus the log-likelihood.

        `usual` are the raw outputs at the distribution of all targets, shape (S,).
        """
        return -self.log_likelihood(raw, y)

    def training_slope(self, raw: Tensor, y: Tensor, usual: Tensor, share: Tensor) -> tuple[Tensor, Tensor]:
        """Return `training_loss`, and the gradient of its sum over targets, each times its share.

        Training on the CPU asks for it at every step: a family may calculate it without autograd, whose bookkeeping
        takes longer than the arithmetic of a batch. Targets have been checked.
        """
        with torch.enable_grad():
            leaf = raw.detach().requires_grad_()
            value = self.training_loss(leaf, y, usual)
            (slope,) = torch.autograd.grad(value, leaf, share)
        return value.detach(), slope

    def prior(
        self,
        chi: Tensor | Sequence[float] | float | None = None,
        n: float | None = None,
        *,
        dtype: torch.dtype | None = None,
        device: torch.device | str | None = None,
    ) -> Evidence:
        """Return the prior as evidence.

        Args:
            chi: Mean sufficient statistics, S numbers; the paper's choice if None.
            n: How many observations it counts for; the paper's choice if None.
            dtype: Precision, torch's default if None.
            device: Device, torch's default if None.
        """
        default_chi, default_n = self._default_prior()
        n = default_n if n is None else float(n)
        if not 0 < n < float("inf"):
            raise ValueError(f"n: expected a positive number of pseudo-observations, got {n}")
        given = torch.as_tensor(default_chi if chi is None else chi, dtype=torch.float64, device=device)
        given = given.expand(self.n_statistics) if given.dim() == 0 else given
        self._check_size(given)
        log_n = torch.log(torch.as_tensor(n, dtype=torch.float64, device=device))
        prior = rounded((given, log_n), self.n_statistics, self.pool, dtype or torch.get_default_dtype())
        if not bool(self._posterior(prior).entropy().isfinite().all()):
            raise ValueError(f"chi: {given.tolist()} with n = {n} is not a proper prior of {self!r}")
        return prior

    def marginal(self, y: Tensor, weight: Tensor | None = None) -> Evidence:
        """Return the prior that predicts, for any row, the distribution of all targets.

        Its predictive has the mean of the targets, and their variance if the family has a free variance. It counts for
        at most `FEW` observations, so that evidence soon outweighs it.

        Args:
            y: Targets, one or more.
            weight: How much each counts; once if None.

        Examples:
            >>> from natpn import families
            >>> prior = families.get("poisson").marginal(torch.tensor([0.0, 2.0, 7.0]))
            >>> prior.chi, prior.log_n.exp()
            (tensor([3.]), tensor(0.5294))
        """
        y = torch.as_tensor(y)
        checked = self.support.check(y).double()
        rows = len(checked)
        weight = torch.ones(rows, dtype=torch.float64) if weight is None else weight.double()
        weight = weight.to(checked.device) * rows / weight.sum()
        chi, n = self._marginal(checked, weight)
        return self.prior(chi, n, device=checked.device)

    def opened(self) -> "Family":
        """Return the family with those parameters left open that `refined` can find on held-out rows."""
        return self

    def refined(self, raw: Tensor, y: Tensor, weight: Tensor) -> "Family":
        """Return the family with its open parameters set to what fits the raw outputs of held-out rows best."""
        return self

    def noise_share(self, chi: Tensor, y: Tensor, weight: Tensor) -> float:
        """Return what share of the variation of held-out targets a network leaves unexplained: 1 if all of it.

        It is the geometric mean of the variances that the network predicts, over the variance of the targets.
        """
        variance = self.posterior(self.evidence(chi, 0.0)).likelihood().variance
        return share_of_variance(variance, y.double(), weight)

    def posterior(self, evidence: Evidence) -> "Posterior[Any]":
        """Return the distribution over parameters that the evidence, which includes the prior, amounts to."""
        self._check_size(evidence.chi)
        if evidence.pool not in (None, self.pool):
            raise ValueError(
                f"evidence: it was pooled by {evidence.pool.__name__}, but {self!r} pools by {self.pool.__name__}; "
                "make the parts with family.evidence(chi, log_n) before adding them"
            )
        return self._posterior(evidence)

    def check_exposure(self) -> None:
        """Raise a ValueError unless targets may have an exposure."""
        if self.no_exposure is not None:
            raise ValueError(f"exposure: expected none for {self!r}, {self.no_exposure}")

    def at_exposure(self, evidence: Evidence, exposure: Tensor) -> "Posterior[Any]":
        """Return the posterior of targets at some exposures, from all that is known of them at exposure 1.

        Args:
            evidence: All evidence about a target at exposure 1.
            exposure: Positive numbers of the evidence's batch shape.

        Raises:
            ValueError: If the family's targets have none.
        """
        self.check_exposure()
        raise NotImplementedError(f"{type(self).__name__}.at_exposure")

    def _exposed_marginal(self, rate: Tensor, weight: Tensor) -> tuple[Tensor, float]:
        """Return χ and n of the marginal at exposure 1, from counts over their exposures, weighted by these."""
        return self._marginal(rate, weight)

    def _check_size(self, chi: Tensor) -> None:
        if chi.dim() == 0 or chi.shape[-1] != self.n_statistics:
            raise ValueError(
                f"chi: {self!r} has {self.n_statistics} statistics in the last dimension, got shape {tuple(chi.shape)}"
            )

    def __repr__(self) -> str:
        values = ", ".join(f"{f.name}={getattr(self, f.name)!r}" for f in fields(self))  # type: ignore[arg-type]
        return f"{type(self).__name__}({values})"


class Posterior(ABC, Generic[F]):
    """The distribution over a family's parameters, for each row of a batch.

    Attributes:
        family: The family.
        evidence: All evidence, with the prior.
        dtype: The precision of its answers.
        mean_statistics: χ of the evidence in float64.
        n: How many observations the evidence counts for, in float64.
    """

    def __init__(self, family: F, evidence: Evidence) -> None:
        self.family = family
        self.evidence = evidence
        self.dtype = evidence.chi.dtype
        chi, log_n = evidence.wide()
        self.mean_statistics = chi[..., : family.n_statistics]
        self.n = log_n.clamp(-_LOG_N, _LOG_N).exp()

    def expected_log_likelihood(self, y: Tensor) -> Tensor:
        """Return E[log p(y | θ)] over the posterior, one number per target: (i) of the Bayesian loss (Sec. 3.5)."""
        checked = self.family.support.check(y)
        shape = checked.shape[: checked.dim() - len(self.family.support.event_shape)]
        batch = self.evidence.batch_shape
        if shape and batch and tuple(shape[-len(batch) :]) != tuple(batch):
            raise ValueError(f"y: expected one target for each of the batch {tuple(batch)}, got shape {tuple(y.shape)}")
        return narrow(self._expected_log_likelihood(checked), self.dtype)

    def entropy(self) -> Tensor:
        """Return the entropy over the parameters, in the coordinates that the family names: (ii) of that loss."""
        return narrow(self._entropy(), self.dtype)

    def surprise(self, y: Tensor, weight: Tensor) -> float:
        """Return the weighted mean of −log p."""
        each = -self.predictive().log_prob(y).double()
        return float(weight.double() @ each / weight.double().sum())

    def loss(self, y: Tensor, weight: Tensor) -> float:
        """Return how badly targets are predicted, where 0.01 more is one per cent worse; by default `surprise`."""
        return self.surprise(y, weight)

    @abstractmethod
    def predictive(self) -> Distribution:
        """Return the distribution of a new target, with the uncertainty about the parameters."""

    @abstractmethod
    def likelihood(self) -> Distribution:
        """Return the distribution of a target at the posterior mean of the mean parameter: the noise alone."""

    @abstractmethod
    def _expected_log_likelihood(self, y: Tensor) -> Tensor: ...

    @abstractmethod
    def _entropy(self) -> Tensor: ...


def share_of_variance(variance: Tensor, y: Tensor, weight: Tensor) -> float:
    """Return the geometric mean of predicted variances, of each coordinate if there are several, over the targets'."""
    share = weight / weight.sum()
    spread = torch.tensordot(share, (y - torch.tensordot(share, y, 1)).square(), 1)
    ratio = (variance / spread.clamp(min=1e-30)).clamp(SMALLEST_SHARE, 1.0)
    return float(torch.tensordot(share, ratio.log(), 1).mean().exp())


def positive_parameter(name: str, value: float) -> None:
    """Raise a ValueError unless the value is a finite positive number."""
    if not 0 < value < float("inf"):
        raise ValueError(f"{name}: expected a positive number, got {value!r}")


def whole_parameter(name: str, value: int, choices: range) -> None:
    """Raise a ValueError unless the value is one of a range of integers."""
    if isinstance(value, bool) or not isinstance(value, int) or value not in choices:
        upper = f" to {choices[-1]}" if len(choices) < 10**6 else " on"
        raise ValueError(f"{name}: expected a whole number from {choices[0]}{upper}, got {value!r}")
