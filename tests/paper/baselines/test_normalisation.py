"""Batch norm of latents is torch's."""

import torch
from torch import nn
from torch.testing import assert_close

from natpn_paper.baselines.normalisation import LatentNormalisation


def test_normalisation_is_batch_norm():
    ours, theirs = LatentNormalisation(3), nn.BatchNorm1d(3, affine=False, momentum=0.05)
    for _ in range(3):
        z = 3 * torch.randn(64, 3) + 2
        assert_close(ours(z), theirs(z))
    assert_close(ours.running_variance, theirs.running_var)
    z = torch.randn(64, 3)
    assert_close(ours.eval()(z), theirs.eval()(z))


def test_normalisation_leaves_its_averages_alone_in_evaluation_and_for_one_row():
    normalisation = LatentNormalisation(3)
    before = normalisation.running_mean.clone()
    normalisation(torch.randn(1, 3))
    normalisation.eval()(torch.randn(9, 3))
    assert torch.equal(before, normalisation.running_mean)
