"""The outputs of a frozen network for a data set, calculated once, and the density that is fitted to them."""

from dataclasses import dataclass

import torch
from torch import Tensor

from natpn import parallel
from natpn.network import NaturalPosteriorNetwork
from natpn.training.batches import Rows, Source
from natpn.training.descent import Descent, descend
from natpn.training.losses import DensityLoss
from natpn.training.session import Session

SAMPLE = 20_000


@dataclass(frozen=True)
class Latents:
    """The outputs of a frozen network, one row a target; rows of weight 0 are left out.

    Attributes:
        latent: Normalised latents, (N, H).
        raw: Raw outputs of the decoder, (N, S).
        features: What the density sees, (N, D).
        y: Targets.
        weight: How much each counts.
    """

    latent: Tensor
    raw: Tensor
    features: Tensor
    y: Tensor
    weight: Tensor


@torch.no_grad()
def latents(network: NaturalPosteriorNetwork, data: Source, session: Session, max_rows: int) -> Latents:
    """Run the network in evaluation mode over this process's share of the data.

    Args:
        network: The network; it is in evaluation mode afterwards.
        data: The data.
        session: The run.
        max_rows: Keep about this many rows of all processes together, evenly spaced.
    """
    network.eval()
    size = len(network.family.support.event_shape)
    parts: list[tuple[Tensor, ...]] = []
    for x, y, weight in data.chunks():
        with parallel.autocast(session.device, session.precision):
            latent, raw = network.represent(x)
            features = network.features(x, latent)
        wide = weight.reshape(-1, *[1] * (latent.ndim - 2)).expand(latent.shape[:-1])
        flat = [t.reshape(-1, t.shape[-1]) for t in (latent, raw, features)]
        parts.append((*flat, y.reshape(-1, *y.shape[y.ndim - size :]), wide.flatten()))
    joined = [torch.cat(column) for column in zip(*parts, strict=True)]
    joined = [t[joined[-1] > 0] for t in joined]
    rows = int(parallel.total(torch.tensor(len(joined[0]), device=session.device)))
    every = max(1, -(-rows // max_rows))
    return Latents(*(t[::every] for t in joined))


@torch.no_grad()
def prepare(session: Session, network: NaturalPosteriorNetwork) -> None:
    """Fit what is fitted to the inputs alone: knots and bypass."""
    sample = session.train.sample(SAMPLE)
    for part, method in ((network.encoder, "fit_knots"), (network.bypass, "fit")):
        if hasattr(part, method):
            getattr(part, method)(sample)
    parallel.synchronise(network)
    network.budget.see_rows(len(session.train))


def fit_density(
    session: Session, phase: str, network: NaturalPosteriorNetwork, place: int, descent: Descent, max_rows: int
) -> None:
    """Fit the density to the training latents: by its own method if it has one, otherwise by gradient descent too.

    Args:
        session: The run.
        phase: A name for the history.
        network: The network.
        place: Which member of an ensemble it is.
        descent: How, for densities that need it.
        max_rows: At most this many rows are used.
    """
    if session.is_finished(phase):
        return
    train = latents(network, session.train.of(place), session, max_rows)
    if not session.is_finished(f"{phase} start"):
        generator = torch.Generator().manual_seed(session.seed)
        network.density.refit(train.features, train.weight, generator, parallel.total)
        parallel.synchronise(network.density)
        session.finish(f"{phase} start")
    if network.density.refit_suffices:
        session.finish(phase)
        return
    held_out = latents(network, session.validation.of(place), session, max_rows)
    everyone = [
        Rows(*(parallel.gather_rows(t) for t in (part.features, part.weight, part.weight)))
        for part in (train, held_out)
    ]
    descend(session, phase, DensityLoss(network.density), everyone[0], everyone[1], descent)
