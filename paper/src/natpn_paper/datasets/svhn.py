"""SVHN: digits of house numbers, 32 x 32 pixels; 73,257 crops for training and 26,032 for test.

Read from ``train_32x32.mat`` and ``test_32x32.mat``. Where they are missing, any ``.npz`` file in ``svhn/`` serves as a
sample: an array of crops, bytes of shape (N, 32, 32, 3), and an array of N labels.
"""

import zipfile
from pathlib import Path

import numpy as np

from natpn_paper.datasets.base import Request, Rows, Splits, assemble, pixels
from natpn_paper.datasets.download import find
from natpn_paper.datasets.files import DamagedData, MissingData, Source, roots

HOME = "http://ufldl.stanford.edu/housenumbers"
TERMS = "for non-commercial use only"
HASHES = {
    "train": "435e94d69a87fde4fd4d7f3dd208dfc32cb6ae8af2240d066de1df7508d083b8",
    "test": "cdce80dfb2a2c4c6160906d0bd7c68ec5a99d7ca4831afa54f09182025b6a75b",
}
N_CROPS = 99_289


def svhn(request: Request) -> Splits:
    """Tell digits of house numbers apart."""
    try:
        train, test = (mat_rows(part, request) for part in HASHES)
    except MissingData as error:
        return assemble("svhn", sample_rows(request, error), request, n_classes=10)
    return assemble("svhn", train, request, test=test, n_classes=10)


def svhn_ood(request: Request) -> Rows:
    """Return the test set, or a sample where it is missing."""
    try:
        return mat_rows("test", request)
    except MissingData as error:
        return sample_rows(request, error)


def mat_rows(part: str, request: Request) -> Rows:
    """Find and read a part, "train" or "test"."""
    name = f"{part}_32x32.mat"
    source = Source(f"svhn/{name}", f"{HOME}/{name}", HASHES[part], terms=TERMS)
    return read_mat(find(source, request.directory, request.download))


def read_mat(path: Path) -> Rows:
    """Read a MATLAB file with crops of shape (32, 32, 3, N) and their labels, in which 10 stands for 0."""
    from scipy.io import loadmat

    try:
        values = loadmat(path, variable_names=["X", "y"])
        X, y = np.asarray(values["X"]), np.asarray(values["y"]).ravel()
    except (KeyError, ValueError, TypeError, OSError) as error:
        raise DamagedData(path, f"it has no crops that can be read ({error})") from error
    return Rows(X.transpose(3, 0, 1, 2), y.astype(np.int64) % 10, pixels)


def sample_rows(request: Request, missing: MissingData) -> Rows:
    """Read the first sample there is, or raise the error that was given."""
    places = [root / "svhn" for root in roots(request.directory)]
    path = next((path for place in places for path in sorted(place.glob("*.npz"))), None)
    if path is None:
        raise missing
    try:
        with np.load(path, allow_pickle=False) as arrays:
            found = list(arrays.values())
    except (ValueError, EOFError, OSError, zipfile.BadZipFile) as error:
        raise DamagedData(path, f"it has no arrays that can be read ({error})") from error
    X = next((a for a in found if a.dtype == np.uint8 and a.shape[1:] == (32, 32, 3)), np.empty(0))
    y = next((a for a in found if a.shape == (len(X),)), None)
    if not len(X) or y is None:
        raise DamagedData(path, "it has no crops of shape (N, 32, 32, 3) with N labels")
    return Rows(X, y.astype(np.int64) % 10, pixels, note=f"{len(X):,} sample crops in place of {N_CROPS:,}")
