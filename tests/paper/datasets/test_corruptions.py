"""The 15 corruptions: their range, their growth, and one known answer each where there is one."""

import numpy as np
import pytest

from natpn_paper.datasets import CORRUPTIONS, corrupt
from natpn_paper.datasets.corruptions import blur, digital, weather

# where the published parameters do not change the image more with each severity
NOT_MONOTONE = {"glass_blur", "motion_blur", "frost", "elastic_transform"}
# least and most mean squared change at severity 1 and 5
PLAUSIBLE = {1: (1e-5, 0.04), 5: (5e-4, 0.12)}


@pytest.fixture(scope="module")
def images():
    """Smooth pictures with some edges and grain, in steps of 1/255."""
    rng = np.random.default_rng(0)
    clouds = weather.plasma(90, 32, 32, 1.6, rng).reshape(30, 3, 32, 32) * 0.7
    for image in clouds:
        top, left = rng.integers(0, 24, 2)
        image[:, top : top + 12, left : left + 14] += 0.25
    noisy = clouds + 0.02 * rng.standard_normal(clouds.shape)
    return (np.rint(np.clip(noisy, 0, 1) * 255) / 255).astype(np.float32)


def change(images, name, severity):
    return float(((corrupt(images, name, severity) - images) ** 2).mean())


def test_there_are_15_at_five_severities():
    assert len(CORRUPTIONS) == 15
    assert all(len(parameters) == 5 for _, parameters in CORRUPTIONS.values())


@pytest.mark.parametrize("severity", range(1, 6))
@pytest.mark.parametrize("name", CORRUPTIONS)
def test_images_stay_images(name, severity, images):
    before = images.copy()
    result = corrupt(images, name, severity, seed=1)
    assert result.shape == images.shape
    assert result.dtype == np.float32
    assert 0 <= result.min() <= result.max() <= 1
    np.testing.assert_allclose(result * 255, np.rint(result * 255), atol=1e-4)
    np.testing.assert_array_equal(images, before)
    np.testing.assert_array_equal(result, corrupt(images, name, severity, seed=1))


@pytest.mark.parametrize("name", CORRUPTIONS)
def test_change_grows_with_severity(name, images):
    changes = [change(images, name, severity) for severity in range(1, 6)]
    for severity, (least, most) in PLAUSIBLE.items():
        assert least < changes[severity - 1] < most
    assert name in NOT_MONOTONE or np.all(np.diff(changes) > 0), changes


RANDOM = set(CORRUPTIONS) - {*("defocus_blur", "zoom_blur", "brightness", "contrast", "pixelate", "jpeg_compression")}


@pytest.mark.parametrize("name", CORRUPTIONS)
def test_the_seed_matters_where_there_is_chance(name, images):
    one, other = (corrupt(images, name, 3, seed) for seed in (0, 1))
    assert np.array_equal(one, other) == (name not in RANDOM)


@pytest.mark.parametrize("name", sorted(RANDOM))
def test_each_image_has_its_own_chance(name, images):
    result = corrupt(np.repeat(images[:1], 3, axis=0), name, 4)
    assert not np.array_equal(result[0], result[1])


@pytest.mark.parametrize("name", CORRUPTIONS)
def test_grey_images_and_other_sizes(name):
    grey = np.random.default_rng(0).random((2, 1, 28, 30)).astype(np.float32)
    assert corrupt(grey, name, 5).shape == grey.shape


def test_more_images_than_a_chunk(monkeypatch, images):
    from natpn_paper.datasets import corruptions

    monkeypatch.setattr(corruptions, "CHUNK", 10)
    result = corrupt(images, "contrast", 3)
    monkeypatch.setattr(corruptions, "CHUNK", 100)
    np.testing.assert_array_equal(result, corrupt(images, "contrast", 3))
    assert corrupt(images[:0], "fog", 1).shape == (0, 3, 32, 32)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((np.zeros((1, 3, 8, 8)), "snowy", 1), "'snowy' is unknown.*Did you mean 'snow'"),
        ((np.zeros((1, 3, 8, 8)), "snow", 0), "severity: .*1 to 5, got 0"),
        ((np.zeros((1, 3, 8, 8)), "snow", True), "severity: .*got True"),
        ((np.zeros((1, 8, 8, 3)), "snow", 1), r"got \(1, 8, 8, 3\).*moveaxis"),
        ((np.zeros((3, 8, 8)), "snow", 1), r"got \(3, 8, 8\)"),
        ((np.full((1, 3, 8, 8), 255), "snow", 1), "to 255.*divide bytes by 255"),
        ((np.full((1, 3, 8, 8), np.nan), "snow", 1), "nan to nan"),
    ],
)
def test_wrong_arguments(arguments, words):
    with pytest.raises(ValueError, match=words):
        corrupt(*arguments)


def test_noise_has_the_stated_spread():
    flat = np.full((50, 3, 32, 32), 0.5, np.float32)
    gaussian, shot = (corrupt(flat, name, 5) for name in ("gaussian_noise", "shot_noise"))
    assert gaussian.std() == pytest.approx(0.1, rel=0.02)
    assert shot.std() == pytest.approx(np.sqrt(0.5 / 50), rel=0.02)
    impulse = corrupt(flat, "impulse_noise", 5)
    assert [(impulse == v).mean() for v in (0, 1)] == pytest.approx([0.035, 0.035], rel=0.1)


@pytest.mark.parametrize("name", ["defocus_blur", "motion_blur", "zoom_blur", "glass_blur", "pixelate", "contrast"])
def test_a_flat_image_stays_as_it_is(name):
    flat = np.full((2, 3, 32, 32), 128 / 255, np.float32)
    np.testing.assert_allclose(corrupt(flat, name, 5), flat, atol=1e-6)


def test_brightness_adds_to_the_value_of_hsv():
    import colorsys

    pixels = np.random.default_rng(0).random((20, 3, 1, 1)).astype(np.float32)
    pixels[0] = 0
    result = weather.brightness(pixels, np.random.default_rng(0), 0.3)
    for before, after in zip(pixels[:, :, 0, 0], result[:, :, 0, 0], strict=True):
        hue, saturation, value = colorsys.rgb_to_hsv(*before.tolist())
        expected = colorsys.hsv_to_rgb(hue, saturation, min(value + 0.3, 1))
        np.testing.assert_allclose(after, expected, atol=1e-5)


def test_pixels_are_means_of_boxes():
    from PIL import Image

    image = np.random.default_rng(0).integers(0, 256, (32, 32, 3), dtype=np.uint8)
    small = Image.fromarray(image).resize((20, 20), Image.Resampling.BOX)
    expected = np.asarray(small.resize((32, 32), Image.Resampling.BOX)) / 255
    ours = corrupt(image.transpose(2, 0, 1)[None] / 255, "pixelate", 5)[0].transpose(1, 2, 0)
    np.testing.assert_allclose(ours, expected, atol=1.5 / 255)


def test_a_streak_goes_one_way():
    dot = np.zeros((2, 1, 9, 9), np.float32)
    dot[:, :, 4, 4] = 1
    level, steep = blur.streak(dot, 3, 1.0, np.array([0.0, -90.0]))[:, 0]
    assert level[4].sum() == pytest.approx(1, abs=1e-3)
    assert level[4, :4].max() > 0 == level[4, 5:].max()
    np.testing.assert_allclose(steep[4:, 4], level[4, 4::-1], atol=1e-6)


def test_the_centre_of_a_zoom_stays():
    ramp = np.broadcast_to(np.linspace(0, 1, 9, dtype=np.float32), (1, 1, 9, 9))
    zoomed = blur.zoom(ramp, 2.0)[0, 0]
    np.testing.assert_allclose(zoomed, np.broadcast_to(np.linspace(0.25, 0.75, 9), (9, 9)), atol=1e-6)


def test_sampling_at_the_pixels_gives_the_image_and_between_them_the_mean():
    images = np.random.default_rng(0).random((2, 3, 6, 7)).astype(np.float32)
    row, column = np.mgrid[:6, :7].astype(np.float32)
    grid = [np.broadcast_to(axis, (2, 6, 7)) for axis in (row, column)]
    np.testing.assert_allclose(digital.sample(images, *grid), images, atol=1e-6)
    half = digital.sample(images, grid[0], grid[1] + 0.5)
    np.testing.assert_allclose(half[..., :-1], (images[..., :-1] + images[..., 1:]) / 2, atol=1e-6)
    mirrored = digital.sample(images, grid[0] - 6, grid[1])
    np.testing.assert_allclose(mirrored[:, :, 4], images[:, :, 2], atol=1e-6)


def test_glass_only_moves_pixels_but_for_the_blur(monkeypatch, images):
    monkeypatch.setattr(blur, "gaussian", lambda x, _: x.copy())
    moved = blur.glass_blur(images, np.random.default_rng(0), 0.1, 1, 2)
    assert not np.array_equal(moved, images)
    np.testing.assert_array_equal(np.sort(moved.reshape(30, 3, -1)), np.sort(images.reshape(30, 3, -1)))


def test_kernels_sum_to_one():
    for radius, softness in CORRUPTIONS["defocus_blur"][1]:
        assert blur.disc(radius, softness).sum() == pytest.approx(1, abs=1e-6)


def test_elastic_without_strength_is_affine():
    """A plane stays a plane, away from the border."""
    row, column = np.mgrid[:32, :32]
    plane = np.broadcast_to(((row + 2 * column) / 100).astype(np.float32), (4, 1, 32, 32))
    result = digital.elastic_transform(plane, np.random.default_rng(0), 0, 0, 0.05)[:, 0, 10:22, 10:22]
    np.testing.assert_allclose(np.diff(result, 2, axis=1), 0, atol=1e-5)
    np.testing.assert_allclose(np.diff(result, 2, axis=2), 0, atol=1e-5)
    assert np.abs(result - plane[:, 0, 10:22, 10:22]).max() > 1e-3


def test_clouds_fill_their_range_and_decay_smooths_them():
    rough, smooth = (weather.plasma(20, 32, 32, decay, np.random.default_rng(0)) for decay in (1.1, 3))
    assert rough.min() == smooth.min() == 0
    assert rough.max() == smooth.max() == 1
    steps = [np.abs(np.diff(clouds, axis=1)).mean() for clouds in (rough, smooth)]
    assert steps[0] > 3 * steps[1]


def test_fog_keeps_the_brightest_value_possible():
    white = np.ones((3, 3, 32, 32), np.float32)
    result = corrupt(white, "fog", 5)
    assert 0.4 - 1 / 255 <= result.min() < 0.5
    assert result.max() == 1


def test_frost_is_pale_blue_and_not_flat():
    black = np.zeros((10, 3, 32, 32), np.float32)
    result = corrupt(black, "frost", 5)
    red, green, blue = result.mean((0, 2, 3))
    assert red < green < blue
    assert 0.1 < result.mean() < 0.4
    assert result.std((2, 3)).min() > 0.01
