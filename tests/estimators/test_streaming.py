"""Fits on files: as good as in memory, whatever the files, and errors that name them."""

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, IterableDataset, TensorDataset

from natpn import NatPNClassifier, NatPNRegressor, load
from natpn.data import parquet
from natpn.estimators import shares, streaming
from natpn.estimators.shares import array_keys, row_keys
from natpn.estimators.streaming import ASIDE, HeldOut
from natpn.report.scores import scores
from natpn.training import stored

N = 3_000


def table(n: int = N, seed: int = 0) -> pa.Table:
    draw = np.random.default_rng(seed)
    area, city = draw.uniform(30, 150, n), draw.choice(["Bern", "Basel", "Genf"], n)
    rent = 300 + 9 * area + 200 * (city == "Genf") + draw.normal(0, 40, n)
    return pa.table({"area": area, "city": city.tolist(), "rent": rent, "dear": np.where(rent > 1200, "yes", "no")})


def written(place, whole: pa.Table, sizes: list[int], group: int = 400, memory: int = 2**17):
    """Write files; by default they are more than there is memory for, so that they are read in pieces."""
    place.mkdir()
    for number, start in enumerate(np.cumsum([0, *sizes[:-1]])):
        pq.write_table(whole.slice(start, sizes[number]), place / f"{number:02}.parquet", row_group_size=group)
    return parquet(place, memory)


@pytest.fixture
def small(monkeypatch):
    """Blocks and samples so small that little data has many of them."""
    monkeypatch.setattr(stored, "BLOCK", 128)
    monkeypatch.setattr(streaming, "SAMPLE", 1_000)
    monkeypatch.setattr(streaming, "EPOCH", 1_000)


@pytest.mark.slow
def test_numbers_are_predicted_as_well_as_in_memory(tmp_path, small):
    whole, test = table().drop(["dear"]), table(1_000, 1).drop(["dear"])
    files = written(tmp_path / "rents", whole, [1_000, 1_500, 500])
    model = NatPNRegressor(max_epochs=20, random_state=0).fit(files, "rent")
    other = NatPNRegressor(max_epochs=20, random_state=0).fit(whole.drop(["rent"]), whole["rent"].to_numpy())
    found, wanted = (scores(m, test.drop(["rent"]), test["rent"].to_numpy()) for m in (model, other))
    assert found["crps"] < 1.05 * wanted["crps"]
    assert found["negative_log_likelihood"] < wanted["negative_log_likelihood"] + 0.05
    assert 85 < found["coverage_90"] < 95
    assert 2 < found["novel"] < 9
    assert model.n_rows_ == N
    assert list(model.feature_names_in_) == ["area", "city"]
    model.save(tmp_path / "model")
    frame = pd.DataFrame({"area": [50.0], "city": ["Bern"]})
    np.testing.assert_array_equal(load(tmp_path / "model").predict(frame), model.predict(frame))
    strange = model.predict_dist(pd.DataFrame({"area": [5e4], "city": ["Uri"]}))
    assert strange.novelty_p[0] < 0.01


def test_classes_are_those_of_all_files(tmp_path, small):
    whole = table().drop(["rent"])
    late = pc.if_else(pc.greater(whole["area"], 149), "luxury", whole["dear"])
    whole = whole.set_column(2, "dear", late).sort_by("area")
    files = written(tmp_path / "rents", whole, [2_000, 1_000])
    model = NatPNClassifier(max_epochs=8, random_state=0).fit(files, "dear")
    assert model.classes_.tolist() == ["luxury", "no", "yes"]
    test = table(1_000, 1)
    known = test.filter(pc.less(test["area"], 149))
    assert model.score(known.select(["area", "city"]), known["dear"].to_pylist()) > 0.93


@pytest.mark.parametrize("options", [{"ensemble_size": 1}, {"calibrate": "conformal"}, {"ensemble_size": 3}])
def test_other_settings(tmp_path, small, options):
    files = written(tmp_path / "rents", table().drop(["dear"]), [N])
    model = NatPNRegressor(random_state=0, max_epochs=5, **options).fit(files, "rent")
    test = table(1_000, 1)
    low, high = model.predict_interval(test.select(["area", "city"])).T
    inside = np.mean((low <= test["rent"].to_numpy()) & (test["rent"].to_numpy() <= high))
    assert inside == pytest.approx(0.9, abs=0.06)
    assert np.mean(model.predict_dist(test.select(["area", "city"])).novelty_p < 0.05) < 0.1
    if "calibrate" in options:
        assert len(model.calibration_.scores) == pytest.approx(0.1 * N, rel=0.2)


def test_who_is_held_out_does_not_depend_on_files(tmp_path, small):
    whole = table().drop(["dear"])
    one = written(tmp_path / "one", whole, [N], 4_000)
    many = written(tmp_path / "many", whole.take(np.random.default_rng(0).permutation(N)), [700, 300, 2_000], 90)
    models = [NatPNRegressor(random_state=0, max_epochs=1).fit(files, "rent") for files in (one, many)]
    left, right = (model.held_out_rows_ for model in models)
    np.testing.assert_array_equal(np.sort(left[1]), np.sort(right[1]))


def test_keys_tell_rows_apart_by_every_column():
    one = pa.table({"a": [1.0, 1.0, None], "b": ["x", "y", None], "c": [True, True, None], "d": [1, 1, 1]})
    assert len(set(row_keys(one).tolist())) == 3
    other = one.set_column(1, "b", one["b"].combine_chunks().dictionary_encode())
    assert row_keys(other).tolist() == row_keys(one).tolist()
    assert row_keys(one.slice(1)).tolist() == row_keys(one).tolist()[1:]
    for name, values in (("a", [2.0, 1.0, None]), ("c", [False, True, None]), ("d", [7, 1, 1])):
        changed = one.set_column(one.column_names.index(name), name, pa.array(values))
        assert (row_keys(changed) != row_keys(one)).tolist() == [True, False, False]


@pytest.mark.parametrize(
    "kind",
    [
        pa.date32(),
        pa.date64(),
        pa.time32("s"),
        pa.time64("us"),
        pa.timestamp("ns"),
        pa.duration("s"),
        pa.decimal128(19),
    ],
    ids=str,
)
def test_keys_tell_rows_apart_by_columns_of_any_type(kind):
    width = pa.int32() if kind.bit_width == 32 else pa.int64()
    numbers = pa.array([0, 86_400_000, None], width)
    one = pa.table({"a": numbers.cast(kind) if pa.types.is_decimal(kind) else numbers.view(kind)})
    assert len(set(row_keys(one).tolist())) == 3


def test_rows_without_a_target_are_left_out_and_counted(tmp_path, small):
    whole = table().drop(["dear"])
    rent = [None if i % 10 == 0 else np.nan if i % 10 == 1 else v for i, v in enumerate(whole["rent"].to_pylist())]
    files = written(tmp_path / "rents", whole.set_column(2, "rent", pa.array(rent)), [N])
    with pytest.warns(UserWarning, match="600 of 3,000 rows have no 'rent' and are left out"):
        model = NatPNRegressor(random_state=0, max_epochs=1).fit(files, "rent")
    assert model.n_rows_ == 0.8 * N


@pytest.mark.parametrize(
    ("target", "message"),
    [
        ("rnt", "the files have no column 'rnt'; did you mean 'rent'"),
        (None, "of files, expected the name of the column to predict, got NoneType"),
        ([1.0, 2.0], "of files, expected the name of the column to predict, got list"),
    ],
)
def test_wrong_targets(tmp_path, target, message):
    files = written(tmp_path / "rents", table(), [N])
    with pytest.raises(ValueError, match=message):
        NatPNRegressor().fit(files, target)
    with pytest.raises(ValueError, match="files have no sample_weight"):
        NatPNRegressor().fit(files, "rent", sample_weight=np.ones(N))


def test_rows_that_fit_into_memory_are_fitted_there(tmp_path):
    whole = table(120).drop(["dear"])
    files = written(tmp_path / "rents", whole, [100, 20], memory=2**30)
    assert files.fits
    model, other = (NatPNRegressor(random_state=0, max_epochs=2) for _ in range(2))
    model.fit(files, "rent")
    X, y = whole.drop(["rent"]), whole["rent"].to_numpy()
    np.testing.assert_array_equal(model.predict(X), other.fit(X, y).predict(X))
    assert list(model.feature_names_in_) == ["area", "city"]


def test_several_processes_share_rows_that_fit_into_memory(tmp_path, monkeypatch):
    files, shared = written(tmp_path / "rents", table(120).drop(["dear"]), [100, 20], memory=2**30), []
    monkeypatch.setattr("natpn.parallel.world_size", lambda: 2)
    monkeypatch.setattr(NatPNRegressor, "_fit_pieces", lambda self, share, seed: shared.append(share.files))
    NatPNRegressor().fit(files, "rent")
    assert shared == [files]


def test_errors_about_rows_in_memory_name_their_file(tmp_path):
    whole = table(50).drop(["dear"])
    bad = whole.set_column(0, "area", pa.array([*[50.0] * 49, np.inf]))
    with pytest.raises(ValueError, match=r"01\.parquet, column 'area': the value is infinity"):
        NatPNRegressor().fit(written(tmp_path / "areas", bad, [45, 5], memory=2**30), "rent")
    bad = whole.set_column(2, "rent", pa.array([*[3.0] * 49, -7.0]))
    with pytest.raises(ValueError, match=r"01\.parquet: y: expected .*-7"):
        NatPNRegressor(family="poisson").fit(written(tmp_path / "rents", bad, [45, 5], memory=2**30), "rent")


def test_too_little_memory_for_a_few_rows(tmp_path):
    files = written(tmp_path / "rents", table(150).drop(["dear"]), [150], memory=1)
    with pytest.raises(ValueError, match=r"expected at least 200 rows that have a 'rent', .* got 150; fit"):
        NatPNRegressor().fit(files, "rent")


def test_a_target_that_the_family_cannot_have_names_the_file(tmp_path, small):
    whole = table().drop(["dear"])
    files = written(tmp_path / "rents", whole.set_column(2, "rent", pa.array([*[3.0] * (N - 1), -7.0])), [N - 5, 5])
    with pytest.raises(ValueError, match=r"01\.parquet: .*-7"):
        NatPNRegressor(family="poisson").fit(files, "rent")


def test_shares_of_held_out_rows():
    key = row_keys(table(20_000))
    folds = HeldOut.of(20_000, 2, 0.2, calibrate=True).folds(key)
    shares = {number: np.mean(folds == number) for number in (-1, 0, 1, ASIDE)}
    assert shares[0] == pytest.approx(0.1, abs=0.01)
    assert shares[1] == pytest.approx(0.1, abs=0.01)
    assert shares[ASIDE] == pytest.approx(0.1, abs=0.01)
    assert HeldOut.of(10**9, 2, 0.2, calibrate=False).fold == pytest.approx(3e-5)


def pictures(n: int, seed: int = 0) -> tuple[torch.Tensor, torch.Tensor]:
    draw = torch.Generator().manual_seed(seed)
    label = torch.randint(0, 2, (n,), generator=draw)
    x = torch.randn(n, 1, 6, 6, generator=draw) + 3 * label[:, None, None, None]
    return 40 + 10 * x, label


class Stream(IterableDataset):
    """Pairs without a length."""

    def __init__(self, x, y):
        self.x, self.y = x, y

    def __iter__(self):
        return zip(self.x, self.y, strict=True)


@pytest.mark.parametrize("form", ["data set", "shuffled loader", "stream"])
def test_pictures_that_do_not_fit_into_memory(small, monkeypatch, form):
    monkeypatch.setattr(shares, "MEMORY", 2**15)
    x, y = pictures(600)
    data = {
        "data set": TensorDataset(x, y),
        "shuffled loader": DataLoader(TensorDataset(x, y), batch_size=50, shuffle=True),
        "stream": Stream(x, y),
    }[form]
    monkeypatch.setattr("natpn.estimators.data_estimator.read_dataset", None)  # which would read all of it
    model = NatPNClassifier(encoder=lambda: nn.Sequential(nn.Flatten(), nn.Linear(36, 16)), max_epochs=3).fit(data)
    assert model.n_rows_ == len(x)
    assert model.classes_.tolist() == [0, 1]
    np.testing.assert_allclose(model.inputs_.mean, x.double().mean(), rtol=1e-4)
    np.testing.assert_allclose(model.inputs_.scale, x.double().std(), rtol=1e-2)
    test, label = pictures(200, 1)
    assert model.score(test.numpy(), label.numpy()) > 0.95
    for form_of_test in (TensorDataset(test, label), DataLoader(TensorDataset(test, label), batch_size=30)):
        np.testing.assert_array_equal(model.predict(form_of_test), model.predict(test.numpy()))
    assert model.predict_dist(100 * test[:1].numpy()).novelty_p[0] < 0.02


def test_rows_of_numbers_in_a_data_set_are_a_table(small, monkeypatch):
    monkeypatch.setattr(shares, "MEMORY", 2**15)
    draw = np.random.default_rng(0)
    x = draw.normal(size=(500, 3)).astype(np.float32)
    y = 2 * x[:, 0] + 0.1 * draw.normal(size=500).astype(np.float32)
    model = NatPNRegressor(random_state=0, max_epochs=5).fit(TensorDataset(torch.tensor(x), torch.tensor(y)))
    assert model.inputs_.kind == "table"
    assert model.n_features_in_ == 3
    assert not hasattr(model, "feature_names_in_")
    assert model.score(x, y) > 0.9


def test_data_sets_larger_than_memory_have_no_weights(monkeypatch):
    monkeypatch.setattr(shares, "MEMORY", 1)
    with pytest.raises(ValueError, match="X: data sets larger than memory have no sample_weight"):
        NatPNClassifier().fit(TensorDataset(*pictures(20)), sample_weight=np.ones(20))
    with pytest.raises(ValueError, match="expected a data set with a length above 0"):
        NatPNClassifier().fit(TensorDataset(*pictures(0)))


def test_a_loader_that_fits_is_read_into_memory():
    x, y = pictures(60)
    encoder = nn.Sequential(nn.Flatten(), nn.Linear(36, 16))
    model, other = (NatPNClassifier(encoder=encoder, max_epochs=2, random_state=0) for _ in range(2))
    model.fit(DataLoader(TensorDataset(x, y), batch_size=7, shuffle=True))
    np.testing.assert_array_equal(model.predict_proba(x), other.fit(x.numpy(), y.numpy()).predict_proba(x))


def test_keys_of_arrays_depend_on_every_number():
    x, y = np.random.default_rng(0).normal(size=(50, 2, 3)), np.arange(50)
    keys = array_keys(x, y)
    assert len(set(keys.tolist())) == 50
    assert array_keys(x[3:5], y[3:5]).tolist() == keys[3:5].tolist()
    for i in range(2):
        for j in range(3):
            other = x.copy()
            other[7, i, j] += 1e-9
            assert (array_keys(other, y) != keys).tolist() == (np.arange(50) == 7).tolist()
    assert (array_keys(x, y + 1) != keys).all()
    assert abs(np.mean(array_keys(np.arange(20_000.0)[:, None]) / 2.0**64) - 0.5) < 0.01
