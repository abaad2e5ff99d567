"""Theorem 1 in float32: far from the data the posterior is the prior, for every family, density and encoder."""

from functools import cache

import pytest
import torch
from torch import Tensor, nn
from torch.testing import assert_close

from encoders.cases import CASES
from families.references import REFERENCES
from natpn import densities
from natpn.densities import DENSITIES, Density
from natpn.encoders import ENCODERS
from natpn.families import ScalarDistribution
from natpn.network import NaturalPosteriorNetwork, PrincipalComponents

FAMILIES = [references[0].family for references in REFERENCES.values()]
CHOSEN = ("tabular plain", "tabular piecewise", "image tiny", "resnet9 tiny", "resnet18 small", "dense reduced")
SCALES = [10.0**k for k in (0, 1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 14, 15, 16, 19, 22, 26, 30)]
FAR = SCALES.index(1e6)


@cache
def trained(case: str) -> tuple[nn.Module, Tensor]:
    """An encoder with statistics of its own, and two inputs at every scale: (scale, 2, …)."""
    encoder = CASES[case].build().eval()
    x = CASES[case].inputs(2, seed=5)
    return encoder, torch.stack([(s * x.double()).float() for s in SCALES])


@cache
def fitted(case: str, name: str) -> Density:
    """A density that has seen the normalised latents of ordinary inputs."""
    torch.manual_seed(0)
    encoder, _ = trained(case)
    options = {"n_components": 4} if name == "gaussian_mixture" else {}
    density = densities.get(name, 5, **options)
    with torch.no_grad():
        z = encoder(CASES[case].inputs(64)).reshape(-1, 5)
        density.refit((z - z.mean(0)) / z.std(0))
    return density


@cache
def normalised(case: str, name: str) -> NaturalPosteriorNetwork:
    """A network whose latent normalisation has seen ordinary inputs; families take it over."""
    encoder, _ = trained(case)
    network = NaturalPosteriorNetwork(encoder, FAMILIES[0], fitted(case, name), latent_dim=5).eval()
    with torch.no_grad():
        z = encoder(CASES[case].inputs(64)).reshape(-1, 5)
        network.normalisation.running_mean.copy_(z.mean(0))
        network.normalisation.running_variance.copy_(z.var(0))
        latents = [network.represent(x)[0] for x in trained(case)[1]]
    network.latents = torch.stack(latents)
    return network


def centre(distribution) -> Tensor:
    mean = distribution.mean
    if bool(mean.isfinite().all()):
        return mean
    assert isinstance(distribution, ScalarDistribution)
    return distribution.icdf(torch.tensor(0.5))


def check(network: NaturalPosteriorNetwork, evidence) -> None:
    """Evidence of shape (scale, 2, …) has to fall to nothing, and leave the prior."""
    assert not evidence.log_n.isnan().any()
    assert evidence.log_n.max() <= 60
    posterior = network.predict(evidence).posterior
    for name, value in vars(posterior).items():
        if isinstance(value, Tensor):
            assert value.isfinite().all(), name
    assert posterior.entropy().isfinite().all()
    assert evidence.log_n[FAR:].max() < -25
    affine = slice(SCALES.index(1e3), SCALES.index(1e14))  # later the encoders cut at their limit, each entry by itself
    assert (evidence.log_n[affine].diff(dim=0) < 0).all()
    far = network.family.evidence(evidence.chi[FAR:], evidence.log_n[FAR:])
    got = centre(network.predict(far).posterior.predictive())
    want = centre(network.family.posterior(network.prior).predictive())
    assert_close(got, want.expand_as(got), rtol=1e-5, atol=1e-5)


def test_every_encoder_is_covered():
    assert {CASES[c].name for c in CHOSEN} == set(ENCODERS)


def pairs():
    """Every encoder with a mixture, every density with a table's encoder; the other pairs are slow."""
    for case in CHOSEN:
        for density in DENSITIES:
            first = density == "gaussian_mixture" or CASES[case].name == "tabular"
            yield pytest.param(case, density, marks=() if first else pytest.mark.slow)


@pytest.mark.parametrize(("case", "density"), list(pairs()))
@torch.no_grad()
def test_far_inputs_get_the_prior(case, density):
    base = normalised(case, density)
    features, log_n = base.latents, None
    for family in FAMILIES:
        torch.manual_seed(1)
        network = NaturalPosteriorNetwork(base.encoder, family, base.density, latent_dim=5).eval()
        if log_n is None:  # the density does not depend on the family
            log_n = network.budget(network.density(features))
        check(network, family.evidence(family.link(network.decoder(features)), log_n))


@pytest.mark.parametrize("case", ["tabular plain", "dense reduced"])
@torch.no_grad()
def test_the_forward_pass_is_what_was_checked(case):
    base = normalised(case, "gaussian_mixture")
    for x, z in zip(trained(case)[1], base.latents, strict=True):
        got = base(x).evidence
        assert_close(got.log_n, base.budget(base.density(z)))
        assert_close(got.chi, base.family.link(base.decoder(z)))


@torch.no_grad()
def test_far_inputs_get_the_prior_with_a_bypass():
    encoder, x = trained("tabular piecewise")
    rows = CASES["tabular piecewise"].inputs(64)
    bypass = PrincipalComponents(6, 4).fit(rows)
    for family in FAMILIES:
        network = NaturalPosteriorNetwork(encoder, family, latent_dim=5, bypass=bypass).eval()
        network.density.refit(network.features(rows, network.represent(rows)[0]))
        prediction = [network(part).evidence for part in x]
        check(network, family.evidence(*(torch.stack([getattr(p, k) for p in prediction]) for k in ("chi", "log_n"))))


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf")])
@torch.no_grad()
def test_what_is_not_a_number_gets_the_prior(value):
    network = NaturalPosteriorNetwork(nn.Linear(3, 5), FAMILIES[0], latent_dim=5).eval()
    x = torch.randn(2, 3)
    x[1, 0] = value
    prediction = network(x)
    assert prediction.evidence.log_n[0].isfinite()
    assert prediction.evidence.log_n[1] < -100
    assert_close(prediction.posterior.predictive().probs[1].float(), torch.full((3,), 1 / 3))
