"""Densities of several views of an input, added in units of their own."""

import pytest
import torch
from scipy import stats
from torch.testing import assert_close

from natpn.densities import GaussianMixture, RadialFlow, RelativeMixture, Rising, Views


def sample(rows=4000, seed=0):
    return torch.randn(rows, 5, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def fitted(z, weight=None):
    density = Views([GaussianMixture(2, 1), GaussianMixture(3, 1)]).double()
    density.refit(z, weight)
    return density


def test_units_are_from_the_median_to_the_first_percentile():
    density = fitted(sample(100_000))
    for i, dim in enumerate((2, 3)):
        normal, chi2 = -dim / 2 * torch.log(torch.tensor(2 * torch.pi)), stats.chi2(dim)
        assert float(density.middle[i]) == pytest.approx(float(normal) - chi2.median() / 2, abs=0.03)
        unit = (chi2.ppf(0.99) - chi2.median()) / 2
        assert float(density.unit[i]) == pytest.approx(unit if i else 3 * 2**0.5, abs=0.1)  # which is larger


def test_views_count_beside_a_density_that_is_the_same_for_all_rows():
    z = sample()
    density = Views([RelativeMixture(2, 1), GaussianMixture(3, 1)]).double()
    density.refit(z)
    assert float(density.parts[0](z[:, :2]).detach().std()) < 1
    far = z.clone()
    far[:, 4] = 30.0
    assert bool((density(far) < density(z) - 50).all())


def test_a_view_takes_off_what_it_falls_short():
    z = sample()
    density = fitted(z)
    first, second = density.parts[0](z[:, :2]), density.parts[1](z[:, 2:])
    short = ((second - density.middle[1]) / density.unit[1]).clamp(max=0)
    assert_close(density(z), first + density.unit[0] * short)
    assert float((short == 0).double().mean()) == pytest.approx(0.5, abs=0.01)
    far = z.clone()
    far[:, 4] = 30.0
    assert bool((density(far) < density(z) - 20).all())
    assert density.n_continuous == 2


def test_weights_count_rows():
    z = sample(300)
    twice = fitted(torch.cat([z, z[:100]]))
    weighted = fitted(z, torch.cat([torch.full((100,), 2.0), torch.ones(200)]))
    assert_close(weighted.middle, twice.middle)
    assert_close(weighted.unit, twice.unit)
    assert_close(weighted(z), twice(z), rtol=1e-3, atol=1e-3)


def test_far_away_it_is_finite_and_low():
    density = fitted(sample())
    value = density(torch.tensor([[1e30] * 5, [0.0] * 4 + [1e30]], dtype=torch.float64))
    assert bool((value < -1e6).all() & value.isfinite().all())


def test_it_is_refitted_alone_if_all_parts_are():
    assert Views([GaussianMixture(2), GaussianMixture(3)]).refit_suffices
    assert not Views([GaussianMixture(2), RadialFlow(3)]).refit_suffices


def test_views_may_see_the_same_column():
    z = sample()
    density = Views([GaussianMixture(4, 1), Rising(), GaussianMixture(2, 1)], first=[0, 3, 3]).double()
    density.refit(z)
    assert density.dim == 5
    rising = ((z[:, 3] - density.middle[1]) / density.unit[1]).clamp(max=0)
    assert float((rising < -1).double().mean()) == pytest.approx(0.01, abs=0.001)
    last = ((density.parts[2](z[:, 3:]) - density.middle[2]) / density.unit[2]).clamp(max=0)
    assert_close(density(z), density.parts[0](z[:, :4]) + density.unit[0] * (rising + last))


def test_more_of_a_rising_feature_takes_nothing_off():
    z = sample()
    density = Views([GaussianMixture(4, 1), Rising()]).double()
    density.refit(z)
    more, less = z.clone(), z.clone()
    more[:, 4], less[:, 4] = 50.0, -50.0
    assert_close(density(more), density.parts[0](z[:, :4]))
    assert bool((density(less) < density(z) - 10).all())
