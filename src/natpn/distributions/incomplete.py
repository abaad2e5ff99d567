"""The regularised incomplete gamma function for arguments of any size.

`scipy.special.gammaincc` loses its digits a few standard deviations from the centre once a is in the millions. There,
Temme's uniform expansion holds: with μ = x/a − 1, η = ±√(2(μ − log(1 + μ))) and c(η) = 1/μ − 1/η,
Q(a, x) = ½ erfc(η √(a/2)) + exp(−aη²/2)/√(2πa) · (c(η) − 1/(540 a) + …).
"""

import numpy as np
from scipy import special as sp

from natpn.distributions.base import Array

_LARGE = 1e5
# c(η) near 0, where 1/μ − 1/η cancels
_SERIES = (-1 / 3, 1 / 12, -2 / 135, 1 / 864, 1 / 2835, -139 / 777600)


def upper_gamma(a: Array, x: Array) -> Array:
    """Return Q(a, x) = Γ(a, x)/Γ(a) for a > 0, x ≥ 0."""
    a, x = np.broadcast_arrays(np.asarray(a, dtype=np.float64), np.asarray(x, dtype=np.float64))
    large = np.maximum(a, _LARGE)
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        mu = np.maximum((np.where(a > _LARGE, x, large) - large) / large, -1 + 1e-15)
        eta = np.copysign(np.sqrt(2 * np.maximum(mu - np.log1p(mu), 0.0)), mu)
        near = np.clip(eta, -0.05, 0.05)
        c = np.where(np.abs(eta) < 0.05, np.polynomial.polynomial.polyval(near, _SERIES), 1 / mu - 1 / eta)
        tail = np.exp(-large * eta**2 / 2) / np.sqrt(2 * np.pi * large) * (c - 1 / (540 * large))
        uniform = np.clip(sp.erfc(eta * np.sqrt(large / 2)) / 2 + np.where(np.isfinite(tail), tail, 0.0), 0.0, 1.0)
        return np.where(a > _LARGE, uniform, sp.gammaincc(np.minimum(a, _LARGE), x))
