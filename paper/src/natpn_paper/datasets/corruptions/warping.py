"""Images sampled at other places, and random clouds: what several corruptions are made of."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

Images = NDArray[np.float32]
Floats = NDArray[np.float32]


def reflect(places: NDArray[Any], size: int) -> NDArray[Any]:
    """Bring coordinates beyond the border back inside, as a mirror on the outermost pixel would."""
    period = 2 * (size - 1)
    folded = np.abs(places) % period
    return np.asarray(np.minimum(folded, period - folded))


def sample(images: Images, rows: Floats, columns: Floats) -> Images:
    """Sample images between pixels, with bilinear weights and mirrored borders.

    Args:
        images: Shape (N, C, H, W).
        rows: Where to look, shape (N, H, W).
        columns: Likewise.

    Returns:
        The images seen there.
    """
    n, _, height, width = images.shape
    rows, columns = reflect(rows, height), reflect(columns, width)
    top = np.minimum(rows.astype(np.intp), max(height - 2, 0))
    left = np.minimum(columns.astype(np.intp), max(width - 2, 0))
    down, right = (rows - top).astype(np.float32)[:, None], (columns - left).astype(np.float32)[:, None]
    flat = images.reshape(n, images.shape[1], -1)

    def at(row: NDArray[np.intp], column: NDArray[np.intp]) -> Images:
        places = (row * width + column).reshape(n, 1, -1)
        return np.take_along_axis(flat, places, axis=2).reshape(images.shape)

    low, far = np.minimum(top + 1, height - 1), np.minimum(left + 1, width - 1)
    upper = at(top, left) * (1 - right) + at(top, far) * right
    lower = at(low, left) * (1 - right) + at(low, far) * right
    return np.asarray(upper * (1 - down) + lower * down, np.float32)


def zoom_matrix(size: int, factor: float) -> Floats:
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


def plasma(n: int, height: int, width: int, decay: float, rng: np.random.Generator) -> Floats:
    """Draw clouds by the diamond-square algorithm on a torus, each from 0 to 1, shape (n, height, width).

    Each halving of the grid divides the noise by ``decay`` squared.
    """
    size = 1 << (max(height, width, 2) - 1).bit_length()
    clouds = np.zeros((n, size, size), np.float32)
    step, amplitude = size, 1.0
    while step >= 2:
        half = step // 2

        def noise(shape: tuple[int, ...], amplitude: float = amplitude) -> Floats:
            return np.asarray(amplitude * rng.uniform(-1, 1, shape), np.float32)

        corners = clouds[:, ::step, ::step]
        sums = corners + np.roll(corners, -1, 1)
        centres = (sums + np.roll(sums, -1, 2)) / 4
        centres = centres + noise(centres.shape)
        clouds[:, half::step, half::step] = centres
        upright = centres + np.roll(centres, 1, 1) + corners + np.roll(corners, -1, 2)
        clouds[:, ::step, half::step] = upright / 4 + noise(upright.shape)
        sideways = centres + np.roll(centres, 1, 2) + corners + np.roll(corners, -1, 1)
        clouds[:, half::step, ::step] = sideways / 4 + noise(sideways.shape)
        step, amplitude = half, amplitude / decay**2
    clouds -= clouds.min((1, 2), keepdims=True)
    clouds /= np.maximum(clouds.max((1, 2), keepdims=True), np.float32(1e-12))
    return clouds[:, :height, :width]
