"""What sensors and processing do: noise, contrast, warping, coarse pixels and JPEG."""

import io
from typing import Any

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


def contrast(images: Images, rng: np.random.Generator, kept: float) -> Images:
    """Shrink the distance of each value from the mean of its channel to this share."""
    means = images.mean((2, 3), keepdims=True)
    return np.asarray((images - means) * np.float32(kept) + means, np.float32)


def reflect(places: NDArray[Any], size: int) -> NDArray[Any]:
    """Bring coordinates beyond the border back inside, as a mirror on the outermost pixel would."""
    period = 2 * (size - 1)
    folded = np.abs(places) % period
    return np.asarray(np.minimum(folded, period - folded))


def sample(images: Images, rows: Images, columns: Images) -> Images:
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


def elastic_transform(images: Images, rng: np.random.Generator, strength: float, smooth: float, shear: float) -> Images:
    """Stretch and bend the image.

    First three points round the centre are moved, and the plane with them; then every pixel is moved by smooth noise.

    Args:
        images: The images.
        rng: The random generator.
        strength: The factor of the noise, in heights of the image.
        smooth: The standard deviation of the Gaussian that smooths it, likewise.
        shear: How far the three points may move each way, likewise.
    """
    from scipy.ndimage import gaussian_filter

    n, _, height, width = images.shape
    third = min(height, width) // 3
    centre = np.array([height // 2, width // 2], float)
    points = centre + third * np.array([[1, 1], [1, -1], [-1, -1]])
    moved = points + rng.uniform(-1, 1, (n, 3, 2)) * shear * height
    ones = np.ones((n, 3, 1))
    back = np.linalg.solve(np.concatenate([moved, ones], axis=2), np.broadcast_to(points, moved.shape))
    row, column = np.mgrid[:height, :width].astype(float)
    grid = np.stack([row, column, np.ones_like(row)], axis=-1).reshape(-1, 3)
    places = (grid @ back).reshape(n, height, width, 2).astype(np.float32)
    stretched = sample(images, places[..., 0], places[..., 1])
    noise = rng.uniform(-1, 1, (2, n, height, width)).astype(np.float32)
    if strength == 0:
        return stretched
    sigma = smooth * height
    shift = gaussian_filter(noise, (0, 0, sigma, sigma), mode="reflect", truncate=3) * np.float32(strength * height)
    return sample(stretched, (row + shift[0]).astype(np.float32), (column + shift[1]).astype(np.float32))


def boxes(size: int, count: int) -> NDArray[np.float64]:
    """Return the matrix that turns one side of ``size`` pixels into ``count``: means over those whose centre is inside.

    Where the side grows, a new pixel takes the value of the old one it lies in.
    """
    scale = size / count
    centres = (np.arange(count) + 0.5) * scale
    distance = (np.arange(size) + 0.5 - centres[:, None]) / max(scale, 1)
    inside = (distance > -0.5) & (distance <= 0.5)
    return np.asarray(inside / inside.sum(1, keepdims=True))


def coarsen(size: int, count: int) -> NDArray[np.float32]:
    """Return the matrix that shrinks one side to ``count`` pixels and enlarges it again."""
    return np.asarray(boxes(count, size) @ boxes(size, count), np.float32)


def pixelate(images: Images, rng: np.random.Generator, share: float) -> Images:
    """Shrink each side to this share by means over boxes, and enlarge it again by repetition."""
    height, width = images.shape[-2:]
    rows, columns = (coarsen(size, max(int(size * share), 1)) for size in (height, width))
    return np.asarray(rows @ images @ columns.T, np.float32)


def jpeg_compression(images: Images, rng: np.random.Generator, quality: int) -> Images:
    """Save as JPEG of this quality and read it again."""
    from PIL import Image

    result = np.empty_like(images)
    for number, image in enumerate(np.rint(images * 255).astype(np.uint8).transpose(0, 2, 3, 1)):
        buffer = io.BytesIO()
        Image.fromarray(image if image.shape[2] == 3 else image[:, :, 0]).save(buffer, "JPEG", quality=quality)
        decoded = np.asarray(Image.open(buffer), np.float32).reshape(image.shape)
        result[number] = decoded.transpose(2, 0, 1) / np.float32(255)
    return result
