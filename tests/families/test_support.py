"""Values that a target cannot have."""

import pickle

import pytest
import torch

from natpn.families import SupportError
from natpn.families.distribution import COUNTS
from natpn.families.multivariate_normal import vectors


def test_the_first_value_outside_is_told_of():
    with pytest.raises(SupportError, match=r"y: expected a count \(0, 1, 2, …\), got -1\.0 at index \(2,\)") as found:
        COUNTS.check(torch.tensor([1.0, 2.0, -1.0, 0.5]))
    error = found.value
    assert (error.argument, error.expected, error.got, error.index) == ("y", "a count (0, 1, 2, …)", -1.0, (2,))
    with pytest.raises(SupportError, match=r"prior: expected a vector .*nan.* at index \(1,\)"):
        vectors(2).check(torch.tensor([[0.0, 1.0], [torch.nan, 0.0]]), "prior")


def test_it_can_be_raised_again_by_another_process():
    with pytest.raises(SupportError) as found:
        COUNTS.check(torch.tensor([0.5]))
    again = pickle.loads(pickle.dumps(found.value))
    assert str(again) == str(found.value)
    assert again.index == (0,)
