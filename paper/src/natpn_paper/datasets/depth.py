"""Depth of every pixel: NYU Depth v2 (rooms) and KITTI (streets).

Inputs have the paper's size, 3 x 480 x 640, unless ``size`` asks for another. As in the paper, targets have half the
height and width: metres, with NaN where there is no reading. Only the pictures that the ``limit`` keeps are read.

NYU Depth v2 is read from ``nyu_depth_v2/``, in the first of these forms that is there:

- ``nyu_data.zip``, or its content in ``data/``: 50,688 pairs for training and 654 for test, listed in two CSV files.
  This is the version the paper uses.
- ``nyu_depth_v2_labeled.mat``: the official 1,449 pairs; needs h5py. With ``splits.mat`` beside it, the official test
  set.
- any pictures with depth maps that `find_pairs` matches by name.

KITTI is read from ``kitti/``: ``data_depth_selection.zip``, what it unpacks to, or any such pairs.
"""

import csv
import io
import posixpath
from collections.abc import Callable
from pathlib import Path

import numpy as np

from natpn_paper.datasets.base import Array, Request, Rows, Splits, assemble, check_size
from natpn_paper.datasets.download import find
from natpn_paper.datasets.files import DamagedData, Source, read_members, roots, search
from natpn_paper.datasets.photographs import lsun_rows
from natpn_paper.datasets.pictures import PictureFile, array_of, listing, read_depths, read_images, shrink

SIZE = (480, 640)
NYU_HOME = "https://cs.nyu.edu/~silberman/datasets/nyu_depth_v2.html"
NYU_ZIP = Source("nyu_depth_v2/nyu_data.zip", home="https://github.com/ialhashim/DenseDepth")
NYU_MAT = Source(
    "nyu_depth_v2/nyu_depth_v2_labeled.mat",
    "http://horatio.cs.nyu.edu/mit/silberman/nyu_depth_v2/nyu_depth_v2_labeled.mat",
    home=NYU_HOME,
)
NYU_SPLITS = Source("nyu_depth_v2/splits.mat", home=NYU_HOME)
NYU_CSV = {"train": "data/nyu2_train.csv", "test": "data/nyu2_test.csv"}
KITTI_TERMS = "CC BY-NC-SA 3.0: not for commercial use"
KITTI_ZIP = Source(
    "kitti/data_depth_selection.zip",
    "https://s3.eu-central-1.amazonaws.com/avg-kitti/data_depth_selection.zip",
    terms=KITTI_TERMS,
)
N_KITTI = 1000
MILLIMETRE, KITTI_UNIT = 1 / 1000, 1 / 256
# what the name of a depth map has in place of a word in that of its picture
DEPTH_WORDS = (("rgb", "depth"), ("rgb", "sync_depth"), ("image", "groundtruth_depth"))


def nyu(request: Request, size: tuple[int, int] = SIZE) -> Splits:
    """Predict the depth of rooms; the OOD sets are classrooms and churches of LSUN, and KITTI.

    The paper's table has two scores in its column for LSUN: for "LSUN classroom" and "LSUN church".

    Args:
        request: What the user asked for.
        size: Height and width of the inputs; the targets have half of each.
    """
    check_size("size", size)
    train, test = nyu_rows(request, size)
    ood: dict[str, Callable[[], Rows]] = {
        "LSUN classroom": lambda: lsun_rows(request, size, "classroom"),
        "LSUN church": lambda: lsun_rows(request, size, "church"),
        "KITTI": lambda: kitti_rows(request, size),
    }
    return assemble("nyu", train, request, test=test, ood=ood)


def kitti(request: Request, size: tuple[int, int] = SIZE) -> Splits:
    """Predict the depth of streets.

    Args:
        request: What the user asked for.
        size: Height and width of the inputs; the targets have half of each.
    """
    check_size("size", size)
    return assemble("kitti", kitti_rows(request, size), request)


def halved(size: tuple[int, int]) -> tuple[int, int]:
    """Return the size of the targets."""
    return -(-size[0] // 2), -(-size[1] // 2)


def paired(pairs: list[tuple[PictureFile, PictureFile]], size: tuple[int, int], unit: float, note: str = "") -> Rows:
    """Make rows of pictures and their depth maps."""
    images, depths = (array_of(pair[i] for pair in pairs) for i in (0, 1))
    small = halved(size)
    return Rows(images, depths, lambda X: read_images(X, size), lambda y: read_depths(y, small, unit), note)


def nyu_rows(request: Request, size: tuple[int, int]) -> tuple[Rows, Rows | None]:
    """Return the rows, and the test set if the form that is there has one."""
    archive = search([NYU_ZIP], request.directory)
    if archive is not None:
        return listed_pairs(archive, size)
    unpacked = search([Source(f"nyu_depth_v2/{NYU_CSV['train']}")], request.directory)
    if unpacked is not None:
        return listed_pairs(unpacked.parent.parent, size)
    matrix = search([NYU_MAT], request.directory)
    pairs = pairs_in("nyu_depth_v2", request)
    if matrix is None and (request.download or not pairs):
        wanted = (NYU_MAT,) if request.download else (NYU_ZIP, NYU_MAT)
        matrix = find(wanted, request.directory, request.download)
    if matrix is not None:
        return matrix_rows(matrix, search([NYU_SPLITS], request.directory), size)
    return paired(pairs, size, MILLIMETRE, f"{len(pairs)} sample pairs in place of 50,688"), None


def pairs_in(folder: str, request: Request) -> list[tuple[PictureFile, PictureFile]]:
    """Return the pairs in a folder of the first data directory that has any."""
    places = [root / folder for root in roots(request.directory)]
    return next((pairs for place in places if (pairs := find_pairs(listing(place)))), [])


def listed_pairs(place: Path, size: tuple[int, int]) -> tuple[Rows, Rows]:
    """Read the two lists of pairs; ``place`` is the archive or the folder that has ``data/`` in it."""
    rows = []
    for name in NYU_CSV.values():
        content = read_members(place, [name])[name] if place.suffix == ".zip" else (place / name).read_bytes()
        lines = [line for line in csv.reader(io.StringIO(content.decode())) if line]
        if any(len(line) != 2 for line in lines):
            raise DamagedData(place / name, "a line does not name a picture and its depth map")
        rows.append(paired([(PictureFile(place, a), PictureFile(place, b)) for a, b in lines], size, MILLIMETRE))
    return rows[0], rows[1]


def find_pairs(pictures: list[PictureFile]) -> list[tuple[PictureFile, PictureFile]]:
    """Match pictures with their depth maps by name; pictures without one are left out.

    A depth map is a PNG in the folder of its picture, or in a folder ``depth`` or ``groundtruth_depth`` beside that. It
    has the name of its picture, or that name with the first "rgb" or "image" replaced by a word for depth. Examples are
    ``room.jpg`` and ``room.png``; ``rgb/7.png`` and ``depth/7.png``; ``rgb_7.jpg`` and ``sync_depth_7.png``.
    """
    known = {picture.name: picture for picture in pictures}
    pairs = []
    for name, picture in known.items():
        folder, file = posixpath.split(name)
        stem = posixpath.splitext(file)[0]
        beside = posixpath.dirname(folder)
        folders = [folder, *(posixpath.join(beside, other) for other in ("depth", "groundtruth_depth"))]
        stems = [stem, *(stem.replace(word, depth, 1) for word, depth in DEPTH_WORDS)]
        wanted = [posixpath.join(place, f"{other}.png") for place in folders for other in stems]
        pairs += [(picture, known[depth]) for depth in wanted if depth in known and depth != name][:1]
    return pairs


def matrix_rows(path: Path, splits: Path | None, size: tuple[int, int]) -> tuple[Rows, Rows | None]:
    """Read the official file, whose pictures have shape (N, 3, 640, 480) and depths (N, 640, 480)."""
    try:
        import h5py
    except ImportError as error:
        raise ImportError(f"{path} is an HDF5 file, and h5py, which reads it, is missing: pip install h5py") from error

    def images(numbers: Array) -> Array:
        from PIL import Image

        result = np.empty((len(numbers), 3, *size), np.float32)
        with h5py.File(path, "r") as file:
            for i, number in enumerate(numbers):
                picture = Image.fromarray(np.ascontiguousarray(np.asarray(file["images"][number]).transpose(2, 1, 0)))
                resized = np.asarray(picture.resize((size[1], size[0]), 2), np.float32)
                result[i] = resized.transpose(2, 0, 1) / np.float32(255)
        return result

    def depths(numbers: Array) -> Array:
        small = halved(size)
        result = np.empty((len(numbers), *small), np.float32)
        with h5py.File(path, "r") as file:
            for i, number in enumerate(numbers):
                result[i] = shrink(np.asarray(file["depths"][number], np.float32).T, small)
        return result

    with h5py.File(path, "r") as file:
        numbers = np.arange(len(file["images"]))
    rows = Rows(numbers, numbers, images, depths, note=f"the {len(numbers):,} labelled pairs in place of 50,688")
    if splits is None:
        return rows, None
    from scipy.io import loadmat

    test = np.asarray(loadmat(splits)["testNdxs"]).ravel().astype(np.intp) - 1
    return rows.only(np.setdiff1d(numbers, test)), rows.only(test)


def kitti_rows(request: Request, size: tuple[int, int]) -> Rows:
    """List the pictures of KITTI with their depth maps."""
    archive = search([KITTI_ZIP], request.directory)
    pairs = pairs_in("kitti", request) if archive is None else []
    if archive is None and (not pairs or (request.download and len(pairs) < N_KITTI)):
        archive = find(KITTI_ZIP, request.directory, request.download)
    if archive is not None:
        pairs = find_pairs(listing(archive))
    note = "" if len(pairs) >= N_KITTI else f"{len(pairs)} sample pairs in place of {N_KITTI:,}"
    return paired(pairs, size, KITTI_UNIT, note)
