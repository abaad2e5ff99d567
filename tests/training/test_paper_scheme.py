"""The paper's scheme: what it leaves alone, and how it stays alive."""

from dataclasses import replace

import pytest
import torch
from torch.testing import assert_close

from natpn import encoders, families
from natpn.network import NaturalPosteriorNetwork
from natpn.training import Paper, fit
from natpn.training.batches import Rows
from natpn.training.descent import evaluate
from natpn.training.losses import LEAST, BayesianLoss, FineTuningLoss, _at_least, marginal
from natpn.training.session import Session
from training.problems import Data, network, problem

SCHEME = Paper(max_epochs=6, batch_size=32, learning_rate=1e-2, warm_up_epochs=1, fine_tuning_epochs=0)


def made(family: families.Family, density: str = "radial") -> NaturalPosteriorNetwork:
    return network(family, dropout=0.0, density=density, budget="normal", bypass=None)


def validation_loss(model: NaturalPosteriorNetwork, train: Data, held_out: Data) -> float:
    session = Session(model, Rows(*held_out), Rows(*held_out), torch.device("cpu"), 0, "float32", None, {}, False)
    _, scale = marginal(model.family, train[1], torch.ones(len(train[1])))
    return float(evaluate(BayesianLoss(model, 1e-5, scale), session.validation, session)[0])


@pytest.mark.parametrize("density", ["radial", "maf"])
def test_latents_and_density_have_no_frame(density):
    family, train, held_out = problem("normal")
    model = made(family, density)
    fit(model, (3 + train[0], train[1]), (3 + held_out[0], held_out[1]), scheme=replace(SCHEME, fine_tuning_epochs=2))
    assert_close(model.density.location, torch.zeros(3))
    assert_close(model.density.scale, torch.ones(3))
    assert_close(model.normalisation.running_mean, torch.zeros(3))
    assert_close(model.normalisation.running_variance, torch.ones(3))


def test_the_decoder_starts_at_the_marginal():
    family, train, held_out = problem("poisson")
    model = made(family)
    fit(model, train, held_out, scheme=replace(SCHEME, learning_rate=1e-9))
    assert_close(model.decoder.bias.exp(), train[1].mean()[None], rtol=1e-3, atol=0)


@pytest.mark.parametrize("name", ["normal", "poisson", "categorical"])
def test_rows_without_evidence_still_teach(name):
    family, (x, y), _ = problem(name)
    loss = BayesianLoss(made(family), 0.0)
    loss.network.budget.log_budget.fill_(-1e6)
    loss.train()(x, y).mean().backward()
    for part in (loss.network.encoder.layers, loss.network.decoder, loss.network.density):
        assert sum(float(p.grad.abs().sum()) for p in part.parameters()) > 1e-8, part
    taught = loss(x, y)
    loss.network.zero_grad()
    with torch.no_grad():
        evidence = loss.network.see(x)
    assert_close(taught, loss.of(replace(evidence, log_n=torch.full_like(evidence.log_n, LEAST)), y))
    # in validation the prior speaks
    prior = family.posterior(family.evidence(loss.network.prior.chi.expand(len(x), -1), loss.network.prior.log_n))
    assert_close(loss.eval()(x, y), -prior.expected_log_likelihood(y))


def test_rows_without_evidence_count_beside_others():
    family, (x, y), _ = problem("categorical")
    loss = BayesianLoss(made(family), 0.0).train()
    sizes = []
    for log_budget in (-1e6, 20.0):
        loss.network.budget.log_budget.fill_(log_budget)
        loss.network.zero_grad()
        loss(x, y).mean().backward()
        sizes.append(float(loss.network.decoder.weight.grad.norm()))
    assert sizes[0] > 0.1 * sizes[1]


def test_latents_of_pictures_start_around_zero():
    x, y = torch.randn(80, 1, 8, 8) + 3, torch.arange(80) % 2
    encoder = encoders.get("resnet9", shape=(1, 8, 8), latent_dim=3)
    model = NaturalPosteriorNetwork(encoder, families.get("categorical", n_classes=2), "radial", 3, "normal")
    fit(model, (x, y), (x, y), scheme=replace(SCHEME, max_epochs=1, warm_up_epochs=0, learning_rate=1e-9))
    latents = model.eval().represent(x)[0].detach()
    assert_close(latents.mean(0), torch.zeros(3), rtol=0, atol=0.2)
    assert_close(latents.std(0), torch.ones(3), rtol=0.2, atol=0)


def test_a_run_that_starts_at_the_prior_recovers():
    family, train, held_out = problem("poisson", rows=400)
    model = made(family)
    with torch.no_grad():
        model.encoder.layers[-1].bias.add_(6.0)
        model.decoder.weight.zero_()
        assert float(model.eval()(train[0]).evidence.log_n.max()) < -30
    before = validation_loss(model, train, held_out)
    fit(model, train, held_out, scheme=replace(SCHEME, warm_up_epochs=0, max_epochs=30, learning_rate=3e-2))
    assert validation_loss(model, train, held_out) < before / 5


def test_the_bound_lets_nothing_ask_for_less():
    log_n = torch.tensor([-50.0, -50.0, 1.0, 1.0], requires_grad=True)
    bounded = _at_least(log_n)
    assert bounded.tolist() == [LEAST, LEAST, 1.0, 1.0]
    (gradient,) = torch.autograd.grad(bounded, log_n, torch.tensor([3.0, -3.0, 3.0, -3.0]))
    assert gradient.tolist() == [0.0, -3.0, 3.0, -3.0]


@pytest.mark.parametrize("density", ["radial", "maf"])
@pytest.mark.parametrize(("rate", "density_rate"), [(1e-2, None), (1.0, None), (1e-2, 0.1), (1e-2, 3.0)])
def test_fine_tuning_hardly_costs_the_prediction(density, rate, density_rate):
    family, train, held_out = problem("normal")
    model = made(family, density)
    scheme = replace(SCHEME, learning_rate=rate, fine_tuning_epochs=8, density_rate=density_rate)
    result = fit(model, train, held_out, scheme=scheme)
    joint = [entry["best"] for entry in result.history if entry["phase"] == "joint"][-1]
    assert any(entry["phase"] == "fine-tuning" for entry in result.history)
    assert validation_loss(model, train, held_out) <= joint + 0.2  # a standard error


@pytest.mark.parametrize(("shift", "taken"), [(0.01, True), (40.0, False)])
def test_a_density_is_taken_if_the_prediction_allows_it(shift, taken):
    family, train, (x, y) = problem("normal")
    model = made(family)
    fit(model, train, (x, y), scheme=SCHEME)
    with torch.no_grad():
        latent, raw = model.represent(x)
    loss = BayesianLoss(model, 1e-5)
    trainee = FineTuningLoss(loss, latent, raw, y, torch.ones(len(y)))
    assert not {id(p) for p in trainee.parameters()} & {id(p) for p in model.parameters()}
    assert_close(trainee.losses(model.density).float(), loss.eval()(x, y).detach())
    with torch.no_grad():
        trainee.density.location.add_(shift)
    before = model.density(latent).detach()
    trainee.close()
    assert torch.equal(model.density(latent), before) == (not taken)
    if taken:
        assert_close(model.density.location, trainee.density.location)


def test_fine_tuning_from_a_new_start_learns_more():
    family, train, held_out = problem("normal")
    found = {}
    for rate in (None, 0.1):
        model = made(family)
        result = fit(model, train, held_out, scheme=replace(SCHEME, fine_tuning_epochs=20, density_rate=rate))
        found[rate] = -min(e["best"] for e in result.history if e["phase"] == "fine-tuning")
        standard = torch.equal(model.density.scale, torch.ones(model.density.dim))
        assert standard == (rate is None)
        assert sum(e["phase"] == "fine-tuning" for e in result.history) == 20
    assert found[0.1] > found[None] + 0.5


def test_fine_tuning_that_goes_too_far_keeps_an_earlier_density(monkeypatch):
    family, train, held_out = problem("normal")
    model = made(family)
    seen = []

    def may_be_kept(trainee):
        density = trainee.density(held_out[0][:, :1].expand(-1, trainee.density.dim)).detach()
        seen.append(density)
        return any(torch.equal(density, early) for early in seen[:2])

    monkeypatch.setattr(FineTuningLoss, "may_be_kept", may_be_kept)
    result = fit(model, train, held_out, scheme=replace(SCHEME, fine_tuning_epochs=6))
    losses = [entry["validation_loss"] for entry in result.history if entry["phase"] == "fine-tuning"]
    assert losses[1] < losses[0]
    assert min(losses[2:]) < losses[1]  # a better density comes later
    assert len(seen) > 3
    assert torch.equal(seen[-1], seen[1])
    assert not torch.equal(seen[-1], seen[2])
    final = model.eval().density(held_out[0][:, :1].expand(-1, model.density.dim))
    assert_close(final, seen[1])
