"""What classifier and regressor share: parameters, the fit, and what is asked of the fitted model.

A fit takes these steps: inputs and targets → tensors (`data_estimator`, with `classifier` or `regressor`), a network
(`building`), training (`natpn.training`), and the calibration on held-out rows. It leaves a `natpn.model.Model`, which
answers.
"""

import copy
import warnings
from collections.abc import Iterable, Iterator
from dataclasses import replace
from numbers import Integral, Real
from os import PathLike
from typing import TYPE_CHECKING, Any, Literal, Self

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from sklearn.base import ClassifierMixin
from sklearn.utils.validation import check_is_fitted
from torch import Tensor

from natpn import parallel, training
from natpn.choices import check_choice
from natpn.densities import Density
from natpn.encoders.base import EncoderChoice
from natpn.estimators.building import build, is_paper
from natpn.estimators.data_estimator import Floats
from natpn.estimators.in_use import InUse
from natpn.estimators.rows import Prepared, checked_weights
from natpn.estimators.saving import save
from natpn.evidence import Evidence
from natpn.families import SupportError
from natpn.model import LEVEL, Model, Network, PredictiveDistribution, Watch
from natpn.model.calibration import ENOUGH
from natpn.model.inputs import n_rows
from natpn.model.updating import check_can_update, updated
from natpn.network.default import ACTIVATION

if TYPE_CHECKING:
    from natpn.estimators.shares import Share

_MOST_WEIGHT = 2.0**53
_NETWORKS = 2  # for tables: more accurate than one, in 1.3 times the time at 3,000 rows


class NatPNEstimator(InUse):
    """Base class of the estimators."""

    # Set by fit.
    held_out_rows_: tuple[Tensor, NDArray[Any], NDArray[Any] | None]  # encoded, targets, and by which network, or all
    held_out_exposure_: Floats | None

    def __init__(
        self,
        *,
        encoder: EncoderChoice = "auto",
        density: str | Density = "auto",
        latent_dim: int = 16,
        budget: str = "auto",
        prior: str | Evidence | tuple[Any, float] = "marginal",
        scheme: str | training.Scheme = "staged",
        ensemble_size: int | str = "auto",
        max_epochs: int | None = None,
        batch_size: int | None = None,
        learning_rate: float | None = None,
        entropy_weight: float | None = None,
        patience: int | None = None,
        validation_fraction: float = 0.2,
        calibrate: str | None = None,
        groups: str | int | None = None,
        device: str | None = None,
        checkpoint_dir: str | PathLike[str] | None = None,
        random_state: int | np.random.RandomState | None = None,
        verbose: int = 0,
    ) -> None:
        self.encoder = encoder
        self.density = density
        self.latent_dim = latent_dim
        self.budget = budget
        self.prior = prior
        self.scheme = scheme
        self.ensemble_size = ensemble_size
        self.max_epochs = max_epochs
        self.batch_size = batch_size
        self.learning_rate = learning_rate
        self.entropy_weight = entropy_weight
        self.patience = patience
        self.validation_fraction = validation_fraction
        self.calibrate = calibrate
        self.groups = groups
        self.device = device
        self.checkpoint_dir = checkpoint_dir
        self.random_state = random_state
        self.verbose = verbose

    # Fitting.

    def _fit_pieces(self, share: "Share", seed: int) -> None:
        from natpn.estimators.streaming import HeldOut, check_targets, encode, survey

        parallel.start(torch.device("cpu"))
        seed = parallel.gather_objects(seed)[0]  # without a random_state every process has drawn its own
        found = survey(share, self._inputs(share.n_dims), isinstance(self, ClassifierMixin), seed)
        self.inputs_, self.n_features_in_ = found.inputs, share.n_features
        if share.features is not None:
            self.feature_names_in_ = np.array(share.features, dtype=object)
        try:
            self._read_targets(found.targets)
        except SupportError:
            check_targets(share, self._encode_targets)
            raise
        sample = self._encode_targets(found.targets)
        self.targets_ = self._learn_targets(sample, np.ones(len(sample)))
        self.family_ = self.targets_.family
        held_out = HeldOut.of(found.n_rows, self._n_folds, self.validation_fraction, self.calibrate is not None)
        with encode(share, found.inputs, self._encode_targets, self.targets_, held_out, seed) as rows:
            self.n_rows_, self.held_out_, self.folds_ = len(rows.train), np.zeros(0, np.intp), []
            self.n_held_out_ = len(rows.y)
            self._fit(replace(rows, some=found.some), seed)

    def _fit(self, data: Prepared, seed: int) -> None:
        groups = None if self.groups is None else self.inputs_.groups_by(self.groups)  # before time is spent
        model = self._train(data.train, data.validation, seed).with_example(data.some)
        if data.folds is None:
            self._set_model(model.calibrated(data.x, data.y, self.calibrate is not None, groups))
            if groups is not None and self.calibration_.largest_group < ENOUGH:
                warnings.warn(
                    f"groups: the largest group of {self.groups!r} has {self.calibration_.largest_group} calibration "
                    f"rows, fewer than {ENOUGH}, so all groups share one calibration: give more rows, or a larger "
                    "validation_fraction",
                    stacklevel=2,
                )
        else:
            self._set_model(model.calibrated_by_folds(data.x, data.folds))
        used = slice(None) if data.folds is None else (data.folds >= 0).numpy()
        folds = None if data.folds is None else data.folds[used].numpy()
        self.held_out_rows_ = data.x[used], model.targets.as_known(data.y[used]), folds
        self.held_out_exposure_ = model.targets.exposures(data.y[used])

    def _train(self, train: training.Data, validation: training.Data | Tensor, seed: int) -> Model:
        network = self._build(self.n_rows_, seed)
        result = training.fit(
            network,
            train,
            validation,
            scheme=self.scheme,
            max_epochs=self.max_epochs,
            batch_size=self.batch_size,
            learning_rate=self.learning_rate,
            entropy_weight=self.entropy_weight,
            patience=self.patience,
            seed=seed,
            device=self.device,
            checkpoint_dir=self.checkpoint_dir,
            progress=bool(self.verbose),
        )
        return Model.of(self.inputs_, self.targets_, network, self.n_rows_, result.history)

    def update(self, X: Any, y: Any, sample_weight: ArrayLike | None = None, exposure: ArrayLike | None = None) -> Self:
        """Learn from labelled rows that came after the fit, without a new fit; what was learned before is kept.

        Rows like them become familiar, and are predicted with what they showed; other rows are predicted as before. A
        row counts as much as one of the fit. The model keeps what its networks see of up to 2,000 such rows, so the
        result does not depend on how rows are divided into updates. Rows that are given twice count twice.

        Args:
            X: The rows, as those of the fit; a table.
            y: Their targets, one a row; classes are those of the fit.
            sample_weight: How much each row counts: a row of weight 2 is that row twice.
            exposure: The exposures of the rows, as in the fit.

        Returns:
            This estimator, with another `model_`.

        Raises:
            ValueError: If columns or targets are not like those of the fit, or the model cannot be updated: its inputs
                are no table, or its density is no Gaussian mixture. The model is then as it was.

        Example:
            >>> import numpy as np
            >>> from natpn import NatPNRegressor
            >>> lot = np.random.default_rng(0)
            >>> X = lot.normal(size=(300, 2))
            >>> model = NatPNRegressor(max_epochs=2, random_state=0).fit(X, X[:, 0])
            >>> far = lot.normal(size=(60, 2)) + 9
            >>> before = model.predict_dist(far[40:]).novelty_p.mean()
            >>> bool(before < 0.05 < model.update(far[:40], far[:40, 0]).predict_dist(far[40:]).novelty_p.mean())
            True
        """
        check_is_fitted(self)
        check_can_update(self.model_)
        if n_rows(X) == len(y) == 0:
            return self
        rows, exposures = self._exposed_rows(X, exposure)
        return self.learn_rows(rows, y, sample_weight, exposures)

    def learn_rows(self, rows: Any, y: Any, sample_weight: ArrayLike | None, exposures: Floats | None) -> Self:
        """Learn from rows that have been checked: what `update` does."""
        given = y if exposures is None else np.column_stack([np.asarray(y), exposures])
        targets = self._encode_targets(given)
        if len(targets) != n_rows(rows):
            raise ValueError(f"y: expected one target for each of {n_rows(rows)} rows, got {len(targets)}")
        weight = checked_weights(sample_weight, len(targets))
        if not weight.sum() < _MOST_WEIGHT:
            raise ValueError(f"sample_weight: expected a sum below 2^53, got {weight.sum():g}; give smaller weights")
        self.targets_.check_reach(targets)
        model = updated(self.model_, rows, targets, weight)
        if self.model_.memory is None and model.memory is not None and hasattr(self, "held_out_rows_"):
            x, known, folds = self.held_out_rows_  # an event beside training may be one beside the new rows too
            self.held_out_rows_ = torch.cat([x, x[:, -1:]], 1), known, folds
        self.model_, self.inputs_ = model, model.inputs
        return self

    def _set_model(self, model: Model) -> None:
        self.model_, self.targets_, self.family_ = model, model.targets, model.family

    @property
    def network_(self) -> Network:
        """The trained network."""
        return self.model_.network

    @property
    def history_(self) -> list[dict[str, Any]]:
        """One entry an epoch."""
        return self.model_.history

    @property
    def n_networks_(self) -> int:
        """How many networks there are."""
        return len(self.model_.members)

    @property
    def _n_folds(self) -> int:
        return 1 if is_paper(self.scheme) else self._n_networks

    @property
    def _n_networks(self) -> int:
        """How many networks to build."""
        if not isinstance(self.ensemble_size, str):
            return int(self.ensemble_size)
        return _NETWORKS if self.inputs_.kind == "table" and not is_paper(self.scheme) else 1

    def _check_parameters(self) -> None:
        for name, low in (("latent_dim", 1), ("ensemble_size", 1), ("max_epochs", 1), ("batch_size", 1)):
            value = getattr(self, name)
            if (value is None and name in ("max_epochs", "batch_size")) or (name, value) == ("ensemble_size", "auto"):
                continue
            if isinstance(value, bool) or not isinstance(value, Integral) or value < low:
                words = ' or "auto"' if name == "ensemble_size" else ""
                raise ValueError(f"{name}: expected a whole number of at least {low}{words}, got {value!r}")
        fraction = self.validation_fraction
        if not isinstance(fraction, Real) or not 0 < fraction < 1:
            raise ValueError(f"validation_fraction: expected a share between 0 and 1, got {fraction!r}")
        check_choice("calibrate", "conformal" if self.calibrate is None else self.calibrate, ["conformal"])
        if self.groups is not None and self.calibrate is None:
            raise ValueError(
                f'groups: expected calibrate="conformal" with it, got groups={self.groups!r} alone: give both or none'
            )

    def _build(
        self,
        n: int,
        seed: int,
        size: int | None = None,
        activation: str = ACTIVATION,
        knots: int | None = None,
        texture: bool = True,
    ) -> Network:
        return build(
            self.inputs_,
            self.targets_.trained_family,
            n,
            encoder=self.encoder,
            density=self.density,
            latent_dim=int(self.latent_dim),
            budget=self.budget,
            prior=self._prior(),
            scheme=self.scheme,
            size=size or self._n_networks,
            seed=seed,
            activation=activation,
            knots=knots,
            texture=texture,
        )

    def _prior(self) -> Evidence | Literal["marginal"] | None:
        """Return the prior in training's units, None for the paper's."""
        if isinstance(self.prior, str):
            check_choice("prior", self.prior, ["marginal", "paper"])
            return None if self.prior == "paper" or is_paper(self.scheme) else "marginal"
        if isinstance(self.prior, Evidence):
            chi, n = self.prior.chi, float(self.prior.log_n.double().exp())
        else:
            try:
                chi, n = self.prior
                chi = torch.as_tensor(chi, dtype=torch.float64)
            except (TypeError, ValueError):
                raise ValueError(
                    f"prior: expected 'marginal', 'paper', an Evidence or a pair (chi, n), got {self.prior!r}"
                ) from None
        size = self.family_.n_statistics
        if chi.shape not in ((), (size,)):
            raise ValueError(f"prior: chi of {self.family_!r} has {size} numbers, got shape {tuple(chi.shape)}")
        try:
            return self.family_.prior(self.targets_.express(chi.expand(size)), n)
        except ValueError:
            raise ValueError(
                f"prior: chi = {chi.tolist()} with n = {n} is not a proper prior of {self.family_!r}"
            ) from None

    def __getstate__(self) -> dict[str, Any]:
        state: dict[str, Any] = super().__getstate__()
        data = ("held_out_rows_", "held_out_exposure_")  # which are not copied along
        return {name: value for name, value in state.items() if name not in data}

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "model_")

    # Answering.

    def answers(self, X: Any, exposure: ArrayLike | None = None) -> Iterator[PredictiveDistribution]:
        """Yield the predictive distributions of rows, in pieces of a few thousand, whatever the length of X."""
        rows, exposures = self._exposed_rows(X, exposure)
        return self.model_.answers(rows, exposures)

    def predict_dist(self, X: Any, exposure: ArrayLike | None = None) -> PredictiveDistribution:
        """Return the predictive distribution of each row, with its uncertainties; `exposure` is as in the fit."""
        rows, exposures = self._exposed_rows(X, exposure)
        return self.model_.answer(rows, exposures)

    def score_samples(self, X: Any) -> Floats:
        """Return the log evidence of each row, whatever its exposure: higher is more familiar."""
        rows = self._rows(X)
        return np.concatenate([part.log_evidence for part in self.model_.answers(rows)])

    def predict_columns(
        self,
        X: Any,
        coverage: float = 0.9,
        names: Iterable[str] | None = None,
        exposure: ArrayLike | None = None,
    ) -> dict[str, NDArray[Any]]:
        """Return the columns of `predict_frame`; see `DataEstimator.predict_columns` for the arguments."""
        rows, exposures = self._exposed_rows(X, exposure)
        return self.model_.answer_columns(rows, coverage, names, exposures)

    def watch(
        self, X: Any, y: ArrayLike | None = None, level: float = LEVEL, exposure: ArrayLike | None = None
    ) -> Watch:
        """Watch rows, in the order in which they came, for drift; its `see` takes the answers to more of them.

        Args:
            X: The rows.
            y: Their targets, where they are known: errors are watched too.
            level: The probability with which each alarm is ever raised without drift, at most.
            exposure: The exposures of the rows, as in the fit.

        Example:
            >>> import numpy as np
            >>> from natpn import NatPNRegressor
            >>> lot = np.random.default_rng(0)
            >>> X = lot.normal(size=(300, 2))
            >>> model = NatPNRegressor(max_epochs=2, random_state=0).fit(X, X[:, 0])
            >>> model.watch(lot.normal(size=(200, 2)) + 9).novelty.raised_at < 50
            True
        """
        check_is_fitted(self)
        watch, start = self.model_.watch(level), 0
        targets = None if y is None else np.asarray(y)
        for part in self.answers(X, exposure):
            watch.see(part, None if targets is None else targets[start : start + len(part)])
            start += len(part)
        return watch

    def member(self, i: int) -> Self:
        """Return an estimator with one network of an ensemble."""
        check_is_fitted(self)
        if self.n_networks_ == 1 or not 0 <= i < self.n_networks_:
            raise ValueError(f"i: expected the number of a network from 0 to {self.n_networks_ - 1}, got {i!r}")
        single = copy.copy(self)
        single.ensemble_size = 1
        single.model_ = self.model_.member(i)
        return single

    def fast(self) -> Self:
        """Return a copy for many rows, whose networks calculate in float32; answers agree to three digits or more."""
        check_is_fitted(self)
        hastened = copy.copy(self)
        hastened.model_ = self.model_.fast()
        return hastened

    def save(self, directory: str | PathLike[str], *, example: bool = True) -> None:
        """Write the model to a directory, as `config.json` and `model.safetensors`; `natpn.load` reads it.

        Beside them is a card for people, `README.md`. One that the user wrote or changed stays as it is.

        Args:
            directory: The directory.
            example: Whether to keep the row of training with which the page of a server begins.
        """
        save(self if example else self.without_example(), directory)

    def without_example(self) -> Self:
        """Return a copy that holds no row of training."""
        check_is_fitted(self)
        bare = copy.copy(self)
        bare.model_ = replace(self.model_, example=None)
        return bare
