"""The units of targets: training sees standardised ones, and everything comes back in the user's.

Where a family of distributions is closed under a change of units, evidence can be restated in them: the number of
pseudo-observations stays, and χ is that of the rescaled targets.

| families | training sees | χ in the user's units |
|---|---|---|
| `normal` | (y − l)/s | (s m + l, s² v) |
| `lognormal` | exp((log y − l)/s) | the same, of the logarithm |
| `multivariate_normal` | (y − l)/s, each coordinate | (s m + l, rows of the factor times s) |
| `gamma`, `exponential` | y/s | s m |
| `multinomial` | y | χ; s is the number of trials if it is the same in all rows, else 1 |
| all others | y | χ |
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from natpn.families import FAMILIES, Family
from natpn.families.multivariate_normal import pack, unpack

Floats = NDArray[np.float64]

# Positive targets are neither 0 nor infinite in float32: held-out ones may lie far from the few of training.
_REACH = 80.0
# A relative spread of a few last digits of float64 is that of one number calculated in several ways.
_ROUNDING = 4 * np.finfo(np.float64).eps


@dataclass(frozen=True)
class Units:
    """Location and scale of each coordinate of a target, shape (D,)."""

    family: Family
    location: Floats
    scale: Floats

    @classmethod
    def of(cls, family: Family, y: Floats, weight: Floats | None = None) -> "Units":
        """Return the units that standardise targets."""
        columns = np.log(y) if _is(family, "lognormal") else y
        columns = columns.reshape(len(y), -1)
        none, one = np.zeros(columns.shape[1]), np.ones(columns.shape[1])
        if _is(family, "normal", "lognormal", "multivariate_normal"):
            largest = np.abs(columns).max(0)
            _check_range(largest, np.where(largest > 0, largest, 1.0))
            safe = np.where(largest > 0, largest, 1.0)  # squares of 1e200 would overflow
            mean = np.average(columns / safe, axis=0, weights=weight)
            deviation = np.sqrt(np.average((columns / safe - mean) ** 2, axis=0, weights=weight))
            constant = deviation <= _ROUNDING * np.abs(mean)
            scale = np.where(constant | (deviation == 0), one, deviation) * safe
            _check_range(largest, scale)
            return cls(family, mean * safe, scale)
        if _is(family, "gamma", "exponential"):
            return cls(family, none, np.average(columns, axis=0, weights=weight))
        if _is(family, "multinomial"):
            trials = columns.sum(1)
            return cls(family, none, one * (trials[0] if (trials == trials[0]).all() else 1.0))
        return cls(family, none, one)

    def standardise(self, y: Floats) -> Tensor:
        """Return targets as training sees them, in float32."""
        if _is(self.family, "lognormal"):
            scaled = np.exp(np.clip((np.log(y) - self.location) / self.scale, -_REACH, _REACH))
        elif self.trials is not None:
            scaled = y
        else:
            scaled = y.reshape(len(y), -1) - self.location
            scaled = (scaled / self.scale).reshape(y.shape)
            if _is(self.family, "gamma", "exponential"):
                scaled = np.maximum(scaled, np.exp(-_REACH))
        return torch.from_numpy(np.asarray(scaled, dtype=np.float32))

    def restore(self, chi: Tensor) -> Tensor:
        """Return χ of standardised targets, (..., S), in the user's units, in float64."""
        chi = chi.double()
        location, scale = (torch.from_numpy(part).to(chi.device) for part in (self.location, self.scale))
        if _is(self.family, "normal", "lognormal"):
            return chi * torch.cat([scale, scale.square()]) + torch.cat([location, torch.zeros_like(location)])
        if _is(self.family, "multivariate_normal"):
            d = len(self.scale)
            factor = unpack(chi[..., d:], d) * scale[:, None]
            return torch.cat([chi[..., :d] * scale + location, pack(factor)], -1)
        if _is(self.family, "gamma", "exponential"):
            return chi * scale
        return chi

    def express(self, chi: Tensor) -> Tensor:
        """Return χ in the user's units, (..., S), as it is for standardised targets: the inverse of `restore`."""
        chi = chi.double()
        location, scale = (torch.from_numpy(part).to(chi.device) for part in (self.location, self.scale))
        if _is(self.family, "normal", "lognormal"):
            return torch.cat([(chi[..., :1] - location) / scale, chi[..., 1:] / scale**2], -1)
        if _is(self.family, "multivariate_normal"):
            d = len(self.scale)
            factor = unpack(chi[..., d:], d) / scale[:, None]
            return torch.cat([(chi[..., :d] - location) / scale, pack(factor)], -1)
        if _is(self.family, "gamma", "exponential"):
            return chi / scale
        return chi

    @property
    def trials(self) -> float | None:
        """How many trials a row of counts has; None for other families."""
        return float(self.scale[0]) if _is(self.family, "multinomial") else None

    def to_config(self) -> dict[str, Any]:
        """Return the units as JSON can hold them."""
        return {"location": self.location.tolist(), "scale": self.scale.tolist()}

    @classmethod
    def from_config(cls, family: Family, config: dict[str, Any]) -> "Units":
        """Return the units that `to_config` described."""
        return cls(family, np.asarray(config["location"], float), np.asarray(config["scale"], float))


def _check_range(largest: Floats, scale: Floats) -> None:
    """Raise if squares would leave the range of float64."""
    if largest.max() > 1e150 or scale.min() < 1e-150:
        raise ValueError(
            f"y: expected numbers up to 1e150 with a spread from 1e-150, got up to {largest.max():.3g} with a spread "
            f"of {scale.min():.3g}: choose another unit"
        )


def _is(family: Family, *names: str) -> bool:
    return type(family) in [FAMILIES[name] for name in names]
