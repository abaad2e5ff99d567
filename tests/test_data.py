"""Files of Parquet as one table: order, partitions, and errors that name the file."""

import gc
import os

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from natpn.data import Files, csv, open_files, parquet


def table(start: int = 0, n: int = 10, **columns) -> pa.Table:
    return pa.table({"a": list(range(start, start + n)), "b": [f"b{i % 3}" for i in range(n)]} | columns)


@pytest.fixture
def place(tmp_path):
    for i in range(3):
        pq.write_table(table(100 * i), tmp_path / f"part-{i}.parquet", row_group_size=4)
    return tmp_path


def values(files: Files, column: str = "a", **options) -> list:
    return [value for batch in files.batches([column], **options) for value in batch[column].to_pylist()]


def test_a_directory_is_one_table_in_the_order_of_names(place):
    files = parquet(place)
    assert files.names == ["a", "b"]
    assert files.n_rows == 30
    assert len(files.pieces) == 9
    assert values(files) == [*range(10), *range(100, 110), *range(200, 210)]
    assert values(files, pieces=files.pieces[3:4]) == [100, 101, 102, 103]
    assert [b.num_rows for b in files.batches(size=3)][:4] == [3, 1, 3, 1]


@pytest.mark.parametrize("given", ["part-1.parquet", "part-[12].parquet", ["part-2.parquet", "part-1.parquet"]])
def test_files_globs_and_lists(place, given):
    found = parquet([place / name for name in given] if isinstance(given, list) else place / given)
    names = [os.path.basename(path) for path in found.paths]
    assert names == ([given] if given == "part-1.parquet" else given if isinstance(given, list) else
                     ["part-1.parquet", "part-2.parquet"])  # fmt: skip


def test_what_spark_leaves_beside_is_passed_over(place):
    (place / "_SUCCESS").touch()
    (place / ".part-0.parquet.crc").write_bytes(b"x")
    assert parquet(place).n_rows == 30


def test_views_of_texts_are_read_as_texts(place):
    seen = table(300)
    pq.write_table(seen.set_column(1, "b", seen["b"].cast(pa.string_view())), place / "part-3.parquet")
    files = parquet(place)
    assert files.schema.field("b").type == pa.string()
    assert values(files, "b")[-3:] == ["b1", "b2", "b0"]
    assert parquet(place / "part-3.parquet").schema.field("b").type == pa.string()


def test_directories_of_hive_are_columns(tmp_path):
    for year, city in ((2023, "Bern"), (2024, "Basel"), (2024, "__HIVE_DEFAULT_PARTITION__")):
        folder = tmp_path / f"year={year}" / f"city={city}"
        folder.mkdir(parents=True)
        pq.write_table(table(n=2), folder / "x.parquet")
    files = parquet(tmp_path)
    assert files.schema.field("year").type == pa.int64()
    assert files.schema.field("city").type == pa.string()
    assert values(files, "year") == [2023, 2023, 2024, 2024, 2024, 2024]
    cities = {(year, city) for year, city in zip(values(files, "year"), values(files, "city"), strict=True)}
    assert cities == {(2023, "Bern"), (2024, "Basel"), (2024, None)}


def test_types_that_mean_the_same_are_widened_and_order_does_not_matter(tmp_path):
    pq.write_table(pa.table({"a": pa.array([1, 2], pa.int32()), "b": pa.nulls(2)}), tmp_path / "1.parquet")
    pq.write_table(pa.table({"b": ["x", None], "a": pa.array([1.5, None])}), tmp_path / "2.parquet")
    b = pa.array(["y", "x"]).dictionary_encode()
    pq.write_table(pa.table({"a": pa.array([7, 8], pa.int64()), "b": b}), tmp_path / "3.parquet")
    files = parquet(tmp_path)
    assert files.schema.types == [pa.float64(), pa.string()]
    assert values(files) == [1, 2, 1.5, None, 7, 8]
    assert values(files, "b") == [None, None, "x", None, "y", "x"]


def test_files_without_rows_are_no_trouble(place):
    pq.write_table(table(n=0), place / "part-9.parquet")
    assert parquet(place).n_rows == 30


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda path: path.write_bytes(path.read_bytes()[:-20]), "cannot be read as Parquet"),
        (lambda path: path.write_bytes(b""), "cannot be read as Parquet"),
        (lambda path: pq.write_table(table().drop(["b"]), path), "lacks the column 'b' that .*part-0.parquet has; add"),
        (lambda path: pq.write_table(table(b=[1.5] * 10), path), "'b' is double, but string in .*part-0"),
    ],
)
def test_a_file_that_does_not_fit_is_named(place, spoil, message):
    spoil(place / "part-1.parquet")
    with pytest.raises(ValueError, match=f"part-1.parquet: .*{message}"):
        parquet(place)


def test_one_column_too_many_names_the_file_that_lacks_it(place):
    pq.write_table(table(c=[1] * 10), place / "part-1.parquet")
    with pytest.raises(ValueError, match=r"part-0\.parquet: it lacks the column 'c' that .*part-1\.parquet has"):
        parquet(place)


def test_damage_inside_a_file_is_named_when_it_is_read(place):
    path = place / "part-1.parquet"
    content = bytearray(path.read_bytes())
    content[4:60] = b"\xff" * 56
    stamp = path.stat()
    path.write_bytes(bytes(content))
    os.utime(path, ns=(stamp.st_atime_ns, stamp.st_mtime_ns))
    with pytest.raises(ValueError, match=r"part-1\.parquet: it cannot be read as Parquet"):
        values(parquet(place))


def test_a_directory_that_changes_while_it_is_read(place):
    files = parquet(place)
    pq.write_table(table(5), place / "part-1.parquet")
    with pytest.raises(ValueError, match=r"part-1\.parquet: the file changed while it was read; start again"):
        values(files)
    (place / "part-0.parquet").unlink()
    with pytest.raises(ValueError, match=r"part-0\.parquet: the file is gone"):
        values(files)


@pytest.mark.parametrize(
    ("name", "message"),
    [("nothing", "there are no files"), ("none-*.parquet", "there are no files"), ("empty", "there are no files")],
)
def test_nothing_there(tmp_path, name, message):
    (tmp_path / "empty").mkdir()
    with pytest.raises(ValueError, match=message):
        parquet(tmp_path / name)


def test_other_files_in_the_directory_are_named(place):
    (place / "notes.txt").write_text("x")
    with pytest.raises(ValueError, match=r"notes\.txt: expected names that end with .*; move it away, or give a"):
        parquet(place)


def test_a_fingerprint_tells_changed_files(place):
    before = parquet(place).fingerprint
    assert parquet(place).fingerprint == before
    pq.write_table(table(7), place / "part-1.parquet")
    assert parquet(place).fingerprint != before


def test_csv_files_are_converted_and_gone_afterwards(tmp_path):
    (tmp_path / "1.csv").write_text("a,b\n1,x\n2,\n")
    (tmp_path / "2.csv").write_text("b,a\ny,1.5\n")
    files = open_files(tmp_path)
    assert files.schema.types == [pa.float64(), pa.string()]
    assert values(files) == [1, 2, 1.5]
    assert values(files, "b") == ["x", None, "y"]
    before, place = files.fingerprint, files.scratch.name
    assert os.path.exists(place)
    del files
    gc.collect()
    assert not os.path.exists(place)
    assert csv(tmp_path).fingerprint == before


@pytest.mark.parametrize(
    ("text", "message"),
    [("a,b\n1\n", "2.csv: it cannot be read as CSV .*columns"), ("a,c\n1,2\n", "2.csv: it lacks the column 'b'"),
     ("a,b\nn,x\n", "2.csv: the column 'a' is string, but int64 in .*1.csv")],
)  # fmt: skip
def test_csv_files_that_do_not_fit_are_named(tmp_path, text, message):
    (tmp_path / "1.csv").write_text("a,b\n1,x\n2,y\n")
    (tmp_path / "2.csv").write_text(text)
    with pytest.raises(ValueError, match=message):
        open_files(tmp_path)


def test_kinds_of_files_are_not_mixed(place):
    (place / "x.csv").write_text("a,b\n1,x\n")
    with pytest.raises(ValueError, match=r"part-0\.parquet: it is not of the same kind as .*x\.csv"):
        open_files(place)


def test_some_columns_of_which_some_are_texts(place):
    files = parquet(place).select(["b", "a"], texts=["a"])
    assert files.names == ["b", "a"]
    assert values(files)[:3] == ["0", "1", "2"]
