"""Checkpoints: a run goes on from its own, whole file, or says why not."""

import errno
import os

import numpy as np
import pytest
import torch
from sklearn.base import clone
from torch.utils.data import DataLoader, TensorDataset

from estimators.problems import numbers
from natpn import NatPNRegressor, families
from natpn.encoders import get as get_encoder
from natpn.training import fit
from natpn.training.batches import digest
from natpn.training.session import Session
from training.problems import network, problem

BASE = NatPNRegressor(max_epochs=2, latent_dim=4, random_state=0)
X, Y = numbers(60)
COUNTS = np.abs(np.round(5 * Y)) + 1
OTHER_ENCODER = get_encoder("tabular", n_features=2, latent_dim=4, hidden=64)


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    """The checkpoint of a run on counts, with the settings that it had."""
    directory = tmp_path_factory.mktemp("run")
    model = clone(BASE).set_params(family="poisson", checkpoint_dir=directory).fit(X, COUNTS)
    return model, (directory / "training.pt").read_bytes()


@pytest.mark.parametrize(
    ("settings", "part"),
    [
        ({"family": "negative_binomial"}, "network"),
        ({"family": families.get("negative_binomial", r=3.0)}, "network"),
        ({"prior": (2.0, 5.0)}, "network"),
        ({"budget": "constant"}, "network"),
        ({"density": "radial"}, "network"),
        ({"encoder": torch.nn.Linear(2, 4)}, "network"),
        ({"latent_dim": 5}, "network"),
        ({"ensemble_size": 3}, "network"),
        ({"random_state": 1}, "settings"),
        ({"learning_rate": 1e-2}, "settings"),
        ({"scheme": "paper"}, "settings"),
    ],
)
def test_another_run_does_not_go_on_from_it(written, tmp_path, settings, part):
    model, content = written
    (tmp_path / "training.pt").write_bytes(content)
    other = clone(model).set_params(**settings, checkpoint_dir=tmp_path)
    with pytest.raises(
        ValueError, match=rf"^checkpoint_dir: expected a run like this one, got .* other .*{part}.*dele"
    ):
        other.fit(X, COUNTS)
    assert (tmp_path / "training.pt").read_bytes() == content


@pytest.mark.parametrize("what", ["one input", "one target", "weights", "two rows exchanged", "minus zero"])
def test_other_data_of_the_same_shape_does_not_go_on_from_it(tmp_path, what):
    family, (x, y), held_out = problem("normal")
    x[3, 0] = 0.0
    weight = torch.ones(len(y))
    fit(network(family), (x, y, weight), held_out, max_epochs=1, checkpoint_dir=tmp_path)
    x, y, weight = x.clone(), y.clone(), weight.clone()
    if what == "one input":
        x[5, 1] = torch.nextafter(x[5, 1], torch.tensor(9.0))
    elif what == "one target":
        y[7] += 1e-6
    elif what == "weights":
        weight[0], weight[1] = 0.5, 1.5
    elif what == "two rows exchanged":
        x[[0, 1]] = x[[1, 0]]
    else:
        x[3, 0] = -0.0
    with pytest.raises(ValueError, match=r"checkpoint_dir: .* of a run with other training data;"):
        fit(network(family), (x, y, weight), held_out, max_epochs=1, checkpoint_dir=tmp_path)


def test_other_initial_weights_do_not_go_on_from_it(tmp_path):
    family, train, held_out = problem("normal")
    fit(network(family, 0), train, held_out, max_epochs=1, checkpoint_dir=tmp_path)
    with pytest.raises(ValueError, match=r"checkpoint_dir: .* of a run with other network;"):
        fit(network(family, 1), train, held_out, max_epochs=1, checkpoint_dir=tmp_path)


@pytest.mark.parametrize("other", ["tensors", "rows", "batches"])
def test_another_loader_does_not_go_on_from_it(tmp_path, other):
    family, (x, y), held_out = problem("normal")

    def run(x, y, batch):
        loader = DataLoader(TensorDataset(x, y), batch_size=batch, shuffle=True)
        return fit(network(family), loader, held_out, max_epochs=1, checkpoint_dir=tmp_path)

    first = run(x, y, 32)
    assert run(x, y, 32).history == first.history
    changed = {"tensors": (x + 1, y, 32), "rows": (x[1:], y[1:], 32), "batches": (x, y, 16)}
    with pytest.raises(ValueError, match=r"checkpoint_dir: .* of a run with other training data;"):
        run(*changed[other])


DAMAGES = {
    "one bit": lambda content: content[:-500] + bytes([content[-500] ^ 1]) + content[-499:],
    "a hole": lambda content: content[:2000] + bytes(1000) + content[3000:],
    "cut short": lambda content: content[:-1000],
    "empty": lambda content: b"",
    "zeros": lambda content: bytes(len(content)),
    "its hash": lambda content: content[:20] + bytes([content[20] ^ 1]) + content[21:],
    "something else": lambda content: b"my notes\n",
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_file_is_refused_and_kept(written, tmp_path, damage):
    model, content = written
    (tmp_path / "training.pt").write_bytes(DAMAGES[damage](content))
    with pytest.raises(
        ValueError, match=r"^checkpoint_dir: expected a whole checkpoint, got .* damaged .*delete the f"
    ):
        clone(model).set_params(checkpoint_dir=tmp_path).fit(X, COUNTS)
    assert (tmp_path / "training.pt").read_bytes() == DAMAGES[damage](content)


def test_any_changed_byte_is_noticed(written, tmp_path):
    model, content = written
    session = Session(model.network_, None, None, torch.device("cpu"), 0, "float32", tmp_path, {}, False)
    for place in np.random.default_rng(0).integers(0, len(content), 60):
        (tmp_path / "training.pt").write_bytes(content[:place] + bytes([content[place] ^ 4]) + content[place + 1 :])
        with pytest.raises(ValueError, match="damaged"):
            session.resume()


def test_the_same_run_goes_on_from_it(written, tmp_path):
    model, content = written
    (tmp_path / "training.pt").write_bytes(content)
    again = clone(model).set_params(checkpoint_dir=tmp_path).fit(X, COUNTS)
    assert again.history_ == model.history_
    assert (again.predict(X) == model.predict(X)).all()
    assert (tmp_path / "training.pt").read_bytes() == content


def test_a_full_disk_does_not_end_training(tmp_path, monkeypatch):
    """The last checkpoint that could be written stays, and nothing half-written beside it."""
    family, train, held_out = problem("normal")
    want = fit(network(family), train, held_out, max_epochs=3).history
    written, replace = [], os.replace

    def full(source, target):
        if len(written) == 2:
            raise OSError(errno.ENOSPC, "No space left on device")
        replace(source, target)
        written.append(target.read_bytes())

    monkeypatch.setattr(os, "replace", full)
    with pytest.warns(UserWarning, match=r"checkpoint_dir: .* cannot be written to \(No space left on device\); train"):
        history = fit(network(family), train, held_out, max_epochs=3, checkpoint_dir=tmp_path).history
    assert history == want
    assert [path.name for path in tmp_path.iterdir()] == ["training.pt"]
    assert (tmp_path / "training.pt").read_bytes() == written[-1]
    monkeypatch.undo()
    assert fit(network(family), train, held_out, max_epochs=3, checkpoint_dir=tmp_path).history == want


def test_the_hash_depends_on_everything_in_a_tensor():
    a = torch.arange(6.0)
    found = [digest([], [t]) for t in (a, a.double(), a.reshape(2, 3), a.flip(0), a.bfloat16(), a[::2], a[0])]
    assert len(set(found)) == len(found)
    assert digest([], [a[::2]]) == digest([], [a[::2].clone()])
