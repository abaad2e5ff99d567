"""Ensemble Distribution Distillation (Malinin, Mlodozeniec and Gales 2020), EnD² in the paper.

A Dirichlet network is trained by maximum likelihood on the outputs of an ensemble: the class probabilities of each
member are one observation of the Dirichlet.

    loss = −(1/S) Σ_s log Dir(p_s | α),   p_s = softmax(z_s/T),   α = exp(z/T)

Both share the temperature T. It is high at first, which makes the members agree, and falls to 1. The members'
probabilities are mixed with a little of the uniform distribution, without which their logarithm has no bound.
"""

from dataclasses import replace
from typing import Unpack

import torch
from torch import Tensor, nn

from natpn.estimators.rows import Prepared
from natpn_paper.baselines.base import Settings
from natpn_paper.baselines.checks import check_count, check_number, check_share
from natpn_paper.baselines.deep_ensemble import Members
from natpn_paper.baselines.dirichlet import DirichletClassifier, alpha_of, log_density
from natpn_paper.baselines.plain_network import NetworkLoss

_CHUNK = 4096
_HOLD, _REACHED = 0.2, 0.6  # shares of training where the temperature starts to fall, and where it is 1


class DistillationLoss(NetworkLoss):
    """Minus the log-density of the members' probabilities; the targets y are their logits, (B, S, C).

    Args:
        network: The network, which returns log α.
        temperature: The temperature at the start.
        smoothing: The share of the uniform distribution in the members' probabilities.
        steps: How many steps there will be.
    """

    step: Tensor

    def __init__(self, network: nn.Module, temperature: float, smoothing: float, steps: int) -> None:
        super().__init__(network)
        self.temperature, self.smoothing, self.steps = temperature, smoothing, steps
        self.register_buffer("step", torch.zeros((), dtype=torch.long))  # so that a checkpoint has it

    def current(self) -> float:
        """Return the temperature of the current step; it is 1 in validation."""
        done = (int(self.step) / self.steps - _HOLD) / (_REACHED - _HOLD)
        return 1.0 + (self.temperature - 1.0) * min(max(1.0 - done, 0.0), 1.0) if self.training else 1.0

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        """Return losses, (B,)."""
        temperature = self.current()
        self.step += int(self.training)
        alpha = alpha_of(self.network(x) / temperature)
        losses = -log_density(smoothed(y / temperature, self.smoothing), alpha.unsqueeze(-2)).mean(-1)
        return (losses / y.shape[-1]).to(x.dtype)


def smoothed(logits: Tensor, share: float) -> Tensor:
    """Return log-probabilities of logits (..., C), mixed with a share of the uniform distribution, in float64."""
    p = logits.double().softmax(-1)
    return ((1 - share) * p + share / p.shape[-1]).log()


class EnD2Classifier(DirichletClassifier):
    """An ensemble for classes, distilled into one network.

    Args:
        ensemble_size: The number of teachers.
        temperature: The temperature at the start, at least 1.
        smoothing: The share of the uniform distribution in the teachers' probabilities.
        **settings: Those of `Baseline`, for all networks; `patience` is for the teachers only.
    """

    def __init__(
        self,
        *,
        ensemble_size: int = 5,
        temperature: float = 10.0,
        smoothing: float = 1e-4,
        **settings: Unpack[Settings],
    ) -> None:
        super().__init__(**settings)
        self.ensemble_size = ensemble_size
        self.temperature = temperature
        self.smoothing = smoothing

    def _check_parameters(self) -> None:
        super()._check_parameters()
        check_count(self, "ensemble_size")
        check_number(self, "temperature", 1, inclusive=True)
        check_share(self, "smoothing")

    def _train(self, data: Prepared, seed: int) -> nn.Module:
        size = int(self.ensemble_size)
        teachers = Members(self._trained(data, seed, i) for i in range(size))
        student = self._fresh(data, seed + size)
        taught = [(x, _logits(teachers, x), weight) for x, _, weight in (data.train, data.validation)]
        # Where members differ, losses of held-out rows reach 10¹³ and their mean is useless: the last state is kept.
        descent = replace(self._descent(self.n_rows_), patience=None, evaluations=1)
        steps = descent.epochs * max(1, self.n_rows_ // descent.batch_size)
        loss = DistillationLoss(student, float(self.temperature), float(self.smoothing), steps)
        self._minimise(loss, taught[0], taught[1], descent, seed + size, "distillation")
        return student


@torch.no_grad()
def _logits(teachers: Members, x: Tensor) -> Tensor:
    teachers.eval()
    device = next(teachers.parameters()).device
    return torch.cat([teachers(part.to(device)).movedim(0, 1).cpu() for part in x.split(_CHUNK)])
