"""The 15 corruptions of Hendrycks and Dietterich (2019), at the five severities they chose for CIFAR-10.

They are written from their description and work on whole arrays of images. The results are rounded as in a file: in
[0, 1], in steps of 1/255. Random draws differ from image to image and depend on the seed, but not on the severity: a
higher severity makes the same corruption stronger.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from natpn.choices import check_choice
from natpn_paper.datasets.corruptions.blur import defocus_blur, glass_blur, motion_blur, zoom_blur
from natpn_paper.datasets.corruptions.digital import (
    contrast,
    elastic_transform,
    gaussian_noise,
    impulse_noise,
    jpeg_compression,
    pixelate,
    shot_noise,
)
from natpn_paper.datasets.corruptions.weather import brightness, fog, frost, snow

Images = NDArray[np.float32]

CHUNK = 500  # images at once, so that memory stays small

# name: (function, its parameters at each severity)
CORRUPTIONS: dict[str, tuple[Callable[..., Images], tuple[tuple[Any, ...], ...]]] = {
    "gaussian_noise": (gaussian_noise, ((0.04,), (0.06,), (0.08,), (0.09,), (0.10,))),
    "shot_noise": (shot_noise, ((500,), (250,), (100,), (75,), (50,))),
    "impulse_noise": (impulse_noise, ((0.01,), (0.02,), (0.03,), (0.05,), (0.07,))),
    "defocus_blur": (defocus_blur, ((0.3, 0.4), (0.4, 0.5), (0.5, 0.6), (1, 0.2), (1.5, 0.1))),
    "glass_blur": (glass_blur, ((0.05, 1, 1), (0.25, 1, 1), (0.4, 1, 1), (0.25, 1, 2), (0.4, 1, 2))),
    "motion_blur": (motion_blur, ((6, 1), (6, 1.5), (6, 2), (8, 2), (9, 2.5))),
    "zoom_blur": (zoom_blur, ((1.06,), (1.11,), (1.16,), (1.21,), (1.26,))),
    "snow": (
        snow,
        (
            (0.1, 0.2, 1, 0.6, 8, 3, 0.95),
            (0.1, 0.2, 1, 0.5, 10, 4, 0.9),
            (0.15, 0.3, 1.75, 0.55, 10, 4, 0.9),
            (0.25, 0.3, 2.25, 0.6, 12, 6, 0.85),
            (0.3, 0.3, 1.25, 0.65, 14, 12, 0.8),
        ),
    ),
    "frost": (frost, ((1, 0.2), (1, 0.3), (0.9, 0.4), (0.85, 0.4), (0.75, 0.45))),
    "fog": (fog, ((0.2, 3), (0.5, 3), (0.75, 2.5), (1, 2), (1.5, 1.75))),
    "brightness": (brightness, ((0.05,), (0.1,), (0.15,), (0.2,), (0.3,))),
    "contrast": (contrast, ((0.75,), (0.5,), (0.4,), (0.3,), (0.15,))),
    "elastic_transform": (
        elastic_transform,
        ((0, 0, 0.08), (0.05, 0.2, 0.07), (0.08, 0.06, 0.06), (0.1, 0.04, 0.05), (0.1, 0.03, 0.03)),
    ),
    "pixelate": (pixelate, ((0.95,), (0.9,), (0.85,), (0.75,), (0.65,))),
    "jpeg_compression": (jpeg_compression, ((80,), (65,), (58,), (50,), (40,))),
}


def corrupt(images: NDArray[Any], name: str, severity: int, seed: int = 0) -> Images:
    """Corrupt images.

    Args:
        images: Images in [0, 1], shape (N, C, H, W) with one or three channels.
        name: A key of ``CORRUPTIONS``.
        severity: From 1, mild, to 5.
        seed: The seed of the random draws.

    Returns:
        New images of the same shape, float32.

    Raises:
        ValueError: If an argument is not as described.

    Example:
        >>> import numpy as np
        >>> corrupt(np.full((2, 3, 32, 32), 0.5), "gaussian_noise", severity=3).shape
        (2, 3, 32, 32)
    """
    check_choice("name", name, CORRUPTIONS)
    if isinstance(severity, bool) or severity not in range(1, 6):
        raise ValueError(f"severity: expected a whole number from 1 to 5, got {severity!r}")
    images = np.asarray(images)
    if images.ndim != 4 or images.shape[1] not in (1, 3):
        raise ValueError(
            f"images: expected shape (N, C, H, W) with 1 or 3 channels, got {images.shape}; move the channels to the "
            "second place with numpy.moveaxis"
        )
    if images.size and not (images.min() >= 0 and images.max() <= 1):
        raise ValueError(
            f"images: expected values in [0, 1], got {images.min()} to {images.max()}; divide bytes by 255"
        )
    function, parameters = CORRUPTIONS[name]
    rng = np.random.default_rng([seed, list(CORRUPTIONS).index(name)])
    result = np.empty(images.shape, np.float32)
    for start in range(0, len(images), CHUNK):
        part = images[start : start + CHUNK].astype(np.float32)
        changed = function(part, rng, *parameters[severity - 1])
        result[start : start + CHUNK] = np.rint(np.clip(changed, 0, 1) * 255) / 255
    return result
