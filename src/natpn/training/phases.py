"""What both schemes begin with and share: samples, targets, what is fitted to inputs alone, and the density."""

import torch

from natpn import parallel
from natpn.encoders import fit_to_inputs
from natpn.network import NaturalPosteriorNetwork
from natpn.training.align import Latents, latents
from natpn.training.batches import Rows
from natpn.training.descent import Descent, descend
from natpn.training.losses import DensityLoss
from natpn.training.session import Session
from natpn.training.variation import PICTURES, Variation

SAMPLE = 20_000


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


def variation(session: Session, member: NaturalPosteriorNetwork) -> Variation | None:
    """Return how to vary inputs in training; None if they are no pictures, or have a target a pixel."""
    x, y, _ = next(session.train.chunks())
    if x.ndim != 4 or y.ndim != 1 + len(member.family.support.event_shape):
        return None
    return Variation.of(session.train.sample(PICTURES))


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
        network.density.refit(train.features, train.weight, generator(session), parallel.total)
        parallel.synchronise(network.density)
        session.finish(f"{phase} start")
    if network.density.refit_suffices:
        session.finish(phase)
        return
    held_out = latents(network, session.validation.of(place), session, max_rows)
    descend(session, phase, DensityLoss(network.density), density_rows(train), density_rows(held_out), descent)


def generator(session: Session) -> torch.Generator:
    """Return the generator of a fit's density."""
    return torch.Generator().manual_seed(session.seed)


def density_rows(part: Latents) -> Rows:
    """Return what the density sees, of all processes."""
    return Rows(*(parallel.gather_rows(t) for t in (part.features, part.weight, part.weight)))
