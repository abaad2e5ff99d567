"""Learning from feedback: rows like those that came become familiar and right, and all others stay as they were."""

import copy
import pickle

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.exceptions import NotFittedError

from estimators.problems import numbers, quick, targets
from natpn import NatPNClassifier, NatPNRegressor, load
from natpn.families import FAMILIES
from natpn.model import memory as remembering

FAR = 6.0


def flats(n: int, seed: int = 0, **cells):
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame(
        {"area": rng.uniform(30, 150, n), "rooms": rng.integers(1, 6, n), "town": rng.choice(["Bonn", "Rome"], n)}
    ).assign(**cells)
    rent = 9 * frame["area"] + 100 * (frame["town"] == "Rome") + 300 * (frame["town"] == "Oslo")
    return frame, (rent + 20 * rng.normal(size=n)).to_numpy()


def shifted(n: int, seed: int = 1):
    """Rows that lie elsewhere, with targets that training does not tell."""
    X, _ = numbers(n, seed)
    X = X + np.array([FAR, -FAR])
    return X, 3 + 0.5 * X[:, 1] + 0.2 * np.random.default_rng(seed).normal(size=n)


@pytest.fixture(scope="module")
def fitted():
    return NatPNRegressor(max_epochs=20, random_state=0).fit(*numbers(400))


@pytest.fixture(scope="module")
def updated(fitted):
    return copy.deepcopy(fitted).update(*shifted(200))


@pytest.fixture(scope="module")
def housing():
    return NatPNRegressor(max_epochs=20, random_state=0).fit(*flats(400))


def rmse(model, X, y):
    return float(np.sqrt(np.mean((model.predict(X) - y) ** 2)))


def test_other_rows_like_them_are_familiar_and_right(fitted, updated):
    X, y = shifted(500, seed=2)
    before, after = fitted.predict_dist(X), updated.predict_dist(X)
    assert before.novel.mean() > 0.9
    assert after.novel.mean() < 0.2
    assert after.familiarity.mean() > before.familiarity.mean()
    assert rmse(updated, X, y) < 0.3 < rmse(fitted, X, y)  # the noise is 0.2
    assert after.log_prob(y).mean() > before.log_prob(y).mean() + 0.5
    low, high = after.interval(0.9).T
    assert 0.82 < ((low <= y) & (y <= high)).mean() < 0.98


def test_rows_of_training_are_answered_as_before(fitted, updated):
    X, _ = numbers(300, seed=3)
    before, after = fitted.predict_dist(X), updated.predict_dist(X)
    assert_allclose(after.mean(), before.mean(), atol=1e-6)
    assert_allclose(after.log_evidence, before.log_evidence, atol=1e-6)
    assert_allclose(after.interval(0.9), before.interval(0.9), atol=1e-6)
    assert after.novel.mean() < 0.12


def test_rows_of_a_third_kind_stay_unfamiliar(fitted, updated):
    X = numbers(100, seed=4)[0] + np.array([-4 * FAR, 4 * FAR])
    assert updated.predict_dist(X).novel.all()
    assert updated.predict_dist(X).familiarity.mean() < 0.9


@pytest.mark.slow
def test_one_row_at_a_time_ends_where_all_at_once_does(fitted):
    X, y = shifted(8)
    one, all_at_once = copy.deepcopy(fitted), copy.deepcopy(fitted).update(X, y)
    for i in range(len(X)):
        one.update(X[i : i + 1], y[i : i + 1])
    probe = np.concatenate([shifted(50, seed=5)[0], numbers(50, seed=6)[0]])
    a, b = one.predict_dist(probe), all_at_once.predict_dist(probe)
    assert_allclose(a.mean(), b.mean(), rtol=1e-6)
    assert_allclose(a.log_evidence, b.log_evidence, rtol=1e-6)
    assert_allclose(a.novelty_p, b.novelty_p, atol=0.02)
    assert one.model_.memory.n_rows == 8


def test_the_order_of_rows_does_not_matter(fitted):
    X, y = shifted(30)
    order = np.random.default_rng(0).permutation(30)
    a, b = copy.deepcopy(fitted).update(X, y), copy.deepcopy(fitted).update(X[order], y[order])
    assert_array_equal(a.predict(X), b.predict(X))


def test_no_rows_change_nothing(fitted):
    model = copy.deepcopy(fitted)
    before = model.model_
    assert model.update(np.zeros((0, 2)), []) is model
    assert model.update(*shifted(3), sample_weight=[0, 0, 0]).model_ is before


def test_weights_are_counts(fitted):
    X, y = shifted(20)
    weight = np.random.default_rng(0).integers(0, 3, 20)
    weighted = copy.deepcopy(fitted).update(X, y, sample_weight=weight)
    repeated = copy.deepcopy(fitted).update(np.repeat(X, weight, axis=0), np.repeat(y, weight))
    probe = shifted(50, seed=5)[0]
    assert weighted.model_.memory.total == weight.sum() == repeated.model_.memory.n_rows
    assert_allclose(weighted.predict_dist(probe).log_evidence, repeated.predict_dist(probe).log_evidence, rtol=1e-3)


def test_the_same_rows_twice_do_not_break_it(updated):
    twice = copy.deepcopy(updated).update(*shifted(200))
    X, y = shifted(300, seed=2)
    assert rmse(twice, X, y) < 0.3
    assert twice.predict_dist(X).novel.mean() < 0.3


def test_a_new_category_becomes_familiar_and_another_does_not(housing):
    model = copy.deepcopy(housing).update(*flats(200, seed=1, town="Oslo"))
    (oslo, y), (lima, _) = flats(200, seed=2, town="Oslo"), flats(200, seed=2, town="Lima")
    assert housing.predict_dist(oslo).novel.mean() > 0.9
    after = model.predict_dist(oslo)
    assert after.novel.mean() < 0.2
    assert rmse(model, oslo, y) < 0.5 * rmse(housing, oslo, y)
    assert model.predict_dist(lima).novel.mean() > 0.9
    old, _ = flats(100, seed=3)
    assert_allclose(model.predict(old), housing.predict(old), rtol=1e-4)


def test_a_category_among_many_rows_is_counted_as_rare(housing):
    X, y = flats(60, seed=1)
    mixed = X.assign(town=["Oslo" if i < 3 else town for i, town in enumerate(X["town"])])
    few, many = copy.deepcopy(housing).update(mixed, y), copy.deepcopy(housing).update(*flats(60, seed=1, town="Oslo"))
    oslo, _ = flats(50, seed=2, town="Oslo")
    never, rare, often = (m.predict_dist(oslo).log_evidence.mean() for m in (housing, few, many))
    assert never < rare < often


@pytest.mark.slow
@pytest.mark.parametrize("name", FAMILIES)
def test_every_family_learns(name):
    model = copy.deepcopy(quick(name))
    X, y = targets(name, 25, seed=7)
    X = X + np.array([FAR, 0])
    before = model.score_samples(X)
    model.update(X[:20], y[:20])
    assert np.isfinite(model.predict_dist(X).log_prob(y)).all()
    assert (model.score_samples(X)[20:] > before[20:]).all()


@pytest.mark.slow
def test_classes_are_learned():
    model = NatPNClassifier(max_epochs=20, random_state=0).fit(*targets("categorical", 300))
    X, y = targets("categorical", 400, seed=8)
    X, y = X + np.array([0, FAR]), model.classes_[::-1][np.searchsorted(model.classes_, y)]
    before = model.score(X[200:], y[200:])
    after = model.update(X[:200], y[:200]).score(X[200:], y[200:])
    assert before < 0.4 < 0.85 < after


@pytest.mark.slow
def test_conformal_intervals_count_the_rows():
    X, y = numbers(400)
    model = NatPNRegressor(max_epochs=10, calibrate="conformal", random_state=0).fit(X, y)
    scores = len(model.calibration_.scores)
    model.update(*shifted(200))
    assert len(model.calibration_.scores) == scores + 200
    new, truth = shifted(1000, seed=2)
    low, high = model.predict_interval(new).T  # they cover 90 % of held-out and new rows together
    assert 0.8 < ((low <= truth) & (truth <= high)).mean() < 0.99


def test_rows_are_judged_before_they_are_learned(fitted):
    model = copy.deepcopy(fitted).update(*shifted(1))
    (judged,) = model.model_.memory.log_evidence
    assert_allclose(judged, fitted.score_samples(shifted(1)[0])[0], rtol=1e-5)


def test_counts_with_an_exposure_are_learned(tmp_path):
    rng = np.random.default_rng(0)
    X, time = rng.normal(size=(300, 2)), rng.uniform(0.5, 5, 300)
    y = rng.poisson(3 * time)
    model = NatPNRegressor(family="poisson", max_epochs=5, random_state=0).fit(X, y, exposure=time)
    new, longer = X[:100] + FAR, 4 * time[:100]
    model.update(new, rng.poisson(9 * longer), exposure=longer)
    model.save(tmp_path / "model")
    assert_allclose(np.median(load(tmp_path / "model").predict(X[100:] + FAR, exposure=np.ones(200))), 9, rtol=0.15)
    assert_allclose(np.median(model.predict(X, exposure=np.ones(300))), 3, rtol=0.2)
    with pytest.raises(ValueError, match="exposure"):
        model.update(new, longer)


@pytest.mark.slow
def test_an_updated_model_is_saved_loaded_pickled_and_updated_again(updated, tmp_path):
    updated.save(tmp_path / "model")
    X = np.concatenate([shifted(30, seed=5)[0], numbers(300, seed=6)[0]])
    for again in (load(tmp_path / "model"), pickle.loads(pickle.dumps(updated))):
        for rows in (X[:1], X):
            a, b = again.predict_dist(rows), updated.predict_dist(rows)
            for name in ("log_evidence", "novelty_p", "epistemic", "aleatoric"):
                assert_array_equal(getattr(a, name), getattr(b, name))
            assert_array_equal(a.mean(), b.mean())
        more = shifted(20, seed=9)
        assert_array_equal(again.update(*more).predict(X), copy.deepcopy(updated).update(*more).predict(X))


def test_single_rows_and_members_are_answered_alike(updated):
    X = shifted(300, seed=5)[0]
    many = updated.predict_dist(X)
    assert_allclose([updated.predict(row[None])[0] for row in X[:20]], many.mean()[:20], rtol=1e-9)
    assert_allclose(updated.fast().predict(X), many.mean(), atol=1e-3)
    members = [updated.member(i).score_samples(X) for i in range(updated.n_networks_)]
    assert_allclose(np.logaddexp.reduce(members), many.log_evidence, rtol=1e-9)


def test_of_very_many_rows_a_sample_is_kept(fitted, monkeypatch):
    monkeypatch.setattr(remembering, "CAPACITY", 40)
    X, y = shifted(100)
    model = copy.deepcopy(fitted).update(X[:70], y[:70]).update(X[70:], y[70:])
    at_once = copy.deepcopy(fitted).update(X, y)
    memory = model.model_.memory
    assert (len(memory.y), memory.n_rows, memory.total) == (40, 100, 100.0)
    assert_allclose(memory.counts.sum(), 100)
    assert_array_equal(model.predict(X), at_once.predict(X))


@pytest.mark.parametrize(
    ("X", "y", "message"),
    [
        (np.zeros((3, 5)), np.zeros(3), "features"),
        (np.zeros((3, 2)), [1.0, np.nan, 2.0], "NaN|missing"),
        (np.zeros((3, 2)), [1.0, np.inf, 2.0], "infinity"),
        (np.zeros((3, 2)), [1.0, 1e300, 2.0], "expected numbers of an ordinary size, got 1e\\+300"),
        (np.zeros((3, 2)), [1.0, 2.0], "y: expected one target for each of 3 rows, got 2"),
        (np.full((3, 2), np.inf), np.zeros(3), "infin"),
    ],
)
def test_bad_rows_are_refused_and_the_model_stays(fitted, X, y, message):
    model = copy.deepcopy(fitted)
    before = model.model_
    with pytest.raises(ValueError, match=message):
        model.update(X, y)
    assert model.model_ is before


@pytest.mark.parametrize("weight", [[1, 2], [1, -1, 1], [1, np.nan, 1], [1e16, 1, 1]])
def test_bad_weights_are_refused(fitted, weight):
    with pytest.raises(ValueError, match="sample_weight: expected"):
        copy.deepcopy(fitted).update(*shifted(3), sample_weight=weight)


def test_unknown_labels_and_other_columns_are_refused(housing):
    classifier = copy.deepcopy(quick("categorical"))
    with pytest.raises(ValueError, match="the label 'new' was not in training"):
        classifier.update(np.zeros((1, 2)), ["new"])
    X, y = flats(5)
    with pytest.raises(ValueError, match="town"):
        copy.deepcopy(housing).update(X.rename(columns={"town": "city"}), y)


def test_what_cannot_be_updated_says_so():
    with pytest.raises(NotFittedError):
        NatPNRegressor().update(np.zeros((1, 2)), [0.0])
    X, y = numbers(40)
    flow = NatPNRegressor(density="radial", max_epochs=1, random_state=0).fit(X, y)
    with pytest.raises(ValueError, match="update: expected a model whose density is a Gaussian mixture, got Radial"):
        flow.update(X, y)
    pictures = np.random.default_rng(0).normal(size=(40, 1, 8, 8))
    painter = NatPNClassifier(latent_dim=4, max_epochs=1, random_state=0).fit(pictures, np.arange(40) % 2)
    with pytest.raises(ValueError, match="update: expected a model of a table, got one of pictures"):
        painter.update(pictures, np.arange(40) % 2)


def test_missing_values_and_far_numbers_are_learned(fitted):
    X, y = shifted(30)
    X[::3, 0], X[1, 1] = np.nan, 1e200
    model = copy.deepcopy(fitted).update(X, y)
    answer = model.predict_dist(np.concatenate([X, numbers(30)[0]]))
    assert np.isfinite(answer.mean()).all()
    assert np.isfinite(answer.log_evidence).all()


def test_reasons_are_for_rows_that_are_still_novel(housing):
    model = copy.deepcopy(housing).update(*flats(100, seed=1, town="Oslo"))
    oslo, _ = flats(40, seed=2, town="Oslo")
    before, after = (m.predict_dist(oslo).novel for m in (housing, model))
    told = model.explain(oslo)
    assert ((told["reason"] != "").to_numpy() == after).mean() > 0.9
    assert told["surprise"].mean() < 0.5 * housing.explain(oslo)["surprise"].mean()
    assert before.all()
    assert set(model.explain(oslo.assign(town="Lima"))["column"]) == {"town"}


def test_rows_to_label_are_suggested_after_an_update(updated):
    X = np.concatenate([shifted(30, seed=5)[0], numbers(30, seed=6)[0]])
    assert len(updated.suggest(X, 5)) == 5
