"""Small files in the official form of every data set, so that loaders run where no data are."""

import gzip
import io
import sys
import tarfile
import types
import zipfile
from pathlib import Path

import numpy as np
from PIL import Image
from scipy.io import savemat

RNG = np.random.default_rng(7)


def folder(root: Path, name: str) -> Path:
    (root / name).mkdir(parents=True, exist_ok=True)
    return root / name


def encoded(image, kind="PNG") -> bytes:
    buffer = io.BytesIO()
    Image.fromarray(image).save(buffer, kind)
    return buffer.getvalue()


def picture(height=60, width=80) -> bytes:
    return encoded(RNG.integers(0, 256, (height, width, 3), dtype=np.uint8))


def depth_map(height=60, width=80, top=8000) -> bytes:
    return encoded(RNG.integers(1, top, (height, width)).astype(np.uint16))


def idx(values) -> bytes:
    return bytes([0, 0, 8, values.ndim]) + np.array(values.shape, ">u4").tobytes() + values.tobytes()


def images(*shape) -> np.ndarray:
    return RNG.integers(0, 256, shape, dtype=np.uint8)


def labels(n) -> np.ndarray:
    return (np.arange(n) % 10).astype(np.uint8)


def tables(root: Path) -> None:
    values = np.column_stack([RNG.normal(size=(220, 48)), np.arange(220) % 11 + 1])
    np.savetxt(folder(root, "sensorless_drive") / "Sensorless_drive_diagnosis.txt", values)
    names = "instant,dteday,season,yr,mnth,hr,holiday,weekday,workingday,weathersit,temp,atemp,hum,windspeed"
    rows = [names + ",casual,registered,cnt"]
    for i in range(160):
        rows.append(f"{i},2011-01-01,{i % 4 + 1},0,{i % 12 + 1},{i % 24},0,1,1,1,{i / 160},0.5,0.5,0.1,1,{i},{i + 1}")
    with zipfile.ZipFile(folder(root, "bike_sharing") / "Bike-Sharing-Dataset.zip", "w") as archive:
        archive.writestr("hour.csv", "\n".join(rows))
    for name in ("concrete", "energy", "kin8nm"):
        np.savetxt(folder(root, f"uci_regression/{name}") / "data.txt", RNG.normal(size=(60, 9)))


def digits(root: Path) -> None:
    for name in ("mnist", "fashion_mnist"):
        for part, n in (("train", 50), ("t10k", 20)):
            place = folder(root, name)
            (place / f"{part}-images-idx3-ubyte.gz").write_bytes(gzip.compress(idx(images(n, 28, 28))))
            (place / f"{part}-labels-idx1-ubyte").write_bytes(idx(labels(n)))  # unpacked, which will do
    for part, n in (("train", 50), ("test", 20)):
        np.savez(folder(root, "kmnist") / f"kmnist-{part}-imgs.npz", images(n, 28, 28))
        np.savez(root / "kmnist" / f"kmnist-{part}-labels.npz", labels(n))


def cifar_batch(n=10) -> bytes:
    return np.column_stack([labels(n), images(n, 3072)]).tobytes()


def cifar(root: Path) -> None:
    with tarfile.open(folder(root, "cifar10") / "cifar-10-binary.tar.gz", "w:gz") as archive:
        for name in (*(f"data_batch_{i}" for i in range(1, 6)), "test_batch"):
            content = cifar_batch()
            member = tarfile.TarInfo(f"cifar-10-batches-bin/{name}.bin")
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    for part, n in (("train", 50), ("test", 20)):
        file = folder(root, "svhn") / f"{part}_32x32.mat"
        savemat(file, {"X": images(32, 32, 3, n), "y": (labels(n) + 1)[:, None]})


def pictures(root: Path) -> None:
    with zipfile.ZipFile(folder(root, "celeba") / "img_align_celeba.zip", "w") as archive:
        for number in (*range(1, 11), *range(182_638, 182_643)):
            archive.writestr(f"img_align_celeba/{number:06}.jpg", picture(109, 89))
    for name in ("classroom", "church_outdoor"):
        for number in range(10):
            (folder(root, f"lsun/{name}") / f"{number}.png").write_bytes(picture())


def depths(root: Path) -> None:
    with zipfile.ZipFile(folder(root, "nyu_depth_v2") / "nyu_data.zip", "w") as archive:
        for part, n in (("train", 10), ("test", 4)):
            lines = []
            for i in range(n):
                image, depth = f"data/nyu2_{part}/room_{i}.jpg", f"data/nyu2_{part}/room_{i}.png"
                archive.writestr(image, picture())
                archive.writestr(depth, encoded(images(60, 80)) if part == "train" else depth_map())
                lines.append(f"{image},{depth}\r\n")
            archive.writestr(f"data/nyu2_{part}.csv", "".join(lines))
    with zipfile.ZipFile(folder(root, "kitti") / "data_depth_selection.zip", "w") as archive:
        for i in range(10):
            base, drive = "depth_selection/val_selection_cropped", "2011_09_26_drive_0002_sync"
            archive.writestr(f"{base}/image/{drive}_image_{i:010}_image_02.png", picture())
            name = f"{base}/groundtruth_depth/{drive}_groundtruth_depth_{i:010}_image_02.png"
            archive.writestr(name, depth_map())


def everything(root: Path) -> Path:
    for make in (tables, digits, cifar, pictures, depths):
        make(root)
    return root


def fake_h5py(arrays):
    """h5py as far as it is used: a file is a mapping of arrays."""

    class File(dict):
        def __init__(self, path, mode):
            super().__init__(arrays)

        def __enter__(self):
            return self

        def __exit__(self, *_):
            return None

    module = types.ModuleType("h5py")
    module.File = File
    return {**sys.modules, "h5py": module}
