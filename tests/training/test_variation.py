"""Pictures are shifted and mirrored in training, and only there."""

from functools import partial

import pytest
import torch
from torch import nn

from natpn import families
from natpn.encoders import DenseEncoder, ResNet9Encoder
from natpn.network import NaturalPosteriorNetwork
from natpn.training import Descent, Paper, Staged, Trainee, fit, minimise
from natpn.training.session import Session
from natpn.training.variation import Variation, looks_the_same_mirrored

SIDE = 32


def drawn(rows=400, seed=0):
    return torch.randn(rows, 1, SIDE, SIDE, generator=torch.Generator().manual_seed(seed))


def strokes(lean, rows=400):
    """Return pictures of one stroke each, bright or dark and at random places, which leans to one side."""
    generator = torch.Generator().manual_seed(0)
    place = torch.randint(8, SIDE - 8, (rows, 1, 1), generator=generator)
    sign = 2.0 * torch.randint(2, (rows, 1, 1), generator=generator) - 1
    across, down = torch.arange(SIDE), torch.arange(SIDE)[:, None]
    return (sign * (-((across - place + lean * (down - SIDE / 2)) ** 2) / 8).exp())[:, None]


@pytest.mark.parametrize("mirror", [True, False])
def test_every_shift_comes_and_mirrored_ones_if_asked(mirror):
    torch.manual_seed(0)
    image = torch.arange(float(SIDE * SIDE)).reshape(1, 1, SIDE, SIDE)
    varied = Variation(mirror)(image.expand(2000, -1, -1, -1))
    padded = nn.functional.pad(image, (2, 2, 2, 2), mode="reflect")[0, 0]
    allowed = {padded[i : i + SIDE, j : j + SIDE].numpy().tobytes() for i in range(5) for j in range(5)}
    if mirror:
        allowed |= {padded[i : i + SIDE, j : j + SIDE].flip(-1).numpy().tobytes() for i in range(5) for j in range(5)}
    assert {one.contiguous().numpy().tobytes() for one in varied[:, 0]} == allowed


def test_mirrored_pictures_look_the_same_or_not():
    assert looks_the_same_mirrored(drawn())
    assert looks_the_same_mirrored(torch.cat([strokes(0.5), strokes(-0.5)]))
    assert not looks_the_same_mirrored(strokes(0.5))
    bright = drawn()
    bright[..., :4] += 1
    assert not looks_the_same_mirrored(bright)
    assert not looks_the_same_mirrored(torch.zeros(3, 1, 2, 2))


class Seen(Trainee):
    """A loss that keeps what it sees."""

    def __init__(self):
        super().__init__()
        self.trained = nn.Linear(1, 1)
        self.seen = {True: [], False: []}

    def forward(self, x, y):
        self.seen[self.training].append(x.clone())
        return self.trained(x.mean((1, 2, 3))[:, None])[:, 0].square()


def test_inputs_vary_in_training_alone():
    x, y = drawn(4), torch.zeros(4)
    rows = {one.numpy().tobytes() for one in x}
    loss = Seen()
    minimise(loss, (x, y), (x, y), Descent(3, 4, 1e-3, vary=Variation(mirror=True)))
    assert all(torch.equal(seen, x) for seen in loss.seen[False])
    assert len(loss.seen[False]) == 3
    varied = [one.contiguous().numpy().tobytes() in rows for seen in loss.seen[True] for one in seen]
    assert len(varied) == 12
    assert sum(varied) < 6


@pytest.mark.parametrize(
    ("dense", "vary", "expected"), [(False, True, True), (False, False, False), (True, True, False)]
)
@pytest.mark.parametrize("scheme", [Staged, partial(Paper, warm_up_epochs=0, fine_tuning_epochs=0)])
def test_pictures_with_one_target_are_varied(monkeypatch, scheme, dense, vary, expected):
    made = []
    monkeypatch.setattr(Variation, "__call__", lambda self, x: made.append(len(x)) or x)
    shape = (1, 8, 8)
    encoder = DenseEncoder(shape, 4) if dense else ResNet9Encoder(shape, 4, width=4)
    network = NaturalPosteriorNetwork(encoder, families.get("normal"), latent_dim=4)
    x = drawn(40)[..., :8, :8]
    y = x[:, 0] if dense else x.mean((1, 2, 3))
    fit(network, (x[:32], y[:32]), (x[32:], y[32:]), scheme=scheme(max_epochs=1, vary=vary))
    assert bool(made) == expected


def test_a_killed_fit_goes_on_with_the_same_shifts(tmp_path, monkeypatch):
    x = drawn(48)[..., :16, :16]
    y = (x.mean((1, 2, 3)) > 0).long()

    def fitted(directory):
        torch.manual_seed(3)
        encoder = ResNet9Encoder((1, 16, 16), 4, width=4)
        network = NaturalPosteriorNetwork(encoder, families.get("categorical", n_classes=2), latent_dim=4)
        fit(network, (x[:32], y[:32]), (x[32:], y[32:]), max_epochs=4, batch_size=8, checkpoint_dir=directory)
        return network.state_dict()

    want = fitted(None)
    save = Session.save

    def killed(self, running):
        save(self, running)
        if running is not None and running["epoch"] == 2:
            raise KeyboardInterrupt

    monkeypatch.setattr(Session, "save", killed)
    with pytest.raises(KeyboardInterrupt):
        fitted(tmp_path)
    monkeypatch.setattr(Session, "save", save)
    got = fitted(tmp_path)
    assert all(torch.equal(got[name], value) for name, value in want.items())
