"""Targets as the user knows them, and as training sees them.

Training sees numbers standardised, and classes as their places among the labels; everything comes back as the user
knows it. Where a family of distributions is closed under a change of units, evidence can be restated in them: the
number of pseudo-observations stays, and χ is that of the rescaled targets. Each family states its units in its file.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from natpn import families
from natpn.families import Family
from natpn.model.answers import ClassDistribution, PredictiveDistribution
from natpn.model.calibration import Calibration

Floats = NDArray[np.float64]


class Targets(ABC):
    """What was learned about targets in training."""

    key: ClassVar[str]  # under which a saved model describes them
    family: Family
    usual: tuple[float, float] | None = None  # where nine of ten targets of training were; None if it is not known

    @abstractmethod
    def standardise(self, y: Floats) -> Tensor:
        """Return targets, as numbers, as training sees them, in float32."""

    @abstractmethod
    def as_known(self, y: Floats) -> NDArray[Any]:
        """Return targets that are numbers as the user knows them."""

    def express(self, chi: Tensor) -> Tensor:
        """Return χ in the user's units, (..., S), as it is for standardised targets: the inverse of `restore`."""
        return chi

    @abstractmethod
    def with_family(self, family: Family) -> Self:
        """Return the same targets with a family whose parameters training has found."""

    @abstractmethod
    def answer(
        self, chi: Tensor, log_n: Tensor, log_evidence: Tensor, prior_log_n: float, calibration: Calibration
    ) -> PredictiveDistribution:
        """Return predictive distributions from χ in training's units and log n, both with the prior, in float64.

        Args:
            chi: χ, (rows, S).
            log_n: log n.
            log_evidence: log n without the prior.
            prior_log_n: log n of the prior alone.
            calibration: What held-out rows showed.
        """

    @abstractmethod
    def to_config(self) -> dict[str, Any]:
        """Return all but the family as JSON can hold it."""


@dataclass(frozen=True)
class Units(Targets):
    """Numbers, counts and vectors: location and scale of each coordinate of a target, (D,), and the usual ones."""

    key: ClassVar[str] = "units"

    family: Family
    location: Floats
    scale: Floats
    usual: tuple[float, float] | None = None

    @classmethod
    def of(cls, family: Family, y: Floats, weight: Floats | None = None) -> Self:
        """Return the units that standardise targets, and where most of them were."""
        return cls(family, *family.location_and_scale(y, weight), usual=_middle(y, weight))

    def standardise(self, y: Floats) -> Tensor:
        """Return targets as training sees them, in float32."""
        return torch.from_numpy(np.asarray(self.family.standardise(y, self.location, self.scale), dtype=np.float32))

    def as_known(self, y: Floats) -> NDArray[Any]:
        """Return them as they are."""
        return y

    def restore(self, chi: Tensor) -> Tensor:
        """Return χ of standardised targets, (..., S), in the user's units, in float64."""
        return self.family.restore(chi.double(), *self._on(chi.device))

    def express(self, chi: Tensor) -> Tensor:
        """Return χ in the user's units, (..., S), as it is for standardised targets: the inverse of `restore`."""
        return self.family.express(chi.double(), *self._on(chi.device))

    def _on(self, device: torch.device) -> tuple[Tensor, Tensor]:
        return torch.from_numpy(self.location).to(device), torch.from_numpy(self.scale).to(device)

    def with_family(self, family: Family) -> Self:
        """Return the same units of another family."""
        return type(self)(family, self.location, self.scale, self.usual)

    def answer(
        self, chi: Tensor, log_n: Tensor, log_evidence: Tensor, prior_log_n: float, calibration: Calibration
    ) -> PredictiveDistribution:
        """Return predictive distributions in the user's units."""
        posterior = self.family.posterior(self.family.evidence(self.restore(chi), log_n))
        return PredictiveDistribution(posterior, log_evidence, prior_log_n, calibration, self.trials)

    @property
    def trials(self) -> float | None:
        """How many trials a target is the outcome of; None for families that have none."""
        return float(self.scale[0]) if self.family.is_trials else None

    def to_config(self) -> dict[str, Any]:
        """Return location, scale and the usual targets."""
        usual = None if self.usual is None else list(self.usual)
        return {"location": self.location.tolist(), "scale": self.scale.tolist(), "usual": usual}

    @classmethod
    def from_config(cls, family: Family, config: dict[str, Any]) -> Self:
        """Return the units that `to_config` described."""
        usual = config.get("usual")  # which models had not before they noted it
        known = None if usual is None else (float(usual[0]), float(usual[1]))
        return cls(family, np.asarray(config["location"], float), np.asarray(config["scale"], float), known)


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
        self, chi: Tensor, log_n: Tensor, log_evidence: Tensor, prior_log_n: float, calibration: Calibration
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
