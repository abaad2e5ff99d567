"""The classifier."""

from natpn.estimators.base import NatPNEstimator
from natpn.estimators.classes import ClassTargets


class NatPNClassifier(ClassTargets, NatPNEstimator):
    """Predict classes, the noise in the data, and how much is known.

    Args:
        encoder: "auto", "tabular", "image", "resnet18", a module that maps standardised inputs to
            (rows, latent_dim), or a function that makes one; members of an ensemble have copies of a module, weights
            included, and modules of their own from a function.
        density: "auto", "gaussian_mixture", "radial", "maf", "spline", or a `natpn.densities.Density`.
        latent_dim: The size of the latent vector.
        budget: "auto", or a certainty budget: "gradual", "learned", "constant", "rows", "exp_half", "exp", "normal".
        prior: What is believed without any evidence. "marginal" is the share of each class in training; "paper" all
            classes alike, which its scheme uses in place of "marginal"; or probabilities and how many rows they are
            worth, (chi, n).
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
        calibrate: "conformal" sets half of the held-out rows aside, so that sets and `novelty_p` hold exactly.
        device: "cpu", "cuda", "auto".
        checkpoint_dir: Where to write checkpoints, and to go on from.
        random_state: The seed.
        verbose: 1 shows a progress bar.

    Attributes:
        classes_: The labels.
        family_: What the targets are.
        network_: The trained network.
        history_: One entry an epoch.
        n_features_in_: The number of columns in training.
        feature_names_in_: Their names, if they had any.

    Example:
        >>> from sklearn.datasets import load_iris
        >>> X, y = load_iris(return_X_y=True)
        >>> model = NatPNClassifier(random_state=0).fit(X, y)
        >>> familiar, far = model.predict_dist([X[0], X[0] + 1000]).familiarity
        >>> bool(familiar > 0.9), bool(far < 0.1)
        (True, True)
    """
