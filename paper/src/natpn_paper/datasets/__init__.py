"""The paper's data sets: `load` returns seeded, hash-checked splits of arrays with their OOD sets.

Nothing is downloaded unless ``download=True`` asks for it. ``natpn_paper.datasets.files`` says where files are searched
for.
"""

import inspect
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from natpn.choices import check_choice
from natpn_paper.datasets.base import Request, Splits, check_whole
from natpn_paper.datasets.cifar import cifar10, cifar10_c, cifar10_left_out
from natpn_paper.datasets.corruptions import CORRUPTIONS, corrupt
from natpn_paper.datasets.depth import kitti, nyu
from natpn_paper.datasets.digits import fmnist, kmnist, mnist
from natpn_paper.datasets.download import DownloadError
from natpn_paper.datasets.files import DamagedData, MissingData, roots
from natpn_paper.datasets.photographs import celeba, lsun
from natpn_paper.datasets.svhn import svhn
from natpn_paper.datasets.toy import toy_classification, toy_classification_unequal, toy_regression
from natpn_paper.datasets.uci_tables import bike_sharing, concrete, energy, kin8nm, sensorless_drive

DATASETS: dict[str, Callable[..., Splits]] = {
    "sensorless-drive": sensorless_drive,
    "mnist": mnist,
    "fmnist": fmnist,
    "kmnist": kmnist,
    "cifar10": cifar10,
    "cifar10-left-out": cifar10_left_out,
    "cifar10-c": cifar10_c,
    "svhn": svhn,
    "celeba": celeba,
    "bike-sharing": bike_sharing,
    "concrete": concrete,
    "energy": energy,
    "kin8nm": kin8nm,
    "nyu": nyu,
    "kitti": kitti,
    "lsun": lsun,
    "toy-classification": toy_classification,
    "toy-classification-unequal": toy_classification_unequal,
    "toy-regression": toy_regression,
}

# the folder of each data set; the toy data sets are drawn and have none
FOLDERS = {
    "fmnist": "fashion_mnist",
    "cifar10-left-out": "cifar10",
    "cifar10-c": "cifar10",
    "nyu": "nyu_depth_v2",
    **{name: f"uci_regression/{name}" for name in ("concrete", "energy", "kin8nm")},
    **{name: name.replace("-", "_") for name in ("sensorless-drive", "bike-sharing")},
    **{name: name for name in ("mnist", "kmnist", "cifar10", "svhn", "celeba", "kitti", "lsun")},
}

__all__ = [
    "CORRUPTIONS",
    "DATASETS",
    "DamagedData",
    "DownloadError",
    "MissingData",
    "Splits",
    "corrupt",
    "load",
    "missing_folder",
]


def missing_folder(name: str) -> str | None:
    """Return the name of a data set's folder if it is missing; None if it is there or not needed.

    This is fast, since it does not look into the folder: `load` does.

    Example:
        >>> missing_folder("toy-regression") is None
        True
    """
    check_choice("name", name, DATASETS)
    folder = FOLDERS.get(name)
    return None if folder is None or any((root / folder).is_dir() for root in roots()) else folder


def load(
    name: str,
    seed: int = 0,
    directory: str | os.PathLike[str] | None = None,
    download: bool = False,
    limit: int | None = None,
    **options: Any,
) -> Splits:
    """Load a data set by its name.

    Args:
        name: A key of ``DATASETS``.
        seed: Decides which rows go into which split, and which rows a limit keeps.
        directory: Where files are searched for first, and where downloads go.
        download: Whether to download missing files, where their official home allows it.
        limit: The largest number of rows of each split and of each OOD set; None for all.
        **options: Options of the data set: ``size`` of "nyu", "kitti", "lsun" and "celeba"; ``corruption`` and
            ``severity`` of "cifar10-c".

    Returns:
        The splits. Images are float32 in [0, 1], shape (N, C, H, W); tables are float64.

    Raises:
        ValueError: If the name, an option or a value is not allowed.
        MissingData: If a file is missing.
        DamagedData: If a file does not have the expected content.
        DownloadError: If a download fails.

    Example:
        >>> data = load("toy-classification", limit=100)
        >>> data.train[0].shape, data.n_classes, sorted(data.ood)
        ((100, 2), 3, ['Far', 'OODom'])
    """
    check_choice("name", name, DATASETS)
    check_whole("seed", seed, 0)
    if limit is not None:
        check_whole("limit", limit, 1)
    allowed = list(inspect.signature(DATASETS[name]).parameters)[1:]
    for option in options:
        if not allowed:
            raise ValueError(f"{option}: expected no options of the data set {name!r}, got {options[option]!r}")
        check_choice(f"option of the data set {name!r}", option, allowed)
    place = None if directory is None else Path(directory).expanduser()
    return DATASETS[name](Request(int(seed), place, download, limit), **options)
