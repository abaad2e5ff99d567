"""Gradient descent with everything around it: schedule, averaging, early stopping, checkpoints.

The optimiser is Adam. In a cycle of the learning rate, scale-free kernels take orthogonal steps instead
(`natpn.training.orthogonal`); at a constant rate, which is the paper's scheme, nothing does.

The state that is validated, and kept if it is the best, is a moving average of the weights if `averaging` is above 0.
Stacked members are trained together and judged one by one.

Several processes that share rows in memory add up their gradients: they do what one does. Processes that have rows of
their own on disk each take whole batches of them, and go on from the mean of their weights every `MEET` steps: adding
up gradients would take longer than calculating them.
"""

import contextlib
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor, nn

from natpn import parallel
from natpn.densities.base import identity
from natpn.training.batches import RowSource
from natpn.training.by_hand import Adam, FlatParameters
from natpn.training.losses import Trainee
from natpn.training.orthogonal import OrthogonalSteps, scale_free_kernels
from natpn.training.session import Session, TrainingError

MEET = 16  # steps
_SETTLE = 2048  # rows of the sample that trainees settle by


@dataclass(frozen=True)
class Descent:
    """Settings of gradient descent.

    Attributes:
        epochs: At most this many.
        batch_size: Rows a step, over all processes together.
        learning_rate: The constant rate, or the peak of the cycle.
        schedule: "constant", or "one_cycle": up by a cosine for 30 % of the steps, then down to almost nothing.
        averaging: Weight of the past in the moving average of the weights; 0 for none.
        patience: Stop after this many epochs without a better validation loss; None to go on to the end.
        evaluations: Validate about this often in all.
        max_gradient_norm: Longer gradients are shortened to it.
        penalty: Times half the sum of all squared parameters is added to the loss.
        vary: Changes the inputs of every step at random; not those that are validated.
    """

    epochs: int
    batch_size: int
    learning_rate: float
    schedule: Literal["constant", "one_cycle"] = "constant"
    averaging: float = 0.0
    patience: int | None = None
    evaluations: int | None = None
    max_gradient_norm: float = 10.0
    penalty: float = 0.0
    vary: Callable[[Tensor], Tensor] | None = None

    def rate(self, step: int, total: int) -> float:
        """Return the learning rate of a step."""
        if self.schedule == "constant":
            return self.learning_rate
        peak = 0.3 * total
        if step < peak:
            return self.learning_rate * (0.04 + 0.96 * 0.5 * (1 - math.cos(math.pi * step / peak)))
        return self.learning_rate * (1e-4 + 0.5 * (1 + math.cos(math.pi * (step - peak) / (total - peak))))


def descend(
    session: Session, phase: str, trainee: Trainee, train: RowSource, held_out: RowSource, settings: Descent
) -> None:
    """Train a part of the network; afterwards it is in the best state found, also if a `TrainingError` is raised."""
    if session.is_finished(phase):
        return
    run = _Run(session, phase, trainee, train, held_out, settings)
    run.restore(session.take_running(phase))
    with _bar(session, phase, settings.epochs, run.epoch) as bar:
        for epoch in range(run.epoch, settings.epochs):
            entry = run.train_epoch(epoch)
            if bar is not None:
                bar.update()
                bar.set_postfix({k: f"{v:.4g}" for k, v in entry.items() if isinstance(v, float)})
            # every member has gone without progress for long enough
            if settings.patience is not None and run.epoch - int(run.best_epoch.max()) >= settings.patience:
                break
            session.save(run.state())
    run.close()
    session.finish(phase)


class _Run:
    """One descent, step by step."""

    def __init__(
        self, session: Session, phase: str, trainee: Trainee, train: RowSource, held_out: RowSource, settings: Descent
    ) -> None:
        self.session, self.phase, self.trainee, self.settings = session, phase, trainee, settings
        with torch.no_grad():
            self.train, self.held_out = train.prepared(trainee.prepare), held_out.prepared(trainee.prepare)
        parallel.synchronise(trainee)
        self.flat = FlatParameters((p for p in trainee.parameters() if p.requires_grad), trainee.n_members)
        self.optimiser = Adam(self.flat.value, settings.penalty)
        cycle = settings.schedule == "one_cycle"
        self.kernels = OrthogonalSteps(self.flat, scale_free_kernels(trainee) if cycle else [])
        plain = session.precision == "float32" and train.is_table
        self.by_hand = trainee.by_hand(self.flat) if plain else None
        self.apart = self.by_hand is not None and parallel.world_size() > 1 and train.is_own
        self.module = trainee if self.by_hand else parallel.distributed(trainee, session.device)
        self.generator = torch.Generator().manual_seed(session.seed)
        self.epoch = self.step = 0
        self.total = settings.epochs * train.steps(settings.batch_size)
        members = trainee.n_members or 1
        # The live state, each tensor with a first dimension for the members.
        tensors = list(trainee.trained.state_dict().values())
        self.live = tensors if trainee.n_members else [t[None] for t in tensors]
        # What changes in training: the parameters, and buffers such as running means.
        stored = trainee.trained.state_dict(keep_vars=True).values()
        buffers = [t for t in stored if t.is_floating_point() and not isinstance(t, nn.Parameter)]
        self.moving = [self.flat.value, *buffers]
        self.average = [t.clone() for t in self.moving] if settings.averaging else []
        self.best = [t.clone() for t in self.live]
        self.sample = self.train.sample(_SETTLE)
        self.best_loss = torch.full((members,), math.inf, dtype=torch.float64)
        self.best_epoch = torch.zeros(members, dtype=torch.long)

    def state(self) -> dict[str, Any]:
        """Return all that is needed to go on."""
        return {
            "phase": self.phase,
            "epoch": self.epoch,
            "step": self.step,
            "trained": self.trainee.trained.state_dict(),
            "optimiser": self.optimiser.state_dict(),
            "kernels": self.kernels.state_dict(),
            "average": self.average,
            "best": self.best,
            "best_loss": self.best_loss,
            "best_epoch": self.best_epoch,
            "generator": self.generator.get_state(),
            "random": parallel.random_state(self.session.device),
        }

    def restore(self, state: dict[str, Any] | None) -> None:
        """Go on from a state, if there is one."""
        if state is None:
            return
        self.epoch, self.step = state["epoch"], state["step"]
        self.trainee.trained.load_state_dict(state["trained"])
        self.optimiser.load_state_dict(state["optimiser"])
        self.kernels.load_state_dict(state["kernels"])
        self.average, self.best = state["average"], state["best"]
        self.best_loss, self.best_epoch = state["best_loss"].cpu(), state["best_epoch"].cpu()
        self.generator.set_state(state["generator"].cpu())
        parallel.set_random_state(state["random"], self.session.device)

    def train_epoch(self, epoch: int) -> dict[str, Any]:
        """Run an epoch, validate, and return what there is to report."""
        self.trainee.train()
        losses: list[Tensor] = []
        size, members = self.settings.batch_size, self.trainee.n_members
        for x, y, weight in self.train.batches(size, self.generator, members, epoch):
            x = x if self.settings.vary is None else self.settings.vary(x)
            loss, gradient = self._differentiate(x, y, weight)
            gradient, rate = self._clipped(gradient), self.settings.rate(self.step, self.total)
            self.kernels.step(gradient, rate)
            self.optimiser.step(gradient, rate)
            self.step += 1
            if self.apart and self.step % MEET == 0:
                self.flat.value.copy_(parallel.mean(self.flat.value))
            if self.average:
                keep = min(self.settings.averaging, (1 + self.step) / (10 + self.step))
                torch._foreach_lerp_(self.average, self.moving, 1 - keep)
            losses.append(loss)
        self.epoch = epoch + 1
        for value in [*self.moving, *self.average] if self.apart else []:
            value.copy_(parallel.mean(value))
        # a loader may have been empty this time
        loss = (torch.stack(losses).double().sum(0) if losses else torch.zeros(1)) / max(1, len(losses))
        loss = parallel.mean(loss) if self.apart else parallel.total(loss)
        self._check(loss, "training")
        entry: dict[str, Any] = {"phase": self.phase, "epoch": self.epoch, "loss": float(loss.mean())}
        every = max(1, self.settings.epochs // (self.settings.evaluations or self.settings.epochs))
        if self.epoch % every == 0 or self.epoch == self.settings.epochs:
            entry |= self._validate()
        self.session.history.append(entry)
        return entry

    def _differentiate(self, x: Tensor, y: Tensor, weight: Tensor) -> tuple[Tensor, Tensor]:
        """Return the loss of a batch, one number a member, and its gradient."""
        members = self.trainee.n_members
        total = parallel.total if not self.apart else identity
        count = total(weight.sum(-1)).clamp(min=1e-12).reshape(-1)  # for each member
        if self.by_hand is not None:
            share = weight * (1 / count) if members is None else weight * (1 / count)[:, None]
            losses, gradient = self.by_hand(x, y, share)
            return (_per_row(losses, members) * weight).sum(1) / count, total(gradient)
        with parallel.autocast(self.session.device, self.session.precision):
            losses = self.module(x, y)
        loss = (_per_row(losses, members) * weight).sum(1) / count
        loss.sum().mul(parallel.world_size()).backward()  # gradients are averaged over processes
        return loss.detach(), self.flat.gradient()

    @torch.no_grad()
    def close(self) -> None:
        """Put the best state in place."""
        for live, best in zip(self.live, self.best, strict=True):
            live.copy_(best)
        self.flat.release()
        self.trainee.eval()
        self.trainee.close()

    @torch.no_grad()
    def _validate(self) -> dict[str, Any]:
        parallel.synchronise(self.trainee.trained)
        kept = [t.clone() for t in self.moving] if self.average else []
        for live, average in zip(self.moving, self.average, strict=bool(self.average)):
            live.copy_(average)
        self.trainee.eval()
        self.trainee.settle(self.sample)
        loss, evidence = evaluate(self.trainee, self.held_out, self.session)
        better = loss < self.best_loss
        if bool(better.any()):
            better &= self.trainee.may_be_kept()
        for best, live in zip(self.best, self.live, strict=True):
            best[better] = live[better]
        self.best_loss = torch.where(better, loss, self.best_loss)
        self.best_epoch[better] = self.epoch
        for live, value in zip(self.moving, kept, strict=bool(kept)):
            live.copy_(value)
        self._check(loss, "validation")
        found = {"validation_loss": float(loss.mean()), "best": float(self.best_loss.mean())}
        return found if evidence is None else {**found, "median_log_evidence": evidence}

    def _clipped(self, gradient: Tensor) -> Tensor:
        """Shorten the gradient of each member to the limit."""
        norm = torch.linalg.vector_norm(gradient, dim=1, keepdim=True)
        # other devices would have to be waited for
        if norm.device.type == "cpu" and float(norm.max()) <= self.settings.max_gradient_norm:
            return gradient
        return gradient.mul_((self.settings.max_gradient_norm / norm.clamp(min=1e-12)).clamp(max=1.0))

    def _check(self, loss: Tensor, which: str) -> None:
        if bool(loss.isfinite().all()):
            return
        self.close()
        wrong = [
            name
            for name, data in (("training", self.train), ("validation", self.held_out))
            if any(not bool(x.isfinite().all()) for x, _, _ in data.chunks())
        ]
        cause = (
            f"the {' and '.join(wrong)} inputs hold NaN or inf: impute them"
            if wrong
            else f"the learning rate {self.settings.learning_rate} may be too high, or inputs far from standardised"
        )
        raise TrainingError(
            f"phase {self.phase!r}, epoch {self.epoch}: the {which} loss is {loss.tolist()}; likely {cause}. The "
            "network holds the best state before it."
        )


@torch.no_grad()
def evaluate(trainee: Trainee, data: RowSource, session: Session) -> tuple[Tensor, float | None]:
    """Return the mean loss of each member, and the median log-evidence if there is evidence."""
    trainee.eval()
    members = trainee.n_members
    sums = torch.zeros(2, members or 1, dtype=torch.float64, device=session.device)
    evidence: list[Tensor] = []
    for x, y, weight in data.chunks(members):
        with parallel.autocast(session.device, session.precision):
            losses = trainee(x, y)
        per_row = _per_row(losses, members).double()
        weight = weight.double().reshape(members or 1, -1)
        sums += torch.stack([(per_row * weight).sum(1), weight.sum(1)])
        if trainee.log_n is not None:
            evidence.append(trainee.log_n.flatten())
    sums = parallel.total(sums)
    median = float(parallel.gather_rows(torch.cat(evidence)).median()) if evidence else None
    return (sums[0] / sums[1]).cpu(), median


def _per_row(losses: Tensor, members: int | None) -> Tensor:
    """Return losses as (M, B): those of a dense target are averaged."""
    losses = losses if members else losses[None]
    return losses.flatten(2).mean(-1) if losses.ndim > 2 else losses


@contextlib.contextmanager
def _bar(session: Session, phase: str, epochs: int, start: int) -> Iterator[Any]:
    """Yield a progress bar, or None."""
    if not session.progress or parallel.rank() > 0:
        yield None
        return
    from tqdm import tqdm

    with tqdm(total=epochs, initial=start, desc=phase) as bar:
        yield bar
