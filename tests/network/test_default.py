"""The default network: Theorem 1 holds through its bypass, and its parts fit the data's size."""

import pytest
import torch
from torch.testing import assert_close

from natpn import families
from natpn.densities import GaussianMixture, Surprise
from natpn.network import default_network
from natpn.network.default import PrincipalComponents


@pytest.mark.parametrize("shape", [5, (1, 8, 8), (3, 8, 8)])
@pytest.mark.parametrize("name", ["categorical", "normal", "poisson"])
def test_far_inputs_get_the_prior(name, shape):
    family = families.get(name, **({"n_classes": 3} if name == "categorical" else {}))
    network = default_network(shape, family, n_rows=2000)
    size = (shape,) if isinstance(shape, int) else shape
    x = torch.randn(400, *size, generator=torch.Generator().manual_seed(0))
    if hasattr(network.encoder, "fit_knots"):
        network.encoder.fit_knots(x)
    network.bypass.fit(x)
    with torch.no_grad():
        network.train()(x)
        network.eval()
        latent, _ = network.represent(x)
        network.density.refit(network.features(x, latent))
        prior = family.posterior(network.prior).predictive()
        for power in range(0, 31, 3):
            prediction = network(x[:20] * 10.0**power)
            mean = prediction.posterior.predictive().mean
            assert bool(mean.isfinite().all())
            if power >= 6:
                assert_close(mean, prior.mean.expand_as(mean), rtol=1e-5, atol=1e-5)


def test_the_mixture_fits_the_number_of_rows():
    family = families.get("poisson")
    assert default_network(8, family, n_rows=100_000).density.n_components == 60
    assert default_network(8, family, n_rows=659).density.n_components == 13
    assert default_network(8, family, n_rows=10).density.n_components == 1
    assert default_network(3, family, n_rows=1000).density.dim == 16 + 3


@pytest.mark.parametrize(
    ("shape", "views"),
    [((1, 8, 8), [(0, 17), (16, 17), (17, 26), (26, 42)]), ((3, 8, 8), [(0, 17), (16, 17), (17, 44)])],
)
def test_a_picture_has_a_density_for_each_view(shape, views):
    """Direction and log-length of the latents, the length, the texture and, of grey pictures, the components."""
    network = default_network(shape, families.get("categorical", n_classes=3), n_rows=500)
    assert [(columns.start, columns.stop) for columns in network.density.columns] == views
    x = torch.randn(4, *shape, generator=torch.Generator().manual_seed(0))
    latent = network.represent(x)[0]
    features = network.features(x, latent)
    assert features.shape == (4, views[-1][1])
    assert_close(features[:, 16], latent.norm(dim=-1).log())


@pytest.mark.parametrize(
    ("n_classes", "n_rows", "clusters"), [(3, 5000, 12), (20, 5000, 20), (200, 5000, 60), (3, 60, 7), (3, 5, 2)]
)
def test_latents_of_pictures_have_as_many_clusters_as_there_are_classes(n_classes, n_rows, clusters):
    network = default_network((3, 8, 8), families.get("categorical", n_classes=n_classes), n_rows)
    assert network.density.parts[0].clusters.n_components == clusters


@pytest.mark.parametrize(("n_rows", "knots"), [(10, 9), (3000, 9), (10_000, 13), (30_000, 17), (10**7, 17)])
def test_the_pieces_fit_the_number_of_rows(n_rows, knots):
    assert default_network(2, families.get("poisson"), n_rows).encoder.encoding.n_pieces == knots - 1


def test_heavy_tails_do_not_take_the_components():
    """One row at 10⁴ would be the first component; softened, the direction of the bulk is."""
    x = torch.randn(2000, 3, generator=torch.Generator().manual_seed(0)) * torch.tensor([3.0, 1.0, 1.0])
    x[0, 1] = 300.0
    first = PrincipalComponents(3, 1).fit(x).components[:, 0]
    assert first[0].abs() > 0.9
    far = PrincipalComponents(3, 3).fit(x)(torch.tensor([[1e8, 0.0, 0.0], [2e8, 0.0, 0.0]]))
    assert_close(far[1].norm() / far[0].norm(), torch.tensor(2.0), rtol=1e-3, atol=0)


def test_indicators_and_surprise_go_their_own_ways():
    """Pieces are for numbers alone, and the last column reaches nothing but the log-density, where it is added."""
    network = default_network(6, families.get("poisson"), 1000, n_numbers=2, surprise=True)
    x = torch.randn(50, 7, generator=torch.Generator().manual_seed(0))
    x[:, -1] = 0
    network.encoder.fit_knots(x)
    network.bypass.fit(x)
    assert network.encoder.layers[0].in_features == 2 * 9 + 4
    with torch.no_grad():
        network.train()(x)
        network.eval()
        latent, _ = network.represent(x)
        network.density.refit(network.features(x, latent))
        network.density.weight.fill_(5.0)
        surprising = x.clone()
        surprising[:, -1] = -3.0
        before, after = network(x).evidence, network(surprising).evidence
        features = network.features(surprising, latent)
    assert torch.equal(before.chi, after.chi)
    assert (after.log_n < before.log_n).all()
    assert_close(network.density(features), network.density.density(features[:, :-1]) - 15.0)


def test_surprise_is_added_and_the_rest_is_the_density():
    torch.manual_seed(0)
    density = Surprise(GaussianMixture(3, 2))
    z = torch.randn(40, 4)
    density.refit(z)
    assert_close(density(z), density.density(z[:, :3]) + z[:, 3])
    density.weight.fill_(7.0)
    assert_close(density(z), density.density(z[:, :3]) + 7 * z[:, 3])
    assert density.n_continuous == 3
    assert bool(density(torch.tensor([[1e30, 0.0, 0.0, -1e30]])).isfinite())
    other = Surprise(GaussianMixture(3, 2))
    other.load_state_dict(density.state_dict())
    assert torch.equal(other(z), density(z))


def test_errors_name_the_columns():
    with pytest.raises(ValueError, match="n_numbers = 3"):
        default_network(2, families.get("poisson"), 100, n_numbers=3)
    with pytest.raises(ValueError, match="only a table"):
        PrincipalComponents((1, 4, 4), 2, n_passed=1)
    network = default_network(2, families.get("poisson"), 100, surprise=True)
    with pytest.raises(ValueError, match=r"n_features = 2 and n_ignored = 1"):
        network(torch.zeros(5, 2))
