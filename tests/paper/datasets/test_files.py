"""Where files are looked for, and whether they are what they should be."""

import gzip
import hashlib
import os
import pickle
import shutil
from pathlib import Path

import pytest

from natpn_paper import datasets
from natpn_paper.datasets import DamagedData, DownloadError, MissingData, files, load
from natpn_paper.datasets.download import find
from natpn_paper.datasets.files import Source

DATA = Path(os.environ.get("NATPN_DATA", "nowhere"))  # before a test changes it
CONTENT = b"some data"
HASH = hashlib.sha256(CONTENT).hexdigest()
SOURCE = Source("set/file.txt", "http://localhost/file.txt", HASH, terms="not for sale")


@pytest.fixture
def places(monkeypatch, tmp_path):
    """The three directories, in the order in which they are searched."""
    monkeypatch.setenv("NATPN_DATA", str(tmp_path / "shared"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "home"))
    return [tmp_path / "named", tmp_path / "shared", tmp_path / "home" / "natpn"]


def put(place, content=CONTENT, name="set/file.txt"):
    path = place / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    return path


def test_directories_are_searched_in_order(places):
    for place in reversed(places):
        path = put(place)
        assert find(SOURCE, places[0]) == path
    assert find(SOURCE, None) == places[1] / "set/file.txt"
    assert files.roots(places[0]) == places


def test_the_cache_is_in_the_home_directory_unless_told_otherwise(monkeypatch):
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.delenv("NATPN_DATA", raising=False)
    assert files.roots() == [Path.home() / ".cache" / "natpn"]


def test_a_missing_file_is_described(places):
    with pytest.raises(MissingData) as raised:
        find(SOURCE, places[0])
    message = str(raised.value)
    assert isinstance(raised.value, FileNotFoundError)
    expected = ["set/file.txt", SOURCE.url, "not for sale", "download=True", "NATPN_DATA", *map(str, places)]
    assert [word for word in expected if word not in message] == []


def test_what_takes_a_person_is_not_promised_as_a_download(places):
    with pytest.raises(MissingData, match=r"https://www.yf.io/p/lsun .*by hand") as raised:
        load("lsun", directory=places[0], download=True)
    assert "download=True" not in str(raised.value)


def test_a_wrong_hash_names_the_file_and_both_hashes(places):
    path = put(places[1], b"other data")
    with pytest.raises(DamagedData) as raised:
        find(SOURCE, None)
    found = hashlib.sha256(b"other data").hexdigest()
    assert [word for word in (str(path), HASH, found, "Delete the file") if word not in str(raised.value)] == []
    assert path.exists()  # it is the user's


def test_a_gzipped_file_is_known_by_its_content(places):
    source = Source("set/file.gz", sha256=HASH)
    for level in (1, 9):
        path = put(places[1], gzip.compress(CONTENT, level, mtime=level), source.path)
        assert files.read_content(find(source, None)) == CONTENT
    path.write_bytes(path.read_bytes()[:-9])
    with pytest.raises(DamagedData, match="cannot be unpacked"):
        find(source, None)


def test_a_file_is_hashed_once_until_it_changes(places, monkeypatch):
    path = put(places[1])
    find(SOURCE, None)
    before = files.hash_once.cache_info()
    find(SOURCE, None)
    assert files.hash_once.cache_info().hits == before.hits + 1
    path.write_bytes(b"some DATA")
    os.utime(path, ns=(1, 1))
    with pytest.raises(DamagedData, match="SHA-256"):
        find(SOURCE, None)


@pytest.mark.skipif(not DATA.is_dir(), reason="NATPN_DATA names no directory")
@pytest.mark.parametrize(
    ("name", "file"),
    [
        ("concrete", "uci_regression/concrete/data.txt"),
        ("bike-sharing", "bike_sharing/hour.csv"),
        ("sensorless-drive", "sensorless_drive/Sensorless_drive_diagnosis.txt.gz"),
        ("mnist", "mnist/t10k-labels-idx1-ubyte.gz"),
    ],
)
def test_real_files_that_were_changed_are_refused(name, file, places):
    folder = places[0] / Path(file).parent
    shutil.copytree(DATA / Path(file).parent, folder)
    target = places[0] / file
    content = bytearray(target.read_bytes())
    target.chmod(0o644)
    target.write_bytes(content[: len(content) // 2])
    with pytest.raises(DamagedData, match="Delete the file") as raised:
        load(name, directory=places[0])
    assert str(target) in str(raised.value)


@pytest.mark.parametrize(
    "error",
    [
        MissingData([SOURCE], [Path("a")]),
        DamagedData(Path("a"), "it is broken"),
        DownloadError("http://localhost", Path("a"), "no answer"),
    ],
)
def test_errors_survive_the_way_out_of_a_worker(error):
    copy = pickle.loads(pickle.dumps(error))
    assert type(copy) is type(error)
    assert str(copy) == str(error)


def test_folders_are_those_of_the_data_sets(tmp_path, monkeypatch):
    monkeypatch.setenv("NATPN_DATA", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    for name in datasets.DATASETS:
        folder = datasets.missing_folder(name)
        if folder is None:
            assert name.startswith("toy-")
            continue
        with pytest.raises(datasets.MissingData, match=f"^{folder}/"):
            datasets.load(name)
        (tmp_path / folder).mkdir(parents=True)
        assert datasets.missing_folder(name) is None
        (tmp_path / folder).rmdir()
