"""The paper's scheme (Sec. 3.5): warm-up of the density, the joint Bayesian loss, fine-tuning of the density.

Warm-up and fine-tuning maximise the likelihood of the latents with everything else fixed. The optimiser is Adam at a
constant learning rate, with early stopping.
"""

from dataclasses import dataclass

import torch

from natpn import parallel
from natpn.network import NaturalPosteriorNetwork
from natpn.training.descent import Descent, descend
from natpn.training.latents import fit_density, prepare
from natpn.training.losses import BayesianLoss
from natpn.training.session import Session


@dataclass(frozen=True)
class Paper:
    """Settings of the paper's scheme.

    Attributes:
        max_epochs: Epochs of joint training.
        batch_size: Rows a step.
        learning_rate: For all phases.
        entropy_weight: λ of the entropy in the Bayesian loss.
        patience: Stop a phase after this many epochs without progress.
        max_gradient_norm: Longer gradients are shortened to it.
        warm_up_epochs: Epochs of the density alone before joint training; 0 for none.
        fine_tuning_epochs: Epochs of the density alone after it; 0 for none.
        density_rows: At most this many latents are used for the density alone.
    """

    max_epochs: int = 100
    batch_size: int = 512
    learning_rate: float = 1e-3
    entropy_weight: float = 1e-5
    patience: int = 20
    max_gradient_norm: float = 10.0
    warm_up_epochs: int = 3
    fine_tuning_epochs: int = 100
    density_rows: int = 200_000

    def run(self, session: Session, members: list[NaturalPosteriorNetwork]) -> None:
        """Run all phases, one member after the other."""
        for i, member in enumerate(members):
            suffix = "" if len(members) == 1 else f" {i + 1}"
            if not session.is_finished(f"prepare{suffix}"):
                prepare(session, member)
                _normalise(session, member)
                session.finish(f"prepare{suffix}")
            self._density(session, f"warm-up{suffix}", member, i, self.warm_up_epochs)
            loss = BayesianLoss(member, self.entropy_weight)
            descend(session, f"joint{suffix}", loss, session.train, session.validation, self._descent(self.max_epochs))
            self._density(session, f"fine-tuning{suffix}", member, i, self.fine_tuning_epochs)

    def _density(self, session: Session, phase: str, member: NaturalPosteriorNetwork, place: int, epochs: int) -> None:
        if epochs:
            fit_density(session, phase, member, place, self._descent(epochs), self.density_rows)

    def _descent(self, epochs: int) -> Descent:
        return Descent(
            epochs,
            self.batch_size,
            self.learning_rate,
            patience=self.patience,
            max_gradient_norm=self.max_gradient_norm,
        )


@torch.no_grad()
def _normalise(session: Session, network: NaturalPosteriorNetwork) -> None:
    """Set the running mean and variance of the latents to those before training."""
    network.eval()
    sums = torch.zeros(3, network.latent_dim, dtype=torch.float64, device=session.device)
    for x, _, _ in session.train.chunks():
        latent = network.encoder(x).reshape(-1, network.latent_dim).double()
        sums += torch.stack([torch.ones_like(latent).sum(0), latent.sum(0), latent.square().sum(0)])
    rows, total, squares = parallel.total(sums)
    network.normalisation.running_mean.copy_(total / rows)
    network.normalisation.running_variance.copy_((squares / rows - (total / rows).square()).clamp(min=0.0))
