"""MNIST and its two successors, Fashion-MNIST and KMNIST: images of 28 x 28 grey pixels in ten classes.

Each has 60,000 training and 10,000 test images. As an OOD set each gives its test images.
"""

import math
import zipfile

import numpy as np

from natpn_paper.datasets.base import Array, Request, Rows, Splits, assemble, pixels
from natpn_paper.datasets.download import find
from natpn_paper.datasets.files import DamagedData, Source, read_content

MNIST = "https://ossci-datasets.s3.amazonaws.com/mnist"
FMNIST = "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com"
KMNIST = "http://codh.rois.ac.jp/kmnist/dataset/kmnist"

# of the unpacked files, which do not depend on how they were packed
IDX_HASHES = {
    "mnist": {
        "train-images-idx3-ubyte": "ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db",
        "train-labels-idx1-ubyte": "65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5",
        "t10k-images-idx3-ubyte": "0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7",
        "t10k-labels-idx1-ubyte": "ff7bcfd416de33731a308c3f266cc351222c34898ecbeaf847f06e48f7ec33f2",
    },
    "fashion_mnist": {
        "train-images-idx3-ubyte": "c59f468a2f672dc815687fe0f83887768d799fd8a3f3276145d20f83aa44d888",
        "train-labels-idx1-ubyte": "bad3541b69d912435c50bb6ba87bec294ff4f6a2e1246121d8633921760443d9",
        "t10k-images-idx3-ubyte": "5b4141f0afbad91edebe8549f8fcffe087ea10ca49f1dbef5c9a5cd8815ce37b",
        "t10k-labels-idx1-ubyte": "0402a96d92fd2663957122ceb108a494c5af83dab82d92729df917d7dec38c34",
    },
}
KMNIST_HASHES = {
    "kmnist-train-imgs.npz": None,
    "kmnist-train-labels.npz": "a325c877035602cb9b9ba54f4194a2a1b5f718026a463db5b5e0cdc124c03720",
    "kmnist-test-imgs.npz": "692d824896bec8f3c357ebf7a0fe904ed67ac632ce953d0b58f7fbef7bb27d87",
    "kmnist-test-labels.npz": "660f13a4705431ea2a6391c41ecbe384cd0d932c595a101ec4f3b8989e785046",
}
KMNIST_TERMS = "CC BY-SA 4.0"


def mnist(request: Request) -> Splits:
    """Tell handwritten digits apart; the OOD sets are KMNIST and FMNIST."""
    ood = {"KMNIST": lambda: kmnist_rows("test", request), "FMNIST": lambda: idx_rows("fashion_mnist", "t10k", request)}
    train, test = idx_rows("mnist", "train", request), idx_rows("mnist", "t10k", request)
    return assemble("mnist", train, request, test=test, ood=ood, n_classes=10)


def fmnist(request: Request) -> Splits:
    """Tell pieces of clothing apart (Fashion-MNIST); the OOD sets are MNIST and KMNIST."""
    ood = {"MNIST": lambda: idx_rows("mnist", "t10k", request), "KMNIST": lambda: kmnist_rows("test", request)}
    train, test = idx_rows("fashion_mnist", "train", request), idx_rows("fashion_mnist", "t10k", request)
    return assemble("fmnist", train, request, test=test, ood=ood, n_classes=10)


def kmnist(request: Request) -> Splits:
    """Tell cursive Japanese characters apart; the OOD sets are MNIST and FMNIST."""
    ood = {
        "MNIST": lambda: idx_rows("mnist", "t10k", request),
        "FMNIST": lambda: idx_rows("fashion_mnist", "t10k", request),
    }
    train, test = kmnist_rows("train", request), kmnist_rows("test", request)
    return assemble("kmnist", train, request, test=test, ood=ood, n_classes=10)


def idx_rows(folder: str, part: str, request: Request) -> Rows:
    """Read images and labels of MNIST or Fashion-MNIST.

    Args:
        folder: The folder of the data directory.
        part: "train" or "t10k".
        request: What the user asked for.
    """
    images, labels = (read_idx(folder, f"{part}-{kind}-ubyte", request) for kind in ("images-idx3", "labels-idx1"))
    return Rows(images, labels.astype(np.int64), pixels)


def read_idx(folder: str, name: str, request: Request) -> Array:
    """Read an idx file of bytes: two zeros, 8 for bytes, the number of dimensions, their sizes, the bytes."""
    sha256 = IDX_HASHES[folder][name]
    base = MNIST if folder == "mnist" else FMNIST
    packed = Source(f"{folder}/{name}.gz", f"{base}/{name}.gz", sha256)
    path = find((packed, Source(f"{folder}/{name}", sha256=sha256)), request.directory, request.download)
    content = read_content(path)
    n_dimensions = content[3]
    start = 4 + 4 * n_dimensions
    shape = tuple(np.frombuffer(content[4:start], ">u4").tolist())
    if content[:3] != b"\0\0\x08" or len(content) != start + math.prod(shape):
        raise DamagedData(path, f"it is no idx file of bytes: shape {shape}, {len(content)} bytes")
    return np.frombuffer(content, np.uint8, offset=start).reshape(shape)


def kmnist_rows(part: str, request: Request) -> Rows:
    """Read images and labels of KMNIST; ``part`` is "train" or "test"."""
    images, labels = (read_npz(f"kmnist-{part}-{kind}.npz", request) for kind in ("imgs", "labels"))
    return Rows(images, labels.astype(np.int64), pixels)


def read_npz(name: str, request: Request) -> Array:
    """Read the one array of a file of KMNIST."""
    source = Source(f"kmnist/{name}", f"{KMNIST}/{name}", KMNIST_HASHES[name], terms=KMNIST_TERMS)
    path = find(source, request.directory, request.download)
    try:
        with path.open("rb") as file, np.load(file, allow_pickle=False) as arrays:
            return np.asarray(arrays["arr_0"])
    except (KeyError, ValueError, EOFError, zipfile.BadZipFile) as error:
        raise DamagedData(path, f"it has no array arr_0 that can be read ({error})") from error
