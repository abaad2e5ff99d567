"""What classifier and regressor share: parameters, the fit, and everything that is asked of a fitted model.

A fit takes these steps: inputs and targets → tensors (`data`, with `classes` or `numbers`), a network (`building`),
training (`natpn.training`), and the calibration on held-out rows (`conformal`). No loop is owned here.
"""

import copy
from abc import abstractmethod
from collections.abc import Iterator
from dataclasses import replace
from numbers import Integral, Real
from os import PathLike
from typing import Any, Literal, Self, cast

import numpy as np
import torch
from sklearn.utils.validation import check_is_fitted
from torch import Tensor

from natpn import training
from natpn.choices import check_choice
from natpn.densities import Density
from natpn.encoders.base import EncoderChoice
from natpn.estimators.building import Network, build, is_paper
from natpn.estimators.conformal import Calibration
from natpn.estimators.data import DataEstimator, Floats, Prepared
from natpn.estimators.frames import make_frame
from natpn.estimators.inputs import TableInputs
from natpn.estimators.prediction import PredictiveDistribution
from natpn.estimators.saving import save
from natpn.evidence import Evidence
from natpn.families import Family, Posterior
from natpn.network import NaturalPosteriorEnsemble, NaturalPosteriorNetwork
from natpn.network.default import ACTIVATION
from natpn.network.quick import MAX_ROWS, QuickNetwork, quick

_CHUNK = 4096
_NOVEL = 0.05
_NETWORKS = 2  # for tables: more accurate than one, in 1.3 times the time at 3,000 rows


class NatPNEstimator(DataEstimator):
    """Base class of the estimators."""

    # Set by fit.
    network_: Network
    calibration_: Calibration
    history_: list[dict[str, Any]]
    n_networks_: int
    _prior_log_n: float
    _quick: QuickNetwork | None

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
    def _distribution(self, posterior: Posterior[Any], log_evidence: Tensor) -> PredictiveDistribution:
        """Return predictive distributions from a posterior in training's units."""

    # Fitting.

    def _fit(self, data: Prepared, seed: int) -> None:
        self.network_ = self._build(self.n_rows_, seed)
        result = training.fit(
            self.network_,
            data.train,
            data.validation,
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
        self._set_fitted_family(self.network_.family)
        self._finish()
        if isinstance(data.validation, Tensor) and not self.calibrate:
            self.calibration_ = Calibration(np.zeros(0))
            parts = [self._log_evidence(i, data.train[0]) for i in range(self._n_folds)]
            self.calibration_ = Calibration.of_folds(np.stack(parts), data.validation.numpy())
        else:
            self._calibrate(*data.calibration)

    @property
    def _n_folds(self) -> int:
        return 1 if is_paper(self.scheme) else self.n_networks_

    def _read_inputs(self, X: Any, y: Any) -> tuple[Any, Any]:
        X, y = super()._read_inputs(X, y)
        several = isinstance(self.inputs_, TableInputs) and not is_paper(self.scheme)
        automatic = _NETWORKS if several else 1
        self.n_networks_ = automatic if isinstance(self.ensemble_size, str) else int(self.ensemble_size)
        return X, y

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

    def _build(self, n: int, seed: int, activation: str = ACTIVATION, knots: int | None = None) -> Network:
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
            size=self.n_networks_,
            seed=seed,
            activation=activation,
            knots=knots,
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
            return self.family_.prior(self._express(chi.expand(size)), n)
        except ValueError:
            raise ValueError(
                f"prior: chi = {chi.tolist()} with n = {n} is not a proper prior of {self.family_!r}"
            ) from None

    def _set_fitted_family(self, family: Family) -> None:
        """Take note of the family that training arrived at."""
        self.family_ = family

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
        parts = [self.answer(part) for part in rows.split(_CHUNK)]
        scores: list[Floats] = []
        for part, targets in zip(parts, np.array_split(y, np.arange(_CHUNK, len(y), _CHUNK)), strict=True):
            found = part.conformal_scores(self._labels(targets)) if self.calibrate else None
            if self.calibrate and found is None:
                raise ValueError(f"calibrate: {self.family_!r} has vectors as targets, which have no intervals")
            if found is not None:
                scores.append(found)
        log_evidence = np.concatenate([part.log_evidence for part in parts])
        self.calibration_ = Calibration.of(log_evidence, np.concatenate(scores) if scores else None)

    def _log_evidence(self, i: int, rows: Tensor) -> Floats:
        """Return the log evidence of one member."""
        member = self.member(i)
        return torch.cat([member._answer(part)[1] for part in rows.split(_CHUNK)]).double().cpu().numpy()

    def member(self, i: int) -> Self:
        """Return a model with one network of an ensemble.

        Its `novelty_p` is by the ensemble's rows, of whose evidence each network has the same share.
        """
        check_is_fitted(self, "network_")
        if not isinstance(self.network_, NaturalPosteriorEnsemble) or not 0 <= i < len(self.network_.members):
            raise ValueError(f"i: expected the number of a network from 0 to {self.n_networks_ - 1}, got {i!r}")
        single = copy.copy(self)
        single.ensemble_size = single.n_networks_ = 1
        share = self.calibration_.log_evidence - np.log(self.n_networks_)
        single.calibration_ = replace(self.calibration_, log_evidence=share)
        single.network_ = cast(NaturalPosteriorNetwork, self.network_.members[i])
        single._finish()
        return single

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
            yield self.answer(x)

    def answer(self, x: Tensor) -> PredictiveDistribution:
        """Return the predictive distributions of rows that `inputs_` has encoded, all at once."""
        return self._distribution(*self._answer(x))

    def answer_without_evidence(self) -> PredictiveDistribution:
        """Return what the prior alone predicts, as one row."""
        prior, family = self.network_.prior, self.family_
        posterior = family.posterior(family.evidence(prior.chi[None], prior.log_n.reshape(1)))
        return self._distribution(posterior, torch.full((1,), -torch.inf, dtype=torch.float64))

    def predict_dist(self, X: Any) -> PredictiveDistribution:
        """Return the predictive distribution of each row, with its uncertainties."""
        return self._distribution(*self._posterior(X))

    def _posterior(self, X: Any) -> tuple[Posterior[Any], Tensor]:
        """Return the posterior of all rows in training's units, and the log evidence."""
        check_is_fitted(self)
        X = self._checked(X, reset=False)
        parts = [self._answer(x) for x in self.inputs_.tensors(X, _CHUNK)]
        if len(parts) == 1:
            return parts[0]
        chi = torch.cat([posterior.mean_statistics for posterior, _ in parts])
        log_n = torch.cat([posterior.evidence.log_n for posterior, _ in parts])
        posterior = self.family_.posterior(self.family_.evidence(chi, log_n.to(chi.dtype)))
        return posterior, torch.cat([log_evidence for _, log_evidence in parts])

    def score_samples(self, X: Any) -> Floats:
        """Return the log evidence of each row: higher is more familiar."""
        return np.concatenate([part.log_evidence for part in self._answers(X)])

    def predict_frame(self, X: Any, coverage: float = 0.9) -> Any:
        """Return predictions and uncertainties in named columns, in the frame library that X came in.

        A row counts as novel if its `novelty_p` is below 0.05. For arrays the frame is pandas', polars' or pyarrow's,
        whichever is installed.
        """
        distribution = self.predict_dist(X)
        columns = self.frame_columns(distribution, coverage)
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
