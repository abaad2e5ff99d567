"""Tables that are read in parts: the same columns as of the whole table, whatever the parts and their order."""

import datetime

import numpy as np
import pyarrow as pa
import pytest

from natpn.tabular import TableParts, TableTransform

N = 900


def table() -> pa.Table:
    draw = np.random.default_rng(0)
    start = datetime.datetime(2020, 1, 1)
    return pa.table(
        {
            "number": draw.normal(50, 7, N),
            "holes": [None if i % 9 == 0 else float(i) for i in range(N)],
            "late": [None] * (N - 30) + [1.5] * 29 + [2.5],
            "whole": draw.integers(0, 9, N),
            "same": [4.0] * N,
            "huge": draw.normal(size=N) * 1e200,
            "city": draw.choice(["Bern", "Basel", "Genf"], N, p=[0.7, 0.299, 0.001]).tolist(),
            "id": [f"i{i}" for i in range(N)],
            "fresh": (draw.random(N) < 0.3).tolist(),
            "day": [start + datetime.timedelta(days=int(d)) for d in draw.integers(0, 1500, N)],
            "nothing": pa.nulls(N, pa.string()),
        }
    )


def parts_of(whole: pa.Table, sizes: list[int]) -> list[pa.Table]:
    starts = np.cumsum([0, *sizes])
    return [whole.slice(start, size) for start, size in zip(starts, sizes, strict=False)]


def fitted(pieces: list[pa.Table], sample: pa.Table) -> TableTransform:
    seen = TableParts()
    for piece in pieces:
        seen.add(piece)
    return seen.transform(sample)


def test_a_sample_of_all_rows_is_the_table_itself():
    whole = table()
    assert fitted(parts_of(whole, [300, 600]), whole).to_config() == TableTransform().fit(whole).to_config()


@pytest.mark.parametrize("sizes", [[450, 450], [1, 10, 889], [90] * 10])
def test_parts_show_what_the_whole_shows(sizes):
    whole = table()
    found = fitted(parts_of(whole, sizes), whole.slice(0, 400))
    wanted = {column.name: column for column in TableTransform().fit(whole).columns}
    for column in found.columns:
        other = wanted[column.name]
        assert (column.kind, column.n_rows) == (other.kind, N)
        assert column.missing == pytest.approx(other.missing)
        for name in ("mean", "deviation", "minimum", "maximum", "whole", "exponent", "true", "earliest", "latest"):
            if hasattr(other, name):
                assert getattr(column, name) == pytest.approx(getattr(other, name), rel=1e-9), (column.name, name)
        for name in ("levels", "shares", "rare", "n_levels", "n_singletons"):
            if hasattr(other, name):
                assert getattr(column, name) == getattr(other, name), (column.name, name)


def test_the_order_of_parts_does_not_matter_nor_who_saw_them():
    pieces = parts_of(table(), [100, 300, 200, 300])
    one, two = TableParts(), TableParts()
    for piece in pieces[:2]:
        one.add(piece)
    for piece in pieces[:1:-1]:
        two.add(piece)
    one.join([two])
    left, right = one.transform(pieces[0]), fitted(pieces, pieces[0])
    np.testing.assert_allclose(left.transform(table()), right.transform(table()), rtol=1e-6, atol=1e-6)


def test_a_category_of_the_last_part_alone_is_known():
    first, last = table(), table().set_column(6, "city", pa.array(["Uri"] * N))
    found = fitted([first, last], first)
    assert "Uri" in next(column for column in found.columns if column.name == "city").levels
    assert found.transform(last)[:, -1].max() == 0


def test_very_many_levels_take_limited_memory(monkeypatch):
    monkeypatch.setattr("natpn.tabular.category.MAX_COUNTED", 100)
    pieces = [pa.table({"id": [f"{i}-{j}" for j in range(80)] + ["often"] * 5}) for i in range(20)]
    found = fitted(pieces, pieces[0]).columns[0]
    assert found.levels == ["often"]


def test_kinds_that_differ_between_parts_are_named():
    with pytest.raises(ValueError, match=r"Column 'a' holds numbers and categories in different files"):
        fitted([pa.table({"a": [1.0, 2.0]}), pa.table({"a": ["x", "y"]})], pa.table({"a": [1.0]}))
