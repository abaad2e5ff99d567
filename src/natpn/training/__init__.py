"""Training: `fit` runs a scheme, a list of phases, on a network or an ensemble; `minimise` one descent on any loss."""

from collections.abc import Callable
from dataclasses import fields, replace
from os import PathLike
from pathlib import Path
from typing import cast

from torch import Tensor

from natpn import parallel
from natpn.choices import check_choice
from natpn.network import NaturalPosteriorEnsemble, NaturalPosteriorNetwork
from natpn.training.batches import Data, FoldedRows, Rows, RowSource, folded, source
from natpn.training.descent import Descent, descend
from natpn.training.losses import Trainee
from natpn.training.paper_scheme import Paper
from natpn.training.session import Session, TrainingError, TrainingResult, identify
from natpn.training.staged import Staged

__all__ = [
    "SCHEMES",
    "Data",
    "Descent",
    "FoldedRows",
    "Paper",
    "Rows",
    "Scheme",
    "Staged",
    "Trainee",
    "TrainingError",
    "TrainingResult",
    "fit",
    "minimise",
]

Scheme = Staged | Paper
SCHEMES: dict[str, Callable[[], Scheme]] = {"staged": Staged, "paper": Paper}


def fit(
    network: NaturalPosteriorNetwork | NaturalPosteriorEnsemble,
    train: Data,
    validation: Data | Tensor,
    *,
    scheme: str | Scheme = "staged",
    max_epochs: int | None = None,
    batch_size: int | None = None,
    learning_rate: float | None = None,
    entropy_weight: float | None = None,
    patience: int | None = None,
    seed: int = 0,
    device: str | None = None,
    precision: parallel.Precision = "float32",
    checkpoint_dir: str | PathLike[str] | None = None,
    progress: bool = False,
) -> TrainingResult:
    """Train a network, or all members of an ensemble, in place.

    The same seed and the same initial weights give the same result, bit for bit on the CPU. Started by `torchrun`, the
    processes share the work. Afterwards the network is in evaluation mode.

    Args:
        network: What to train.
        train: Tensors (x, y) or (x, y, weight), or a loader of such batches.
        validation: The same, for early stopping and alignment. Or, for an ensemble that is trained on tensors by the
            staged scheme, which member holds out each row of `train`, -1 for none: the others train on it.
        scheme: "staged", "paper", or a `Staged` or `Paper` with settings of its own.
        max_epochs: Replaces the scheme's, as do the next four; None leaves it.
        batch_size: Rows a step. A loader has its own.
        learning_rate: The learning rate, or its peak.
        entropy_weight: Weight of the entropy in the Bayesian loss; the staged scheme has none.
        patience: Epochs without progress before a phase is stopped.
        seed: For all that is random here.
        device: Where to work: "cpu", "cuda", "auto", or None for where the network is.
        precision: "float32", or "bfloat16" for the encoder's matrix products.
        checkpoint_dir: Write a checkpoint there after each epoch, and go on from the one that is there, which has to
            be of the same settings, network, initial weights and data; of a loader only the sizes are compared, unless
            its data set is a `TensorDataset`. If it cannot be written, a warning says so and training goes on.
        progress: Show a progress bar.

    Returns:
        History, time and validation loss.

    Raises:
        ValueError: If an argument is not what is described here.
        TrainingError: If a loss is not a number; the network then holds the best state before it.
    """
    members = _members(network)
    chosen = _scheme(
        scheme,
        max_epochs=max_epochs,
        batch_size=batch_size,
        learning_rate=learning_rate,
        entropy_weight=entropy_weight,
        patience=patience,
    )
    where = parallel.choose_device(device, network)
    parallel.start(where)
    network.to(where)
    parallel.synchronise(network)
    rows = source("train", train, where)
    if isinstance(validation, Tensor):
        if not isinstance(chosen, Staged):
            raise ValueError("validation: members hold out folds in the staged scheme alone; give (x, y) for all")
        sources: tuple[RowSource, RowSource] = folded(rows, validation, len(members))
    else:
        sources = rows, source("validation", validation, where)
    session = Session(
        network,
        *sources,
        where,
        seed,
        precision,
        None if checkpoint_dir is None else Path(checkpoint_dir),
        {}
        if checkpoint_dir is None
        else identify(network, train, validation, scheme=repr(chosen), seed=seed, precision=precision),
        progress,
    )
    for part in (session.train, session.validation):
        if isinstance(part, Rows):  # once, and not at every step
            members[0].family.support.check(part.y)
    with parallel.seeded(seed + 10_007 * parallel.rank(), where):
        session.resume()
        chosen.run(session, members)
    network.eval()
    return session.result()


def minimise(
    trainee: Trainee,
    train: Data,
    validation: Data,
    descent: Descent,
    *,
    seed: int = 0,
    device: str | None = None,
    phase: str = "training",
    checkpoint_dir: str | PathLike[str] | None = None,
    progress: bool = False,
) -> TrainingResult:
    """Minimise any loss by gradient descent, in place.

    Args:
        trainee: What to train, and what is minimised.
        train: Tensors (x, y) or (x, y, weight), or a loader of such batches.
        validation: The same, for early stopping.
        descent: How.
        seed: For all that is random here.
        device: Where to work: "cpu", "cuda", "auto", or None for where the trainee is.
        phase: A name for the history and the progress bar.
        checkpoint_dir: As in `fit`.
        progress: Show a progress bar.

    Returns:
        History, time and validation loss.

    Raises:
        ValueError: If the checkpoint is damaged, or of another run.
        TrainingError: If a loss is not a number; what was trained then holds the best state before it.
    """
    where = parallel.choose_device(device, trainee)
    parallel.start(where)
    trainee.to(where)
    sources = source("train", train, where), source("validation", validation, where)
    directory = None if checkpoint_dir is None else Path(checkpoint_dir)
    identity = {} if directory is None else identify(trainee, train, validation, descent=repr(descent), seed=seed)
    session = Session(trainee, *sources, where, seed, "float32", directory, identity, progress)
    with parallel.seeded(seed + 10_007 * parallel.rank(), where):
        session.resume()
        parallel.synchronise(trainee)
        descend(session, phase, trainee, *sources, descent)
    trainee.eval()
    return session.result()


def _members(network: NaturalPosteriorNetwork | NaturalPosteriorEnsemble) -> list[NaturalPosteriorNetwork]:
    if isinstance(network, NaturalPosteriorNetwork):
        return [network]
    if isinstance(network, NaturalPosteriorEnsemble):
        return [cast(NaturalPosteriorNetwork, member) for member in network.members]
    raise ValueError(
        f"network: expected a NaturalPosteriorNetwork or a NaturalPosteriorEnsemble, got {type(network).__name__}"
    )


def _scheme(scheme: str | Scheme, **settings: float | None) -> Scheme:
    """Return the scheme with what was set."""
    if isinstance(scheme, str):
        check_choice("scheme", scheme, SCHEMES)
        scheme = SCHEMES[scheme]()
    given = {name: value for name, value in settings.items() if value is not None}
    known = {f.name for f in fields(scheme)}
    for name, value in given.items():
        if name not in known:
            raise ValueError(f"{name}: the scheme {type(scheme).__name__} has no such setting, got {value!r}")
        if value < 0 or (value == 0 and name != "entropy_weight"):
            raise ValueError(f"{name}: expected a positive number, got {value!r}")
    return replace(scheme, **given)  # type: ignore[arg-type]
