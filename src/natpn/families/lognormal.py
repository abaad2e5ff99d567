"""Log-normal: positive numbers whose logarithm is Normal with unknown mean and variance.

- Likelihood: N(log y | μ, σ²)/y; u(y) = (log y, log² y), held centred as in the `normal` family.
- Prior: Normal-Inverse-Gamma on the logarithm; the paper's is χ = (0, 100), n = 1.
- Expected log-likelihood: the `normal` family's at log y, less log y.
- Predictive: the exponential of Student's t.
- Entropy: with respect to dμ dσ².
"""

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from natpn.distributions import LogStudentT
from natpn.distributions.support import Support, positive
from natpn.evidence import Evidence
from natpn.families.normal import Normal, NormalPosterior


@dataclass(frozen=True, repr=False)
class LogNormal(Normal):
    """Positive numbers, log-normal with unknown parameters, with a Normal-Inverse-Gamma prior on the logarithm."""

    suits: ClassVar[str] = "positive numbers with a long upper tail"

    @property
    def support(self) -> Support:
        """Positive numbers."""
        return positive()

    def log_likelihood(self, raw: Tensor, y: Tensor) -> Tensor:
        """Return log p(y) at `link(raw)`: the `normal` family's at log y, less log y."""
        log_y = self.support.check(y).log()
        return Normal().log_likelihood(raw, log_y) - log_y.to(raw.dtype)

    def _statistics(self, y: Tensor) -> Tensor:
        return super()._statistics(y.log())

    def _posterior(self, evidence: Evidence) -> "LogNormalPosterior":
        return LogNormalPosterior(self, evidence)


class LogNormalPosterior(NormalPosterior):
    """Normal-Inverse-Gamma over mean and variance of the logarithm."""

    def _expected_log_likelihood(self, y: Tensor) -> Tensor:
        return super()._expected_log_likelihood(y.log()) - y.log()

    def predictive(self) -> LogStudentT:
        """Return the exponential of Student's t with n degrees of freedom: it has quantiles but no moments."""
        t = super().predictive()
        return LogStudentT(t.loc, t.scale, t.df, t.loc_carry, self.dtype)

    def likelihood(self) -> LogStudentT:
        """Return the log-normal with the posterior mean parameters."""
        t = super().likelihood()
        return LogStudentT(t.loc, t.scale, torch.full_like(t.df, torch.inf), t.loc_carry, self.dtype)
