"""The forms in which the official files come, and what happens when they are damaged."""

import io
import json
import shutil
import zipfile
from unittest import mock

import numpy as np
import pytest
from PIL import Image

from natpn_paper.datasets import DamagedData, MissingData, files, load, pictures
from natpn_paper.datasets.base import Request
from natpn_paper.datasets.cifar import cifar10_rows
from natpn_paper.datasets.depth import find_pairs
from natpn_paper.datasets.svhn import read_mat, svhn_ood
from paper.datasets import made

SMALL = (12, 16)


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    return made.everything(tmp_path_factory.mktemp("whole"))


@pytest.fixture(autouse=True)
def _alone(monkeypatch, tmp_path):
    monkeypatch.delenv("NATPN_DATA", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(files, "check_hash", lambda *_: None)


def test_cifar_in_binary_form_is_red_green_blue_by_planes(tmp_path):
    place = made.folder(tmp_path, "cifar10/cifar-10-batches-bin")
    plane = np.zeros((32, 32), np.uint8)
    plane[5, 6] = 10
    content = bytes([7]) + plane.tobytes() + (2 * plane).tobytes() + (3 * plane).tobytes()
    for name in ("data_batch_2", "test_batch"):
        (place / f"{name}.bin").write_bytes(2 * content)
    train, test = cifar10_rows(Request(directory=tmp_path))
    assert train.note == "4 of 60,000 images: training batches 2 of 5"
    assert test.y.tolist() == [7, 7]
    np.testing.assert_array_equal(test.X[0, 5, 6], [10, 20, 30])


def test_cifar_as_pictures_has_one_image_a_row(tmp_path):
    place = made.folder(tmp_path, "cifar10")
    images = made.images(4, 32, 32, 3)
    for name in ("data_batch_1", "test_batch"):
        Image.fromarray(images.reshape(4, 1024, 3)).save(place / f"{name}.png")
    for part in ("train", "test"):
        (place / f"{part}_lables.json").write_text(json.dumps([1, 2, 3, 4]))
    train, _ = cifar10_rows(Request(directory=tmp_path))
    np.testing.assert_array_equal(train.X, images)
    assert train.y.tolist() == [1, 2, 3, 4]
    (place / "test_lables.json").write_text(json.dumps([1, 2, 3]))
    with pytest.raises(DamagedData, match="4 images, but there are 3 labels"):
        cifar10_rows(Request(directory=tmp_path))


def test_cifar_without_training_batches_is_missing(tmp_path):
    place = made.folder(tmp_path, "cifar10/cifar-10-batches-bin")
    (place / "test_batch.bin").write_bytes(made.cifar_batch())
    with pytest.raises(MissingData, match=r"cifar-10-binary\.tar\.gz"):
        load("cifar10", directory=tmp_path)


def test_ten_stands_for_zero_in_svhn(tmp_path):
    made.cifar(tmp_path)
    rows = read_mat(tmp_path / "svhn/test_32x32.mat")
    assert rows.y[:10].tolist() == [1, 2, 3, 4, 5, 6, 7, 8, 9, 0]
    assert rows.X.shape == (20, 32, 32, 3)


def test_any_npz_file_with_crops_and_labels_is_a_sample_of_svhn(tmp_path):
    place = made.folder(tmp_path, "svhn")
    crops = made.images(20, 32, 32, 3)
    np.savez(place / "some.npz", digits=made.labels(20), crops=crops)
    rows = svhn_ood(Request(directory=tmp_path))
    np.testing.assert_array_equal(rows.X, crops)
    assert rows.y.tolist() == made.labels(20).tolist()
    assert load("svhn", directory=tmp_path).note == "20 sample crops in place of 99,289"
    np.savez(place / "some.npz", crops)
    with pytest.raises(DamagedData, match="no crops of shape"):
        svhn_ood(Request(directory=tmp_path))
    (place / "some.npz").unlink()
    with pytest.raises(MissingData, match=r"svhn/train_32x32\.mat"):
        load("svhn", directory=tmp_path)


@pytest.mark.parametrize(
    ("picture", "depth"),
    [
        ("room.jpg", "room.png"),
        ("a/rgb.png", "a/depth.png"),
        ("a/rgb/7.png", "a/depth/7.png"),
        ("a/rgb_7.jpg", "a/sync_depth_7.png"),
        ("a/rgb/rgb_7.jpg", "a/depth/sync_depth_7.png"),
        ("val/image/2_image_7_image_02.png", "val/groundtruth_depth/2_groundtruth_depth_7_image_02.png"),
    ],
)
def test_depth_maps_are_found_by_their_names(picture, depth, tmp_path):
    names = [picture, depth, "alone.png", "other/image/7.png", "other/velodyne_raw/7.png"]
    found = find_pairs([pictures.PictureFile(tmp_path, name) for name in names])
    assert [(image.name, depths.name) for image, depths in found] == [(picture, depth)]


def test_faces_of_the_test_part_alone_are_the_ood_set(tmp_path):
    made.cifar(tmp_path)
    made.pictures(tmp_path)
    assert len(load("cifar10", directory=tmp_path).ood["CelebA"]) == 5
    assert sum(len(X) for X, _ in (lambda d: (d.train, d.validation, d.test))(load("celeba", directory=tmp_path))) == 15


def test_an_ood_set_that_is_missing_is_left_out_and_named(tmp_path):
    made.depths(tmp_path)
    data = load("nyu", directory=tmp_path, size=SMALL)
    assert list(data.ood) == ["KITTI", "OODom"]
    assert "LSUN classroom left out: lsun/classroom not found; LSUN church left out" in data.note


def test_depth_maps_of_8_bits_reach_ten_metres_and_16_bits_are_millimetres(tmp_path):
    made.depths(tmp_path)
    data = load("nyu", directory=tmp_path, size=(120, 160))
    assert 9.5 < np.nanmax(data.train[1]) <= 10
    assert 7.5 < np.nanmax(data.test[1]) < 8
    assert len(data.test[0]) == 4  # the test set is the official one


def test_the_unpacked_archive_reads_the_same(tmp_path):
    made.depths(tmp_path / "packed")
    place = made.folder(tmp_path, "unpacked/nyu_depth_v2")
    with zipfile.ZipFile(tmp_path / "packed/nyu_depth_v2/nyu_data.zip") as archive:
        archive.extractall(place)
    one, other = (load("nyu", directory=tmp_path / d, size=SMALL) for d in ("packed", "unpacked"))
    np.testing.assert_array_equal(one.train[0], other.train[0])
    np.testing.assert_array_equal(one.train[1], other.train[1])


def test_the_official_matrix_of_rooms(tmp_path):
    from scipy.io import savemat

    images, depths = made.images(10, 3, 80, 60), np.random.default_rng(0).uniform(1, 9, (10, 80, 60))
    depths[:, :40] = 5.0
    place = made.folder(tmp_path, "nyu_depth_v2")
    (place / "nyu_depth_v2_labeled.mat").write_bytes(b"HDF")
    savemat(place / "splits.mat", {"testNdxs": np.array([[2], [4]])})
    with mock.patch.dict("sys.modules", made.fake_h5py({"images": images, "depths": depths})):
        data = load("nyu", directory=tmp_path, size=(60, 80))
    np.testing.assert_allclose(data.test[0], images[[1, 3]].transpose(0, 1, 3, 2) / 255, rtol=1e-6)
    np.testing.assert_allclose(data.test[1][:, :, :20], 5)
    assert data.note.startswith("the 10 labelled pairs in place of 50,688")
    with mock.patch.dict("sys.modules", {"h5py": None}), pytest.raises(ImportError, match="pip install h5py"):
        load("nyu", directory=tmp_path)


def test_readings_are_averaged_and_gaps_are_nan():
    depth = np.zeros((4, 4), np.float32)
    depth[0, 0], depth[1, 1], depth[0, 3] = 2, 4, 7
    np.testing.assert_allclose(pictures.shrink(depth, (2, 2)), [[3, 7], [np.nan, np.nan]])


def test_an_empty_folder_does_not_hide_a_full_one(tmp_path, monkeypatch):
    made.depths(tmp_path / "shared")
    (tmp_path / "shared/nyu_depth_v2/nyu_data.zip").unlink()
    place = made.folder(tmp_path, "shared/nyu_depth_v2/scene")
    for i in range(5):
        (place / f"rgb_{i}.jpg").write_bytes(made.picture())
        (place / f"sync_depth_{i}.png").write_bytes(made.depth_map())
    for name in ("nyu_depth_v2", "kitti"):
        made.folder(tmp_path, f"named/{name}")
    monkeypatch.setenv("NATPN_DATA", str(tmp_path / "shared"))
    data = load("nyu", directory=tmp_path / "named", size=SMALL)
    assert len(data.train[0]) == 3
    assert len(data.ood["KITTI"]) == 10


def test_the_unpacked_selection_of_streets_reads_the_same(tmp_path):
    made.depths(tmp_path / "packed")
    with zipfile.ZipFile(tmp_path / "packed/kitti/data_depth_selection.zip") as archive:
        archive.extractall(made.folder(tmp_path, "unpacked/kitti"))
    one, other = (load("kitti", directory=tmp_path / d, size=SMALL) for d in ("packed", "unpacked"))
    np.testing.assert_array_equal(one.train[0], other.train[0])
    np.testing.assert_array_equal(one.train[1], other.train[1])


def test_depth_in_colours_is_refused(tmp_path):
    place = made.folder(tmp_path, "kitti/a")
    for i in range(5):
        for name in ("rgb", "depth"):
            (made.folder(place, name) / f"{i}.png").write_bytes(made.picture())
    with pytest.raises(DamagedData, match="no depth map: its mode is RGB"):
        load("kitti", directory=tmp_path, size=SMALL)


@pytest.mark.parametrize(
    ("name", "file", "words"),
    [
        ("mnist", "mnist/train-images-idx3-ubyte.gz", "cannot be unpacked"),
        ("mnist", "mnist/train-labels-idx1-ubyte", "no idx file"),
        ("kmnist", "kmnist/kmnist-train-imgs.npz", "no array arr_0"),
        ("cifar10", "cifar10/cifar-10-binary.tar.gz", "cannot be unpacked"),
        ("svhn", "svhn/train_32x32.mat", "no crops that can be read"),
        ("celeba", "celeba/img_align_celeba.zip", "cannot be unpacked"),
        ("lsun", "lsun/classroom/1.png", "truncated"),
        ("nyu", "nyu_depth_v2/nyu_data.zip", "cannot be unpacked"),
        ("kitti", "kitti/data_depth_selection.zip", "cannot be unpacked"),
        ("bike-sharing", "bike_sharing/Bike-Sharing-Dataset.zip", "cannot be unpacked"),
    ],
)
def test_half_a_file_is_damaged(name, file, words, tmp_path, whole):
    shutil.copytree(whole, tmp_path, dirs_exist_ok=True)
    path = tmp_path / file
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    with pytest.raises(DamagedData, match=words) as raised:
        load(name, directory=tmp_path)
    assert str(path) in str(raised.value)
    assert "download=True" in str(raised.value)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"no picture", "it is no picture"),
        (b"", "it is no picture"),
        (made.picture()[:60], "it is no picture|truncated"),
    ],
)
def test_what_is_no_picture(content, words, tmp_path):
    with pytest.raises(DamagedData, match=words):
        pictures.open_picture(content, tmp_path / "a.png")


def test_other_tables_are_not_taken_for_hours(tmp_path):
    (made.folder(tmp_path, "bike_sharing") / "hour.csv").write_text("a,b\n1,2\n")
    with pytest.raises(DamagedData, match="not the table of hours"):
        load("bike-sharing", directory=tmp_path)


def test_an_archive_without_its_member(tmp_path):
    with zipfile.ZipFile(made.folder(tmp_path, "bike_sharing") / "Bike-Sharing-Dataset.zip", "w") as archive:
        archive.writestr("day.csv", "")
    with pytest.raises(DamagedData, match="no member"):
        load("bike-sharing", directory=tmp_path)


def test_a_list_of_pairs_has_two_names_a_line(tmp_path):
    made.depths(tmp_path)
    place = made.folder(tmp_path, "other/nyu_depth_v2/data")
    for part in ("train", "test"):
        (place / f"nyu2_{part}.csv").write_text("a.jpg\n")
    with pytest.raises(DamagedData, match="does not name a picture and its depth map"):
        load("nyu", directory=tmp_path / "other")


def test_pictures_in_a_folder_and_an_archive_are_the_same(tmp_path):
    made.pictures(tmp_path)
    archive = tmp_path / "celeba/img_align_celeba.zip"
    with zipfile.ZipFile(archive) as opened:
        opened.extractall(tmp_path / "other/celeba")
    one, other = (load("celeba", directory=d) for d in (tmp_path, tmp_path / "other"))
    np.testing.assert_array_equal(one.train[0], other.train[0])


def test_bilinear_resizing_keeps_the_mean(tmp_path):
    place = made.folder(tmp_path, "lsun/classroom")
    buffer = io.BytesIO()
    Image.fromarray(made.images(64, 64, 3)).save(buffer, "PNG")
    (place / "a.png").write_bytes(buffer.getvalue())
    found = pictures.listing(place)
    small, whole = (pictures.read_images(pictures.array_of(found), size) for size in ((8, 8), (64, 64)))
    assert small.mean() == pytest.approx(whole.mean(), abs=0.02)
    assert small.std() < 0.5 * whole.std()
