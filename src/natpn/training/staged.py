"""The staged scheme, which is the default: the representation, then the density, then the scale of the evidence.

1. *Representation*: encoder and decoder by the plain likelihood, the n → ∞ limit of the Bayesian loss, with a one-cycle
   learning rate; the moving average of the weights is what is validated and kept. Stackable members of an ensemble are
   trained at the same time. Pictures are varied (`natpn.training.variation`).
2. *Density*: fitted to the training latents, by expectation-maximisation if it is a mixture.
3. *Align*: noise and evidence on held-out rows (see `natpn.training.align`); members of an ensemble get the same median
   evidence there. How fast the evidence of a table falls is found before stage 1, by a small network that has not seen
   some groups of rows (`natpn.training.align`).

Members of an ensemble may each hold out a fold of their own. Each is then trained without its fold and judged by it.

The density cannot pull the representation towards what is easy to model, and more evidence cannot undo a prediction.
"""

import contextlib
import copy
import math
from dataclasses import dataclass, replace

import torch

from natpn import parallel
from natpn.densities import Surprise
from natpn.encoders import ChainEncoder
from natpn.network import GradualBudget, NaturalPosteriorNetwork
from natpn.training.align import Latents, choose, divide, latents, refit_noise, set_budget, set_steepness, share_noise
from natpn.training.batches import FoldedRows, Rows, RowSource
from natpn.training.descent import Descent, descend
from natpn.training.losses import PlainLoss, StackedNetworks, Start, stackable, start_at_marginal
from natpn.training.phases import SAMPLE, fit_density, prepare, targets, variation
from natpn.training.session import Session, TrainingError

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


def batch_size(rows: int) -> int:
    """Return the power of two near a sixteenth of the rows, from 32 to 256 but no more than there are."""
    return min(1 << round(math.log2(min(max(rows / 16, 32), 256))), rows)


def _held_out(session: Session, member: NaturalPosteriorNetwork, place: int) -> Latents:
    """Return what a member says about the rows that it has not seen, of all processes."""
    return _said(member, session.validation.of(place), session)


def _said(member: NaturalPosteriorNetwork, rows: RowSource, session: Session) -> Latents:
    own = latents(member, rows, session, SAMPLE)
    return Latents(*(parallel.gather_rows(t) for t in (own.latent, own.raw, own.features, own.y, own.weight)))


def _name(phase: str, i: int, members: list[NaturalPosteriorNetwork]) -> str:
    return phase if len(members) == 1 else f"{phase} {i + 1}"
