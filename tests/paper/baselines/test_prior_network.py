import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose
from torch import nn
from torch.distributions import Dirichlet, kl_divergence

from natpn_paper.baselines import RPriorNetClassifier
from natpn_paper.baselines.prior_network import ReverseDivergenceLoss
from paper.baselines.problems import clusters, quick


def test_the_loss_is_the_reverse_divergence_to_its_two_targets():
    x, y = torch.randn(5, 3), torch.tensor([0.0, 1, 2, 1, 0])
    outside = torch.full((1, 3), 2.0)
    loss = ReverseDivergenceLoss(nn.Identity(), 3, 100.0, 0.5, outside).eval()(x, y)
    target = torch.ones(5, 3) + 100 * torch.eye(3)[y.long()]
    want = kl_divergence(Dirichlet(x.exp()), Dirichlet(target))
    far = kl_divergence(Dirichlet(outside.exp()), Dirichlet(torch.ones(1, 3)))
    assert_allclose(loss, (want + 0.5 * far) / 100, rtol=1e-4)


def test_it_is_least_at_the_target():
    raw = torch.log(torch.tensor([[101.0, 1.0, 1.0]]))
    flat = torch.zeros(1, 3)
    loss = ReverseDivergenceLoss(nn.Identity(), 3, 100.0, 1.0, flat).eval()
    assert_allclose(loss(raw, torch.zeros(1)), 0.0, atol=1e-6)
    assert float(loss(raw + 0.1, torch.zeros(1))) > 1e-5


def test_noise_is_new_in_training_and_the_same_in_validation():
    loss = ReverseDivergenceLoss(nn.Identity(), 3, 100.0, 1.0, None, seed=4)
    x = torch.zeros(50, 3)
    assert not torch.equal(loss.train()._outside(x), loss._outside(x))
    assert torch.equal(loss.eval()._outside(x), loss._outside(x))


@pytest.mark.slow
def test_it_knows_training_rows_and_not_what_it_was_told_to_be_far():
    X, y = clusters(300)
    ood = np.random.default_rng(0).normal(6.0, 1.0, size=(300, 2))
    model = RPriorNetClassifier(ood=ood, max_epochs=30, random_state=0).fit(X, y)
    assert np.median(np.exp(model.score_samples(X))) == pytest.approx(103, rel=0.5)
    assert np.median(np.exp(model.score_samples(ood))) == pytest.approx(3, rel=0.5)
    assert_allclose(model.predict_proba(ood).mean(0), 1 / 3, atol=0.1)


def test_inputs_that_are_out_of_distribution_are_checked():
    X, y = clusters(30)
    with pytest.raises(ValueError, match="3 features"):
        quick("R-PriorNet", "classes", ood=np.zeros((4, 3))).fit(X, y)


@pytest.mark.parametrize(("name", "value"), [("concentration", 0.0), ("ood_weight", -1.0)])
def test_wrong_parameters_are_named(name, value):
    with pytest.raises(ValueError, match=f"{name}: expected a number"):
        quick("R-PriorNet", "classes", **{name: value}).fit(*clusters(20))
