"""Members of an ensemble that each hold out a fold of their own."""

import math

import pytest
import torch
from torch import nn

from natpn import families
from natpn.network import NaturalPosteriorEnsemble, NaturalPosteriorNetwork
from natpn.training import Staged, fit, staged
from natpn.training.align import Latents, share_noise
from natpn.training.batches import Rows, folded
from training.problems import network, problem


def rows(n):
    return Rows(torch.arange(n, dtype=torch.float32)[:, None], torch.arange(n, dtype=torch.float32))


def test_a_member_is_trained_without_its_fold_and_judged_by_it():
    folds = torch.tensor([0, 1, 2, -1] * 5)
    train, held_out = folded(rows(20), folds, 3)
    seen = [set(), set(), set()]
    for _ in range(20):
        for x, y, weight in train.batches(5, torch.Generator().manual_seed(0), 3):
            assert x.shape == (3, 5, 1)
            assert y.shape == weight.shape == (3, 5)
            for member in range(3):
                seen[member] |= set(y[member].tolist())
    for member in range(3):
        own = set(torch.nonzero(folds == member).flatten().tolist())
        assert seen[member].isdisjoint(own)
        assert set(train.of(member).y.tolist()) == set(range(20)) - own
        assert set(held_out.of(member).y.tolist()) == own


def test_members_with_fewer_rows_get_rows_of_no_weight():
    folds = torch.tensor([0, 0, 0, 1, 1, 2, -1])
    _, held_out = folded(rows(7), folds, 3)
    ((x, y, weight),) = held_out.chunks(3)
    assert x.shape == (3, 3, 1)
    assert weight.tolist() == [[1, 1, 1], [1, 1, 0], [1, 0, 0]]
    assert [y[i][weight[i] > 0].tolist() for i in range(3)] == [[0, 1, 2], [3, 4], [5]]


def _members(family, stacked):
    if stacked:
        return [network(family, seed) for seed in range(3)]
    torch.manual_seed(0)
    return [NaturalPosteriorNetwork(nn.Linear(2, 3), family, latent_dim=3) for _ in range(3)]


@pytest.mark.parametrize("stacked", [True, False])
def test_targets_of_its_own_fold_do_not_reach_a_member(stacked):
    family, (x, y), _ = problem("normal", 240)
    folds = torch.arange(len(x)) % 3
    other = y.clone()
    other[folds == 0] = y[folds == 0].flip(0)  # the targets of all rows are the same, and so is where training starts
    found = []
    for targets in (y, other):
        members = _members(family, stacked)
        # one epoch, so that there is one state to choose
        fit(NaturalPosteriorEnsemble(members), (x, targets), folds, scheme=Staged(max_epochs=1, batch_size=32))
        found.append([torch.cat([p.flatten() for p in member.encoder.parameters()]) for member in members])
    same = [torch.equal(a, b) for a, b in zip(*found, strict=True)]
    assert same == [True, False, False]


@pytest.mark.parametrize(
    ("folds", "options", "message"),
    [
        (torch.zeros(5, dtype=torch.long), {}, "number of a member for each row"),
        (torch.zeros(180), {}, "number of a member for each row"),
        (torch.zeros(180, dtype=torch.long), {}, "at least one row for each of 2 members"),
        (torch.arange(180) % 2, {"scheme": "paper"}, "staged scheme alone"),
    ],
)
def test_folds_that_do_not_fit(folds, options, message):
    family, (x, y), _ = problem("normal", 240)
    model = NaturalPosteriorEnsemble([network(family, seed) for seed in range(2)])
    with pytest.raises(ValueError, match=message):
        fit(model, (x, y), folds, max_epochs=1, **options)


def test_members_share_their_noise_after_training(monkeypatch):
    family, (x, y), _ = problem("normal", 240)
    folds, given = torch.arange(len(x)) % 3, []
    monkeypatch.setattr(staged, "share_noise", lambda *arguments: given.append(arguments))
    fit(NaturalPosteriorEnsemble(_members(family, True)), (x, y), folds, max_epochs=1)
    ((members, said),) = given
    for place, answers in enumerate(said):
        for member, answer in zip(members, answers, strict=True):
            assert torch.equal(answer.y, y[folds == place])
            assert torch.allclose(answer.raw, member.represent(x[folds == place])[1], atol=1e-5)


def _says(mean, variance, y):
    n = len(y)
    raw = torch.stack([mean, torch.full((n,), math.log(variance))], 1)
    empty = torch.zeros(n, 1)
    return Latents(empty, raw, empty, y, torch.ones(n))


@pytest.mark.parametrize("remembered", [0.0, 0.5])
def test_noise_that_would_be_counted_twice_is_taken_off(remembered):
    # predictions of variance v around the truth; of rows that a member was trained on it remembers a share of the error
    g, n, size, v, noise = torch.Generator().manual_seed(0), 40_000, 5, 0.3, 1.0
    members = [network(families.get("normal"), seed) for seed in range(size)]
    before = [float(member.decoder.bias[1].detach()) for member in members]
    folds = []
    for place in range(size):
        y = math.sqrt(noise) * torch.randn(n, generator=g)
        said = []
        for k in range(size):
            fresh = math.sqrt(v) * torch.randn(n, generator=g)
            said.append(fresh if k == place else fresh + remembered * (y - fresh))
        folds.append([_says(mean, noise + v, y) for mean in said])
    share_noise(members, folds)
    change = [float(member.decoder.bias[1].detach()) - b for member, b in zip(members, before, strict=True)]
    # a linear memory hides (1 − h)² of the variance, of which 1 − h is made good
    seen = v * (1 - remembered)
    assert change == pytest.approx([math.log(1 - 2 * 0.8 * seen / (noise + v))] * size, abs=0.02)


def test_two_members_and_other_families_are_left_alone():
    for name, size in (("normal", 2), ("poisson", 3)):
        members = [network(families.get(name), seed) for seed in range(size)]
        before = [member.decoder.bias.detach().clone() for member in members]
        said = [[_says(torch.randn(9), 1.0, torch.zeros(9)) for _ in range(size)] for _ in range(size)]
        share_noise(members, said)
        assert all(torch.equal(b, m.decoder.bias) for b, m in zip(before, members, strict=True))
