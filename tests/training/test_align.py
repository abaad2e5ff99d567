"""The last stage: noise and evidence on held-out rows."""

import pytest
import torch

from natpn import encoders, families
from natpn.network import NaturalPosteriorNetwork
from natpn.training.align import refit_variance, set_budget
from natpn.training.latents import Latents


def held_out(network, rows=2000, deviation=None, seed=0):
    """Latents as they are, standard normal, and targets around the decoder's mean."""
    g = torch.Generator().manual_seed(seed)
    z = torch.randn(rows, 3, generator=g)
    with torch.no_grad():
        raw = network.decoder(z)
    noise = torch.randn(rows, generator=g)
    y = raw[:, 0] + (0.3 if deviation is None else deviation(z)) * noise
    return Latents(z, raw, z.clone(), y, torch.ones(rows))


def make(family="normal", **options):
    torch.manual_seed(0)
    network = NaturalPosteriorNetwork(
        encoders.get("tabular", n_features=2, latent_dim=3), families.get(family), latent_dim=3, **options
    )
    network.density.refit(torch.randn(4000, 3, generator=torch.Generator().manual_seed(1)))
    return network.eval()


@pytest.mark.parametrize("deviation", [lambda z: 0.3, lambda z: (0.5 * z[:, 0] - 1).exp()])
def test_the_variance_is_refitted_to_held_out_residuals(deviation):
    network = make()
    data = held_out(network, 5000, deviation)
    before = network.decoder.weight[0].clone()
    refit_variance(network, data)
    with torch.no_grad():
        fitted = network.family.link(network.decoder(data.latent))[:, 1].log()
    truth = 2 * torch.as_tensor(deviation(data.latent)).log().expand(5000)
    assert (fitted - truth).abs().mean() < 0.1
    assert torch.equal(before, network.decoder.weight[0])


def test_a_few_wild_rows_do_not_decide_the_variance():
    network = make()
    data = held_out(network, 1000)
    data.y[:5] += 100.0
    refit_variance(network, data)
    variance = network.family.link(network.decoder(data.latent)).detach()[:, 1].median()
    assert 0.07 < float(variance) < 0.12


def test_familiar_rows_keep_their_evidence_and_far_ones_lose_it():
    network = make()
    data = held_out(network)
    refit_variance(network, data)
    set_budget(network, data, tolerance=0.1)
    with torch.no_grad():
        inside = network.budget(network.density(data.features))
        outside = network.budget(network.density(data.features + 30))
    assert inside.median() > 3
    assert outside.max() < -3


def test_a_larger_tolerance_allows_no_more_evidence_far_out():
    slopes = []
    for tolerance in (0.01, 0.1, 1.0):
        network = make()
        data = held_out(network)
        set_budget(network, data, tolerance)
        slopes.append(float(network.budget(torch.tensor(-300.0)).detach()))
    assert slopes == sorted(slopes, reverse=True)
    assert slopes[0] > slopes[-1]


def test_over_dispersed_counts_get_less_evidence():
    """The spread of counts beyond Poisson's can only come from the uncertainty about the rate."""
    levels = []
    for dispersion in (0.0, 1.0):
        network = make("poisson")
        z = torch.randn(3000, 3, generator=torch.Generator().manual_seed(2))
        with torch.no_grad():
            network.decoder.bias.fill_(3.0)
            raw = network.decoder(z)
        rate = raw[:, 0].exp() * (dispersion * torch.randn(3000) - dispersion**2 / 2).exp()
        set_budget(network, Latents(z, raw, z, torch.poisson(rate), torch.ones(3000)), 0.1)
        levels.append(float(network.budget(network.density(z)).detach().median()))
    assert levels[0] > levels[1] + 2


def test_fixed_budgets_are_left_alone():
    network = make(budget="exp")
    set_budget(network, held_out(network), 0.1)
    assert float(network.budget.log_budget) == 3.0


def test_a_few_strays_have_no_say_in_the_slope():
    """Rows far outside whose prediction is right would lose by every return to the prior."""
    slopes = []
    for strays in (0, 3):
        network = make()
        data = held_out(network)
        refit_variance(network, data)
        data.features[:strays] += 12.0
        data.y[:strays] = data.raw[:strays, 0]
        set_budget(network, data, 0.1)
        slopes.append(float(network.budget.slope.detach()))
    assert slopes[1] >= slopes[0]
