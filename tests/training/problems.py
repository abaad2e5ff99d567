"""Small problems, networks to train on them, and what processes do that are killed or share the work."""

import math
import os
import time
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from natpn import encoders, families, parallel
from natpn.network import NaturalPosteriorEnsemble, NaturalPosteriorNetwork, PrincipalComponents
from natpn.training import Paper, Staged, TrainingResult, fit
from natpn.training.session import Session

Data = tuple[Tensor, Tensor]


def problem(family: str, rows: int = 256, seed: int = 3) -> tuple[families.Family, Data, Data]:
    """A family, training and validation data: two numbers, of which the target depends on the first."""
    g = torch.Generator().manual_seed(seed)
    x = torch.randn(rows, 2, generator=g)
    noise = torch.randn(rows, generator=g)
    if family == "normal":
        chosen, y = families.get("normal"), torch.sin(2 * x[:, 0]) + 0.2 * noise
    elif family == "poisson":
        chosen, y = families.get("poisson"), torch.poisson(torch.exp(3 + x[:, 0]), generator=g)
    else:
        chosen, y = families.get("categorical", n_classes=3), (x[:, 0] + 0.2 * noise > 0).long() + (x[:, 0] > 1).long()
    cut = rows * 3 // 4
    return chosen, (x[:cut], y[:cut]), (x[cut:], y[cut:])


def network(
    family: families.Family, seed: int = 0, dropout: float = 0.1, activation: str = "leaky_relu", **options: Any
) -> NaturalPosteriorNetwork:
    torch.manual_seed(seed)
    encoder = encoders.get(
        "tabular",
        n_features=2,
        latent_dim=3,
        hidden=16,
        n_layers=2,
        encoding="piecewise",
        knots=5,
        dropout=dropout,
        activation=activation,
    )
    options = {"bypass": PrincipalComponents(2, 2), **options}
    return NaturalPosteriorNetwork(encoder, family, latent_dim=3, **options)


PAPER = Paper(max_epochs=5, batch_size=32, warm_up_epochs=2, fine_tuning_epochs=3, learning_rate=1e-2)
SCHEMES = {
    "staged": lambda: Staged(max_epochs=8, batch_size=32),
    "paper": lambda: PAPER,
    "anew": lambda: replace(PAPER, density_rate=0.1),
}


def train_with_checkpoints(out: str, directory: str, scheme: str, members: int, started: Any = None) -> None:
    """Train with checkpoints, slowly enough to be killed in every phase, and save the weights."""
    torch.set_num_threads(1)
    family, train, held_out = problem("normal")
    density = "gaussian_mixture" if scheme == "staged" else "radial"
    networks = [network(family, seed, density=density) for seed in range(members)]
    model = networks[0] if members == 1 else NaturalPosteriorEnsemble(networks)
    save = Session.save

    def slow(self: Session, running: dict[str, Any] | None) -> None:
        time.sleep(0.01)
        save(self, running)
        time.sleep(0.01)

    if started is not None:
        Session.save = slow  # type: ignore[method-assign]
        started.set()
    result = fit(model, train, held_out, scheme=SCHEMES[scheme](), checkpoint_dir=directory, seed=5)
    _keep(model, result, out, held_out[0])


def train_together(out: str, density: str, rank: int, world: int, port: str) -> None:
    """Train as one of several processes, as `torchrun` would start them, and save the weights."""
    torch.set_num_threads(1)
    ranks = {"RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": str(world)}
    os.environ.update({**ranks, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port})
    family, train, held_out = problem("normal")
    model = network(family, dropout=0.0, density=density)
    # At a high learning rate the rounding errors, which differ, would grow.
    paper, staged = replace(SCHEMES["paper"](), learning_rate=1e-3), Staged(max_epochs=30, batch_size=32, patience=3)
    scheme = paper if density == "radial" else staged
    result = fit(model, train, held_out, scheme=scheme, seed=5)
    _keep(model, result, f"{out}.{rank}", held_out[0])
    parallel.stop()


@torch.no_grad()
def _keep(model: torch.nn.Module, result: TrainingResult, out: str, x: Tensor) -> None:
    beside, evidence = f"{out}.{os.getpid()}", model(x).evidence
    found = {"loss": result.validation_loss, "chi": evidence.chi, "log_n": evidence.log_n}
    torch.save({"state": model.state_dict(), "history": result.history, **found}, beside)
    os.replace(beside, out)


def median_familiarity(model: Any, x: Tensor) -> float:
    with torch.no_grad():
        log_n = model(x).evidence.log_n
    return float(torch.sigmoid(log_n - math.log(float(model.prior.log_n.exp()))).median())
