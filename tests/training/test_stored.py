"""Rows on disk: every row once in a pass, folds left out, the same order again, and little memory."""

import numpy as np
import pytest
import torch

from natpn.training import FoldedRows, Rows, stored
from natpn.training.stored import Store, StoredRows

N = 5_000


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch):
    monkeypatch.setattr(stored, "BLOCK", 64)
    monkeypatch.setattr(stored, "RUN", 16)


@pytest.fixture
def store():
    """Rows that are told by their first number, written in uneven parts."""
    with Store((2,)) as made:
        for part in np.array_split(np.arange(N, dtype=np.float32), 7):
            made.append(np.stack([part, -part], 1), part)
        yield made


def rows(store, folds=None, epoch=N, buffer=512):
    return StoredRows(store, folds, 0, buffer, epoch)


def seen(source, batch_size=50, members=None, epochs=1):
    generator = torch.Generator().manual_seed(0)
    return [batch for e in range(epochs) for batch in source.batches(batch_size, generator, members, e)]


def test_a_pass_has_every_row_once_with_its_target(store):
    batches = seen(rows(store))
    x, y = (torch.cat([batch[i] for batch in batches]) for i in (0, 1))
    assert torch.equal(x[:, 0].sort().values, torch.arange(N, dtype=torch.float32))
    assert torch.equal(x[:, 0], y)
    assert torch.equal(x[:, 1], -y)
    assert all(torch.equal(weight, torch.ones(50)) for _, _, weight in batches)


def test_rows_are_shuffled_across_blocks_and_within_them(store):
    first = seen(rows(store))[0][1]
    assert len((first // 64).unique()) > 4
    assert not torch.equal(first, first.sort().values)


@pytest.mark.parametrize("epochs", [2, 3, 10])
def test_a_pass_of_several_epochs_has_every_row_about_once(store, epochs):
    source = rows(store, epoch=N // epochs)
    assert source.n_epochs == epochs
    found = torch.cat([y for _, y, _ in seen(source, 20, epochs=epochs)])
    counts = torch.bincount(found.long(), minlength=N)
    assert len(found) >= N - 20 * epochs
    assert counts.max() <= 2
    assert (counts == 1).sum() > 0.95 * N


def test_members_never_train_on_their_fold(store):
    folds = (np.arange(N) % 5 - 3).astype(np.int8)  # 0 and 1 hold out a fifth each
    batches = seen(rows(store, folds), members=2)
    y = torch.cat([batch[1] for batch in batches], 1)
    assert y.shape[0] == 2
    for member in (0, 1):
        own = y[member].long()
        assert (torch.from_numpy(folds)[own] != member).all()
        assert len(own.unique()) == len(own) == N * 4 // 5
    assert not torch.equal(y[0], y[1])
    alone = torch.cat([batch[1] for batch in seen(rows(store, folds).of(1))])
    assert (torch.from_numpy(folds)[alone.long()] != 1).all()


def test_the_order_depends_on_the_epoch_and_not_on_those_before(store):
    source = rows(store, epoch=N // 4)
    whole = seen(source, epochs=4)
    generator = torch.Generator().manual_seed(0)
    for e in range(3):
        list(source.batches(50, generator, None, e))
    again = list(rows(store, epoch=N // 4).batches(50, generator, None, 3))
    last = whole[-len(again) :]
    assert all(torch.equal(a[0], b[0]) for a, b in zip(again, last, strict=True))


def test_a_second_pass_has_another_order(store):
    first, second = (torch.cat([y for _, y, _ in seen(rows(store), epochs=2)])).split(N)
    assert torch.equal(first.sort().values, second.sort().values)
    assert not torch.equal(first, second)


def test_a_sample_is_spread_over_all_rows_and_has_none_twice(store):
    found = rows(store).sample(500)[:, 0]
    assert len(found) == len(found.unique()) == 500
    assert (torch.histc(found, 10, 0, N) > 20).all()
    assert len(rows(store).sample(10**6)) == N


def test_chunks_of_a_member_leave_out_its_fold(store, monkeypatch):
    monkeypatch.setattr(stored, "SAMPLED", 1_000)
    folds = (np.arange(N) % 2).astype(np.int8)
    y = torch.cat([part for _, part, _ in rows(store, folds).of(0).chunks()])
    assert (y % 2 == 1).all()
    x, y, weight = next(rows(store, folds).chunks(2))
    assert x.shape[0] == y.shape[0] == weight.shape[0] == 2


def test_vectors_keep_their_shape():
    with Store((3,)) as store:
        store.append(np.zeros((10, 3), np.float32), np.ones((10, 2), np.float32))
        x, y = store.read(2, 20)
        assert (x.shape, y.shape) == ((8, 3), (8, 2))
        _, y, _ = next(rows(store).batches(4, torch.Generator()))
        assert y.shape == (4, 2)


def test_a_store_leaves_no_file(tmp_path):
    with Store((1,), str(tmp_path)) as store:
        store.append(np.zeros((10, 1), np.float32), np.zeros(10, np.float32))
        assert list(tmp_path.iterdir()) == []


def test_rows_go_to_the_device_of_training():
    """A device without memory shows where tensors are meant to be."""
    meta, rows = torch.device("meta"), Rows(torch.zeros(5, 2), torch.zeros(5))
    with Store((2,)) as store:
        store.append(np.zeros((5, 2), np.float32), np.zeros(5, np.float32))
        on_disk = StoredRows(store, None, seed=0, buffer=1, epoch=5)
        for source in (rows, FoldedRows(rows, [torch.arange(3)]), on_disk):
            moved = source.to(meta)
            for batch in (*moved.chunks(), *moved.of(0).chunks()):
                assert {part.device for part in batch} == {meta}
            assert moved.sample(2).device == meta
        assert {part.device for part in next(on_disk.to(meta).batches(2, torch.Generator()))} == {meta}
