"""Prior Networks by the reverse divergence (Malinin and Gales 2019), R-PriorNet in the paper.

The network returns log α. It is trained towards β = 1 + β_in·1_c for a row of class c, and towards β = 1, the flat
Dirichlet, for an out-of-distribution input:

    loss = KL(Dir(α(x)) ‖ Dir(1 + β_in·1_c)) + w · KL(Dir(α(x_ood)) ‖ Dir(1))

Both terms are divided by β_in, which only changes the size of gradients. Out-of-distribution inputs are given by the
user or are Gaussian noise: independent standard normal features, since inputs are standardised.
"""

from typing import Any, Unpack

import torch
from torch import Tensor, nn
from torch.nn.functional import one_hot

from natpn.estimators.rows import Prepared
from natpn.training import Trainee
from natpn_paper.baselines.base import Settings
from natpn_paper.baselines.checks import check_number
from natpn_paper.baselines.dirichlet import DirichletClassifier, alpha_of, divergence
from natpn_paper.baselines.plain_network import NetworkLoss


class ReverseDivergenceLoss(NetworkLoss):
    """The reverse divergence to the target Dirichlets, for rows and for out-of-distribution inputs.

    Args:
        network: The network, which returns log α.
        n_classes: The number of classes.
        concentration: β_in.
        ood_weight: w.
        ood: Out-of-distribution inputs; Gaussian noise if None.
        seed: The seed of the noise in validation.
    """

    ood: Tensor | None

    def __init__(
        self,
        network: nn.Module,
        n_classes: int,
        concentration: float,
        ood_weight: float,
        ood: Tensor | None = None,
        seed: int = 0,
    ) -> None:
        super().__init__(network)
        self.n_classes, self.concentration, self.ood_weight = n_classes, concentration, ood_weight
        self.register_buffer("ood", ood, persistent=False)
        self.seed = seed

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        """Return losses, (B,)."""
        outside = self._outside(x)
        # in one pass, so that normalisation over a batch sees both, as it will in prediction
        alpha = alpha_of(self.network(torch.cat([x, outside])))
        inside, far = alpha[: len(x)], alpha[len(x) :]
        target = 1 + self.concentration * one_hot(y.long(), self.n_classes).to(alpha)
        losses = divergence(inside, target) + self.ood_weight * divergence(far, torch.ones_like(far))
        return (losses / self.concentration).to(x.dtype)

    def _outside(self, x: Tensor) -> Tensor:
        """Return as many out-of-distribution inputs: new ones in every step, always the same in validation."""
        generator = None if self.training else torch.Generator().manual_seed(self.seed)
        if self.ood is None:
            return torch.randn(x.shape, generator=generator, dtype=x.dtype).to(x.device)
        return self.ood[torch.randint(len(self.ood), (len(x),), generator=generator).to(x.device)]


class RPriorNetClassifier(DirichletClassifier):
    """A Prior Network for classes.

    Args:
        ood: Out-of-distribution inputs in the form of X; Gaussian noise if None.
        concentration: β_in, the confidence in training rows that the network is taught.
        ood_weight: The weight of out-of-distribution inputs in the loss.
        **settings: Those of `Baseline`.
    """

    _steps = 4000
    _epochs = (25, 300)

    def __init__(
        self, *, ood: Any = None, concentration: float = 100.0, ood_weight: float = 1.0, **settings: Unpack[Settings]
    ) -> None:
        super().__init__(**settings)
        self.ood = ood
        self.concentration = concentration
        self.ood_weight = ood_weight

    def _check_parameters(self) -> None:
        super()._check_parameters()
        check_number(self, "concentration", 0)
        check_number(self, "ood_weight", 0, inclusive=True)

    def _loss(self, network: Any, data: Prepared, seed: int) -> Trainee:
        ood = None
        if self.ood is not None:
            ood = torch.from_numpy(self.inputs_.transform(self._checked(self.ood, reset=False)))
        return ReverseDivergenceLoss(
            network, len(self.classes_), float(self.concentration), float(self.ood_weight), ood, seed
        )
