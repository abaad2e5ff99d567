"""The paper's scheme (Sec. 3.5): warm-up of the density, the joint Bayesian loss, and fine-tuning of the density.

Warm-up and fine-tuning maximise the likelihood of the latents with everything else fixed. The optimiser is Adam at a
constant learning rate, with early stopping. Four things are ours, without which runs fail: the decoder starts at the
marginal of the targets, the latents of an encoder with batch norm start around 0 (`natpn.encoders.start`), log n has a
bound in training, and fine-tuning keeps the best density that the prediction allows (`BayesianLoss` and
`FineTuningLoss` in `natpn.training.losses`).
"""

from dataclasses import dataclass, replace
from typing import Literal

from natpn import parallel
from natpn.encoders.start import centre_latents
from natpn.network import NaturalPosteriorNetwork
from natpn.training.align import Latents, latents
from natpn.training.descent import Descent, descend
from natpn.training.losses import BayesianLoss, DensityLoss, FineTuningLoss, marginal, start_at_marginal
from natpn.training.phases import density_rows, generator, prepare, targets, variation
from natpn.training.session import Session

_SAMPLE = 2048  # inputs that latents are centred by


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
        density_rate: The peak of one cycle of the learning rate in which fine-tuning fits the density from a new start
            (`Density.refit`); None for the constant rate, from where joint training left it.
        density_rows: At most this many latents are used for the density alone.
        schedule: That of the joint training, "constant" as in the paper, or "one_cycle", which goes on to its end.
        vary: Shift and mirror pictures in joint training, as `Staged` does.
    """

    max_epochs: int = 100
    batch_size: int = 512
    learning_rate: float = 1e-3
    entropy_weight: float = 1e-5
    patience: int = 20
    max_gradient_norm: float = 10.0
    warm_up_epochs: int = 3
    fine_tuning_epochs: int = 100
    density_rate: float | None = None
    density_rows: int = 200_000
    schedule: Literal["constant", "one_cycle"] = "constant"
    vary: bool = False

    def run(self, session: Session, members: list[NaturalPosteriorNetwork]) -> None:
        """Run all phases, one member after the other."""
        y, weight = targets(session)
        for i, member in enumerate(members):
            suffix = "" if len(members) == 1 else f" {i + 1}"
            scale = marginal(member.family, y, weight)[1]
            if not session.is_finished(f"prepare{suffix}"):
                prepare(session, member)
                centre_latents(member.encoder, session.train.sample(_SAMPLE))
                parallel.synchronise(member)
                start_at_marginal(member, y, weight)
                session.finish(f"prepare{suffix}")
            self._warm_up(session, f"warm-up{suffix}", member, i)
            loss = BayesianLoss(member, self.entropy_weight, scale)
            joint = self._descent(self.max_epochs)
            if self.schedule == "one_cycle":
                joint = replace(joint, schedule="one_cycle", patience=None)
            joint = replace(joint, vary=variation(session, member) if self.vary else None)
            descend(session, f"joint{suffix}", loss, session.train, session.validation, joint)
            self._fine_tune(session, f"fine-tuning{suffix}", member, i, loss)

    def _warm_up(self, session: Session, phase: str, member: NaturalPosteriorNetwork, place: int) -> None:
        """Fit the density to the latents of an untrained encoder by a few epochs of descent.

        Expectation-maximisation would fit a mixture so closely that every step of the encoder leads out of it.
        """
        if self.warm_up_epochs and not member.density.refit_suffices and not session.is_finished(phase):
            train, held_out = self._latents(session, member, place)
            descent = self._descent(self.warm_up_epochs)
            descend(session, phase, DensityLoss(member.density), density_rows(train), density_rows(held_out), descent)

    def _fine_tune(
        self, session: Session, phase: str, member: NaturalPosteriorNetwork, place: int, loss: BayesianLoss
    ) -> None:
        """Fit the density to the final latents, as far as the prediction allows."""
        if not self.fine_tuning_epochs or session.is_finished(phase):
            return
        train, held_out = self._latents(session, member, place)
        said = [parallel.gather_rows(t) for t in (held_out.features, held_out.raw, held_out.y, held_out.weight)]
        trainee = FineTuningLoss(loss, *said)
        if trainee.density.refit_suffices:
            trainee.density.refit(train.features, train.weight, generator(session), parallel.total)
            trainee.close()
            session.finish(phase)
        else:
            descent = self._descent(self.fine_tuning_epochs)
            if self.density_rate is not None:
                trainee.density.refit(train.features, train.weight, generator(session), parallel.total)
                parallel.synchronise(trainee.density)
                descent = replace(descent, learning_rate=self.density_rate, schedule="one_cycle", patience=None)
            descend(session, phase, trainee, density_rows(train), density_rows(held_out), descent)

    def _latents(self, session: Session, member: NaturalPosteriorNetwork, place: int) -> tuple[Latents, Latents]:
        """Return what the network says of training and of held-out rows."""
        train, held_out = (
            latents(member, source.of(place), session, self.density_rows)
            for source in (session.train, session.validation)
        )
        return train, held_out

    def _descent(self, epochs: int) -> Descent:
        return Descent(
            epochs,
            self.batch_size,
            self.learning_rate,
            patience=self.patience,
            max_gradient_norm=self.max_gradient_norm,
        )
