"""A mixture with one covariance, relative to a single normal."""

import pytest
import torch
from scipy import stats
from torch.testing import assert_close

from natpn.densities import GaussianMixture, RelativeMixture

WIDE, APART = 3.0, 4.0


def clusters(rows=6000, seed=0):
    """Return rows of two clusters, 2 · `APART` apart in the first number, that vary widely in the second."""
    generator = torch.Generator().manual_seed(seed)
    z = torch.randn(rows, 2, generator=generator, dtype=torch.float64)
    side = torch.randint(2, (rows,), generator=generator).double() * 2 - 1
    return torch.stack([z[:, 0] + APART * side, WIDE * z[:, 1]], 1)


def fitted(z, n_components=2, weight=None):
    density = RelativeMixture(z.shape[1], n_components).double().requires_grad_(False)
    density.refit(z, weight)
    return density


def test_it_is_the_mixture_less_the_single_normal():
    z = clusters(100_000)
    density = fitted(z)
    point = torch.tensor([[APART, 0.0], [0.0, 0.0], [APART, 2 * WIDE]], dtype=torch.float64)
    sides = [stats.norm(side, 1).pdf(point[:, 0].numpy()) / 2 for side in (-APART, APART)]
    want = torch.from_numpy(sum(sides)).log() - torch.from_numpy(
        stats.norm(0, (1 + APART**2) ** 0.5).logpdf(point[:, 0].numpy())
    )
    assert_close(density(point), want, atol=0.03, rtol=0)


def test_what_varies_within_clusters_as_among_all_rows_cancels():
    z = clusters()
    relative, plain = fitted(z), GaussianMixture(2, 2).double().requires_grad_(False)
    plain.refit(z)
    along = torch.tensor([[APART, WIDE * step] for step in (-1.5, -0.5, 0.5, 1.5)], dtype=torch.float64)
    assert float(relative(along).std()) < 0.05
    assert float(plain(along).std()) > 0.5
    between = torch.tensor([[0.0, 0.0]], dtype=torch.float64)
    assert float(relative(along).min() - relative(between)) > 5


def test_below_the_first_percentile_the_single_normal_stays_as_it_is():
    z = clusters()
    density = fitted(z)
    assert float((density.whole(z) < density.least).double().mean()) == pytest.approx(0.01, abs=0.001)
    far = torch.tensor([[APART, WIDE * step] for step in (5.0, 10.0, 20.0)], dtype=torch.float64)
    assert_close(density(far), density.clusters(far) - density.least)


@pytest.mark.parametrize("ray", [(1.0, 0.0), (0.0, 1.0), (-0.6, 0.8)])
def test_it_falls_along_every_ray(ray):
    density = fitted(clusters())
    length = torch.tensor([20.0, 40.0, 1e3, 1e6, 1e12], dtype=torch.float64)
    value = density(length[:, None] * torch.tensor(ray, dtype=torch.float64))
    assert bool((value.diff() < 0).all() & value.isfinite().all())
    assert bool(density.float()(torch.full((1, 2), 1e30)).isfinite().all())


def test_components_have_one_covariance():
    z = clusters()
    z[z[:, 0] > 0] *= 2  # the clusters have covariances of their own
    factor = fitted(z).clusters.factor
    assert_close(factor[0], factor[1], rtol=1e-4, atol=1e-4)


def test_weights_count_rows():
    z = clusters(400)
    twice = fitted(torch.cat([z, z[:100]]))
    weighted = fitted(z, weight=torch.cat([torch.full((100,), 2.0), torch.ones(300)]))
    assert_close(weighted.least, twice.least)
    assert_close(weighted(z), twice(z), rtol=1e-3, atol=1e-3)


def test_it_is_saved_and_loaded():
    z = clusters()
    density = fitted(z, 5)
    other = RelativeMixture(2, 3).double()
    other.load_state_dict(density.state_dict())
    assert_close(other(z), density(z))
