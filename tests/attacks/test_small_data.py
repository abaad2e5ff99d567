"""Few rows: intervals that say how little is known, and scores that say what they are of."""

import numpy as np
import pytest
import torch
from scipy.special import ndtri

from cli.conftest import rows, run, write
from estimators.problems import numbers
from natpn import NatPNRegressor
from natpn.training.align import level_of_few_rows, refit_noise
from training.test_align import held_out, make


@pytest.mark.parametrize(("m", "most"), [(2, 0.98), (4, 0.96), (10, 0.935), (20, 0.92), (100, 0.907)])
def test_a_deviation_found_from_few_rows_covers(m, most):
    """Without counting them, 90 % intervals from 2, 4 and 10 residuals cover 76, 82 and 87 %, were they never used."""
    draws = np.random.default_rng(m).normal(size=(20_000, m + 1))
    found = np.sqrt(np.mean(draws[:, 1:] ** 2, axis=1) * np.exp(level_of_few_rows(m)))
    assert 0.896 < np.mean(np.abs(draws[:, 0]) <= ndtri(0.95) * found) < most


@pytest.mark.slow
def test_a_noise_level_from_few_rows_covers():
    """With its directions fitted, and by CRPS: without counting the rows, it covers 88 %."""
    covered, network = [], make()
    start = {name: value.clone() for name, value in network.state_dict().items()}
    for seed in range(60):
        network.load_state_dict(start)
        refit_noise(network, held_out(network, 10, seed=seed))
        fresh = held_out(network, 300, seed=10_000 + seed)
        with torch.no_grad():
            mean, variance = network.family.link(network.decoder(fresh.latent)).unbind(-1)
        covered.append(float(((fresh.y - mean).abs() <= ndtri(0.95) * variance.sqrt()).float().mean()))
    assert 0.9 < np.mean(covered) < 0.95


def test_many_rows_are_not_widened():
    network = make()
    data = held_out(network, 4000)
    refit_noise(network, data)
    with torch.no_grad():
        variance = network.family.link(network.decoder(data.latent))[:, 1]
    assert abs(float(variance.median().sqrt()) / 0.3 - 1) < 0.03


def test_copies_are_no_more_rows():
    """Weights of held-out rows say how much each counts, not that there are more."""
    levels = []
    for weight in (torch.ones(10), torch.full((10,), 5.0), torch.tensor([1e-6] * 5 + [1.0] * 5)):
        network = make()
        data = held_out(network, 10)
        data.weight.copy_(weight)
        refit_noise(network, data)
        levels.append(network.decoder.bias[1].item())
    assert levels[0] == pytest.approx(levels[1], abs=1e-6)
    assert levels[2] != pytest.approx(levels[0], abs=1e-3)


@pytest.mark.parametrize("n", [2, 3, 12])
def test_the_command_line_says_what_its_scores_are_of(tmp_path, n):
    table = write(tmp_path / "few.csv", rows(n, 0))
    result = run("fit", table, "--target", "rent", "--drop", "flat", "--out", tmp_path / "m", "--max-epochs", 2)
    assert result.exit_code == 0, result.output
    assert f"note: {n} rows are few" in result.stderr
    if n == 2:
        assert "2 to fit, none held out" in result.stdout
        assert "scores on the rows of the fit, not on held-out ones" in result.stdout
    else:
        said = "2 to fit, 1 held out" if n == 3 else "12 to fit, 5 held out by one network or another"
        assert said in result.stdout
        assert ("scores on the rows that were held out" in result.stdout) == (n == 3)
        assert ("scores of single networks" in result.stdout) == (n > 3)


@pytest.fixture(scope="module")
def fitted(tmp_path_factory):
    place = tmp_path_factory.mktemp("fitted")
    table = write(place / "train.csv", rows(60, 0))
    result = run("fit", table, "--target", "rent", "--drop", "flat", "--out", place / "m", "--max-epochs", 2)
    assert result.exit_code == 0, result.output
    assert "rows are few" not in result.stderr
    return place


def test_scores_of_the_rows_of_the_fit_are_marked(fitted):
    assert "note: these are the rows of the fit" in run("evaluate", fitted / "m", fitted / "train.csv").stderr


@pytest.mark.parametrize(("n", "remark"), [(49, "note: 49 rows are few"), (50, None)])
def test_scores_of_few_rows_are_marked(fitted, tmp_path, n, remark):
    found = run("evaluate", fitted / "m", write(tmp_path / "new.csv", rows(n, 1))).stderr
    assert remark in found if remark else "note" not in found


def test_copies_in_a_file_are_not_held_out_from_themselves(tmp_path):
    made = rows(60, 0)
    table = write(tmp_path / "twice.csv", made + made)
    result = run("fit", table, "--target", "rent", "--drop", "flat", "--out", tmp_path / "m", "--max-epochs", 2)
    assert "60 to fit, 24 held out by one network or another" in result.stdout


def test_the_rows_that_were_held_out_are_known():
    X, y = numbers(50)
    model = NatPNRegressor(ensemble_size=1, max_epochs=2, random_state=0).fit(X, y)
    assert len(model.held_out_) == 10
    assert len(set(model.held_out_.tolist())) == 10
    own = np.sort(model.score_samples(X[model.held_out_]))
    np.testing.assert_allclose(own, model.calibration_.log_evidence)
    given = NatPNRegressor(max_epochs=2, random_state=0).fit(X, y, X_val=X[:5], y_val=y[:5])
    assert given.held_out_.tolist() == []
