"""A run that is killed at any moment and started again ends with the weights of one that was not."""

import pytest
import torch

from natpn.training import fit
from training.problems import network, problem, train_with_checkpoints


@pytest.mark.slow
@pytest.mark.parametrize(("scheme", "members"), [("staged", 1), ("paper", 1), ("anew", 1), ("staged", 2)])
def test_a_killed_run_ends_with_the_same_weights(processes, tmp_path, scheme, members):
    whole, out, directory = tmp_path / "whole.pt", tmp_path / "killed.pt", tmp_path / "checkpoints"
    undisturbed = processes.Process(target=train_with_checkpoints, args=(whole, tmp_path / "other", scheme, members))
    undisturbed.start()
    kills = 0
    for delay in (0.1, 0.3, 0.05, 0.2, 0.15, None):
        started = processes.Event()
        process = processes.Process(target=train_with_checkpoints, args=(out, directory, scheme, members, started))
        process.start()
        started.wait()
        process.join(delay)
        if not process.is_alive():
            assert process.exitcode == 0
            break
        process.kill()
        process.join()
        kills += 1
    assert kills >= 2
    undisturbed.join()
    assert undisturbed.exitcode == 0
    want, got = torch.load(whole, weights_only=True), torch.load(out, weights_only=True)
    assert got["history"] == want["history"]
    different = [k for k, v in want["state"].items() if not torch.equal(v, got["state"][k])]
    assert not different
    assert [p.name for p in (tmp_path / "other").iterdir()] == ["training.pt"]


def test_a_finished_run_is_not_repeated(tmp_path):
    family, train, held_out = problem("normal")
    first, again = network(family), network(family)
    done = fit(first, train, held_out, max_epochs=3, checkpoint_dir=tmp_path)
    assert fit(again, train, held_out, max_epochs=3, checkpoint_dir=tmp_path).history == done.history
    assert all(torch.equal(v, again.state_dict()[k]) for k, v in first.state_dict().items())


def test_a_checkpoint_of_another_run_is_refused(tmp_path):
    family, train, held_out = problem("normal")
    fit(network(family), train, held_out, max_epochs=1, checkpoint_dir=tmp_path)
    with pytest.raises(ValueError, match=r"checkpoint_dir: .* of a run with other settings; .*delete"):
        fit(network(family), train, held_out, max_epochs=2, checkpoint_dir=tmp_path)


@pytest.mark.parametrize("part", ["x", "y", "weight", "order", "rows", "validation"])
def test_a_checkpoint_of_a_run_on_other_data_is_refused(tmp_path, part):
    family, (x, y), held_out = problem("normal")
    weight = torch.ones(len(y))
    fit(network(family), (x, y, weight), held_out, max_epochs=1, checkpoint_dir=tmp_path)
    other = {
        "x": ((x + 0.01, y, weight), held_out),
        "y": ((x, y + 0.01, weight), held_out),
        "weight": ((x, y, 2 * weight), held_out),
        "order": ((x.flip(0), y.flip(0), weight), held_out),
        "rows": ((x[1:], y[1:], weight[1:]), held_out),
        "validation": ((x, y, weight), (held_out[0], -held_out[1])),
    }
    which = "validation" if part == "validation" else "training"
    with pytest.raises(ValueError, match=rf"checkpoint_dir: .* of a run with other {which} data; "):
        fit(network(family), *other[part], max_epochs=1, checkpoint_dir=tmp_path)
