"""What a single network does: its parts, its prior, its shapes and its errors."""

import math

import pytest
import torch
from torch import nn
from torch.testing import assert_close

from families.references import REFERENCES
from natpn import densities, encoders, families
from natpn.network import BUDGETS, NaturalPosteriorNetwork, PrincipalComponents, budgets

ALL = [pytest.param(r, id=repr(r.family)) for references in REFERENCES.values() for r in references]


def make(family="poisson", **options) -> NaturalPosteriorNetwork:
    torch.manual_seed(0)
    family = families.get(family) if isinstance(family, str) else family
    return NaturalPosteriorNetwork(
        encoders.get("tabular", n_features=4, latent_dim=5, hidden=8), family, latent_dim=5, **options
    )


# ---- families ------------------------------------------------------------------------------------


@pytest.mark.parametrize("reference", ALL)
def test_inverse_link_undoes_link(reference):
    for chi in reference.chis[: reference.ordinary]:
        chi = torch.tensor(chi, dtype=torch.float64)
        raw = reference.family.inverse_link(chi)
        assert raw.isfinite().all()
        assert_close(reference.family.link(raw), chi, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("reference", ALL)
def test_inverse_link_of_anything_the_family_holds_is_finite(reference):
    for chi in reference.chis:
        assert reference.family.inverse_link(torch.tensor(chi)).isfinite().all()


@pytest.mark.parametrize("reference", ALL)
def test_log_likelihood_is_the_limit_of_the_bayesian_loss(reference):
    """Also far from it, where small probabilities would be rounded away, it has finite values and gradients."""
    family = reference.family
    for chi in reference.chis[: reference.ordinary]:
        raw = family.inverse_link(torch.tensor(chi, dtype=torch.float64)).requires_grad_()
        for y in reference.targets(chi)[:3]:
            y = torch.tensor(y, dtype=torch.float64)
            y = y if family.support.event_shape else y[0]
            certain = family.posterior(family.evidence(family.link(raw.detach()), 40.0))
            got = family.log_likelihood(raw, y)
            if type(family).__name__ != "VonMisesFisher":  # whose χ also holds how sure the direction is
                assert_close(got, certain.expected_log_likelihood(y), rtol=1e-6, atol=1e-6)
            (100 * raw).detach_()
            wild = (100 * raw.detach()).float().requires_grad_()
            family.log_likelihood(wild, y).sum().backward()
            assert wild.grad.isfinite().all()


# ---- forward -------------------------------------------------------------------------------------


@pytest.mark.parametrize("reference", ALL)
def test_forward_is_the_sum_of_prior_and_evidence(reference):
    network = make(reference.family).eval()
    x = torch.randn(7, 4)
    prediction = network(x)
    assert prediction.evidence.batch_shape == (7,)
    want = reference.family.posterior(reference.family.prior() + prediction.evidence)
    assert_close(prediction.posterior.entropy(), want.entropy())
    latent, raw = network.represent(x)
    assert_close(prediction.evidence.chi, reference.family.link(raw))
    assert_close(prediction.evidence.log_n, network.budget(network.density(latent)))


@pytest.mark.parametrize("density", densities.DENSITIES)
@pytest.mark.parametrize("training", [True, False])
def test_a_batch_of_one_is_finite_and_every_parameter_gets_a_gradient(density, training):
    network = make(density=density).train(training)
    prediction = network(torch.randn(1, 4))
    loss = -prediction.posterior.expected_log_likelihood(torch.tensor([3.0])).sum()
    loss.backward()
    missing = [name for name, p in network.named_parameters() if p.grad is None or not p.grad.isfinite().all()]
    assert not missing


def test_dense_latents_are_just_batch():
    encoder = encoders.get("dense", shape=(3, 8, 8), latent_dim=5)
    network = NaturalPosteriorNetwork(encoder, families.get("normal"), latent_dim=5)
    x, y = torch.randn(2, 3, 8, 8), torch.randn(2, 8, 8)
    assert network(x).posterior.expected_log_likelihood(y).shape == (2, 8, 8)


def test_the_prior_is_held_in_float64_moves_with_the_network_and_is_saved():
    prior = families.get("normal").prior([1 / 3, 7.1], 1e-3)
    network = make("normal", prior=prior)
    assert network.state_dict()["prior_chi"].dtype == torch.float64
    other = make("normal")
    other.load_state_dict(network.state_dict())
    assert other.prior.wide()[0].tolist() == [1 / 3, 7.1]
    assert_close(other.prior.log_n.exp(), torch.tensor(1e-3))
    assert network.to("meta").prior_chi.device.type == "meta"


def test_half_precision_touches_the_encoder_alone():
    network = make().eval()
    x = torch.randn(50, 4)
    full = network(x).evidence
    with torch.autocast("cpu", torch.bfloat16):
        half = network(x).evidence
    assert half.log_n.dtype == full.log_n.dtype == torch.float32
    assert_close(half.log_n, full.log_n, rtol=0.1, atol=0.5)
    assert not torch.equal(half.log_n, full.log_n)


# ---- frame ---------------------------------------------------------------------------------------


def test_networks_of_earlier_versions_keep_the_frame_of_their_latents():
    network = make().eval()
    x = torch.randn(9, 4)
    plain, _ = network.represent(x)
    assert_close(plain, network.encoder(x), rtol=1e-5, atol=1e-6)
    old = network.state_dict() | {
        "normalisation.running_mean": torch.full_like(network.normalisation.running_mean, 2.0),
        "normalisation.running_variance": torch.full_like(network.normalisation.running_variance, 9.0),
    }
    network.load_state_dict(old)
    for training in (True, False):
        assert_close(network.train(training).represent(x)[0], (network.encoder(x) - 2) / 3, rtol=1e-4, atol=1e-5)
    assert_close(network.normalisation.running_mean, old["normalisation.running_mean"])


# ---- budgets -------------------------------------------------------------------------------------


def test_the_papers_budgets():
    log_p = torch.tensor([-3.0, 2.0])
    want = {"constant": 0.0, "rows": math.log(50), "exp_half": 4.0, "exp": 8.0, "normal": math.log(4 * math.pi) * 4}
    for name, log_budget in want.items():
        budget = budgets.get(name, 8)
        budget.see_rows(50)
        assert_close(budget(log_p), log_p + log_budget)
    assert set(want) | {"gradual", "learned"} == set(BUDGETS)


@pytest.mark.parametrize("name", BUDGETS)
def test_budgets_increase_with_the_density_and_are_never_nan_or_infinite_above(name):
    budget = budgets.get(name, 16)
    log_p = torch.tensor([-torch.inf, -1e30, -1e5, -30.0, -25.0, -20.0])
    log_n = budget(log_p)
    assert log_n.isfinite()[1:].all()
    assert log_n[0] == -torch.inf
    assert (log_n.diff() > 0).all()


@pytest.mark.parametrize(("slope", "level"), [(1.0, 0.0), (0.01, 20.0), (0.0011, -3.0), (30.0, 1.0)])
def test_a_learned_budget_can_be_set(slope, level):
    budget = budgets.get("learned", 4)
    budget.set(slope, level)
    assert_close(budget(torch.tensor([1.0, 2.0])), torch.tensor([slope + level, 2 * slope + level]))
    with torch.no_grad():
        budget.raw_slope.fill_(-1e4)
    assert budget(torch.tensor(-1e9)) < -1e5


@pytest.mark.parametrize(("power", "onset", "rise"), [(1.0, 0.02, 0.0), (1.0, 0.02, 3000.0), (2.0, 0.2, 0.0)])
def test_a_gradual_budget_falls_as_a_power_of_the_distance(power, onset, rise):
    budget = budgets.get("gradual", 4).double()
    budget.set(centre=-10.0, unit=5.0, level=8.0, prior=2.0)
    assert (float(budget.power), float(budget.onset)) == pytest.approx((1.0, 0.02))
    budget.power.fill_(power)
    budget.onset.fill_(onset)
    budget.rise.fill_(rise)
    distance = torch.tensor([-2.0, 0.0, 1.0, 4.0, 1e3], dtype=torch.float64)
    assert_close(budget.distance(-10 - 5 * distance), distance)
    h = (distance + torch.sqrt(distance**2 + 4 * 0.05**2)) / 2
    near = (1 + h / onset) ** power + rise * h**4 / (h**4 + 1)
    inverse = (math.exp(-8) * near + math.exp(-2) * (h / 40) ** 3) * (1 + h / 100) ** 2
    assert_close(budget(-10 - 5 * distance), -inverse.log())
    nearer, farther = budget(torch.tensor([-1e8, -1e9], dtype=torch.float64))
    assert abs(float(nearer - farther) - 5 * math.log(10)) < 1e-3
    dense = budget(torch.linspace(0, 1e4, 50, dtype=torch.float64))
    assert len(dense.unique()) == 50  # rows that are denser than any held-out one still rank


def test_the_posterior_counts_no_more_than_it_can_and_the_ranking_is_not_cut():
    network = make(budget="learned").eval()
    network.budget.set(1.0, 1000.0)
    x = torch.randn(20, 4)
    posterior, evidence = network(x)
    assert evidence.log_n.min() > 900
    assert len(evidence.log_n.unique()) > 15  # float32 has few digits at 1,000
    assert_close(posterior.evidence.log_n, torch.full((20,), 60.0))


# ---- bypass --------------------------------------------------------------------------------------


def test_principal_components_are_uncorrelated_and_lead():
    x = 0.2 * torch.randn(500, 6) @ torch.randn(6, 6)
    bypass = PrincipalComponents(6, 3).fit(x)
    covariance = bypass(x).T.cov()
    values = torch.linalg.eigvalsh(x.T.cov()).flip(0)[:3]
    assert_close(covariance, values.diag(), rtol=1e-4, atol=1e-4)
    assert bypass(x.view(5, 100, 6)).shape == (5, 100, 3)
    assert PrincipalComponents(2, 16).latent_dim == 2


def test_the_density_sees_the_bypass_and_the_decoder_does_not():
    network = make(bypass=PrincipalComponents(4, 2)).eval()
    assert network.density.dim == 7
    x = torch.randn(3, 4)
    before = network(x).evidence
    network.bypass.mean.add_(5.0)
    after = network(x).evidence
    assert torch.equal(before.chi, after.chi)
    assert not torch.isclose(before.log_n, after.log_n).any()


# ---- errors --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("build", "words"),
    [
        (lambda: NaturalPosteriorNetwork(nn.Identity(), "poisson"), "family.*families.get"),
        (lambda: make(density="gausian_mixture"), "Did you mean 'gaussian_mixture'"),
        (lambda: make(density=densities.get("radial", 3)), "density: it is over 3 features.*5"),
        (lambda: make(budget="exp-half"), "budget.*exp_half"),
        (lambda: make(prior=families.get("normal").prior()), "prior: expected 1 statistics"),
        (lambda: make(bypass=nn.Identity()), "bypass.*latent_dim"),
        (lambda: NaturalPosteriorNetwork(nn.Identity(), families.get("poisson"))(torch.randn(2, 3)), "encoder.*16"),
        (lambda: budgets.get("learned", 3).set(0.0, 1.0), "slope"),
        (lambda: budgets.get("gradual", 3).set(0.0, 0.0, 1.0, 0.0), "unit: expected a positive number"),
        (lambda: make(prior="marginl"), "prior.*Did you mean 'marginal'"),
        (lambda: budgets.get("rows", 3).see_rows(0), "n: expected"),
        (lambda: PrincipalComponents(3).fit(torch.randn(5, 4)), r"x: expected.*\(3,\)"),
        (lambda: PrincipalComponents(3).fit(torch.full((5, 3), torch.nan)), "x: expected finite"),
    ],
)
def test_errors_say_what_to_do(build, words):
    with pytest.raises(ValueError, match=words):
        build()
