"""Which rows to label next: the choice against brute force, and what it looks for."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from estimators.problems import classes, numbers, quick
from natpn import NatPNRegressor
from natpn.families import FAMILIES
from natpn.model import suggestions
from natpn.model.suggestions import MOST_ROWS, sample_rows, suggest


def kernel(z, v):
    distance = np.array([[((a - b) ** 2).sum() for b in z] for a in z])
    near = np.exp(-distance / (2 * 0.3 * np.median(distance[::4, ::4])))
    return near * np.sqrt(np.outer(v, v)) / v.mean()


def test_the_choice_against_brute_force():
    """A Gaussian process that is fitted anew for every candidate, after the rows chosen before."""
    generator = np.random.default_rng(0)
    z, v = generator.normal(size=(30, 3)), generator.uniform(0.1, 4, size=30)
    K, chosen, shares = kernel(z, v), [], []

    def variances(rows):
        if not rows:
            return np.diag(K)
        known = K[np.ix_(rows, rows)] + np.eye(len(rows))
        return np.diag(K - K[:, rows] @ np.linalg.solve(known, K[rows]))

    for _ in range(6):
        before = variances(chosen)
        rest = [row for row in range(30) if row not in chosen]
        lost = {row: before - variances([*chosen, row]) for row in rest}
        best = max(rest, key=lambda row: lost[row].sum() - lost[row][row])
        shares.append(lost[best].sum() / np.trace(K))
        chosen.append(best)
    found = suggest(z, v, 6)
    assert_array_equal(found.rows, chosen)
    assert_allclose(found.shares, shares, rtol=1e-9)


def test_a_row_without_likes_is_left_for_last():
    generator = np.random.default_rng(1)
    z = generator.normal(size=(60, 2))
    z[7] = 40.0
    v = np.ones(60)
    v[7] = 50.0
    assert 7 not in suggest(z, v, 30).rows


def test_rows_of_an_unknown_kind_come_first_and_differ():
    generator = np.random.default_rng(2)
    X, y = numbers(300)
    model = NatPNRegressor(max_epochs=5, random_state=0).fit(X, y)
    pool = generator.normal(size=(300, 2))
    pool[:60] = generator.uniform(3, 8, size=(60, 2))
    chosen = pool[model.suggest(pool, 15)]
    strange = chosen[(chosen > 2.9).all(1)]
    assert len(strange) >= 10
    apart = np.sqrt(np.square(strange[:, None] - strange).sum(-1)) + np.eye(len(strange)) * 9
    assert apart.min() > 0.2  # of 60 rows at random in the square, some are closer


@pytest.mark.slow
def test_noise_is_no_reason_to_ask():
    """Half of the rows are noisy and known as well as the others: they are not chosen more often."""
    generator = np.random.default_rng(3)
    X = generator.normal(size=(800, 2))
    noise = np.where(X[:, 1] > 0, 3.0, 0.1)
    model = NatPNRegressor(max_epochs=10, random_state=0).fit(X, X[:, 0] + noise * generator.normal(size=800))
    pool = generator.normal(size=(400, 2))
    spread = model.predict_dist(pool).std()
    assert spread[pool[:, 1] > 0.5].mean() > 3 * spread[pool[:, 1] < -0.5].mean()
    assert (pool[model.suggest(pool, 40), 1] > 0).mean() < 0.7


@pytest.mark.parametrize("name", FAMILIES)
def test_every_family_suggests(name):
    X, _ = numbers(50, seed=5) if name != "categorical" else classes(50, seed=5)
    found = quick(name).suggestions(X, 8)
    assert len(set(found.rows.tolist())) == 8
    assert (found.shares > 0).all()
    assert found.shares.sum() < 1


def test_all_rows_can_be_ranked_and_equal_rows_too():
    X, _ = numbers(40)
    assert sorted(quick("normal").suggest(X, 40)) == list(range(40))
    assert sorted(quick("normal").suggest(X[[0] * 10], 10)) == list(range(10))


def test_of_many_rows_some_are_compared(monkeypatch):
    X, _ = numbers(200)
    monkeypatch.setattr(suggestions, "MOST_ROWS", 50)
    rows = quick("normal").suggest(X, 20)
    assert len(set(rows.tolist())) == 20
    assert rows.max() > 50


@pytest.mark.parametrize("n", [0, 41, -1, 2.0, True])
def test_a_wrong_number_is_told(n):
    with pytest.raises(ValueError, match="n: expected a whole number from 1 to 40"):
        quick("normal").suggest(numbers(40)[0], n)
    assert len(sample_rows(10**6, 5)) == MOST_ROWS
