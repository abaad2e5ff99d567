"""The rows of the tables: the baselines, and Natural Posterior Networks trained by the paper's scheme and by ours.

`NatPN (paper)` and `NatPE (paper)` are trained as the paper says; `NatPN` and `NatPE` are this library's default, the
same for all data sets. On tables all models but these two share the paper's encoder for the data set, and so does
`NatPN (paper's encoder)`, which is `NatPN` with it: what it is ahead by is not the encoder's. The baselines and `NatPN
(paper)` are trained by Adam at a constant learning rate with early stopping, with the same rate, batches and patience.

On pictures every model has the default's residual network, the default's one cycle of the learning rate and varied
pictures, and as many epochs; two cores would take days for the paper's convolutions and for early stopping. Only `NatPN
(paper's encoder)` has the paper's.
"""

import json
import os
from dataclasses import dataclass, replace
from functools import cache, partial
from importlib.resources import files
from typing import TYPE_CHECKING, Any, Literal

from natpn_paper.experiments.base import Run

if TYPE_CHECKING:  # torch is imported when a run is made: a list of the tables does not need it
    from torch import nn

    from natpn_paper.datasets import Splits

PAPER = " (paper)"
ENCODER = " (paper's encoder)"
OURS = ("NatPN", "NatPE")
SEVERAL_PASSES = ("Dropout", "Ensemble", "NatPE (paper)", "NatPE")
NETWORKS = ("NatPN (paper)", "NatPN")
PLAIN_NETWORKS = ("StandardNet", "Ensemble", "EnD2")  # trained alike: one, several, and several that are distilled
_ALL = ("NatPN (paper)", "NatPN (paper's encoder)", "NatPN")
CLASSES = (*SEVERAL_PASSES, "StandardNet", "SNGP", "R-PriorNet", "EnD2", "PostNet", *_ALL)
NUMBERS = (*SEVERAL_PASSES, "StandardNet", "EvReg", *_ALL)
CHOSEN = "chosen.json"
_QUICK_EPOCHS = 3
_DENSITY_RATE = 0.1  # of fine-tuning on pictures


@dataclass(frozen=True)
class Setting:
    """What the paper chose for a data set (Appendix G), or what `natpn reproduce --choose` chose from its grid.

    The paper does not name flow, budget and latent dimension. For MNIST, CIFAR-10 and the counts of Bike Sharing they
    are those of the row in its appendix's studies that has the same scores as the table. For the Normal of Bike Sharing
    one row, H = 32, budget III and 8 layers of MAF, has all scores within 1.1 standard errors of the table (51.12,
    2.17, 55.22, 24.55, 28.35; the table 49.85, 1.95, 55.04, 23.25, 27.78), and was taken. For the other data sets they
    are not known.

    Attributes:
        hidden: Width and number of the hidden layers of a table's encoder; images have convolutions.
        patience: Epochs without progress before training stops.
        max_epochs: The most epochs; early stopping ends most fits earlier.
        density_phases: Whether the density is warmed up and fine-tuned.
        learning_rate: The learning rate, from the paper's grid.
        batch_size: The batch size. The paper does not state it; its authors' public code has 1,024 for Sensorless Drive
            and 512 for other tables. Runs with a limit have smaller batches.
        latent_dim: The size of the latent vector; that of PostNet is its own.
        flow: Kind and number of layers of the paper's density.
        budget: The paper's certainty budget.
        schedule: "constant" with early stopping, or "one_cycle".
    """

    hidden: tuple[int, int] = (64, 3)
    patience: int = 20
    max_epochs: int = 100
    density_phases: bool = True
    learning_rate: float = 1e-3
    batch_size: int = 512
    latent_dim: int = 16
    flow: tuple[str, int] = ("radial", 16)
    budget: str = "normal"
    schedule: Literal["constant", "one_cycle"] = "constant"

    def chosen(self, data: str) -> "Setting":
        """Return the setting with what was chosen for a data set by the likelihood of held-out rows."""
        found: dict[str, Any] = {
            name: tuple(value) if isinstance(value, list) else value for name, value in _chosen().get(data, {}).items()
        }
        return replace(self, **found)


@cache
def _chosen() -> dict[str, dict[str, Any]]:
    found: dict[str, dict[str, Any]] = json.loads((files("natpn_paper.experiments") / CHOSEN).read_text("utf-8"))
    return found


def plain_name(model: str) -> str:
    """Return what the paper calls a row."""
    return model.removesuffix(PAPER).removesuffix(ENCODER)


def is_single_pass(model: str) -> bool:
    """Say whether a model needs only one forward pass of one network."""
    return model not in SEVERAL_PASSES


def build(run: Run, target: str, shape: tuple[int, ...], setting: Setting) -> Any:
    """Return the estimator of a run.

    Args:
        run: The run.
        target: "classes", "normal" or "poisson".
        shape: The shape of one input.
        setting: What the paper chose for the data.
    """
    from natpn_paper import baselines

    parameters: dict[str, Any] = {"random_state": run.seed}
    epochs = _QUICK_EPOCHS if run.quick else run.epochs
    name = plain_name(run.model)
    # a function, so that every member of an ensemble starts from its own weights
    dim = baselines.POSTNET_DIM if name == "PostNet" else setting.latent_dim
    own = {"encoder": partial(encoder, shape, setting, dim, run.model.endswith(ENCODER)), "latent_dim": dim}
    ours = run.model in OURS or run.model.endswith(ENCODER)
    if len(shape) == 3 and not run.quick:  # a fit to pictures takes long, and several runs need the same
        parameters["checkpoint_dir"] = checkpoint_dir(run)
    if ours:
        own = {} if run.model in OURS else own
        return baselines.get(name, target, **parameters, **own, **({} if epochs is None else {"max_epochs": epochs}))
    if run.model.endswith(PAPER):
        return baselines.get(name, target, **parameters, **own | paper_scheme(run, setting))
    return baselines.get(name, target, **parameters, **own, **schedule(run, setting))


def fitted(run: Run, target: str, data: "Splits", setting: Setting) -> Any:
    """Return the estimator of a run, fitted to the training rows and stopped by the validation rows; see `build`."""
    X, y = data.train
    model = build(run, target, X.shape[1:], setting)
    return model.fit(X, y, X_val=data.validation[0], y_val=data.validation[1])


def schedule(run: Run, setting: Setting) -> dict[str, Any]:
    """Return how the baselines and the paper's scheme are trained: parameters that both have."""
    from natpn.training.staged import batch_size

    rows = run.rows()
    return {
        "max_epochs": _QUICK_EPOCHS if run.quick else run.epochs or setting.max_epochs,
        "batch_size": setting.batch_size if rows is None else min(setting.batch_size, batch_size(rows)),
        "learning_rate": setting.learning_rate,
        "schedule": setting.schedule,
    } | ({"patience": setting.patience} if setting.schedule == "constant" else {})


def checkpoint_dir(run: Run) -> str:
    """Return where the fit of a run is kept while it lasts and afterwards; it does not depend on the experiment.

    Models that begin with the same plain networks share the place, and so the networks.
    """
    words = [run.data, "plain networks" if run.model in PLAIN_NETWORKS else run.model, f"seed {run.seed}"]
    words += [f"{name} {value}" for name, value in (("limit", run.limit), ("epochs", run.epochs)) if value is not None]
    return os.path.join("reproduce", "checkpoints", ", ".join(words))


def paper_scheme(run: Run, setting: Setting) -> dict[str, Any]:
    """Return the parameters of an estimator that is trained as the paper says; its flow starts where the seed says."""
    import torch

    from natpn import densities
    from natpn.training import Paper

    phases: dict[str, Any] = {}
    if not setting.density_phases:
        phases = {"warm_up_epochs": 0, "fine_tuning_epochs": 0}
    elif run.quick:
        phases = {"warm_up_epochs": 1, "fine_tuning_epochs": 1}
    elif run.epochs is not None:
        phases = {"fine_tuning_epochs": run.epochs}
    elif setting.schedule == "constant":  # early stopping ends it, as it ends the joint training
        phases = {"fine_tuning_epochs": setting.max_epochs}
    if setting.schedule == "one_cycle":
        phases["density_rate"] = _DENSITY_RATE
    flow, layers = setting.flow
    # The paper does not state the width of the networks inside MAF.
    widths = {"hidden_dims": (3 * setting.latent_dim,)} if flow == "maf" else {}
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(run.seed)
        density = densities.get(flow, setting.latent_dim, n_layers=layers, **widths)
    scheme = Paper(**schedule(run, setting), **phases, vary=True)
    return {"scheme": scheme, "density": density, "budget": setting.budget}


def encoder(
    shape: tuple[int, ...], setting: Setting, latent_dim: int | None = None, paper: bool = False
) -> "nn.Module":
    """Return the encoder that the models of a table share: the paper's, but for pictures only if that is asked for."""
    from natpn import encoders

    size = setting.latent_dim if latent_dim is None else latent_dim
    if len(shape) == 3:
        return encoders.get("image" if paper else "resnet9", shape=shape, latent_dim=size)
    width, layers = setting.hidden
    return encoders.get("tabular", n_features=shape[0], latent_dim=size, hidden=width, n_layers=layers)
