import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose
from scipy.special import digamma
from scipy.stats import dirichlet

from natpn import densities, families
from natpn.encoders import TabularEncoder
from natpn.network import NaturalPosteriorNetwork
from natpn_paper.baselines import PostNetClassifier
from natpn_paper.baselines.posterior_network import ExpectedCrossEntropy, PosteriorNetwork, StackedDensities
from paper.baselines.problems import clusters, quick


def test_one_density_gives_the_evidence_of_a_natural_posterior_network():
    encoder, density = TabularEncoder(3, 4), densities.get("radial", 4)
    family = families.get("categorical", n_classes=2)
    natural = NaturalPosteriorNetwork(encoder, family, density, 4, "rows").eval()
    natural.budget.see_rows(37)
    network = PosteriorNetwork(encoder, 4, [density], torch.tensor([37.0])).eval()
    x = torch.randn(10, 3)
    assert_allclose(network.log_evidence(x)[:, 0].detach(), natural(x).evidence.log_n.detach(), rtol=1e-6)


def test_each_class_has_its_count_and_its_density():
    each = [densities.get("radial", 4) for _ in range(3)]
    counts = torch.tensor([10.0, 20.0, 0.5])
    network = PosteriorNetwork(TabularEncoder(3, 4), 4, each, counts).eval()
    x = torch.randn(10, 3)
    p = torch.stack([density(network.latent(x)) for density in each], -1).exp()
    assert_allclose(network(x).exp().detach(), (1 + counts * p).detach(), rtol=1e-5)


def test_the_loss_is_the_expected_cross_entropy_less_entropy():
    each = [densities.get("radial", 4) for _ in range(3)]
    network = PosteriorNetwork(TabularEncoder(3, 4), 4, each, torch.full((3,), 1e3)).eval()
    x, y = torch.randn(10, 3), torch.arange(10.0) % 3
    alpha = network(x).exp().detach().double().numpy()
    found = ExpectedCrossEntropy(network, families.get("categorical", n_classes=3), 0.1).eval()(x, y)
    expected = digamma(alpha[np.arange(10), y.long()]) - digamma(alpha.sum(1))
    entropy = np.array([dirichlet.entropy(row) for row in alpha])
    assert_allclose(found.detach(), -expected - 0.1 * entropy, rtol=1e-4, atol=1e-5)


@pytest.mark.slow
def test_evidence_is_found_at_the_data_and_gone_far_from_it():
    X, y = clusters(300)
    model = PostNetClassifier(max_epochs=40, random_state=0).fit(X, y)
    assert np.median(model.score_samples(X)) > np.log(10)
    far = model.predict_dist(100 * X)
    assert_allclose(far.probabilities, 1 / 3, atol=0.01)
    assert_allclose(far.epistemic, -np.log(3), atol=0.01)


@pytest.mark.parametrize("name", [name for name in densities.DENSITIES if name != "gaussian_mixture"])
def test_stacked_densities_are_the_single_ones(name):
    each = [densities.get(name, 4) for _ in range(3)]
    z = torch.randn(10, 4)
    want = torch.stack([density(z) for density in each], -1)
    assert_allclose(StackedDensities(each)(z).detach(), want.detach(), rtol=1e-5, atol=1e-5)


def test_weights_count_rows():
    X, y = clusters(60)
    model = quick("PostNet", "classes").fit(X, y, sample_weight=np.linspace(0.5, 1.5, 60))
    assert float(model.network_.log_counts.exp().sum()) == pytest.approx(model.n_rows_, rel=0.2)


def test_other_densities_and_wrong_ones():
    X, y = clusters(60)
    own = densities.get("radial", 4, n_layers=2)
    before = own.centre.clone()
    quick("PostNet", "classes", density=own, latent_dim=4).fit(X, y)
    assert torch.equal(own.centre, before)
    with pytest.raises(
        ValueError, match="density: expected one that gradient descent fits, got GaussianMixture; choose"
    ):
        quick("PostNet", "classes", density="gaussian_mixture").fit(X, y)
    with pytest.raises(ValueError, match="density: expected one over latent_dim = 5 features, got one over 4"):
        quick("PostNet", "classes", density=own, latent_dim=5).fit(X, y)
    with pytest.raises(ValueError, match=r"density: expected a name or a .* got 3"):
        quick("PostNet", "classes", density=3).fit(X, y)
    with pytest.raises(ValueError, match="entropy_weight: expected a number from 0, got -1"):
        quick("PostNet", "classes", entropy_weight=-1).fit(X, y)
