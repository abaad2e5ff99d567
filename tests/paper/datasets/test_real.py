"""The data themselves, where ``NATPN_DATA`` has them: counts and means that are known."""

import os
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from natpn_paper.datasets import DATASETS, MissingData, load
from natpn_paper.datasets.base import Request, pixels
from natpn_paper.datasets.cifar import cifar10_rows
from natpn_paper.datasets.digits import idx_rows, kmnist_rows
from natpn_paper.datasets.svhn import svhn_ood
from natpn_paper.datasets.uci_tables import bikes, regression_rows

DATA = Path(os.environ.get("NATPN_DATA", "nowhere"))
pytestmark = [
    pytest.mark.slow,  # files of hundreds of megabytes are read; `test_contract.py` has small ones of the same form
    pytest.mark.skipif(not DATA.is_dir(), reason="NATPN_DATA names no directory"),
]
ALL = Request()
NEEDED = {"kmnist": "kmnist/kmnist-train-imgs.npz", "lsun": "lsun/classroom"}  # what a sample need not have


@cache
def few(name):
    return load(name, limit=20, seed=1)


def joined(data):
    return [np.concatenate([part[i] for part in (data.train, data.validation, data.test)]) for i in (0, 1)]


@pytest.mark.parametrize("name", DATASETS)
def test_everything_that_is_there_loads(name):
    if name in NEEDED and not (DATA / NEEDED[name]).exists():
        with pytest.raises(MissingData, match=NEEDED[name]):
            load(name)
        return
    data = few(name)
    assert all(0 < len(X) <= 20 for X, _ in (data.train, data.validation, data.test))
    assert all(0 < len(X) <= 20 for X in data.ood.values())


def test_sensorless_drive():
    data = load("sensorless-drive")
    X, y = joined(data)
    assert X.shape == (9 * 5319, 48)
    np.testing.assert_array_equal(np.bincount(y), [5319] * 9)
    assert data.ood["9/10"].shape == (2 * 5319, 48)


def test_bike_sharing():
    values, seasons = bikes(ALL)
    assert values.shape == (17379, 12)
    assert values[:, -1].sum() == 3292679
    data = load("bike-sharing")
    n_summer = sum(len(X) for X, _ in (data.train, data.validation, data.test))
    assert n_summer == (seasons == 2).sum() == 4409
    assert [len(data.ood[s]) for s in ("Winter", "Spring", "Autumn")] == [4232, 4242, 4496]
    month = data.columns.index("mnth")
    X, y = joined(data)
    assert set(X[:, month]) == {3, 4, 5, 6}
    assert set(data.ood["Winter"][:, month]) == {9, 10, 11, 12}
    assert y.min() >= 1
    assert np.array_equal(y, y.astype(int))


@pytest.mark.parametrize(
    ("name", "n_rows", "mean", "deviation"),
    [("concrete", 1030, 35.818, 16.698), ("energy", 768, 22.307, 10.084), ("kin8nm", 8192, 0.71428, 0.26359)],
)
def test_regressions(name, n_rows, mean, deviation):
    rows = regression_rows(name, ALL)
    assert rows.X.shape == (n_rows, 8)
    assert rows.y.mean() == pytest.approx(mean, abs=1e-3)
    assert rows.y.std() == pytest.approx(deviation, rel=1e-3)
    X, y = joined(load(name))
    assert len(X) == n_rows
    np.testing.assert_allclose(np.sort(y), np.sort(rows.y))


def test_concrete_starts_as_published():
    rows = regression_rows("concrete", ALL)
    np.testing.assert_array_equal(rows.X[0], [540, 0, 0, 162, 2.5, 1040, 676, 28])
    assert rows.y[0] == 79.99


@pytest.mark.parametrize(
    ("folder", "mean", "deviation"), [("mnist", 0.1307, 0.3081), ("fashion_mnist", 0.2860, 0.3530)]
)
def test_digits(folder, mean, deviation):
    train, test = (idx_rows(folder, part, ALL) for part in ("train", "t10k"))
    assert train.X.shape == (60000, 28, 28)
    assert test.X.shape == (10000, 28, 28)
    assert train.X.mean() / 255 == pytest.approx(mean, abs=1e-4)
    assert train.X.std() / 255 == pytest.approx(deviation, abs=1e-4)
    counts = np.bincount(train.y)
    assert counts[:2].tolist() == ([5923, 6742] if folder == "mnist" else [6000, 6000])


def test_kmnist_test_images():
    rows = kmnist_rows("test", ALL)
    assert rows.X.shape == (10000, 28, 28)
    np.testing.assert_array_equal(np.bincount(rows.y), [1000] * 10)


def test_cifar10():
    train, test = cifar10_rows(ALL)
    assert test.X.shape == (10000, 32, 32, 3)
    np.testing.assert_array_equal(np.bincount(test.y), [1000] * 10)
    assert test.y[:6].tolist() == [3, 8, 8, 0, 6, 6]
    np.testing.assert_allclose(train.X.mean((0, 1, 2)) / 255, [0.4914, 0.4822, 0.4465], atol=3e-3)
    if len(train.X) == 20000:
        assert train.note == "30,000 of 60,000 images: training batches 1, 2 of 5"


def test_each_seed_leaves_two_classes_of_cifar10_out():
    seed, first = 7, 4
    data = load("cifar10-left-out", seed=seed, limit=400)
    whole, test = cifar10_rows(ALL)
    assert data.n_classes == 8
    assert set(data.train[1]) == set(range(8))
    for rows, (X, y) in ((whole, data.train), (test, data.test)):
        known = {image.tobytes(): label for image, label in zip(pixels(rows.X[:20000]), rows.y[:20000], strict=True)}
        pairs = [(known[x.tobytes()], label) for x, label in zip(X, y, strict=True) if x.tobytes() in known]
        assert len(pairs) > 100
        others = [label for label in range(10) if label not in (first, first + 1)]
        assert all(others[new] == old for old, new in pairs)
    labels = {image.tobytes(): label for image, label in zip(pixels(test.X), test.y, strict=True)}
    assert {labels[x.tobytes()] for x in data.ood["Left out"]} == {first, first + 1}


def test_svhn_as_an_ood_set():
    rows = svhn_ood(ALL)
    np.testing.assert_allclose(rows.X.mean((0, 1, 2)) / 255, [0.452, 0.456, 0.482], atol=2e-3)


def test_cifar10_c_has_the_images_of_cifar10():
    plain, noisy = few("cifar10"), few("cifar10-c")
    np.testing.assert_array_equal(plain.train[0], noisy.train[0])
    np.testing.assert_array_equal(plain.test[1], noisy.test[1])
    error = noisy.test[0] - plain.test[0]
    assert 0.03 < error.std() < 0.04  # 0.04 less what is cut at 0 and 1


def test_depth_in_rooms_and_streets():
    rooms, streets = load("nyu", size=(60, 80)), load("kitti", size=(60, 80))
    for data, near, far, filled in ((rooms, 0.5, 10, 0.6), (streets, 1, 90, 0.1)):
        depths = np.concatenate([data.train[1], data.validation[1], data.test[1]])
        assert depths.shape[1:] == (30, 40)
        assert near < np.nanmin(depths) < np.nanmedian(depths) < np.nanmax(depths) <= far
        assert np.isfinite(depths).mean() > filled
    assert [part.shape for part in load("nyu", limit=1).train] == [(1, 3, 480, 640), (1, 240, 320)]
    if not (DATA / "lsun").exists():
        assert "LSUN church left out: lsun/church_outdoor not found" in rooms.note
