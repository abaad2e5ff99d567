"""Deep ensembles (Lakshminarayanan, Pritzel and Blundell 2017): several networks that differ only in their seed.

Each member starts from its own weights and sees the rows in its own order; all are trained by maximum likelihood.
"""

from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor, nn

from natpn.estimators.rows import Prepared
from natpn_paper.baselines.base import Baseline
from natpn_paper.baselines.checks import check_count
from natpn_paper.baselines.members import MembersClassifier, MembersRegressor


class Members(nn.Module):
    """Several networks: raw outputs (S, B, K).

    Args:
        members: The networks.
    """

    def __init__(self, members: Iterable[nn.Module]) -> None:
        super().__init__()
        self.members = nn.ModuleList(members)

    def forward(self, x: Tensor) -> Tensor:
        """Return the raw outputs of all members."""
        return torch.stack([member(x) for member in self.members])


class Ensemble(Baseline):
    """A deep ensemble.

    Args:
        ensemble_size: The number of networks.
        **settings: Those of `Baseline`.
    """

    def __init__(self, *, ensemble_size: int = 5, **settings: Any) -> None:
        super().__init__(**settings)
        self.ensemble_size = ensemble_size

    def _check_parameters(self) -> None:
        super()._check_parameters()
        check_count(self, "ensemble_size")

    def _train(self, data: Prepared, seed: int) -> nn.Module:
        return Members(self._trained(data, seed, i) for i in range(int(self.ensemble_size)))


class EnsembleClassifier(Ensemble, MembersClassifier):
    """A deep ensemble for classes; see `Ensemble`."""


class EnsembleRegressor(Ensemble, MembersRegressor):
    """A deep ensemble for numbers and counts; see `Ensemble` and `BaselineRegressor`."""
