"""The drift alarm: its martingale against the plain definition, its guarantee by simulation, and real drift."""

import numpy as np
import pytest
from scipy.stats import kstest

from estimators.problems import quick, targets
from natpn import NatPNRegressor
from natpn.model import DriftAlarm
from natpn.model.drift import BETS


def test_the_martingale_is_its_definition():
    """The docstring's sum over starting rows, for p-values that are given."""
    p = np.random.default_rng(0).uniform(size=40)
    alarm = DriftAlarm(np.arange(100.0))
    alarm._bet(p[:17])
    alarm._bet(p[17:])
    values = []
    for t in range(1, 41):
        bets = [[k * side[:t] ** (k - 1) for side in (p, 1 - p)] for k in BETS]
        made = [sum(f[s - 1 :].prod() / (s * (s + 1)) for s in range(1, t + 1)) for both in bets for f in both]
        values.append(np.mean(made) + 1 / (t + 1))
    assert np.exp(alarm.log_martingale) == pytest.approx(values[-1], rel=1e-12)
    assert alarm.highest == pytest.approx(max(1.0, *values), rel=1e-12)


def test_false_alarms_are_as_rare_as_promised():
    """2,000 streams of 1,000 rows at a level of 10 %; at most 10 % + 3 standard errors, and not far fewer than 2 %."""
    lot = np.random.default_rng(0)
    raised = [DriftAlarm(lot.normal(size=100), 0.1, seed).see(lot.normal(size=1000)).is_raised for seed in range(2_000)]
    assert 0.02 < np.mean(raised) < 0.1 + 3 * np.sqrt(0.1 * 0.9 / 2_000)


def test_ranks_are_uniform_and_do_not_depend_on_each_other_whatever_the_bins():
    lot = np.random.default_rng(1)
    alarm = DriftAlarm(lot.integers(0, 5, 100).astype(float))  # almost only ties
    p = np.concatenate([alarm._ranks(lot.integers(0, 5, 200).astype(float)) for _ in range(50)])
    counts = np.bincount((20 * p).astype(int), minlength=20)
    assert np.square(counts - 500).sum() / 500 < 43.8  # chi-square with 19 degrees of freedom, at 0.1 %
    assert abs(np.corrcoef(p[1:], p[:-1])[0, 1]) < 0.04


def test_the_rank_beside_a_small_reference_is_uniform():
    """Bins between the quantiles of 25 rows would not be: a Kolmogorov test of 6,000 ranks refused them at 0.6 %."""
    lot = np.random.default_rng(0)
    p = [DriftAlarm(lot.normal(size=25), random_state=i)._ranks(lot.normal(size=1))[0] for i in range(6_000)]
    assert kstest(p, "uniform").pvalue > 0.05


@pytest.mark.parametrize(("shift", "within"), [(-3.0, 25), (-1.0, 200), (3.0, 60)])
def test_drift_is_found_after_many_quiet_rows(shift, within):
    lot = np.random.default_rng(2)
    alarm = DriftAlarm(lot.normal(size=400)).see(lot.normal(size=5_000))
    assert not alarm.is_raised
    alarm.see(lot.normal(size=1_000) + shift)
    assert 5_000 <= alarm.raised_at < 5_000 + within


def test_pieces_of_a_stream_say_what_the_whole_says():
    lot = np.random.default_rng(3)
    reference, stream = lot.normal(size=300), np.concatenate([lot.normal(size=700), lot.normal(size=300) - 1])
    whole = DriftAlarm(reference).see(stream)
    pieces = DriftAlarm(reference)
    for part in np.split(stream, [256, 512, 768]):
        pieces.see(part)
    assert pieces.summary() == whole.summary()
    assert pieces.raised_at is not None


def test_without_a_reference_rows_are_compared_with_those_before():
    lot = np.random.default_rng(4)
    stream = np.concatenate([lot.normal(size=150), lot.normal(size=100) - 4])
    alarm = DriftAlarm()
    for value in stream:
        alarm.see([value])
    assert 150 <= alarm.raised_at < 190


def test_infinite_scores_count_and_nan_is_refused():
    alarm = DriftAlarm(np.random.default_rng(5).normal(size=100)).see(np.full(50, -np.inf))
    assert alarm.is_raised
    with pytest.raises(ValueError, match="scores: expected one number a row"):
        alarm.see([np.nan])
    with pytest.raises(ValueError, match="level: expected a probability between 0 and 1"):
        DriftAlarm([1.0], level=1.0)


def test_a_model_watches_inputs_and_errors():
    model = quick(rows=300, calibrate="conformal")
    X, y = targets("normal", 600, seed=5)
    calm = model.watch(X, y)
    assert not calm.is_raised
    assert calm.summary()["errors"]["rows"] == 600
    assert model.watch(X + 20).novelty.is_raised
    wrong = model.watch(X, y + 3)
    assert wrong.errors.is_raised
    assert not wrong.novelty.is_raised


def test_vectors_have_no_errors_to_watch():
    model = quick("multivariate_normal")
    with pytest.raises(ValueError, match="y: targets are vectors"):
        model.watch(np.zeros((5, 2)), np.zeros((5, 3)))


@pytest.mark.slow
def test_flights_without_drift_raise_no_alarm_beyond_the_promise(real_data):
    """20 streams of 10,000 real rows: the probability of two alarms or more at 1 % each is below 2 %."""
    import pyarrow.parquet as pq

    table = pq.read_table(real_data / "arena" / "tables" / "flights_3m.parquet").slice(0, 1_000_000).to_pandas()
    table = table.sample(frac=1, random_state=0).reset_index(drop=True)
    y = table.pop("delay").to_numpy()
    model = NatPNRegressor(calibrate="conformal", max_epochs=5, random_state=0).fit(table[:3_000], y[:3_000])
    starts = range(10_000, 210_000, 10_000)
    watched = [model.watch(table[i : i + 10_000], y[i : i + 10_000]) for i in starts]
    assert sum(w.novelty.is_raised for w in watched) <= 1
    assert sum(w.errors.is_raised for w in watched) <= 1


@pytest.mark.slow
def test_winter_after_summer_is_found_at_once(real_data):
    from natpn_paper import datasets

    data = datasets.load("bike-sharing", seed=0)
    model = NatPNRegressor(max_epochs=20, random_state=0).fit(*data.train)
    watch = model.watch(data.test[0])
    quiet = watch.novelty.n_rows
    assert not watch.is_raised
    for part in model.answers(data.ood["Winter"]):
        watch.see(part)
    assert watch.novelty.raised_at - quiet < 50
