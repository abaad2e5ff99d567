"""Rows in memory and from a loader, with a function of the inputs in their place."""

import torch

from natpn.training import batches
from natpn.training.batches import LoadedRows, Rows


def double(x):
    return 2 * x


def all_of(rows):
    generator = torch.Generator().manual_seed(0)
    return [*rows.batches(4, generator), *rows.batches(4, generator, 3), *rows.chunks(), (rows.sample(5),)]


def assert_same(got, want):
    assert all(torch.equal(a, b) for x, y in zip(got, want, strict=True) for a, b in zip(x, y, strict=True))


def test_rows_are_prepared_at_once_or_batch_by_batch(monkeypatch):
    x = torch.arange(20.0)[:, None]
    rows = Rows(x, x[:, 0], x[:, 0])
    want = all_of(Rows(2 * x, x[:, 0], x[:, 0]))
    assert_same(all_of(rows.prepared(double)), want)
    assert rows.prepared(double).x[1] == 2
    monkeypatch.setattr(batches, "_PREPARED", 79)
    assert_same(all_of(rows.prepared(double)), want)
    assert rows.prepared(double).x is x
    assert rows.prepared(lambda x: x) is rows


def test_a_loader_is_prepared_batch_by_batch():
    batches = [(torch.full((2, 1), float(i)), torch.zeros(2)) for i in range(3)]
    got = all_of(LoadedRows(batches, torch.device("cpu")).prepared(double))
    want = all_of(LoadedRows([(2 * x, y) for x, y in batches], torch.device("cpu")))
    assert_same(got, want)
