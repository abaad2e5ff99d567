"""The rows of the tables: the baselines, and Natural Posterior Networks trained by the paper's scheme and by ours.

`NatPN (paper)` and `NatPE (paper)` are trained as the paper says; `NatPN` and `NatPE` are this library's default, the
same for all data sets. All models but these two share the paper's encoder for the data set.
"""

import os
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from natpn_paper.experiments.base import Run

if TYPE_CHECKING:  # torch is imported when a run is made: a list of the tables does not need it
    from torch import nn

    from natpn_paper.datasets import Splits

PAPER = " (paper)"
LATENT_DIM = 16
OURS = ("NatPN", "NatPE")
SEVERAL_PASSES = ("Dropout", "Ensemble", "NatPE (paper)", "NatPE")
NETWORKS = ("NatPN (paper)", "NatPN")
CLASSES = (*SEVERAL_PASSES, "R-PriorNet", "EnD2", "PostNet", *NETWORKS)
IMAGES = (*SEVERAL_PASSES, "StandardNet", "SNGP", "R-PriorNet", "EnD2", "PostNet", *NETWORKS)
NUMBERS = (*SEVERAL_PASSES, "EvReg", *NETWORKS)
SINGLE_NUMBERS = ("Dropout", "Ensemble", "StandardNet", "EvReg", *NETWORKS)
_QUICK_EPOCHS = 3


@dataclass(frozen=True)
class Setting:
    """What the paper chose for a data set (Appendix G).

    The paper does not name flow and budget. For MNIST, CIFAR-10 and the counts of Bike Sharing they are those of the
    row in its appendix's studies that has the same scores as the table; for the other data sets they are not known.

    Attributes:
        hidden: Width and number of the hidden layers of a table's encoder; images have convolutions.
        patience: Epochs without progress before training stops.
        max_epochs: The epochs of the paper's scheme; early stopping ends most fits earlier.
        density_phases: Whether the density is warmed up and fine-tuned.
        learning_rate: The learning rate of the paper's scheme, from its grid.
        batch_size: The batch size of the paper's scheme, which the paper does not state; runs with a limit have smaller
            batches.
        flow: Kind and number of layers of the paper's density.
        budget: The paper's certainty budget.
    """

    hidden: tuple[int, int] = (64, 3)
    patience: int = 20
    max_epochs: int = 100
    density_phases: bool = True
    learning_rate: float = 1e-3
    batch_size: int = 512
    flow: tuple[str, int] = ("radial", 16)
    budget: str = "normal"


def plain_name(model: str) -> str:
    """Return what the paper calls a row."""
    return model.removesuffix(PAPER)


def is_single_pass(model: str) -> bool:
    """Say whether a model needs only one forward pass of one network."""
    return model not in SEVERAL_PASSES


def build(run: Run, target: str, shape: tuple[int, ...], setting: Setting, ood: Any = None) -> Any:
    """Return the estimator of a run.

    Args:
        run: The run.
        target: "classes", "normal" or "poisson".
        shape: The shape of one input.
        setting: What the paper chose for the data.
        ood: Out-of-distribution inputs for R-PriorNet; noise if None.
    """
    from natpn_paper import baselines

    parameters: dict[str, Any] = {"random_state": run.seed}
    epochs = _QUICK_EPOCHS if run.quick else run.epochs
    if epochs is not None:
        parameters["max_epochs"] = epochs
    if run.model in OURS:
        if len(shape) == 3 and not run.quick:  # a fit to pictures takes long, and several experiments need the same
            parameters["checkpoint_dir"] = checkpoint_dir(run)
        return baselines.get(run.model, target, **parameters)
    name = plain_name(run.model)
    # a function, so that every member of an ensemble starts from its own weights
    parameters["encoder"] = partial(encoder, shape, setting, _latent_dim(name))
    if name == "PostNet":
        parameters["latent_dim"] = _latent_dim(name)
    if run.model.endswith(PAPER):
        parameters |= paper_scheme(run, setting)
    if name == "R-PriorNet" and ood is not None:
        parameters["ood"] = ood
    return baselines.get(name, target, **parameters)


def fitted(run: Run, target: str, data: "Splits", setting: Setting, ood: Any = None) -> Any:
    """Return the estimator of a run, fitted to the training rows and stopped by the validation rows; see `build`."""
    X, y = data.train
    model = build(run, target, X.shape[1:], setting, ood)
    return model.fit(X, y, X_val=data.validation[0], y_val=data.validation[1])


def checkpoint_dir(run: Run) -> str:
    """Return where the fit of a run is kept while it lasts and afterwards; it does not depend on the experiment."""
    words = [run.data, run.model, f"seed {run.seed}"]
    words += [f"{name} {value}" for name, value in (("limit", run.limit), ("epochs", run.epochs)) if value is not None]
    return os.path.join("reproduce", "checkpoints", ", ".join(words))


def paper_scheme(run: Run, setting: Setting) -> dict[str, Any]:
    """Return the parameters of an estimator that is trained as the paper says."""
    from natpn import densities
    from natpn.training import Paper
    from natpn.training.schemes import batch_size

    off = {} if setting.density_phases else {"warm_up_epochs": 0, "fine_tuning_epochs": 0}
    quick = {"warm_up_epochs": 1, "fine_tuning_epochs": 1} if run.quick else {}
    if run.epochs is not None:
        quick = {"fine_tuning_epochs": run.epochs}
    rows = run.rows()
    scheme = Paper(
        batch_size=setting.batch_size if rows is None else min(setting.batch_size, batch_size(rows)),
        patience=setting.patience,
        learning_rate=setting.learning_rate,
        **(quick | off),
    )
    epochs = _QUICK_EPOCHS if run.quick else run.epochs or setting.max_epochs
    flow, layers = setting.flow
    density = densities.get(flow, LATENT_DIM, n_layers=layers)
    return {"scheme": scheme, "max_epochs": epochs, "density": density, "budget": setting.budget}


def encoder(shape: tuple[int, ...], setting: Setting, latent_dim: int = LATENT_DIM) -> "nn.Module":
    """Return the paper's encoder for a data set."""
    from natpn import encoders

    if len(shape) == 3:
        return encoders.get("image", shape=shape, latent_dim=latent_dim)
    width, layers = setting.hidden
    return encoders.get("tabular", n_features=shape[0], latent_dim=latent_dim, hidden=width, n_layers=layers)


def _latent_dim(name: str) -> int:
    return 6 if name == "PostNet" else LATENT_DIM
