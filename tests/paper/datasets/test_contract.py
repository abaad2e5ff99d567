"""What every data set promises, on small files in its official form."""

import inspect
import subprocess
import sys

import numpy as np
import pytest

from natpn_paper import datasets
from natpn_paper.datasets import DATASETS, base, files, load
from paper.datasets import made

# the columns of the paper's tables; what the paper does not train on is ours
OOD = {
    "sensorless-drive": ["9/10", "OODom"],
    "mnist": ["KMNIST", "FMNIST", "OODom"],
    "fmnist": ["MNIST", "KMNIST", "OODom"],
    "cifar10": ["SVHN", "CelebA", "OODom"],
    "cifar10-left-out": ["Left out", "SVHN", "OODom"],
    "bike-sharing": ["Winter", "Spring", "Autumn", "OODom"],
    "concrete": ["Energy", "Kin8nm", "OODom"],
    "kin8nm": ["Energy", "Concrete", "OODom"],
    "nyu": ["LSUN classroom", "LSUN church", "KITTI", "OODom"],
    "energy": ["Concrete", "Kin8nm", "OODom"],
    "kmnist": ["MNIST", "FMNIST", "OODom"],
    "toy-classification": ["Far", "OODom"],
    "toy-classification-unequal": ["Far", "OODom"],
    "toy-regression": ["Gap", "Far", "OODom"],
} | {name: ["OODom"] for name in ("cifar10-c", "svhn", "celeba", "kitti", "lsun")}
OWN_TEST = {"mnist", "fmnist", "kmnist", "cifar10", "cifar10-left-out", "cifar10-c", "svhn", "nyu"}
SMALL = {"size": (12, 16)}


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    return made.everything(tmp_path_factory.mktemp("data"))


@pytest.fixture(autouse=True)
def _made_files_have_no_known_hash(monkeypatch):
    monkeypatch.delenv("NATPN_DATA", raising=False)
    monkeypatch.setattr(files, "check_hash", lambda *_: None)


def small(name, root, **options):
    sized = "size" in inspect.signature(DATASETS[name]).parameters
    return load(name, directory=root, **(SMALL if sized else {}), **options)


def rows_of(pair):
    return {x.tobytes() for x in pair[0]}


def test_the_table_of_ood_sets_is_complete():
    assert set(OOD) == set(DATASETS)


@pytest.mark.parametrize("name", DATASETS)
def test_splits(name, root):
    data = small(name, root)
    assert data.name == name
    assert data.note == "" or name in ("celeba", "kitti", "cifar10", "nyu")
    assert list(data.ood) == OOD[name]
    parts = [data.train, data.validation, data.test]
    shape = data.train[0].shape[1:]
    for X, y in parts:
        assert len(X) == len(y) > 0
        assert X.shape[1:] == shape
        assert X.dtype == (np.float32 if X.ndim == 4 else np.float64)
        assert X.ndim == 2 or (X.min() >= 0 and 0.5 < X.max() <= 1)
        assert np.isfinite(X).all()
        if data.n_classes:
            assert y.dtype == np.int64
            assert 0 <= y.min() <= y.max() < data.n_classes
    for X in data.ood.values():
        assert len(X) > 0
        assert X.shape[1:] == shape
        assert X.dtype == data.train[0].dtype
    np.testing.assert_array_equal(
        data.ood["OODom"], 255 * next(iter(data.ood.values())) if len(data.ood) > 1 else 255 * data.test[0]
    )
    assert data.columns is None or len(data.columns) == shape[0]
    rows = [rows_of(part) for part in parts]
    assert sum(map(len, rows)) == len(set.union(*rows)) == sum(len(X) for X, _ in parts)


@pytest.mark.parametrize("name", [n for n in DATASETS if not n.startswith("toy")])
def test_shares_are_the_papers(name, root):
    n_train, n_validation, n_test = (len(X) for X, _ in (lambda d: (d.train, d.validation, d.test))(small(name, root)))
    if name in OWN_TEST:
        assert n_validation == pytest.approx(0.2 * (n_train + n_validation), abs=1)
    else:
        assert [n_validation, n_test] == pytest.approx([0.15 * (n_train + n_validation + n_test)] * 2, abs=1)


@pytest.mark.parametrize("name", DATASETS)
def test_the_seed_decides(name, root):
    one, same, other = (small(name, root, seed=seed) for seed in (3, 3, 4))
    for a, b in zip(one.train + one.test, same.train + same.test, strict=True):
        np.testing.assert_array_equal(a, b)
    assert rows_of(one.train) != rows_of(other.train)


@pytest.mark.parametrize("name", DATASETS)
def test_a_limit_leaves_rows_of_the_same_split(name, root):
    whole, cut, less = (small(name, root, limit=limit) for limit in (None, 3, 2))
    corrupted = name == "cifar10-c"  # its noise differs between images
    for part in ("train", "validation") if corrupted else ("train", "validation", "test"):
        (X, y), (X_less, _) = getattr(cut, part), getattr(less, part)
        assert len(X) == len(y) == min(3, len(getattr(whole, part)[0]))
        assert rows_of((X_less, None)) < rows_of((X, y)) <= rows_of(getattr(whole, part)) or len(X) < 3
    assert all(len(X) <= 3 for X in cut.ood.values())


def test_the_order_of_rows_is_that_of_their_targets(root):
    """A table whose target is known by its first column stays in step through split and limit."""
    values = np.random.default_rng(0).normal(size=(60, 9))
    values[:, 8] = 2 * values[:, 0]
    place = root.parent / "step"
    (place / "uci_regression/concrete").mkdir(parents=True, exist_ok=True)
    np.savetxt(place / "uci_regression/concrete/data.txt", values)
    data = load("concrete", directory=place, limit=20)
    for X, y in (data.train, data.validation, data.test):
        np.testing.assert_allclose(y, 2 * X[:, 0])


def test_tables_are_split_as_train_test_split_does(root):
    from sklearn.model_selection import train_test_split

    values = np.loadtxt(root / "uci_regression/concrete/data.txt")
    rest, test = train_test_split(values, test_size=0.15, random_state=5)
    train, validation = train_test_split(rest, test_size=0.15 / 0.85, random_state=5)
    data = load("concrete", seed=5, directory=root)
    for (X, y), expected in ((data.train, train), (data.validation, validation), (data.test, test)):
        np.testing.assert_array_equal(np.column_stack([X, y]), expected)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"name": "sensorles-drive"}, ["name = 'sensorles-drive'", "Did you mean 'sensorless-drive'?"]),
        ({"name": "mnist", "seed": -1}, ["seed: expected", "at least 0, got -1"]),
        ({"name": "mnist", "seed": 0.5}, ["seed: expected", "got 0.5"]),
        ({"name": "mnist", "limit": 0}, ["limit: expected", "at least 1, got 0"]),
        ({"name": "mnist", "limit": True}, ["limit: expected", "got True"]),
        ({"name": "mnist", "size": (2, 2)}, ["size: expected no options of the data set 'mnist'", "got (2, 2)"]),
        ({"name": "nyu", "sise": (2, 2)}, ["option of the data set 'nyu'", "Did you mean 'size'?"]),
        ({"name": "nyu", "size": 2}, ["size: expected (height, width)", "got 2"]),
        ({"name": "lsun", "size": (0, 2)}, ["size: expected", "got 0"]),
        ({"name": "cifar10-c", "corruption": "fogg"}, ["corruption = 'fogg'", "Did you mean 'fog'?"]),
        ({"name": "cifar10-c", "severity": 6}, ["severity: expected", "1 to 5, got 6"]),
    ],
)
def test_wrong_arguments(arguments, words, root):
    with pytest.raises(ValueError, match=r"=|got") as raised:
        load(directory=root, **arguments)
    assert all(word in str(raised.value) for word in words)


def test_too_few_rows_to_split():
    with pytest.raises(ValueError, match="at least 2 rows to split, got 1"):
        base.divide(1, 0.2, 0)


def test_the_repr_is_short(root):
    assert len(repr(load("mnist", directory=root))) < 200


def test_importing_datasets_needs_numpy_alone():
    code = (
        "import sys, natpn_paper.datasets\n"
        "assert not {'torch', 'sklearn', 'scipy', 'PIL', 'tqdm'} & set(sys.modules), 'heavy'"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_everything_public_is_there():
    assert all(hasattr(datasets, name) for name in datasets.__all__)
