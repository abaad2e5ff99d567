"""SVHN: digits of house numbers, 32 x 32 pixels; 73,257 crops for training and 26,032 for test.

Read from ``train_32x32.mat`` and ``test_32x32.mat``. Where they are missing, the first 1,083 training crops in
``svhn_train_first1083.npz`` stand in for them.
"""

from pathlib import Path

import numpy as np

from natpn_paper.datasets.base import Request, Rows, Splits, assemble, pixels
from natpn_paper.datasets.download import find
from natpn_paper.datasets.files import DamagedData, MissingData, Source, search

HOME = "http://ufldl.stanford.edu/housenumbers"
TERMS = "for non-commercial use only"
MAT = {
    "train": Source(
        "svhn/train_32x32.mat",
        f"{HOME}/train_32x32.mat",
        "435e94d69a87fde4fd4d7f3dd208dfc32cb6ae8af2240d066de1df7508d083b8",
        terms=TERMS,
    ),
    "test": Source(
        "svhn/test_32x32.mat",
        f"{HOME}/test_32x32.mat",
        "cdce80dfb2a2c4c6160906d0bd7c68ec5a99d7ca4831afa54f09182025b6a75b",
        terms=TERMS,
    ),
}
SAMPLE = Source(
    "svhn/svhn_train_first1083.npz", sha256="cb255390e849790001072c72b23ada74dc55a8114a85e3b623adc927f6d475b3"
)


def svhn(request: Request) -> Splits:
    """Tell digits of house numbers apart."""
    try:
        train, test = (mat_rows(part, request) for part in MAT)
    except MissingData:
        sample = sample_rows(request)
        if sample is None:
            raise
        return assemble("svhn", sample, request, n_classes=10)
    return assemble("svhn", train, request, test=test, n_classes=10)


def svhn_ood(request: Request) -> Rows:
    """Return the test set, or the sample where it is missing."""
    try:
        return mat_rows("test", request)
    except MissingData:
        sample = sample_rows(request)
        if sample is None:
            raise
        return sample


def mat_rows(part: str, request: Request) -> Rows:
    """Read crops of shape (32, 32, 3, N) and their labels, where ten stands for zero."""
    path = find(MAT[part], request.directory, request.download)
    return read_mat(path)


def read_mat(path: Path) -> Rows:
    """Read a file of MATLAB."""
    from scipy.io import loadmat

    try:
        values = loadmat(path, variable_names=["X", "y"])
        X, y = np.asarray(values["X"]), np.asarray(values["y"]).ravel()
    except (KeyError, ValueError, TypeError, OSError) as error:
        raise DamagedData(path, f"it has no crops that can be read ({error})") from error
    return Rows(X.transpose(3, 0, 1, 2), y.astype(np.int64) % 10, pixels)


def sample_rows(request: Request) -> Rows | None:
    """Read the sample if it is there."""
    path = search([SAMPLE], request.directory)
    if path is None:
        return None
    with np.load(path, allow_pickle=False) as arrays:
        X, y = arrays["images"], arrays["labels_derived"].astype(np.int64)
    return Rows(X, y, pixels, note=f"the first {len(X):,} of 73,257 training crops")
