"""Ensembles: Bayesian combination, and members whose weights are stacked."""

import math

import pytest
import torch
from torch.testing import assert_close

from families.references import REFERENCES
from natpn import encoders, families
from natpn.encoders.tabular import NumbersAndPieces
from natpn.network import NaturalPosteriorEnsemble, NaturalPosteriorNetwork
from natpn.network.default import PrincipalComponents

FAMILIES = [references[0].family for references in REFERENCES.values()]


def member(family, seed=0, encoding="plain", knots=0, **options):
    rows = torch.randn(50, 4, generator=torch.Generator().manual_seed(knots))
    torch.manual_seed(seed)
    encoder = encoders.get("tabular", n_features=4, latent_dim=5, hidden=8, encoding=encoding)
    network = NaturalPosteriorNetwork(encoder.fit_knots(rows), family, latent_dim=5, **options)
    network.normalisation.running_mean.normal_()
    network.normalisation.running_variance.uniform_(0.5, 2)
    return network


@pytest.mark.parametrize("family", FAMILIES, ids=repr)
def test_members_are_added_to_the_prior(family):
    members = [member(family, seed) for seed in range(3)]
    ensemble = NaturalPosteriorEnsemble(members).eval()
    x = torch.randn(6, 4)
    want = family.posterior(sum((m(x).evidence for m in members), family.prior()))
    got = ensemble(x)
    assert_close(got.posterior.entropy(), want.entropy())
    assert_close(got.posterior.evidence.chi, want.evidence.chi)
    assert_close(got.evidence.log_n.exp(), sum(m(x).evidence.log_n.exp() for m in members))


@pytest.mark.parametrize("knots", [[0, 0], [0, 1]], ids=["alike", "apart"])
@pytest.mark.parametrize("centres", [[0, 0], [0, 1]], ids=["alike", "apart"])
def test_what_members_have_in_common_is_calculated_once(knots, centres, monkeypatch):
    members = []
    for seed, (own, centre) in enumerate(zip(knots, centres, strict=True)):
        bypass = PrincipalComponents(4, 2).fit(torch.randn(20, 4, generator=torch.Generator().manual_seed(centre)))
        members.append(member(families.get("normal"), seed, "both", own, bypass=bypass).double().eval())
    ensemble, x = NaturalPosteriorEnsemble(members).eval(), torch.randn(6, 4).double()
    want = [m(x).evidence for m in members]
    calls = []
    for kind in (PrincipalComponents, NumbersAndPieces):
        original = kind.forward
        monkeypatch.setattr(kind, "forward", lambda *a, k=kind, f=original: calls.append(k) or f(*a))
    for with_gradients in (True, False):
        calls.clear()
        with torch.set_grad_enabled(with_gradients):
            got = ensemble(x).evidence
        assert_close(got.log_n, torch.stack([e.log_n for e in want]).logsumexp(0), rtol=1e-12, atol=1e-12)
        assert_close(got.chi, sum(want[1:], want[0]).chi, rtol=1e-12, atol=1e-12)
        assert calls.count(NumbersAndPieces) == len(set(knots))
        assert calls.count(PrincipalComponents) == len(set(centres))


def test_the_mean_counts_a_member_once():
    one = member(families.get("poisson"))
    x = torch.randn(6, 4)
    ensemble = NaturalPosteriorEnsemble([one, one, one], evidence="mean").eval()
    assert_close(ensemble(x).evidence.log_n, one(x).evidence.log_n)
    assert_close(ensemble(x).evidence.chi, one(x).evidence.chi)
    summed = NaturalPosteriorEnsemble([one, one, one]).eval()
    assert_close(summed(x).evidence.log_n, one(x).evidence.log_n + math.log(3))


@torch.no_grad()
def test_far_inputs_get_the_prior():
    ensemble = NaturalPosteriorEnsemble([member(families.get("normal"), s) for s in range(3)]).eval()
    posterior = ensemble(torch.randn(5, 4) * 1e6).posterior
    assert_close(posterior.evidence.chi, torch.tensor([0.0, 100.0]).expand(5, 2), rtol=1e-5, atol=1e-5)


def test_errors_say_what_to_do():
    family = families.get("poisson")
    with pytest.raises(ValueError, match="at least one"):
        NaturalPosteriorEnsemble([])
    with pytest.raises(ValueError, match="member 1 predicts"):
        NaturalPosteriorEnsemble([member(family), member(families.get("normal"))])
    with pytest.raises(ValueError, match="another prior"):
        NaturalPosteriorEnsemble([member(family), member(family, prior=family.prior([2.0]))])
    with pytest.raises(ValueError, match="'mean'"):
        NaturalPosteriorEnsemble([member(family)], evidence="meen")
