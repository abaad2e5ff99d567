"""The units of targets: training sees standardised ones, and everything comes back in the user's.

Where a family of distributions is closed under a change of units, evidence can be restated in them: the number of
pseudo-observations stays, and χ is that of the rescaled targets. Each family states its own units in its file.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from natpn.families import Family

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Units:
    """Location and scale of each coordinate of a target, shape (D,)."""

    family: Family
    location: Floats
    scale: Floats

    @classmethod
    def of(cls, family: Family, y: Floats, weight: Floats | None = None) -> "Units":
        """Return the units that standardise targets."""
        return cls(family, *family.location_and_scale(y, weight))

    def standardise(self, y: Floats) -> Tensor:
        """Return targets as training sees them, in float32."""
        return torch.from_numpy(np.asarray(self.family.standardise(y, self.location, self.scale), dtype=np.float32))

    def restore(self, chi: Tensor) -> Tensor:
        """Return χ of standardised targets, (..., S), in the user's units, in float64."""
        return self.family.restore(chi.double(), *self._on(chi.device))

    def express(self, chi: Tensor) -> Tensor:
        """Return χ in the user's units, (..., S), as it is for standardised targets: the inverse of `restore`."""
        return self.family.express(chi.double(), *self._on(chi.device))

    def _on(self, device: torch.device) -> tuple[Tensor, Tensor]:
        return torch.from_numpy(self.location).to(device), torch.from_numpy(self.scale).to(device)

    @property
    def trials(self) -> float | None:
        """How many trials a target is the outcome of; None for families that have none."""
        return float(self.scale[0]) if self.family.is_trials else None

    def to_config(self) -> dict[str, Any]:
        """Return the units as JSON can hold them."""
        return {"location": self.location.tolist(), "scale": self.scale.tolist()}

    @classmethod
    def from_config(cls, family: Family, config: dict[str, Any]) -> "Units":
        """Return the units that `to_config` described."""
        return cls(family, np.asarray(config["location"], float), np.asarray(config["scale"], float))
