"""Numbers, counts and vectors as targets, the answers about them, and the regressor for every family of them."""

from os import PathLike
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from sklearn.base import RegressorMixin
from sklearn.utils import check_array, column_or_1d

from natpn import families
from natpn.densities import Density
from natpn.encoders.base import EncoderChoice
from natpn.estimators.arrays import read_numbers
from natpn.estimators.base import NatPNEstimator
from natpn.estimators.building import is_paper
from natpn.estimators.data_estimator import DataEstimator, Floats, is_files
from natpn.evidence import Evidence
from natpn.families import FAMILIES, Family, has_vectors
from natpn.model import Model, Units
from natpn.model.exposure import read_exposures, take_column
from natpn.training import Scheme


def choose_family(family: str | Family, y: Floats, exposed: bool = False) -> Family:
    """Return the family for targets.

    Args:
        family: A family, the name of one, or "auto".
        y: The targets, one or two dimensions.
        exposed: Whether they have exposures.

    Raises:
        ValueError: If there is no such family, its targets have another shape, or they have no exposures.
    """
    if isinstance(family, Family):
        chosen = family
    elif isinstance(family, str):
        chosen = _by_name(automatic(y, exposed) if family == "auto" else family, y)
    else:
        raise ValueError(f"family: expected a name, a Family or 'auto', got {family!r}")
    if exposed:
        chosen.check_exposure()
    wanted = len(chosen.support.event_shape) + 1
    if y.ndim != wanted:
        raise ValueError(
            f"y: {chosen!r} predicts {'vectors' if wanted == 2 else 'single numbers'}, so y should be {wanted}-d, got "
            f"shape {y.shape}"
        )
    return chosen


def automatic(y: Floats, exposed: bool = False) -> str:
    """Return the name of the family that suits the targets best, by `Family.suited`; the first that takes exposures."""
    if exposed:
        return next(name for name, kind in FAMILIES.items() if kind.no_exposure is None)
    grades = {name: grade for name, kind in FAMILIES.items() if (grade := kind.suited(y)) is not None}
    return max(grades, key=lambda name: grades[name])


def _by_name(name: str, y: Floats) -> Family:
    kind = FAMILIES.get(name)
    if kind is not None and kind.is_classes:
        raise ValueError(f"family: classes are for NatPNClassifier, got {name!r}")
    return families.get(name, **({} if kind is None else kind.parameters(y)))


def _apart(y: Any) -> tuple[Any, Floats]:
    """Return counts and their exposures."""
    return y[:, 0], y[:, 1]


def _pairs(y: Floats, exposures: Floats | None) -> Floats:
    """Return counts beside their exposures, (rows, 2), if they have some."""
    return y if exposures is None else np.stack([y, read_exposures(exposures, len(y))], 1)


class NumberTargets(RegressorMixin, DataEstimator):  # type: ignore[misc]
    """An estimator of numbers, counts or vectors."""

    # Parameters of every subclass.
    family: str | Family
    verbose: int

    # Set by fit.
    targets_: Units
    exposed_ = False  # whether targets are pairs of a count and its exposure
    exposure_column_: str | None = None  # which column of X had the exposures

    @property
    def units_(self) -> Units:
        """Location and scale of the targets."""
        return self.targets_

    def _read_targets(self, y: Any) -> tuple[Floats, NDArray[np.int64]]:
        counts, exposures = _apart(y) if self.exposed_ else (y, None)
        values = self._numbers(counts, warn=True)
        self.family_ = self._choose_family(values)
        self._check_support(values)
        return _pairs(values, exposures), np.zeros(len(values), np.int64)

    def _choose_family(self, y: Floats) -> Family:
        return choose_family(self.family, y, self.exposed_)

    def _encode_targets(self, y: Any) -> Floats:
        counts, exposures = _apart(y) if self.exposed_ else (y, None)
        values = self._numbers(counts, warn=False)
        self._check_support(values)
        return _pairs(values, exposures)

    def _numbers(self, y: Any, warn: bool) -> Floats:
        values = read_numbers(y)
        two = values.ndim == 2 and (self.family == "auto" or has_vectors(self.family))
        if not two:
            values = column_or_1d(values, warn=warn)
        elif self.family == "auto" and values.shape[1] == 1:
            values = values[:, 0]
        checked: Floats = check_array(values, ensure_2d=False, dtype=np.float64, input_name="y", estimator=self)
        return checked

    def _check_support(self, y: Floats) -> None:
        self.family_.support.check(torch.tensor(y))

    def _learn_targets(self, y: Floats, weight: Floats) -> Units:
        units = (
            Units.of_exposed(self.family_, y, weight, self.exposure_column_)
            if self.exposed_
            else Units.of(self.family_, y, weight)
        )
        units.check_reach(y)
        return units

    def predict(
        self, X: Any, return_std: bool = False, exposure: ArrayLike | None = None
    ) -> Floats | tuple[Floats, Floats]:
        """Return the predictive mean of each row, the median for `lognormal`, and the standard deviation if asked for.

        The standard deviation is inf where there is none: far from the data a Student's t has too heavy tails. For
        `lognormal`, which never has one, it is half the width of the interval that holds 68 %. For `multinomial` the
        mean is in counts if all training rows had the same number of trials, else in shares. `exposure` is as in the
        fit: with 1 it is the rate.
        """
        if not return_std:
            return np.concatenate([part.centre() for part in self.answers(X, exposure)])
        parts = [(part.centre(), part.spread()) for part in self.answers(X, exposure)]
        return np.concatenate([centre for centre, _ in parts]), np.concatenate([std for _, std in parts])

    def score(self, X: Any, y: Any, sample_weight: ArrayLike | None = None, exposure: ArrayLike | None = None) -> float:
        """Return R² of the predictions; for `multinomial` those of shares. `exposure` is as in the fit."""
        from sklearn.metrics import r2_score  # which imports much more

        targets = read_numbers(y)
        if hasattr(self, "units_") and self.units_.trials is not None:
            targets = targets / targets.sum(1, keepdims=True) * self.units_.trials
        return float(r2_score(targets, self.predict(X, exposure=exposure), sample_weight=sample_weight))

    def predict_quantiles(self, X: Any, q: ArrayLike = (0.1, 0.5, 0.9), exposure: ArrayLike | None = None) -> Floats:
        """Return quantiles, (rows, k) for k levels, (rows,) for one number; `exposure` is as in the fit."""
        return np.concatenate([part.quantile(q) for part in self.answers(X, exposure)])

    def predict_interval(self, X: Any, coverage: float = 0.9, exposure: ArrayLike | None = None) -> Floats:
        """Return intervals that hold the target with the given probability, (rows, 2); `exposure` is as in the fit."""
        return np.concatenate([part.interval(coverage) for part in self.answers(X, exposure)])

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = self.family == "auto" or has_vectors(self.family)
        tags.target_tags.single_output = not tags.target_tags.multi_output or self.family == "auto"
        return tags


class NatPNRegressor(NumberTargets, NatPNEstimator):
    """Predict the distribution of numbers, counts or vectors, the noise in the data, and how much is known.

    Args:
        family: "auto" picks one from the targets: vectors, counts (Poisson, or negative binomial if they spread more),
            positive numbers with a long upper tail (log-normal), or else Normal; `family_` says which. Or a name in
            `natpn.families.FAMILIES`, or a family. The size of "negative_binomial" is found on held-out rows.
        encoder: "auto", "tabular", "image", "resnet9", "resnet18", a module that maps standardised inputs to
            (rows, latent_dim), or a function that makes one; members of an ensemble have copies of a module, weights
            included, and modules of their own from a function.
        density: "auto", "gaussian_mixture", "radial", "maf", "spline", or a `natpn.densities.Density`.
        latent_dim: The size of the latent vector.
        budget: "auto", or a certainty budget: "gradual", "learned", "constant", "rows", "exp_half", "exp", "normal".
        prior: What is believed without any evidence. "marginal" is what the training targets say of any row; "paper"
            the wide prior of the paper, which its scheme uses in place of "marginal"; or (chi, n) in the units of y:
            for "normal" mean and variance, for "poisson", "gamma" and the like the mean, and how many rows they are
            worth.
        scheme: "staged", or "paper" for the network and the training of the paper; or a `natpn.training.Staged` or
            `Paper` with settings of its own.
        ensemble_size: How many networks; their evidence is added. "auto" is two for tables by the default scheme, which
            are more accurate than one and take longer, and one for anything else.
        max_epochs: Epochs of the main phase; by default by the number of rows.
        batch_size: Rows a step; by default by the number of rows.
        learning_rate: The learning rate, or its peak.
        entropy_weight: Weight of the entropy in the paper's loss.
        patience: Epochs without progress before training stops.
        validation_fraction: Share of rows held out for early stopping and calibration. Networks of an ensemble each
            hold out other rows: every row is held out once if there are enough of them; two to four hold out down to
            half of that share each, as long as it is 300 rows.
        calibrate: "conformal" sets half of that share aside for this alone, so that intervals and `novelty_p` hold
            exactly.
        groups: A column of X, by name or number, by whose values intervals are calibrated: each value with 20
            calibration rows or more has intervals that hold for its rows alone. Rarer values, and those that are
            new, share one calibration. It needs calibrate="conformal".
        device: "cpu", "cuda", "auto".
        checkpoint_dir: Where to write checkpoints, and to go on from.
        random_state: The seed.
        verbose: 1 shows a progress bar, and the family that "auto" picked.

    Attributes:
        family_: What the targets are.
        units_: Their location and scale.
        network_: The trained network.
        history_: One entry an epoch.
        n_features_in_: The number of columns in training.
        feature_names_in_: Their names, if they had any.

    Example:
        >>> import numpy as np
        >>> X = np.linspace(-2, 2, 200)[:, None]
        >>> noise = 0.1 * np.random.default_rng(0).normal(size=200)
        >>> model = NatPNRegressor(random_state=0).fit(X, X[:, 0] ** 2 + noise)
        >>> inside, outside = model.predict_interval([[1.0], [50.0]])
        >>> bool(inside[0] < 1 < inside[1]), bool(outside[1] - outside[0] > 5 * (inside[1] - inside[0]))
        (True, True)
    """

    def __init__(
        self,
        family: str | Family = "auto",
        *,
        encoder: EncoderChoice = "auto",
        density: str | Density = "auto",
        latent_dim: int = 16,
        budget: str = "auto",
        prior: str | Evidence | tuple[Any, float] = "marginal",
        scheme: str | Scheme = "staged",
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
        super().__init__(
            encoder=encoder,
            density=density,
            latent_dim=latent_dim,
            budget=budget,
            prior=prior,
            scheme=scheme,
            ensemble_size=ensemble_size,
            max_epochs=max_epochs,
            batch_size=batch_size,
            learning_rate=learning_rate,
            entropy_weight=entropy_weight,
            patience=patience,
            validation_fraction=validation_fraction,
            calibrate=calibrate,
            groups=groups,
            device=device,
            checkpoint_dir=checkpoint_dir,
            random_state=random_state,
            verbose=verbose,
        )
        self.family = family

    def fit(
        self,
        X: Any,
        y: Any = None,
        sample_weight: ArrayLike | None = None,
        X_val: Any = None,
        y_val: Any = None,
        exposure: ArrayLike | str | None = None,
        exposure_val: ArrayLike | None = None,
    ) -> Self:
        """Fit the model.

        Args:
            X: A table (array or data frame), an array of more dimensions, a torch data set of pairs (x, y) or a loader
                of such batches, or files as `natpn.data.parquet` returns them. Data sets, loaders and files need not
                fit into memory.
            y: The targets, one a row; None for a data set or loader; of files the name of the column.
            sample_weight: How much each row counts: a row of weight 2 is that row twice.
            X_val: Rows for early stopping and calibration, in any form that X may have; by default a share of X is held
                out.
            y_val: Their targets; None for a data set.
            exposure: Over how long, or among how many, each count of y was counted: numbers above 0, one a row or one
                for all, or the name of a column of X, which is then no feature. Predictions need it too, and take it
                from the same column if it has a name. For families of counts.
            exposure_val: The exposures of X_val, if `exposure` names no column.

        Returns:
            This estimator.
        """
        self.exposed_, self.exposure_column_ = exposure is not None, exposure if isinstance(exposure, str) else None
        if exposure is None:
            if exposure_val is not None:
                raise ValueError("exposure_val: expected none, since exposure is None; give both or none")
            return super().fit(X, y, sample_weight, X_val, y_val)
        if is_files(X):
            return super().fit(X, (y, exposure), sample_weight, X_val, y_val)
        X, y = self._with_exposure("exposure", X, y, exposure)
        if X_val is not None or y_val is not None:
            X_val, y_val = self._with_exposure("exposure_val", X_val, y_val, self.exposure_column_ or exposure_val)
        return super().fit(X, y, sample_weight, X_val, y_val)

    def _with_exposure(self, argument: str, X: Any, y: Any, exposure: Any) -> tuple[Any, Floats]:
        """Return rows without a column of exposures, and their counts with the exposures, (rows, 2)."""
        if y is None or exposure is None:
            raise ValueError(
                f"{argument}: expected a number for each row of a table or an array and its y, got none; give both"
            )
        X, values = take_column(X, exposure) if isinstance(exposure, str) else (X, exposure)
        counts = self._numbers(y, warn=True)
        if counts.ndim != 1:
            raise ValueError(f"y: with an exposure, expected one count a row, got shape {counts.shape}")
        return X, _pairs(counts, values)

    def _choose_family(self, y: Floats) -> Family:
        """Leave open the parameters that the staged scheme finds on held-out rows."""
        chosen = super()._choose_family(y)
        if isinstance(self.family, Family) or is_paper(self.scheme):
            return chosen
        wider = chosen.wider if self.family == "auto" else None
        return (chosen if wider is None else families.get(wider)).opened()

    def _set_model(self, model: Model) -> None:
        super()._set_model(model)
        if self.family == "auto" and self.verbose:
            print(f"family: {self.family_!r}, for {self.family_.suits}")
