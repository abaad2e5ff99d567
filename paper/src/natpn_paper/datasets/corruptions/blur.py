"""Blur of lenses and of motion, with the zoom and the streaks that weather uses too."""

import numpy as np
from numpy.typing import NDArray

Images = NDArray[np.float32]


def gaussian(images: Images, sigma: float) -> Images:
    """Blur height and width with a Gaussian."""
    from scipy.ndimage import gaussian_filter

    return np.asarray(gaussian_filter(images, (0, 0, sigma, sigma), mode="nearest"), np.float32)


def disc(radius: float, softness: float) -> NDArray[np.float32]:
    """Return the kernel of a lens out of focus: a disc whose edge is softened by a Gaussian of 3 x 3 pixels."""
    from scipy.ndimage import convolve

    reach = int(np.ceil(radius)) + 1
    y, x = np.mgrid[-reach : reach + 1, -reach : reach + 1]
    kernel = (x**2 + y**2 <= radius**2).astype(float)
    bell = np.exp(-(np.arange(-1, 2) ** 2) / (2 * softness**2))
    soft = np.outer(bell, bell)
    return np.asarray(convolve(kernel / kernel.sum(), soft / soft.sum(), mode="constant"), np.float32)


def zoom_matrix(size: int, factor: float) -> Images:
    """Return the matrix that zooms one side of an image into its centre, with linear weights."""
    centre = (size - 1) / 2
    places = centre + (np.arange(size) - centre) / factor
    weights = 1 - np.abs(places[:, None] - np.arange(size))
    return np.asarray(np.maximum(weights, 0), np.float32)


def zoom(images: Images, factor: float) -> Images:
    """Zoom into the centre of images, shape (..., H, W); a factor of 1 or more keeps the size."""
    height, width = images.shape[-2:]
    return np.asarray(zoom_matrix(height, factor) @ images @ zoom_matrix(width, factor).T, np.float32)


def streak(images: Images, radius: float, sigma: float, angles: NDArray[np.float64]) -> Images:
    """Smear each image in one direction: half a Gaussian, in steps of one pixel.

    Args:
        images: Shape (N, C, H, W).
        radius: The streak has 2 * radius + 1 pixels.
        sigma: The standard deviation of the Gaussian.
        angles: The direction for each image, in degrees, shape (N,).

    Returns:
        The weighted mean of shifted images, whose borders are repeated.
    """
    n, _, height, width = images.shape
    steps = np.arange(2 * int(radius) + 1)
    weights = np.exp(-(steps**2) / (2 * sigma**2))
    weights = (weights / weights.sum()).astype(np.float32)
    radians = np.deg2rad(angles)
    result = np.zeros_like(images)
    number = np.arange(n)[:, None, None]
    for step, weight in zip(steps, weights, strict=True):
        if weight < 1e-4:
            break
        down, right = (np.rint(step * f(radians)).astype(np.intp)[:, None] for f in (np.sin, np.cos))
        rows = np.clip(np.arange(height) + down, 0, height - 1)[:, :, None]
        columns = np.clip(np.arange(width) + right, 0, width - 1)[:, None, :]
        result += weight * images[number, :, rows, columns].transpose(0, 3, 1, 2)
    return result


def defocus_blur(images: Images, rng: np.random.Generator, radius: float, softness: float) -> Images:
    """Put the image out of focus."""
    from scipy.ndimage import convolve

    return np.asarray(convolve(images, disc(radius, softness)[None, None], mode="mirror"), np.float32)


def glass_blur(images: Images, rng: np.random.Generator, sigma: float, reach: int, rounds: int) -> Images:
    """Look through frosted glass: blur, swap each pixel with one close by, in turn, and blur again.

    The pixels are gone through one after the other, since a swap moves what the next one finds; each step is done for
    all images at once.
    """
    changed = gaussian(images, sigma)
    n, _, height, width = images.shape
    every = np.arange(n)
    for _ in range(rounds):
        for row in range(height - reach, reach, -1):
            for column in range(width - reach, reach, -1):
                down, right = rng.integers(-reach, reach, (2, n))
                here = changed[:, :, row, column].copy()
                changed[:, :, row, column] = changed[every, :, row + down, column + right]
                changed[every, :, row + down, column + right] = here
    return gaussian(changed, sigma)


def motion_blur(images: Images, rng: np.random.Generator, radius: float, sigma: float) -> Images:
    """Move the camera while the shutter is open, in a direction within 45 degrees of the horizontal."""
    return streak(images, radius, sigma, rng.uniform(-45, 45, len(images)))


def zoom_blur(images: Images, rng: np.random.Generator, end: float) -> Images:
    """Move towards the scene while the shutter is open: the mean over zooms from 1 to below ``end`` in steps of 0.01.

    The image itself counts once more.
    """
    factors = 1 + 0.01 * np.arange(round((end - 1) / 0.01))
    total = images.copy()
    for factor in factors:
        total += zoom(images, float(factor))
    return np.asarray(total / np.float32(len(factors) + 1), np.float32)
