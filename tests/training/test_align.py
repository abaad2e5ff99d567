"""The last stage: noise and evidence on held-out rows."""

import math

import pytest
import torch
from torch import nn

from natpn import densities, encoders, families
from natpn.network import NaturalPosteriorNetwork
from natpn.training.align import EVENT, MOST, Latents, refit_noise, set_budget


def held_out(network, rows=2000, deviation=None, seed=0):
    """Latents as they are, standard normal, and targets around the decoder's mean."""
    g = torch.Generator().manual_seed(seed)
    z = torch.randn(rows, 3, generator=g)
    with torch.no_grad():
        raw = network.decoder(z)
    noise = torch.randn(rows, generator=g)
    y = raw[:, 0] + (0.3 if deviation is None else deviation(z)) * noise
    return Latents(z, raw, z.clone(), y, torch.ones(rows))


def make(family="normal", n_classes=None, **options):
    torch.manual_seed(0)
    chosen = families.get(family, **({} if n_classes is None else {"n_classes": n_classes}))
    options = {"prior": "marginal"} | options
    network = NaturalPosteriorNetwork(
        encoders.get("tabular", n_features=2, latent_dim=3), chosen, latent_dim=3, **options
    )
    network.density.refit(torch.randn(4000, 3, generator=torch.Generator().manual_seed(1)))
    return network.eval()


@pytest.mark.parametrize("deviation", [lambda z: 0.3, lambda z: (0.5 * z[:, 0] - 1).exp()])
def test_the_variance_is_refitted_to_held_out_residuals(deviation):
    network = make()
    data = held_out(network, 5000, deviation)
    before = network.decoder.weight[0].clone()
    refit_noise(network, data)
    with torch.no_grad():
        fitted = network.family.link(network.decoder(data.latent))[:, 1].log()
    truth = 2 * torch.as_tensor(deviation(data.latent)).log().expand(5000)
    assert (fitted - truth).abs().mean() < 0.1
    assert torch.equal(before, network.decoder.weight[0])


def test_a_few_wild_rows_do_not_decide_the_variance():
    network = make()
    data = held_out(network, 1000)
    data.y[:5] += 100.0
    refit_noise(network, data)
    variance = network.family.link(network.decoder(data.latent)).detach()[:, 1].median()
    assert 0.07 < float(variance) < 0.12


def test_classes_get_the_temperature_of_held_out_rows():
    network = make("categorical", n_classes=4)
    z = torch.randn(4000, 3, generator=torch.Generator().manual_seed(3))
    with torch.no_grad():
        network.decoder.weight.mul_(6.0)
        raw = network.decoder(z)
        truth = raw / 3
        y = torch.distributions.Categorical(logits=truth).sample().float()
        refit_noise(network, Latents(z, raw, z, y, torch.ones(4000)))
        ratio = (network.decoder(z) / truth).median()
    assert abs(float(ratio) - 1) < 0.1


def aligned(network, data):
    refit_noise(network, data)
    set_budget(network, data)
    return network


def weight_of_data(network, features):
    with torch.no_grad():
        log_n = network.budget(network.density(features))
        return torch.sigmoid(log_n - network.prior_log_n)


def test_familiar_rows_keep_their_evidence_and_far_ones_lose_it_gradually():
    network = make()
    data = held_out(network)
    network.see_targets(data.y, data.weight)
    aligned(network, data)
    assert weight_of_data(network, data.features).min() > 0.5
    assert weight_of_data(network, data.features).median() > 0.975
    outward = torch.linspace(0, 60, 601)[:, None] * torch.tensor([1.0, 0.0, 0.0])
    weight = weight_of_data(network, outward)
    assert (weight.diff() < 0).all()
    assert float(((weight > 0.1) & (weight < 0.9)).sum()) / 10 > 1  # over more than one deviation of the data
    assert weight[-1] < 0.05


@pytest.mark.parametrize("deviation", [0.01, 0.3])
def test_the_prior_counts_by_distance_and_noise(deviation):
    network = make()
    data = held_out(network, deviation=lambda z: deviation)
    network.see_targets(data.y, data.weight)
    aligned(network, data)
    budget = network.budget
    with torch.no_grad():
        variance = network.family.link(network.decoder(data.latent))[:, 1].double()
        share = float(variance.log().mean().exp() / data.y.double().var(correction=0))
        for distance in (0.5, 1.0, 5.0, 50.0):
            odds = (network.prior_log_n - budget(budget.centre - budget.unit * distance)).exp()
            near = 1 / (1 / share + 1 / MOST) * (0.01 + distance / 2)
            known = (near + (distance / 40) ** 3) * (1 + distance / 100) ** 2
            assert float(odds) == pytest.approx(known, rel=0.02)


def test_evidence_costs_ordinary_rows_next_to_nothing():
    network = make()
    data = held_out(network, 5000)
    network.see_targets(data.y, data.weight)
    aligned(network, data)
    with torch.no_grad():
        chi = network.family.link(network.decoder(data.latent)).double()
        log_n = network.budget(network.density(data.features)).double()
        scores = []
        for amount in (log_n, torch.full_like(log_n, 50.0)):
            predictive = network.predict(network.family.evidence(chi, amount)).posterior.predictive()
            levels = torch.arange(0.05, 1, 0.1, dtype=torch.float64)[:, None]
            error = data.y - predictive.icdf(levels)
            scores.append(float(torch.maximum(levels * error, (levels - 1) * error).mean()))
    assert scores[0] < 1.01 * scores[1]


def test_the_lowest_of_few_rows_does_not_set_the_unit():
    units = []
    for strays in (0, 1):
        network = make()
        data = held_out(network, 40)
        data.features[:strays] += 12.0
        units.append(float(aligned(network, data).budget.unit))
    assert units[1] < 1.5 * units[0]


def test_other_budgets_are_left_alone():
    network = make(budget="exp")
    set_budget(network, held_out(network))
    assert float(network.budget.log_budget) == 3.0


def test_an_event_that_never_happened_counts_in_full():
    torch.manual_seed(0)
    mixture = densities.get("gaussian_mixture", 3, n_components=1)
    network = NaturalPosteriorNetwork(
        nn.Identity(), families.get("normal"), densities.Surprise(mixture), 3, bypass=Last()
    )
    network.eval().density.refit(torch.randn(4000, 4))
    plain = held_out(network)
    data = Latents(plain.latent, plain.raw, torch.cat([plain.features, torch.zeros(2000, 1)], 1), plain.y, plain.weight)
    aligned(network, data)
    event = data.features.clone()
    event[:, -1] = -math.log(100)
    with torch.no_grad():
        moved = network.budget.distance(network.density(event)) - network.budget.distance(
            network.density(data.features)
        )
    torch.testing.assert_close(moved, torch.full((2000,), EVENT), rtol=1e-3, atol=1e-3)


class Last(nn.Module):
    """A bypass of one feature."""

    latent_dim = 1

    def forward(self, x):
        return x[..., :1]
