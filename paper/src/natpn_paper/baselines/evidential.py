"""Deep evidential regression (Amini, Schwarting, Soleimany and Rus 2020), EvReg in the paper.

The network predicts a Normal-Inverse-Gamma distribution over mean and variance, with parameters γ, ν, α > 1 and β:

- predictive: Student's t with df = 2α, centre γ and scale² = β(1 + ν)/(να);
- loss = −log p(y) + λ |y − γ| (2ν + α), whose second term lowers the evidence where the prediction is wrong;
- aleatoric: the entropy of a Normal with variance E[σ²] = β/(α − 1);
- epistemic: −log ν, the predicted evidence. Var[μ] = β/(ν(α − 1)) would also contain noise.
"""

from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.functional import softplus

from natpn.estimators.rows import Prepared
from natpn.families import StudentT
from natpn.special import widen
from natpn.training import Trainee
from natpn_paper.baselines.base import BaselineRegressor
from natpn_paper.baselines.checks import check_number
from natpn_paper.baselines.plain_network import NetworkLoss
from natpn_paper.baselines.readings import Reading

_LARGEST = 1e6
_SMALLEST = 1e-6


class NormalInverseGamma(NamedTuple):
    """Parameters of Normal-Inverse-Gamma distributions, one a row."""

    gamma: Tensor
    nu: Tensor
    alpha: Tensor
    beta: Tensor

    def predictive(self) -> StudentT:
        """Return the distribution of a target."""
        scale = (self.beta * (1 + self.nu) / (self.nu * self.alpha)).sqrt()
        return StudentT(self.gamma, scale, 2 * self.alpha)

    def variance(self) -> Tensor:
        """Return E[σ²]."""
        return self.beta / (self.alpha - 1)


def read_parameters(raw: Tensor) -> NormalInverseGamma:
    """Turn raw outputs, (..., 4), into parameters, in float64."""
    raw = widen(raw).clamp(-_LARGEST, _LARGEST)
    gamma, *others = raw.unbind(-1)
    nu, alpha, beta = (softplus(other) + _SMALLEST for other in others)
    return NormalInverseGamma(gamma, nu, alpha + 1, beta)


class EvidentialLoss(NetworkLoss):
    """Minus the log-likelihood of Student's t, with the regulariser.

    Args:
        network: The network, with four raw outputs.
        regularisation: λ.
    """

    def __init__(self, network: nn.Module, regularisation: float) -> None:
        super().__init__(network)
        self.regularisation = regularisation

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        """Return losses, (B,)."""
        found = read_parameters(self.network(x))
        y = widen(y)
        wrong = (y - found.gamma).abs() * (2 * found.nu + found.alpha)
        return (self.regularisation * wrong - found.predictive().log_prob(y)).to(x.dtype)


class EvRegRegressor(BaselineRegressor):
    """Deep evidential regression for numbers.

    Args:
        family: "normal", the only one it has.
        regularisation: λ, the cost of evidence for wrong predictions.
        **settings: Those of `Baseline`.
    """

    _families = ("normal",)

    def __init__(self, *, regularisation: float = 0.01, **settings: Any) -> None:
        super().__init__(**settings)
        self.regularisation = regularisation

    def _check_parameters(self) -> None:
        super()._check_parameters()
        check_number(self, "regularisation", 0, inclusive=True)

    @property
    def _n_outputs(self) -> int:
        return 4

    def _loss(self, network: Any, data: Prepared, seed: int) -> Trainee:
        return EvidentialLoss(network, float(self.regularisation))

    def _read(self, raw: Tensor) -> Reading:
        found = read_parameters(raw)
        centre, variance = self._in_units(torch.stack([found.gamma, found.variance()], -1)).unbind(-1)
        scale = (variance * (found.alpha - 1) * (1 + found.nu) / (found.nu * found.alpha)).sqrt()
        noise = StudentT(centre, variance.sqrt(), torch.full_like(centre, torch.inf))
        return Reading(StudentT(centre, scale, 2 * found.alpha), noise, -found.nu.log())
