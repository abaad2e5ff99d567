"""How much noise a network leaves: what decides how soon its answers return to the prior."""

import numpy as np
import pytest
import torch

from families.references import REFERENCES
from natpn import families

ONES = torch.ones(1000, dtype=torch.float64)


@pytest.mark.parametrize(
    "reference", [r for several in REFERENCES.values() for r in several], ids=lambda r: repr(r.family)
)
def test_the_noise_is_a_share_for_every_family(reference):
    """Of each family: the same for everyone, and the χ of the targets themselves."""
    family = reference.family
    y = torch.tensor([y for chi in reference.chis[: reference.ordinary] for y in reference.targets(chi)])
    y = y.squeeze(-1) if not family.support.event_shape else y
    own = family.link(family.inverse_link(family.statistics(y).double()))
    weight = torch.ones(len(y), dtype=torch.float64)
    usual = family.marginal(y).chi.double().expand_as(own)
    for chi in (own, usual):
        assert 0 < family.noise_share(chi, y, weight) <= 1


@pytest.mark.parametrize("name", ["normal", "lognormal"])
def test_numbers_leave_the_geometric_mean_of_their_variances(name):
    rng = np.random.default_rng(0)
    variance = rng.uniform(0.1, 0.4, 1000)
    y = 2 * rng.normal(size=1000)
    chi = torch.from_numpy(np.stack([np.zeros(1000), variance], 1))
    targets = torch.from_numpy(np.exp(y) if name == "lognormal" else y)
    found = families.get(name).noise_share(chi, targets, ONES)
    assert found == pytest.approx(np.exp(np.log(variance).mean()) / y.var(), rel=1e-6)


def test_counts_leave_their_rate():
    rng = np.random.default_rng(0)
    rate = rng.uniform(0.5, 8, 1000)
    y = rng.poisson(rate)
    found = families.get("poisson").noise_share(torch.from_numpy(rate)[:, None], torch.from_numpy(y), ONES)
    assert found == pytest.approx(np.exp(np.log(rate / y.var()).clip(max=0).mean()), rel=1e-6)


def test_classes_leave_a_fifth_of_their_entropy_and_weights_count():
    p = torch.tensor([[0.9, 0.1], [0.5, 0.5]], dtype=torch.float64)
    y, weight = torch.tensor([0.0, 1.0]), torch.tensor([3.0, 1.0], dtype=torch.float64)
    known = 0.2 * (0.75 * 0.3250829734 + 0.25 * np.log(2))
    assert families.get("categorical", n_classes=2).noise_share(p, y, weight) == pytest.approx(known)
    assert families.get("bernoulli").noise_share(p[:, 1:], y, weight) == pytest.approx(known)
