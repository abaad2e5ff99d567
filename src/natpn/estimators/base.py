"""What classifier and regressor share: parameters, the fit, and everything that is asked of a fitted model.

A fit takes these steps: rows and weights (`rows`), inputs → tensors (`inputs`), targets → the units of training (the
subclass), a network (`building`), training (`natpn.training`), and the calibration on held-out rows (`conformal`). No
loop is owned here.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator
from numbers import Integral, Real
from os import PathLike
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator
from sklearn.utils import check_array, check_random_state
from sklearn.utils.validation import _check_feature_names, check_is_fitted, validate_data
from torch import Tensor, nn
from torch.utils.data import Dataset

from natpn import training
from natpn.densities import Density
from natpn.encoders.base import check_choice
from natpn.estimators.building import Network, build
from natpn.estimators.conformal import Calibration
from natpn.estimators.frames import make_frame
from natpn.estimators.inputs import ArrayInputs, Inputs, TableInputs, as_array, n_rows, read_dataset, take
from natpn.estimators.prediction import PredictiveDistribution
from natpn.estimators.rows import Split, halves, order_by_content, repetitions, split_rows
from natpn.estimators.saving import save
from natpn.evidence import Evidence
from natpn.families import Family, Posterior
from natpn.network.quick import MAX_ROWS, QuickNetwork, quick

Floats = NDArray[np.float64]

_CHUNK = 4096
_NOVEL = 0.05


class NatPNEstimator(BaseEstimator, ABC):  # type: ignore[misc]
    """Base class of the estimators."""

    # Set by fit.
    inputs_: Inputs
    family_: Family
    network_: Network
    calibration_: Calibration
    history_: list[dict[str, Any]]
    n_features_in_: int
    n_rows_: int
    _prior_log_n: float
    _quick: QuickNetwork | None

    def __init__(
        self,
        *,
        encoder: str | nn.Module = "auto",
        density: str | Density = "auto",
        latent_dim: int = 16,
        budget: str = "auto",
        prior: Evidence | tuple[Any, float] | None = None,
        scheme: str = "staged",
        ensemble_size: int = 1,
        max_epochs: int | None = None,
        batch_size: int | None = None,
        learning_rate: float | None = None,
        entropy_weight: float | None = None,
        patience: int | None = None,
        validation_fraction: float = 0.2,
        calibrate: str | None = None,
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
        self.device = device
        self.checkpoint_dir = checkpoint_dir
        self.random_state = random_state
        self.verbose = verbose

    # What a subclass adds.

    @abstractmethod
    def _read_targets(self, y: Any) -> tuple[Floats, NDArray[np.int64]]:
        """Check training targets, learn about them, and return them as numbers, with the group of each row."""

    @abstractmethod
    def _encode_targets(self, y: Any) -> Floats:
        """Return further targets as numbers."""

    @abstractmethod
    def _set_family(self, y: Floats, weight: Floats | None) -> None:
        """Set `family_`, and the units of targets if it has any."""

    @abstractmethod
    def _standardise(self, y: Floats) -> Tensor:
        """Return targets as training sees them."""

    @abstractmethod
    def _distribution(self, posterior: Posterior[Any], log_evidence: Tensor) -> PredictiveDistribution:
        """Return predictive distributions from a posterior in training's units."""

    @abstractmethod
    def _columns(self, distribution: PredictiveDistribution, coverage: float) -> dict[str, NDArray[Any]]:
        """Return the first columns of a prediction frame."""

    # Fitting.

    def fit(
        self,
        X: Any,
        y: Any = None,
        sample_weight: ArrayLike | None = None,
        X_val: Any = None,
        y_val: Any = None,
    ) -> Self:
        """Fit the model.

        Args:
            X: A table (array or data frame), an array of more dimensions, or a torch data set of pairs (x, y).
            y: The targets, one a row; None for a data set.
            sample_weight: How much each row counts.
            X_val: Rows for early stopping and calibration, of any kind that X may have; without them a share of X is
                held out.
            y_val: Their targets; None for a data set.

        Returns:
            This estimator.
        """
        self._check_parameters()
        seed = int(check_random_state(self.random_state).randint(2**31 - 1))
        X, y = self._read_inputs(X, y)
        y, groups = self._read_targets(y)
        if len(y) != n_rows(X):
            raise ValueError(
                f"Found input variables with inconsistent numbers of samples: {[n_rows(X), len(y)]} in X and y"
            )
        X, y, groups, weight = self._arrange(X, y, groups, sample_weight)
        if X_val is None and y_val is None:
            split = split_rows(groups, self.validation_fraction, self.calibrate is not None, seed)
            # Held-out rows have no say in what counts as seen, or new rows would be more of a surprise than they are.
            rows = self.inputs_.fit(take(X, split.train)).transform(X)
        else:
            rows = self.inputs_.fit(X).transform(X)
            rows, y, weight, split = self._append(rows, y, weight, X_val, y_val)
        self._set_family(y[split.train], None if weight is None else weight[split.train])
        tensors = [
            torch.from_numpy(rows),
            self._standardise(y),
            torch.ones(len(y)) if weight is None else torch.from_numpy(weight.astype(np.float32)),
        ]
        self.n_rows_ = len(split.train)
        self.network_ = self._build(self.n_rows_, seed)
        parts = [tuple(t[torch.from_numpy(index)] for t in tensors) for index in (split.train, split.validation)]
        result = training.fit(
            self.network_,
            *parts,
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
        self.history_ = result.history
        self._finish()
        self._calibrate(tensors[0][torch.from_numpy(split.calibration)], y[split.calibration])
        return self

    def _check_parameters(self) -> None:
        for name, low in (("latent_dim", 1), ("ensemble_size", 1), ("max_epochs", 1), ("batch_size", 1)):
            value = getattr(self, name)
            if value is None and name in ("max_epochs", "batch_size"):
                continue
            if isinstance(value, bool) or not isinstance(value, Integral) or value < low:
                raise ValueError(f"{name}: expected a whole number of at least {low}, got {value!r}")
        fraction = self.validation_fraction
        if not isinstance(fraction, Real) or not 0 < fraction < 1:
            raise ValueError(f"validation_fraction: expected a share between 0 and 1, got {fraction!r}")
        check_choice("calibrate", "conformal" if self.calibrate is None else self.calibrate, ["conformal"])

    def _read_inputs(self, X: Any, y: Any) -> tuple[Any, Any]:
        """Return inputs and targets after scikit-learn's checks, and note the kind of inputs."""
        if isinstance(X, Dataset):
            if y is not None:
                raise ValueError("y: a torch data set brings its own targets, so y should be None")
            X, y = read_dataset(X)
        X = as_array(X)
        if y is None:
            raise ValueError(f"This {type(self).__name__} estimator requires y to be passed, but the target y is None")
        many = getattr(X, "ndim", 2) > 2
        self.inputs_ = ArrayInputs() if many or isinstance(self.encoder, nn.Module) else TableInputs()
        X = self._checked(X, reset=True)
        return X, y

    def _checked(self, X: Any, reset: bool) -> Any:
        """Let scikit-learn check numbers of columns and their names; frames and arrays pass as they are."""
        if isinstance(X, Dataset) or (not reset and self._is_plain(X)):
            return X
        if isinstance(self.inputs_, ArrayInputs):
            _check_feature_names(self, X, reset=reset)
            values = np.asarray(as_array(X))
            if not len(values):
                raise ValueError(
                    f"Found array with 0 sample(s) (shape={values.shape}) while a minimum of 1 is required."
                )
            if reset:
                self.n_features_in_ = int(np.prod(values.shape[1:]))
            return values
        if not hasattr(X, "shape") or isinstance(X, np.ndarray) or hasattr(X, "toarray"):
            X = check_array(X, dtype=None, ensure_all_finite=False, estimator=self)
        validate_data(self, X, skip_check_array=True, reset=reset)
        if not n_rows(X):
            raise ValueError(f"Found array with 0 sample(s) (shape={tuple(X.shape)}) while a minimum of 1 is required.")
        return X

    def _is_plain(self, X: Any) -> bool:
        """Say whether it is an array that needs no check: the quick way for single rows."""
        return (
            type(X) is np.ndarray
            and X.dtype.kind in "fiu"
            and X.ndim == 2
            and len(X) > 0
            and X.shape[1] == self.n_features_in_
            and not hasattr(self, "feature_names_in_")
            and isinstance(self.inputs_, TableInputs)
        )

    def _arrange(
        self, X: Any, y: Floats, groups: NDArray[np.int64], sample_weight: ArrayLike | None
    ) -> tuple[Any, Floats, NDArray[np.int64], Floats | None]:
        """Repeat rows by their weights and sort them by content."""
        index, weight = repetitions(X, sample_weight, n_rows(X))
        if len(index) < 2:
            raise ValueError(f"A fit needs at least 2 rows, got n_samples={len(index)}, that is 1 sample")
        X = take(X, index)
        order = order_by_content(self.inputs_.fit(X).transform(X), y[index], weight)
        X, index = take(X, order), index[order]
        weight = None if weight is None else weight[order]
        return X, y[index], groups[index], weight

    def _append(
        self, rows: NDArray[np.float32], y: Floats, weight: Floats | None, X_val: Any, y_val: Any
    ) -> tuple[NDArray[np.float32], Floats, Floats | None, Split]:
        """Add rows for validation that were given."""
        if isinstance(X_val, Dataset) and y_val is None:
            X_val, y_val = read_dataset(X_val)
        if X_val is None or y_val is None:
            raise ValueError("X_val and y_val go together: give both or none")
        extra = self.inputs_.transform(self._checked(X_val, reset=False))
        y_extra = self._encode_targets(y_val)
        if len(extra) != len(y_extra):
            raise ValueError(f"X_val has {len(extra)} rows, y_val {len(y_extra)}: expected as many")
        held_out = len(rows) + np.arange(len(extra))
        split = halves(np.arange(len(rows)), held_out, np.arange(len(rows) + len(extra)), self.calibrate is not None)
        if weight is not None:
            weight = np.concatenate([weight, np.ones(len(extra))])
        return np.concatenate([rows, extra]), np.concatenate([y, y_extra]), weight, split

    def _build(self, n: int, seed: int) -> Network:
        shape, surprise = self.inputs_.shape, isinstance(self.inputs_, TableInputs)
        return build(
            (shape[0] - 1,) if surprise else shape,
            self.family_,
            n,
            n_numbers=self.inputs_.table.n_numbers if isinstance(self.inputs_, TableInputs) else None,
            surprise=surprise,
            encoder=self.encoder,
            density=self.density,
            latent_dim=int(self.latent_dim),
            budget=self.budget,
            prior=self._prior(),
            scheme=self.scheme,
            size=int(self.ensemble_size),
            seed=seed,
        )

    def _prior(self) -> Evidence | None:
        """Return the prior in training's units, None for the default."""
        if self.prior is None:
            return None
        if isinstance(self.prior, Evidence):
            chi, n = self.prior.chi, float(self.prior.log_n.double().exp())
        else:
            try:
                chi, n = self.prior
                chi = torch.as_tensor(chi, dtype=torch.float64)
            except (TypeError, ValueError):
                raise ValueError(f"prior: expected None, an Evidence or a pair (chi, n), got {self.prior!r}") from None
        size = self.family_.n_statistics
        if chi.shape not in ((), (size,)):
            raise ValueError(f"prior: chi of {self.family_!r} has {size} numbers, got shape {tuple(chi.shape)}")
        try:
            return self.family_.prior(self._express(chi.expand(size)), n)
        except ValueError:
            raise ValueError(
                f"prior: chi = {chi.tolist()} with n = {n} is not a proper prior of {self.family_!r}"
            ) from None

    def _express(self, chi: Tensor) -> Tensor:
        """Return χ in the user's units as it is in training's."""
        return chi

    def _finish(self) -> None:
        """Put the network in the state in which it predicts.

        Tables are predicted in float64, where the answer to a row does not depend on the rows beside it.
        """
        self.network_.eval().requires_grad_(False)
        self._prior_log_n = float(self.network_.prior.log_n)
        if isinstance(self.inputs_, TableInputs) and next(self.network_.parameters()).device.type != "mps":
            self.network_.double()
        self._quick = quick(self.network_)

    @torch.no_grad()
    def _calibrate(self, rows: Tensor, y: Floats) -> None:
        self.calibration_ = Calibration(np.zeros(0))
        parts = [self._distribution(*self._answer(part)) for part in rows.split(_CHUNK)]
        scores: list[Floats] = []
        for part, targets in zip(parts, np.array_split(y, np.arange(_CHUNK, len(y), _CHUNK)), strict=True):
            found = part.conformal_scores(self._labels(targets)) if self.calibrate else None
            if self.calibrate and found is None:
                raise ValueError(f"calibrate: {self.family_!r} has vectors as targets, which have no intervals")
            if found is not None:
                scores.append(found)
        log_evidence = np.concatenate([part.log_evidence for part in parts])
        self.calibration_ = Calibration.of(log_evidence, np.concatenate(scores) if scores else None)

    def _labels(self, y: Floats) -> NDArray[Any]:
        """Return targets as the user knows them."""
        return y

    # Predicting.

    @torch.no_grad()
    def _answer(self, x: Tensor) -> tuple[Posterior[Any], Tensor]:
        if self._quick is not None and len(x) <= MAX_ROWS:
            posterior, evidence = self._quick(x.double().numpy())
            return posterior, evidence.log_n
        parameter = next(self.network_.parameters())
        posterior, evidence = self.network_(x.to(parameter.device, parameter.dtype))
        return posterior, evidence.log_n

    def _answers(self, X: Any) -> Iterator[PredictiveDistribution]:
        """Yield predictive distributions piece by piece."""
        check_is_fitted(self)
        X = self._checked(X, reset=False)
        for x in self.inputs_.tensors(X, _CHUNK):
            yield self._distribution(*self._answer(x))

    def predict_dist(self, X: Any) -> PredictiveDistribution:
        """Return the predictive distribution of each row, with its uncertainties."""
        check_is_fitted(self)
        X = self._checked(X, reset=False)
        parts = [self._answer(x) for x in self.inputs_.tensors(X, _CHUNK)]
        chi = torch.cat([posterior.mean_statistics for posterior, _ in parts])
        log_n = torch.cat([posterior.evidence.log_n for posterior, _ in parts])
        posterior = self.family_.posterior(self.family_.evidence(chi, log_n.to(chi.dtype)))
        return self._distribution(posterior, torch.cat([log_evidence for _, log_evidence in parts]))

    def score_samples(self, X: Any) -> Floats:
        """Return the log evidence of each row: higher is more familiar."""
        return np.concatenate([part.log_evidence for part in self._answers(X)])

    def predict_frame(self, X: Any, coverage: float = 0.9) -> Any:
        """Return predictions and uncertainties in named columns, in the frame library that X came in.

        A row counts as novel if its `novelty_p` is below 0.05. For arrays the frame is pandas', polars' or pyarrow's,
        whichever is installed.
        """
        distribution = self.predict_dist(X)
        columns = self._columns(distribution, coverage)
        p = distribution.novelty_p
        columns |= {
            "aleatoric": distribution.aleatoric,
            "epistemic": distribution.epistemic,
            "familiarity": distribution.familiarity,
            "novelty_p": p,
            "novel": p < _NOVEL,
        }
        return make_frame(columns, X)

    def save(self, directory: str | PathLike[str]) -> None:
        """Write the model to a directory, as `config.json` and `model.safetensors`; `natpn.load` reads it."""
        save(self, directory)

    def _restored(self, posterior: Posterior[Any], chi: Tensor) -> Posterior[Any]:
        """Return the posterior with χ in the user's units."""
        return self.family_.posterior(self.family_.evidence(chi, posterior.evidence.log_n.to(chi.dtype)))

    def __getstate__(self) -> dict[str, Any]:
        # the quick way is a copy of the network, and holds functions
        return {name: value for name, value in super().__getstate__().items() if name != "_quick"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        if hasattr(self, "network_"):
            self._quick = quick(self.network_)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.input_tags.categorical = True
        tags.input_tags.string = True
        tags.input_tags.three_d_array = True
        tags.non_deterministic = False
        return tags
