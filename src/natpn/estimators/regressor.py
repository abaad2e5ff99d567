"""The regressor, for every family of numbers and vectors."""

from os import PathLike
from typing import Any

import numpy as np

from natpn import families
from natpn.densities import Density
from natpn.encoders.base import EncoderChoice
from natpn.estimators.base import NatPNEstimator
from natpn.estimators.building import is_paper
from natpn.estimators.data import Floats
from natpn.estimators.numbers import NumberTargets
from natpn.evidence import Evidence
from natpn.families import Family
from natpn.model import Model
from natpn.training import Scheme


class NatPNRegressor(NumberTargets, NatPNEstimator):
    """Predict the distribution of numbers, counts or vectors, the noise in the data, and how much is known.

    Args:
        family: "auto" picks one from the targets: vectors, counts (Poisson, or negative binomial if they spread more),
            positive numbers with a long upper tail (log-normal), or else Normal; `family_` says which. Or a name in
            `natpn.families.FAMILIES`, or a family. The size of "negative_binomial" is found on held-out rows.
        encoder: "auto", "tabular", "image", "resnet18", a module that maps standardised inputs to
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
            device=device,
            checkpoint_dir=checkpoint_dir,
            random_state=random_state,
            verbose=verbose,
        )
        self.family = family

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
