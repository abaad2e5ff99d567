"""Weather: snow, frost, fog and bright light."""

import numpy as np
from numpy.typing import NDArray

from natpn_paper.datasets.corruptions.blur import streak, zoom

Images = NDArray[np.float32]

GREY = np.array([0.299, 0.587, 0.114], np.float32)  # of red, green and blue, as for the eye
ICE = np.array([0.85, 0.95, 1.0], np.float32)  # the tint of frost


def plasma(n: int, height: int, width: int, decay: float, rng: np.random.Generator) -> Images:
    """Draw clouds by the diamond-square algorithm on a torus, each from 0 to 1, shape (n, height, width).

    Each halving of the grid divides the noise by ``decay`` squared.
    """
    size = 1 << (max(height, width, 2) - 1).bit_length()
    clouds = np.zeros((n, size, size), np.float32)
    step, amplitude = size, 1.0
    while step >= 2:
        half = step // 2

        def noise(shape: tuple[int, ...], amplitude: float = amplitude) -> Images:
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


def grey(images: Images) -> Images:
    """Return the brightness of images as one channel."""
    if images.shape[1] == 1:
        return images
    return np.asarray(np.tensordot(images, GREY, axes=([1], [0]))[:, None], np.float32)


def snow(
    images: Images,
    rng: np.random.Generator,
    mean: float,
    spread: float,
    size: float,
    threshold: float,
    radius: float,
    sigma: float,
    kept: float,
) -> Images:
    """Let it snow: white flakes, smeared as they fall, over a paler image.

    Args:
        images: The images.
        rng: The random generator.
        mean: Of the Normal noise that makes flakes.
        spread: Its standard deviation.
        size: How far flakes are zoomed in.
        threshold: Noise below it is no flake.
        radius: The length of the streaks.
        sigma: Their standard deviation.
        kept: The share of the image that is not paled.
    """
    n, height, width = len(images), images.shape[2], images.shape[3]
    noise = np.float32(mean) + np.float32(spread) * rng.standard_normal((n, 1, height, width), np.float32)
    flakes = zoom(noise, size)
    flakes = np.clip(np.where(flakes < threshold, np.float32(0), flakes), 0, 1)
    flakes = streak(flakes, radius, sigma, rng.uniform(-135, -45, n))
    pale = kept * images + (1 - kept) * np.maximum(images, grey(images) * 1.5 + 0.5)
    return np.asarray(pale + flakes + flakes[:, :, ::-1, ::-1], np.float32)


def ice(n: int, height: int, width: int, rng: np.random.Generator) -> Images:
    """Draw frost, shape (n, 1, height, width): bright veins where clouds cross their middle, on a dim film."""
    coarse, fine, film = (plasma(n, height, width, decay, rng) for decay in (1.6, 1.25, 1.6))
    veins = (1 - np.abs(2 * coarse - 1)) ** 4 + 0.6 * (1 - np.abs(2 * fine - 1)) ** 6
    return np.asarray(np.clip(0.25 + 0.35 * film + 0.6 * veins, 0, 1)[:, None], np.float32)


def frost(images: Images, rng: np.random.Generator, kept: float, strength: float) -> Images:
    """Let ice grow on the lens.

    Hendrycks and Dietterich lay crops of photographs of frost over the image. No photographs ship here: the frost is
    drawn by code, so figures for this corruption are close to theirs but not the same.
    """
    texture = ice(len(images), images.shape[2], images.shape[3], rng)
    tint = ICE[: images.shape[1], None, None] if images.shape[1] == 3 else np.float32(1)
    return np.asarray(kept * images + strength * texture * tint, np.float32)


def fog(images: Images, rng: np.random.Generator, strength: float, decay: float) -> Images:
    """Add clouds, and scale the sum so that the brightest value stays."""
    clouds = plasma(len(images), images.shape[2], images.shape[3], decay, rng)[:, None]
    brightest = images.max((1, 2, 3), keepdims=True)
    return np.asarray((images + strength * clouds) * brightest / (brightest + strength), np.float32)


def brightness(images: Images, rng: np.random.Generator, added: float) -> Images:
    """Raise the value of each pixel, its largest channel, with hue and saturation kept."""
    value = images.max(1, keepdims=True)
    raised = np.minimum(value + np.float32(added), 1)
    ratio = np.divide(raised, value, out=np.zeros_like(value), where=value > 0)
    return np.asarray(np.where(value > 0, images * ratio, raised), np.float32)
