"""Targets as the user knows them, and as training sees them.

Training sees numbers standardised, and classes as their places among the labels; everything comes back as the user
knows it. Where a family of distributions is closed under a change of units, evidence can be restated in them: the
number of pseudo-observations stays, and χ is that of the rescaled targets. Each family states its units in its file.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from natpn import families
from natpn.families import ExposedCounts, Family
from natpn.model.answers import ClassDistribution, PredictiveDistribution
from natpn.model.calibration import Calibration, LocalCalibration
from natpn.model.exposure import Exposure

Floats = NDArray[np.float64]


class Targets(ABC):
    """What was learned about targets in training."""

    key: ClassVar[str]  # under which a saved model describes them
    family: Family
    usual: tuple[float, float] | None = None  # where nine of ten targets of training were; None if it is not known
    exposure: Exposure | None = None  # what training showed of exposures, if rows have them

    @abstractmethod
    def standardise(self, y: Floats) -> Tensor:
        """Return targets, as numbers, as training sees them, in float32."""

    @abstractmethod
    def as_known(self, y: Floats) -> NDArray[Any]:
        """Return targets that are numbers as the user knows them."""

    def exposures(self, y: Floats) -> Floats | None:
        """Return the exposures of targets that have some."""
        return None

    def read_exposures(self, X: Any, given: ArrayLike | None) -> tuple[Any, Floats | None]:
        """Return rows without a column of exposures, and the exposures that they have or that are given.

        Raises:
            ValueError: If rows need exposures and have none, or the other way round.
        """
        if self.exposure is not None:
            return self.exposure.read(X, given)
        if given is not None:
            self.family.check_exposure()
            raise ValueError(
                "exposure: expected none, since the model was fitted without; leave it out, or fit with it"
            )
        return X, None

    def without_exposures(self, X: Any) -> Any:
        """Return rows without a column of exposures."""
        return X if self.exposure is None else self.exposure.without(X)

    @property
    def trained_family(self) -> Family:
        """What targets are in training: pairs of a count and its exposure, if rows have exposures."""
        return self.family if self.exposure is None else ExposedCounts(self.family)

    def express(self, chi: Tensor) -> Tensor:
        """Return χ in the user's units, (..., S), as it is for standardised targets: the inverse of `restore`."""
        return chi

    @abstractmethod
    def with_family(self, family: Family) -> Self:
        """Return the same targets with a family whose parameters training has found."""

    @abstractmethod
    def answer(
        self,
        chi: Tensor,
        log_n: Tensor,
        log_evidence: Tensor,
        prior_log_n: float,
        calibration: Calibration | LocalCalibration,
        exposure: Floats | None = None,
    ) -> PredictiveDistribution:
        """Return predictive distributions from χ in training's units and log n, both with the prior, in float64.

        Args:
            chi: χ, (rows, S).
            log_n: log n.
            log_evidence: log n without the prior.
            prior_log_n: log n of the prior alone.
            calibration: What held-out rows showed.
            exposure: The exposures of rows that have them, in the user's unit; the average of training if None.
        """

    def check_reach(self, y: Floats) -> None:
        """Raise if the family cannot predict such targets, as numbers, in the units that it has."""
        with np.errstate(over="ignore"):
            standardised = self.standardise(y)
        if not bool(standardised.isfinite().all()):
            raise ValueError(f"y: expected numbers of an ordinary size, got {np.abs(y).max():.4g}: correct it")
        reached = self.trained_family.largest_mean(standardised)
        if reached is not None:
            raise ValueError(
                f"y: {self.family!r} expected numbers up to {reached:.2g}, the largest mean it can predict, got "
                f"{self.as_known(y).max():.4g}: choose family='lognormal' or 'normal'"
            )

    @abstractmethod
    def to_config(self) -> dict[str, Any]:
        """Return all but the family as JSON can hold it."""


@dataclass(frozen=True)
class Units(Targets):
    """Numbers, counts and vectors: location and scale of each coordinate of a target, (D,), and the usual ones.

    Counts with an exposure are pairs of both, (rows, 2), until they are answered; what is usual depends on it.
    """

    key: ClassVar[str] = "units"

    family: Family
    location: Floats
    scale: Floats
    usual: tuple[float, float] | None = None
    exposure: Exposure | None = None

    @classmethod
    def of(cls, family: Family, y: Floats, weight: Floats | None = None) -> Self:
        """Return the units that standardise targets, and where most of them were."""
        return cls(family, *family.location_and_scale(y, weight), usual=_middle(y, weight))

    @classmethod
    def of_exposed(cls, family: Family, y: Floats, weight: Floats, column: str | None) -> Self:
        """Return the units of pairs of a count and its exposure, which may be a column of a data frame."""
        units = family.location_and_scale(y[:, 0], weight)
        return cls(family, *units, exposure=Exposure.of(y[:, 1], weight, column))

    def standardise(self, y: Floats) -> Tensor:
        """Return targets as training sees them, in float32."""
        seen = self.family.standardise(self.as_known(y), self.location, self.scale)
        if self.exposure is not None:
            seen = np.stack([seen, y[:, 1] / self.exposure.mean], 1)
        return torch.from_numpy(np.asarray(seen, dtype=np.float32))

    def as_known(self, y: Floats) -> NDArray[Any]:
        """Return them as they are, counts without their exposures."""
        return y if self.exposure is None else y[:, 0]

    def exposures(self, y: Floats) -> Floats | None:
        """Return the exposures of targets that have some."""
        return None if self.exposure is None else y[:, 1]

    def restore(self, chi: Tensor) -> Tensor:
        """Return χ of standardised targets, (..., S), in the user's units, in float64; of counts at exposure 1."""
        restored = self.family.restore(chi.double(), *self._on(chi.device))
        return restored if self.exposure is None else restored / self.exposure.mean

    def express(self, chi: Tensor) -> Tensor:
        """Return χ in the user's units, (..., S), as it is for standardised targets: the inverse of `restore`."""
        chi = chi.double() if self.exposure is None else chi.double() * self.exposure.mean
        return self.family.express(chi, *self._on(chi.device))

    def _on(self, device: torch.device) -> tuple[Tensor, Tensor]:
        return torch.from_numpy(self.location).to(device), torch.from_numpy(self.scale).to(device)

    def with_family(self, family: Family) -> Self:
        """Return the same units of another family, or of that of the counts of which it has pairs."""
        family = family.counts if isinstance(family, ExposedCounts) else family
        return replace(self, family=family)

    def answer(
        self,
        chi: Tensor,
        log_n: Tensor,
        log_evidence: Tensor,
        prior_log_n: float,
        calibration: Calibration | LocalCalibration,
        exposure: Floats | None = None,
    ) -> PredictiveDistribution:
        """Return predictive distributions in the user's units."""
        if self.exposure is None:
            posterior = self.family.posterior(self.family.evidence(self.restore(chi), log_n))
        else:
            times = np.ones(len(chi)) if exposure is None else exposure / self.exposure.mean
            known = self.family.evidence(chi, log_n)
            posterior = self.family.at_exposure(known, torch.from_numpy(times).to(chi.device))
        return PredictiveDistribution(posterior, log_evidence, prior_log_n, calibration, self.trials)

    @property
    def trials(self) -> float | None:
        """How many trials a target is the outcome of; None for families that have none."""
        return float(self.scale[0]) if self.family.is_trials else None

    def to_config(self) -> dict[str, Any]:
        """Return location, scale and the usual targets, and what is known of exposures."""
        usual = None if self.usual is None else list(self.usual)
        exposure = {} if self.exposure is None else {"exposure": self.exposure.to_config()}
        return {"location": self.location.tolist(), "scale": self.scale.tolist(), "usual": usual, **exposure}

    @classmethod
    def from_config(cls, family: Family, config: dict[str, Any]) -> Self:
        """Return the units that `to_config` described."""
        usual = config.get("usual")  # which models had not before they noted it
        known = None if usual is None else (float(usual[0]), float(usual[1]))
        exposure = Exposure.from_config(config.get("exposure"))
        return cls(family, np.asarray(config["location"], float), np.asarray(config["scale"], float), known, exposure)


def _middle(y: Floats, weight: Floats | None) -> tuple[float, float] | None:
    """Return between which targets nine of ten are, by weight: the first that 5 % and 95 % do not exceed."""
    if y.ndim > 1 or not len(y):
        return None
    order = np.argsort(y, kind="stable")
    reached = np.cumsum(np.ones(len(y)) if weight is None else weight[order])
    low, high = y[order[np.searchsorted(reached, np.array([0.05, 0.95]) * reached[-1] * (1 - 1e-12))]]
    return float(low), float(high)


@dataclass(frozen=True)
class Labels(Targets):
    """Classes: their labels, sorted."""

    key: ClassVar[str] = "classes"

    family: Family
    classes: NDArray[Any]

    @classmethod
    def of(cls, classes: NDArray[Any]) -> Self:
        """Return the targets that have these labels."""
        return cls(families.get("categorical", n_classes=len(classes)), classes)

    def standardise(self, y: Floats) -> Tensor:
        """Return the places of labels."""
        return torch.from_numpy(y.astype(np.float32))

    def as_known(self, y: Floats) -> NDArray[Any]:
        """Return the labels at these places."""
        labels: NDArray[Any] = self.classes[y.astype(np.int64)]
        return labels

    def with_family(self, family: Family) -> Self:
        """Return the same labels."""
        return type(self)(family, self.classes)

    def answer(
        self,
        chi: Tensor,
        log_n: Tensor,
        log_evidence: Tensor,
        prior_log_n: float,
        calibration: Calibration | LocalCalibration,
        exposure: Floats | None = None,
    ) -> ClassDistribution:
        """Return predictive distributions over the labels."""
        posterior = self.family.posterior(self.family.evidence(chi, log_n))
        return ClassDistribution(self.classes, posterior, log_evidence, prior_log_n, calibration)

    def to_config(self) -> dict[str, Any]:
        """Return the labels and their type.

        Raises:
            ValueError: If a label is something that JSON has no word for.
        """
        labels, kind = self.classes.tolist(), self.classes.dtype
        if any(not isinstance(label, (str, int, float, bool)) for label in labels):
            raise ValueError("The labels cannot be written: expected texts, numbers or booleans")
        return {"dtype": kind.str if kind.kind != "O" else "object", "labels": labels}

    @classmethod
    def from_config(cls, family: Family, config: dict[str, Any]) -> Self:
        """Return the labels that `to_config` described."""
        return cls(family, np.array(config["labels"], dtype=config["dtype"]))
