"""Schemes of training: `Staged`, the default, and `Paper`.

The staged scheme trains the representation, then the density, then the scale of the evidence:

1. *Representation*: encoder and decoder by the plain likelihood, the n → ∞ limit of the Bayesian loss, with a one-cycle
   learning rate; the moving average of the weights is what is validated and kept. Stackable members of an ensemble are
   trained at the same time. Pictures are varied (`natpn.training.variation`).
2. *Density*: fitted to the training latents, by expectation-maximisation if it is a mixture.
3. *Align*: noise and evidence on held-out rows (see `natpn.training.align`); members of an ensemble get the same median
   evidence there. How fast the evidence of a table falls is found before stage 1, by a small network that has not seen
   some groups of rows (`natpn.training.align`).

Members of an ensemble may each hold out a fold of their own. Each is then trained without its fold and judged by it.

The density cannot pull the representation towards what is easy to model, and more evidence cannot undo a prediction.

The paper's scheme (Sec. 3.5) is warm-up of the density, the joint Bayesian loss, and fine-tuning of the density.
Warm-up and fine-tuning maximise the likelihood of the latents with everything else fixed. The optimiser is Adam at a
constant learning rate, with early stopping. Three things are ours, without which runs fail: the decoder starts at the
marginal of the targets, log n has a bound in training, and what fine-tuning found is taken only if the prediction
allows it (`BayesianLoss` and `FineTuningLoss` in `natpn.training.losses`).
"""

import contextlib
import copy
import math
from dataclasses import dataclass, replace
from typing import Literal

import torch

from natpn import parallel
from natpn.densities import Surprise
from natpn.encoders import ChainEncoder, fit_to_inputs
from natpn.network import GradualBudget, NaturalPosteriorNetwork
from natpn.training.align import Latents, choose, divide, latents, refit_noise, set_budget, set_steepness, share_noise
from natpn.training.batches import FoldedRows, Rows, RowSource
from natpn.training.descent import Descent, descend
from natpn.training.losses import (
    BayesianLoss,
    DensityLoss,
    FineTuningLoss,
    PlainLoss,
    StackedNetworks,
    Start,
    marginal,
    stackable,
    start_at_marginal,
)
from natpn.training.session import Session, TrainingError
from natpn.training.variation import PICTURES, Variation

SAMPLE = 20_000
_STEPS, _RATE = 1500, 3e-3
_SHARED_STEPS, _SHARED_RATE = 1000, 5e-3  # of each of several networks: each may err more, their mean errs less
_COSTLY_STEPS, _COSTLY_EPOCHS, _COSTLY_RATE = 600, 12, 5e-3  # of other encoders
_ROWS, _GROWTH = 2400, 0.3  # with so many rows those steps are taken, and half as many with a tenth of them
_SHARED_DECLINE = 0.5  # of several networks a third
_EVALUATIONS = 30
_PENALTY_ROWS = 800
_MANY = 200_000
_SLOWER, _LEAST_SHARE = 100_000, 0.1  # rows, from which the rate falls, and how far


@dataclass(frozen=True)
class Staged:
    """Settings of the staged scheme.

    Attributes:
        max_epochs: Epochs of the first stage, by default from 10 to 300. With 2,400 rows of a table they make 1500
            steps, 1000 if several networks are trained at once; with ten times as many rows twice as many, with a tenth
            of them half or, of several networks, a third. Other encoders take 600 steps, and at least 12 epochs.
        batch_size: By default the power of two near a sixteenth of the rows, from 32 to 256.
        learning_rate: The peak of the cycle; by default 3·10⁻³ for one tabular network, and 5·10⁻³ for several at once
            and for other encoders. For tables of more than 100,000 rows it falls with the root of their number, to a
            tenth at most.
        patience: Stop the first stage after this many epochs without progress; by default never, since the cycle's end
            is where most of the progress is. The best state is kept either way.
        averaging: Weight of the past in the moving average of the weights.
        max_gradient_norm: Longer gradients are shortened to it.
        penalty: The precision of a Gaussian prior on the weights of networks for tables: half the sum of their squares,
            times this and over the number of rows, or over 800 if there are fewer, is added to the mean loss of a row.
        density_rows: At most this many training rows are used to fit the density.
        density_epochs: Epochs for densities that need gradient descent.
        leave_groups_out: Find from groups of rows that are left out how fast the evidence falls; for tables in memory.
        vary: Shift pictures at random in the first stage, and mirror them if they look the same mirrored; switch it off
            if a target depends on where something is in its picture. Pictures with a target a pixel are not varied.
    """

    max_epochs: int | None = None
    batch_size: int | None = None
    learning_rate: float | None = None
    patience: int | None = None
    averaging: float = 0.998
    max_gradient_norm: float = 10.0
    penalty: float = 2.4
    density_rows: int = 20_000
    density_epochs: int = 100
    leave_groups_out: bool = True
    vary: bool = True

    def run(self, session: Session, members: list[NaturalPosteriorNetwork]) -> None:
        """Run all stages."""
        start = self._prepare(session, members)
        self._leave_groups_out(session, members)
        alone = parallel.world_size() == 1 or session.train.is_own
        together = len(members) > 1 and alone and stackable(members)
        descent = self._descent(session, members, start.scale)
        if together:
            trainee = PlainLoss(StackedNetworks(members), start)
            descend(session, "representation", trainee, session.train, session.validation, descent)
        else:
            descent = replace(descent, vary=variation(session, members[0]) if self.vary else None)
            for i, member in enumerate(members):
                sources = session.train.of(i), session.validation.of(i)
                descend(session, _name("representation", i, members), PlainLoss(member, start), *sources, descent)
        self._refine(session, members)
        for i, member in enumerate(members):
            density = Descent(self.density_epochs, 512, 3e-3, "one_cycle", patience=20)
            fit_density(session, _name("density", i, members), member, i, density, self.density_rows)
            self._align(session, _name("align", i, members), member, i)
        if len(members) > 1:
            self._agree(session, members)

    def _descent(self, session: Session, members: list[NaturalPosteriorNetwork], scale: float = 1.0) -> Descent:
        rows = len(session.train)
        size = self.batch_size or batch_size(rows)
        steps = session.train.steps(size)
        tabular = all(isinstance(member.encoder, ChainEncoder) for member in members)
        wanted, rate, growth = (_STEPS, _RATE, _GROWTH) if tabular else (_COSTLY_STEPS, _COSTLY_RATE, 0.0)
        if tabular and len(members) > 1:
            wanted, rate, growth = _SHARED_STEPS, _SHARED_RATE, _GROWTH if rows > _ROWS else _SHARED_DECLINE
        if tabular:
            wanted = round(wanted * (rows / _ROWS) ** growth)
            rate *= min(max(math.sqrt(_SLOWER / rows), _LEAST_SHARE), 1.0)  # there are steps enough
        # Of very many rows fewer passes are enough: ten of a table up to 200,000 rows, one from 20 million on.
        least = max(1, round(min(10, 10 * math.sqrt(_MANY / rows)))) if tabular else _COSTLY_EPOCHS
        passes = self.max_epochs or min(max(wanted // (steps * session.train.n_epochs), least), 300)
        return Descent(
            passes * session.train.n_epochs,
            size,
            self.learning_rate or rate,
            "one_cycle",
            self.averaging,
            self.patience,
            evaluations=_EVALUATIONS if self.patience is None else None,
            max_gradient_norm=self.max_gradient_norm,
            penalty=self.penalty / (max(rows, _PENALTY_ROWS) * scale) if tabular else 0.0,
        )

    def _prepare(self, session: Session, members: list[NaturalPosteriorNetwork]) -> Start:
        """Fit what is fitted to the inputs and targets alone, and return where training starts."""
        y, weight = targets(session)
        if session.is_finished("prepare"):
            bias = members[0].decoder.bias.detach().clone()
            start = start_at_marginal(members[0], y, weight)
            with torch.no_grad():
                members[0].decoder.bias.copy_(bias)
            return start
        for member in members:
            member.see_targets(y, weight)
            prepare(session, member)
            start = start_at_marginal(member, y, weight)
        session.finish("prepare")
        return start

    def _leave_groups_out(self, session: Session, members: list[NaturalPosteriorNetwork]) -> None:
        """Find how fast evidence has to fall, with a copy of a network that is trained without some groups."""
        train, first = session.train, members[0]
        if (
            not self.leave_groups_out
            or session.is_finished("groups")
            or not isinstance(train, Rows)
            or not isinstance(first.encoder, ChainEncoder)
            or not isinstance(first.budget, GradualBudget)
        ):
            return
        parts = divide(train, isinstance(first.density, Surprise), torch.Generator().manual_seed(session.seed))
        if parts is not None:
            rest, held_out, left_out = parts
            network = copy.deepcopy(first)
            inner = Session(network, rest, held_out, session.device, session.seed, session.precision, None, {}, False)
            short = replace(self, leave_groups_out=False)
            epochs = max(1, short._descent(inner, [network]).epochs // 6)
            with parallel.seeded(session.seed, session.device), contextlib.suppress(TrainingError):
                replace(short, max_epochs=epochs).run(inner, [network])
                steepness = choose(network, [_said(network, group, inner) for group in left_out])
                for member in members:
                    set_steepness(member, steepness)
        session.finish("groups")

    def _refine(self, session: Session, members: list[NaturalPosteriorNetwork]) -> None:
        """Let the family set its open parameters; a resumed run does it again, since they are not in the checkpoint."""
        judges = members if isinstance(session.validation, FoldedRows) else members[:1]
        parts = [_held_out(session, member, i) for i, member in enumerate(judges)]
        raw, y, weight = (torch.cat([getattr(part, name) for part in parts]) for name in ("raw", "y", "weight"))
        family = members[0].family.refined(raw, y, weight)
        if family != members[0].family:
            for member in members:
                member.family = family
                member.see_targets(*targets(session))

    def _agree(self, session: Session, members: list[NaturalPosteriorNetwork]) -> None:
        """Adjust the members to each other.

        All get the same median evidence, the largest: else the member with the most would speak for all. Noise that
        they would count twice is taken off.
        """
        if session.is_finished("level"):
            return
        if isinstance(session.validation, FoldedRows):
            places = range(len(members))
            share_noise(members, [[_held_out(session, member, i) for member in members] for i in places])
        medians = []
        for i, member in enumerate(members):
            features = _held_out(session, member, i).features
            with torch.no_grad():
                medians.append(float(member.budget(member.density(features)).median()))
        for member, median in zip(members, medians, strict=True):
            if isinstance(member.budget, GradualBudget):
                member.budget.level.add_(max(medians) - median)
            parallel.synchronise(member.budget)
        session.finish("level")

    def _align(self, session: Session, phase: str, member: NaturalPosteriorNetwork, place: int) -> None:
        if session.is_finished(phase):
            return
        held_out = _held_out(session, member, place)
        refit_noise(member, held_out)
        set_budget(member, held_out)
        parallel.synchronise(member)
        session.finish(phase)


def variation(session: Session, member: NaturalPosteriorNetwork) -> Variation | None:
    """Return how to vary inputs in training; None if they are no pictures, or have a target a pixel."""
    x, y, _ = next(session.train.chunks())
    if x.ndim != 4 or y.ndim != 1 + len(member.family.support.event_shape):
        return None
    return Variation.of(session.train.sample(PICTURES))


def batch_size(rows: int) -> int:
    """Return the power of two near a sixteenth of the rows, from 32 to 256 but no more than there are."""
    return min(1 << round(math.log2(min(max(rows / 16, 32), 256))), rows)


def targets(session: Session) -> tuple[torch.Tensor, torch.Tensor]:
    """Return targets and weights of the training data, of all processes."""
    if isinstance(session.train, Rows):
        return session.train.y[: 10 * SAMPLE], session.train.weight[: 10 * SAMPLE]
    parts: list[tuple[torch.Tensor, torch.Tensor]] = []
    for _, y, weight in session.train.chunks():
        parts.append((y, weight))
        if sum(len(w) for _, w in parts) >= 10 * SAMPLE:
            break
    found, weights = (parallel.gather_rows(torch.cat(column)) for column in zip(*parts, strict=True))
    return found, weights


def _held_out(session: Session, member: NaturalPosteriorNetwork, place: int) -> Latents:
    """Return what a member says about the rows that it has not seen, of all processes."""
    return _said(member, session.validation.of(place), session)


def _said(member: NaturalPosteriorNetwork, rows: RowSource, session: Session) -> Latents:
    own = latents(member, rows, session, SAMPLE)
    return Latents(*(parallel.gather_rows(t) for t in (own.latent, own.raw, own.features, own.y, own.weight)))


def _name(phase: str, i: int, members: list[NaturalPosteriorNetwork]) -> str:
    return phase if len(members) == 1 else f"{phase} {i + 1}"


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
            descend(session, phase, DensityLoss(member.density), _rows(train), _rows(held_out), descent)

    def _fine_tune(
        self, session: Session, phase: str, member: NaturalPosteriorNetwork, place: int, loss: BayesianLoss
    ) -> None:
        """Fit the density to the final latents, and take what was found if the prediction allows it."""
        if not self.fine_tuning_epochs or session.is_finished(phase):
            return
        train, held_out = self._latents(session, member, place)
        said = [parallel.gather_rows(t) for t in (held_out.features, held_out.raw, held_out.y, held_out.weight)]
        trainee = FineTuningLoss(loss, *said)
        if trainee.density.refit_suffices:
            trainee.density.refit(train.features, train.weight, _generator(session), parallel.total)
            trainee.close()
            session.finish(phase)
        else:
            descent = self._descent(self.fine_tuning_epochs)
            descend(session, phase, trainee, _rows(train), _rows(held_out), descent)

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


@torch.no_grad()
def prepare(session: Session, network: NaturalPosteriorNetwork) -> None:
    """Fit what is fitted to the inputs alone: knots, filters and bypass."""
    sample = session.train.sample(SAMPLE)
    fit_to_inputs(network.encoder, sample)
    fit_bypass = getattr(network.bypass, "fit", None)
    if callable(fit_bypass):
        fit_bypass(sample)
    parallel.synchronise(network)
    network.budget.see_rows(len(session.train))


def fit_density(
    session: Session,
    phase: str,
    network: NaturalPosteriorNetwork,
    place: int,
    descent: Descent,
    max_rows: int,
) -> None:
    """Fit the density to the training latents: by its own method if it has one, otherwise by gradient descent too.

    At most `max_rows` rows are used.
    """
    if session.is_finished(phase):
        return
    train = latents(network, session.train.of(place), session, max_rows)
    if not session.is_finished(f"{phase} start"):
        network.density.refit(train.features, train.weight, _generator(session), parallel.total)
        parallel.synchronise(network.density)
        session.finish(f"{phase} start")
    if network.density.refit_suffices:
        session.finish(phase)
        return
    held_out = latents(network, session.validation.of(place), session, max_rows)
    descend(session, phase, DensityLoss(network.density), _rows(train), _rows(held_out), descent)


def _generator(session: Session) -> torch.Generator:
    return torch.Generator().manual_seed(session.seed)


def _rows(part: Latents) -> Rows:
    """Return what the density sees, of all processes."""
    return Rows(*(parallel.gather_rows(t) for t in (part.features, part.weight, part.weight)))
