"""What all baselines share: parameters, the fit, and the answers.

A baseline is a network that returns raw outputs, a loss (`Trainee`) that trains it, and a reading of the raw outputs:
the predictive distribution, the likelihood whose entropy is the aleatoric uncertainty, and the epistemic uncertainty.
A subclass writes these three, `_network`, `_loss` and `_read`; the loop is that of `natpn.training`.
"""

import inspect
from abc import abstractmethod
from collections.abc import Iterator
from dataclasses import replace
from os import PathLike
from pathlib import Path
from typing import Any, ClassVar, Literal, TypedDict, Unpack, cast, get_args

import numpy as np
import torch
from numpy.typing import ArrayLike
from torch import Tensor, nn

from natpn import parallel
from natpn.choices import check_choice
from natpn.encoders import fit_to_inputs
from natpn.encoders.base import EncoderChoice
from natpn.estimators.building import paper_encoder
from natpn.estimators.classifier import ClassTargets
from natpn.estimators.data_estimator import DataEstimator, Floats
from natpn.estimators.regressor import NumberTargets
from natpn.estimators.rows import Prepared
from natpn.families import Distribution
from natpn.model import PIECE
from natpn.training import Descent, Trainee, minimise
from natpn.training.phases import SAMPLE
from natpn.training.staged import batch_size
from natpn.training.variation import PICTURES, Variation
from natpn_paper.baselines.checks import check_count, check_number, check_share
from natpn_paper.baselines.plain_network import LikelihoodLoss, PlainNetwork
from natpn_paper.baselines.readings import BaselineClassDistribution, BaselineDistribution, Reading

_EVALUATIONS = 30
Schedule = Literal["one_cycle", "constant"]


class Settings(TypedDict, total=False):
    """The parameters that every baseline has; see `Baseline`."""

    encoder: EncoderChoice
    latent_dim: int
    max_epochs: int | None
    batch_size: int | None
    learning_rate: float | None
    patience: int | None
    schedule: Schedule
    validation_fraction: float
    checkpoint_dir: str | PathLike[str] | None
    device: str | None
    random_state: int | np.random.RandomState | None
    verbose: int


class Baseline(DataEstimator):
    """Base class of the baselines.

    Args:
        encoder: "auto" for the encoder of the paper's networks, "tabular", "image", "resnet18", a module that maps
            standardised inputs to (rows, latent_dim), which each network copies, or a function that makes one.
        latent_dim: The size of the latent vector.
        max_epochs: Epochs of training; the default depends on the number of rows.
        batch_size: Rows a step; the default depends on the number of rows.
        learning_rate: The peak of the learning rate, which rises and then falls to almost 0.
        patience: Epochs without progress before training stops; by default training runs to the end of the cycle. The
            best state is kept either way.
        schedule: "one_cycle", with a moving average of the weights, or "constant" for the learning rate as it is.
        validation_fraction: Share of rows held out to find the best state.
        checkpoint_dir: Where to write a checkpoint of each network after every epoch, and to go on from.
        device: "cpu", "cuda", "auto".
        random_state: The seed.
        verbose: 1 shows a progress bar.
    """

    calibrate = None  # intervals are the model's own

    # Defaults that a subclass may set to what its method needs.
    _steps = 6000
    _epochs = (40, 300)
    _rate = 3e-3
    _averaging = 0.998

    __signature__: ClassVar[inspect.Signature]  # what help() and scikit-learn see

    # Set by fit.
    network_: nn.Module
    history_: list[dict[str, Any]]

    def __init__(
        self,
        *,
        encoder: EncoderChoice = "auto",
        latent_dim: int = 16,
        max_epochs: int | None = None,
        batch_size: int | None = None,
        learning_rate: float | None = None,
        patience: int | None = None,
        schedule: Schedule = "one_cycle",
        validation_fraction: float = 0.2,
        checkpoint_dir: str | PathLike[str] | None = None,
        device: str | None = None,
        random_state: int | np.random.RandomState | None = None,
        verbose: int = 0,
    ) -> None:
        self.encoder = encoder
        self.latent_dim = latent_dim
        self.max_epochs = max_epochs
        self.batch_size = batch_size
        self.learning_rate = learning_rate
        self.patience = patience
        self.schedule = schedule
        self.validation_fraction = validation_fraction
        self.checkpoint_dir = checkpoint_dir
        self.device = device
        self.random_state = random_state
        self.verbose = verbose

    # What a subclass adds.

    def _network(self, n_outputs: int, data: Prepared, seed: int) -> nn.Module:
        """Return an untrained network."""
        return PlainNetwork(self._encoder(), int(self.latent_dim), n_outputs)

    def _loss(self, network: Any, data: Prepared, seed: int) -> Trainee:
        """Return the loss: minus the log-likelihood, unless the method has its own."""
        _, y, weight = data.train
        return LikelihoodLoss(network, self.family_, y, weight)

    @property
    def _n_outputs(self) -> int:
        """How many raw outputs the network has."""
        return self.family_.n_statistics

    @abstractmethod
    def _read(self, raw: Tensor) -> Reading:
        """Return the meaning of raw outputs, (..., B, K)."""

    @abstractmethod
    def _distribution(self, raw: Tensor) -> BaselineDistribution:
        """Return the distributions that raw outputs stand for."""

    def _in_units(self, chi: Tensor) -> Tensor:
        """Turn statistics of standardised targets into the user's units."""
        return chi

    # Fitting.

    def _fit(self, data: Prepared, seed: int) -> None:
        self.history_ = []
        self.network_ = self._train(data, seed).eval().requires_grad_(False)
        # Tables are predicted in float64, where the answer to a row does not depend on the rows beside it.
        if self.inputs_.kind == "table" and _device(self.network_).type != "mps":
            self.network_.double()

    def _train(self, data: Prepared, seed: int) -> nn.Module:
        """Return a trained network."""
        return self._trained(data, seed)

    def _trained(self, data: Prepared, seed: int, place: int = 0) -> nn.Module:
        """Build the network at a place among several and train it."""
        seed += place
        network = self._fresh(data, seed)
        loss, descent = self._loss(network, data, seed), self._descent(len(data.train[0]))
        self._minimise(loss, data.train, data.validation, descent, seed, f"training {place + 1}")
        return network

    def _fresh(self, data: Prepared, seed: int) -> nn.Module:
        """Build one network."""
        with parallel.seeded(seed, torch.device("cpu")):
            network = self._network(self._n_outputs, data, seed)
            x = data.train[0]
            fit_to_inputs(cast(nn.Module, network.encoder), x[:: -(-len(x) // SAMPLE)])
            return network

    def _minimise(self, loss: Trainee, train: Any, validation: Any, descent: Descent, seed: int, phase: str) -> None:
        x = train[0]
        if x.ndim == 4:  # pictures
            descent = replace(descent, vary=Variation.of(x[:: -(-len(x) // PICTURES)]))
        result = minimise(
            loss,
            train,
            validation,
            descent,
            seed=seed,
            device=self.device,
            phase=phase,
            checkpoint_dir=None if self.checkpoint_dir is None else Path(self.checkpoint_dir) / phase,
            progress=bool(self.verbose),
        )
        self.history_ += result.history

    def _descent(self, rows: int) -> Descent:
        size = self.batch_size or batch_size(rows)
        low, high = self._epochs
        return Descent(
            self.max_epochs or min(max(self._steps * size // rows, low), high),
            size,
            self.learning_rate or self._rate,
            self.schedule,
            self._averaging if self.schedule == "one_cycle" else 0.0,
            self.patience,
            evaluations=_EVALUATIONS if self.patience is None else None,
        )

    def _encoder(self) -> nn.Module:
        return paper_encoder(self.inputs_, self.encoder, int(self.latent_dim))

    def _check_parameters(self) -> None:
        check_count(self, "latent_dim")
        for name in ("max_epochs", "batch_size", "patience"):
            if getattr(self, name) is not None:
                check_count(self, name)
        if self.learning_rate is not None:
            check_number(self, "learning_rate", 0)
        check_choice("schedule", str(self.schedule), get_args(Schedule))
        check_share(self, "validation_fraction")

    # Predicting.

    @torch.no_grad()
    def _raw(self, x: Tensor) -> Tensor:
        parameter = next(self.network_.parameters())
        raw: Tensor = self.network_(x.to(parameter.device, parameter.dtype)).double().cpu()
        return raw

    def _raws(self, X: Any, exposure: ArrayLike | None = None) -> Iterator[Tensor]:
        rows, _ = self._exposed_rows(X, exposure)  # which refuses exposures
        for x in self.inputs_.tensors(rows, PIECE):
            yield self._raw(x)

    def answers(self, X: Any, exposure: ArrayLike | None = None) -> Iterator[BaselineDistribution]:
        """Yield the predictive distributions of rows, in pieces of a few thousand."""
        for raw in self._raws(X, exposure):
            yield self._distribution(raw)

    def predict_dist(self, X: Any, exposure: ArrayLike | None = None) -> BaselineDistribution:
        """Return the predictive distribution of each row, with its uncertainties."""
        return self._distribution(torch.cat(list(self._raws(X, exposure)), -2))

    def score_samples(self, X: Any) -> Floats:
        """Return minus the epistemic uncertainty of each row: higher is more familiar."""
        return np.concatenate([-part.epistemic for part in self.answers(X)])

    def _likelihood(self, chi: Tensor) -> Distribution:
        """Return the distributions of targets, in the user's units, whose standardised mean statistics are given."""
        chi = self._in_units(chi)
        return self.family_.posterior(self.family_.evidence(chi, 0.0)).likelihood()

    # Parameters, collected from all classes that a baseline inherits from.

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        found: dict[str, inspect.Parameter] = {}
        for parent in cls.__mro__:
            own = vars(parent).get("__init__")
            for parameter in inspect.signature(own).parameters.values() if own else ():
                if parameter.default is not parameter.empty:
                    found.setdefault(parameter.name, parameter.replace(kind=parameter.KEYWORD_ONLY))
        cls.__signature__ = inspect.Signature(list(found.values()))

    @classmethod
    def _get_param_names(cls) -> list[str]:
        return sorted(cls.__signature__.parameters)

    def __repr__(self, N_CHAR_MAX: int = 700) -> str:
        defaults = {name: parameter.default for name, parameter in self.__signature__.parameters.items()}
        changed = {k: v for k, v in self.get_params(deep=False).items() if v is not defaults[k] and v != defaults[k]}
        return f"{type(self).__name__}({', '.join(f'{k}={v!r}' for k, v in changed.items())})"[:N_CHAR_MAX]


class BaselineClassifier(ClassTargets, Baseline):
    """Base class of baselines for classes."""

    def _distribution(self, raw: Tensor) -> BaselineClassDistribution:
        return BaselineClassDistribution(self.classes_, self._read(raw))


class BaselineRegressor(NumberTargets, Baseline):
    """Base class of baselines for numbers and counts.

    Args:
        family: "normal" or "poisson".
        **settings: Those of `Baseline`.
    """

    _families: tuple[str, ...] = ("normal", "poisson")

    def __init__(self, *, family: str = "normal", **settings: Unpack[Settings]) -> None:
        super().__init__(**settings)
        self.family = family

    def _check_parameters(self) -> None:
        super()._check_parameters()
        check_choice("family", str(self.family), self._families)

    def _in_units(self, chi: Tensor) -> Tensor:
        return self.units_.restore(chi)

    def _distribution(self, raw: Tensor) -> BaselineDistribution:
        return BaselineDistribution(self._read(raw))


def _device(network: nn.Module) -> torch.device:
    return next(network.parameters()).device
