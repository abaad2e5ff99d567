"""Noise of sensors: each pixel and channel by itself."""

import numpy as np
from numpy.typing import NDArray

Images = NDArray[np.float32]


def gaussian_noise(images: Images, rng: np.random.Generator, scale: float) -> Images:
    """Add Normal noise of this standard deviation, as in poor light."""
    return images + np.float32(scale) * rng.standard_normal(images.shape, np.float32)


def shot_noise(images: Images, rng: np.random.Generator, photons: float) -> Images:
    """Count photons, a Poisson number whose mean is ``photons`` at full brightness."""
    return (rng.poisson(images * photons) / photons).astype(np.float32)


def impulse_noise(images: Images, rng: np.random.Generator, share: float) -> Images:
    """Set this share of values to black or white, with equal chances ("salt and pepper")."""
    draw = rng.random(images.shape, np.float32)
    return np.where(draw < share / 2, np.float32(0), np.where(draw > 1 - share / 2, np.float32(1), images))
