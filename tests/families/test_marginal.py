"""The prior that is the marginal of the targets: its predictive has their mean, and their variance."""

import pytest
import torch
from torch.testing import assert_close

from natpn import families
from natpn.families import NegativeBinomial, Poisson

G = torch.Generator().manual_seed(0)
POSITIVE = torch.rand(2000, generator=G, dtype=torch.float64).reciprocal().clamp(max=20)
COUNTS = torch.poisson(POSITIVE, generator=G)


@pytest.mark.parametrize(
    ("family", "y"),
    [
        (families.get("normal"), 3 * torch.randn(500, generator=G, dtype=torch.float64) + 5),
        (families.get("poisson"), COUNTS),
        (families.get("negative_binomial", r=3.0), COUNTS),
        (families.get("gamma", shape=2.0), POSITIVE),
    ],
    ids=["normal", "poisson", "negative_binomial", "gamma"],
)
def test_the_predictive_has_the_moments_of_the_targets(family, y):
    prior = family.marginal(y)
    predictive = family.posterior(prior).predictive()
    assert_close(predictive.mean.double(), y.mean(), rtol=1e-4, atol=0)
    assert_close(predictive.variance.double(), y.var(unbiased=False), rtol=1e-3, atol=0)
    assert prior.log_n.exp() < 10.001
    twice = family.marginal(torch.cat([y, y]))
    weighted = family.marginal(y, torch.full((len(y),), 2.0))
    assert_close(twice.chi, prior.chi)
    assert_close(weighted.chi, prior.chi)


def test_classes_have_their_shares_and_none_is_impossible():
    prior = families.get("categorical", n_classes=3).marginal(torch.tensor([0.0] * 70 + [1.0] * 27))
    assert_close(prior.chi, torch.tensor([0.71, 0.28, 0.01]))


def test_the_size_of_counts_is_found_on_held_out_rows():
    rate = torch.full((4000,), 5.0)
    torch.manual_seed(0)
    spread = torch.poisson(rate * torch.distributions.Gamma(2.0, 2.0).sample((4000,)))
    raw = rate.log()[:, None]
    found = NegativeBinomial(None).refined(raw, spread, torch.ones(4000))
    assert 1.7 < found.r < 2.3
    assert NegativeBinomial(None).refined(raw, torch.poisson(rate, generator=G), torch.ones(4000)) == Poisson()
