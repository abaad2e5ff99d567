"""Groups of rows that are left out, and what is learned from them."""

import time

import numpy as np
import pytest
import torch

from natpn import NatPNRegressor, families
from natpn.training import Staged, TrainingError
from natpn.training.align import (
    FEWEST_ROWS,
    MOST_ROWS,
    STEEPNESS,
    USUAL,
    Latents,
    choose,
    divide,
    groups,
    refit_noise,
    set_budget,
    set_steepness,
)
from natpn.training.batches import Rows
from training.test_align import held_out, make


def generator():
    return torch.Generator().manual_seed(0)


def test_groups_are_ends_and_neighbourhoods():
    x = torch.randn(1000, 5, generator=generator())
    x[:, 0] *= 5  # the first principal direction
    found = groups(x, generator())
    assert [int(group.sum()) for group in found] == [100] * 5
    high, low = sorted(found[:2], key=lambda group: -float(x[group, 0].mean()))
    assert x[high, 0].min() > x[~high, 0].quantile(0.9)
    assert x[low, 0].max() < x[~low, 0].quantile(0.1)
    near = x[found[2]]
    assert near.var(0).sum() < 0.3 * x.var(0).sum()
    assert all(torch.equal(a, b) for a, b in zip(found, groups(x, generator()), strict=True))


def test_values_of_a_category_make_a_group_and_constants_none():
    x = torch.zeros(500, 2)
    x[:100, 0] = 1.0
    found = groups(x, generator())
    assert all(set(group.nonzero().flatten().tolist()) == set(range(100)) for group in found)
    assert groups(torch.zeros(500, 2), generator()) == []


def rows(n):
    x = torch.randn(n, 3, generator=generator())
    return Rows(x, x[:, 0])


def test_groups_are_apart_from_what_is_trained_on():
    train, validation, left_out = divide(rows(800), False, generator())
    seen = {tuple(row) for row in train.x.tolist()}
    assert not seen & {tuple(row) for row in validation.x.tolist()}
    assert len(train) + len(validation) >= 400
    for group in left_out:
        assert not seen & {tuple(row) for row in group.x.tolist()}


@pytest.mark.parametrize("n", [FEWEST_ROWS - 1, MOST_ROWS + 1])
def test_tables_that_are_too_small_or_too_large_are_not_divided(n):
    assert divide(rows(n), False, generator()) is None


def test_a_table_without_groups_is_not_divided():
    constant = Rows(torch.zeros(500, 2), torch.zeros(500))
    assert divide(constant, False, generator()) is None


@pytest.mark.parametrize(("error", "steep"), [(0.0, False), (3.0, True)])
def test_evidence_falls_faster_where_groups_were_predicted_badly(error, steep):
    network = make()
    inside = held_out(network, deviation=lambda z: 0.1)
    network.see_targets(inside.y, inside.weight)
    with torch.no_grad():
        network.decoder.weight[1], network.decoder.bias[1] = 0.0, 2 * np.log(0.1)
        network.budget.set(-4.3, 4.0, float(network.prior_log_n) + 9.0, float(network.prior_log_n))
        outside = inside.features[:300] + torch.tensor([5.0, 0.0, 0.0])
        raw = network.decoder(outside)
        noise = torch.randn(300, generator=generator())
        group = Latents(outside, raw, outside, raw[:, 0] + 0.1 * noise + error, torch.ones(300))
    found = choose(network, [group])
    assert found in STEEPNESS
    assert found > 2 * USUAL if steep else found == USUAL


def test_groups_that_say_nothing_change_nothing():
    network = make()
    empty = torch.zeros(0, 3)
    nobody = Latents(empty, network.decoder(empty).detach(), empty, torch.zeros(0), torch.zeros(0))
    assert choose(network, [nobody]) == USUAL


def test_wide_tables_are_divided_quickly():
    wide = torch.randn(600, 20_000, generator=generator())
    start = time.perf_counter()
    assert len(groups(wide, generator())) == 5
    assert time.perf_counter() - start < 5


def test_a_fit_goes_on_if_the_one_without_groups_fails(monkeypatch):
    def fail(*_):
        raise TrainingError("not a number")

    monkeypatch.setattr("natpn.training.staged.choose", fail)
    X, y = bends()
    model = NatPNRegressor(random_state=0, max_epochs=2).fit(X, y)
    assert all(float(member.budget.rise) == 0 for member in model.network_.members)


def test_ordinary_rows_lose_nothing_by_what_groups_ask_for():
    network = make()
    data = held_out(network, deviation=lambda z: 0.01)
    data.features[:200] += torch.tensor([5.0, 0.0, 0.0])  # far, and still predicted well
    network.see_targets(data.y, data.weight)
    refit_noise(network, data)
    set_steepness(network, STEEPNESS[-1])
    set_budget(network, data)
    assert float(network.budget.rise) < STEEPNESS[-1] / 0.01 / 2


def bends(n=600):
    """A curve without noise, of which an end cannot be told from the rest."""
    lot = np.random.default_rng(0)
    X = lot.normal(size=(n, 3)) * [3.0, 1.0, 1.0]
    return X, np.abs(X[:, 0]) ** 1.5 + X[:, 1] + 0.01 * lot.normal(size=n)


def test_where_the_network_is_sure_and_wrong_outside_it_gets_less_evidence():
    X, y = bends()
    with_groups, without = (
        NatPNRegressor(random_state=0, scheme=Staged(leave_groups_out=asked), max_epochs=40).fit(X, y)
        for asked in (True, False)
    )
    for one, other in zip(with_groups.network_.members, without.network_.members, strict=True):
        assert torch.equal(one.decoder.weight[0], other.decoder.weight[0])
        assert float(one.budget.rise) > 0
        assert float(other.budget.rise) == 0
    assert Staged().leave_groups_out
    short = [NatPNRegressor(random_state=0, max_epochs=3).fit(X, y) for _ in range(2)]
    assert np.array_equal(*(model.predict(X) for model in short))


def test_the_loss_of_a_normal_is_its_crps():
    family = families.get("normal")
    chi = torch.tensor([[0.0, 1.0], [1.0, 4.0]], dtype=torch.float64)
    posterior = family.posterior(family.evidence(chi, torch.tensor([40.0, 40.0])))
    y, weight = torch.tensor([0.5, -2.0], dtype=torch.float64), torch.tensor([1.0, 3.0])
    levels = (torch.arange(2000, dtype=torch.float64) + 0.5)[:, None] / 2000
    error = y - posterior.predictive().icdf(levels)
    pinball = 2 * torch.maximum(levels * error, (levels - 1) * error).mean(0)
    known = np.log(np.average(pinball.numpy(), weights=weight.numpy()))
    assert posterior.loss(y, weight) == pytest.approx(known, abs=1e-3)


def test_the_loss_of_other_families_is_minus_log_p():
    family = families.get("poisson")
    posterior = family.posterior(family.evidence(torch.tensor([[2.0], [5.0]]), torch.tensor([3.0, 3.0])))
    y, weight = torch.tensor([1.0, 7.0]), torch.tensor([1.0, 1.0])
    assert posterior.loss(y, weight) == pytest.approx(-float(posterior.predictive().log_prob(y).mean()), rel=1e-5)
