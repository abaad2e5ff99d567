"""Milliseconds from a batch of inputs to probabilities, or to the distribution of every pixel's depth.

Networks have the sizes of the tables and are not trained, which changes no operation. They run in evaluation mode,
without gradients, on one thread of the CPU, where the paper had a GPU. A batch is processed in pieces that fit in
memory. On each piece the bare encoder runs right before the model, so that other load on the machine affects both
alike: their ratio can be compared between machines.
"""

import time
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from natpn import encoders, families
from natpn.densities import RadialFlow
from natpn.network import NaturalPosteriorEnsemble, NaturalPosteriorNetwork, Prediction, default_network
from natpn_paper.baselines.deep_ensemble import Members
from natpn_paper.baselines.dropout import DropoutNetwork
from natpn_paper.baselines.plain_network import PlainNetwork
from natpn_paper.baselines.posterior_network import PosteriorNetwork
from natpn_paper.experiments import pixels
from natpn_paper.experiments.base import Outcome, Run

_ONLY_CLASSES = ("R-PriorNet", "EnD2", "PostNet")
_ONLY_NUMBERS = ("EvReg",)
_CLASSES = families.get("categorical", n_classes=10)
_IMAGE, _PICTURE, _QUICK_PICTURE = (3, 32, 32), (3, 480, 640), (3, 96, 128)
_BATCHES, _QUICK_BATCHES = ((4_096, 512), (4, 1)), ((64, 32), (2, 1))  # images in a batch and in a piece
_REPETITIONS, _QUICK_REPETITIONS = 1, 2  # one is enough: a batch has many pieces, in turns with the bare encoder
_ROWS = 48_000
_LATENT_DIM = 16
_MEMBERS = 5

Pass = Callable[[Tensor], Any]


def measure(run: Run, classes: str, depths: str) -> Outcome:
    """Measure the model of a run.

    Args:
        run: The run.
        classes: The column for the time of a batch of CIFAR-10.
        depths: The column for the time of a batch of NYU Depth v2.
    """
    batches = _QUICK_BATCHES if run.quick else _BATCHES
    repetitions = _QUICK_REPETITIONS if run.quick else _REPETITIONS
    scores, values = {}, {}
    shapes = (_IMAGE, _QUICK_PICTURE if run.quick else _PICTURE)
    for column, shape, (count, piece) in zip((classes, depths), shapes, batches, strict=True):
        if run.model in (_ONLY_NUMBERS if column == classes else _ONLY_CLASSES):
            continue
        x = torch.randn(count, *shape, generator=torch.Generator().manual_seed(run.seed))
        make = classifier if column == classes else depth_model
        pair = [make(name, shape, run.seed) for name in ("Encoder", run.model)]
        encoder, model = milliseconds(pair, x, piece, repetitions)
        scores[column] = model if run.model != "Encoder" else encoder
        values[column] = {"encoder ms": round(encoder, 2), "ratio": round(scores[column] / encoder, 3)}
    pieces = ", ".join(f"{count} in pieces of {piece}" for count, piece in batches)
    return Outcome(scores, values, f"one CPU thread, batches of {pieces}, {repetitions} of each, untrained networks")


@torch.no_grad()
def milliseconds(passes: list[Pass], x: Tensor, piece: int, repetitions: int) -> list[float]:
    """Return the milliseconds of a batch for each pass: the median of repetitions, in turns, after a warm-up."""
    for run_pass in passes:
        run_pass(x[:piece])
    times = np.zeros((repetitions, len(passes)))
    for row in times:
        for part in x.split(piece):
            for i, run_pass in enumerate(passes):
                start = time.perf_counter()
                run_pass(part)
                row[i] += time.perf_counter() - start
    return [float(t) for t in 1000 * np.median(times, 0)]


def classifier(model: str, shape: tuple[int, ...], seed: int) -> Pass:
    """Return the pass of a model from images to probabilities; that of the bare encoder ends at the latents."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        network = _classifier(model, shape, seed).eval().requires_grad_(False)

    def probabilities(x: Tensor) -> Any:
        output = network(x)
        if model == "Encoder":
            return output
        if isinstance(output, Prediction):
            return output.posterior.predictive().mean
        return output.softmax(-1).mean(0) if output.ndim == 3 else output.softmax(-1)

    return probabilities


def _classifier(model: str, shape: tuple[int, ...], seed: int) -> nn.Module:
    encoder = partial(encoders.get, "image", shape=shape)
    plain = partial(PlainNetwork, latent_dim=_LATENT_DIM, n_outputs=_CLASSES.n_statistics)
    if model == "Encoder":
        return encoder(latent_dim=_LATENT_DIM)
    if model in ("NatPN", "NatPE"):  # with the encoder of the others: the time is that of everything else
        members = [
            default_network(shape, _CLASSES, _ROWS, _LATENT_DIM, encoder=encoder(latent_dim=_LATENT_DIM))
            for _ in range(1 if model == "NatPN" else _MEMBERS)
        ]
        return members[0] if model == "NatPN" else NaturalPosteriorEnsemble(members)
    if model == "NatPN (paper)":
        flow = RadialFlow(_LATENT_DIM, n_layers=16)
        return NaturalPosteriorNetwork(encoder(latent_dim=_LATENT_DIM), _CLASSES, flow, _LATENT_DIM, "normal")
    if model == "PostNet":
        dim, n_classes = 6, _CLASSES.n_statistics
        flows = [RadialFlow(dim) for _ in range(n_classes)]
        return PosteriorNetwork(encoder(latent_dim=dim), dim, flows, torch.full((n_classes,), _ROWS / n_classes))
    if model == "Dropout":
        bare = encoder(latent_dim=_LATENT_DIM)
        dropout = DropoutNetwork(bare, _LATENT_DIM, _CLASSES.n_statistics, 0.1, _MEMBERS, seed)
        dropout.sample()
        return dropout
    if model == "Ensemble":
        return Members(plain(encoder(latent_dim=_LATENT_DIM)) for _ in range(_MEMBERS))
    return plain(encoder(latent_dim=_LATENT_DIM))  # R-PriorNet and EnD2, whose outputs are log α


def depth_model(model: str, shape: tuple[int, ...], seed: int) -> Pass:
    """Return the pass of a model from pictures to the mean and the noise of every pixel."""
    network = pixels.network(model, shape, _ROWS, seed).eval().requires_grad_(False)
    if isinstance(network, DropoutNetwork):
        network.sample()

    def distributions(x: Tensor) -> Any:
        return network(x) if model == "Encoder" else pixels.read(network(x))

    return distributions
