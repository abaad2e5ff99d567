"""Depth per pixel: readings are kept and alone are scored, and outputs mean what the baselines say."""

import os
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from scipy import stats

from natpn_paper.datasets import Splits
from natpn_paper.experiments import Run, execute, nyu, pixels, published
from natpn_paper.experiments.pixels import PixelModel

DATA = Path(os.environ.get("NATPN_DATA", "nowhere"))
real = pytest.mark.skipif(not DATA.is_dir(), reason="NATPN_DATA names no directory")
RNG = np.random.default_rng(0)


def with_gaps(shape, share=0.3):
    depth = RNG.uniform(1, 9, shape)
    depth[RNG.uniform(size=shape) < share] = np.nan
    return depth


def test_filling_keeps_readings_and_takes_the_nearest():
    depth = with_gaps((3, 8, 10))
    before = depth.copy()
    filled = pixels.fill(depth)
    np.testing.assert_array_equal(depth, before)
    there = ~np.isnan(depth)
    np.testing.assert_array_equal(filled[there], depth[there])
    for n, i, j in np.argwhere(~there):
        rows, columns = np.nonzero(there[n])
        distance = (rows - i) ** 2 + (columns - j) ** 2
        nearest = depth[n, rows, columns][distance == distance.min()]
        assert filled[n, i, j] in nearest


def test_a_map_without_readings_cannot_be_filled():
    with pytest.raises(ValueError, match="at least one reading"):
        pixels.fill(np.full((1, 2, 2), np.nan))


class Fixed:
    """Answers that are known: the prediction is wrong by 0.5 m, and by a kilometre where there is no reading."""

    def __init__(self, truth, elsewhere=1000.0):
        self.truth, self.elsewhere = truth, elsewhere

    def depth(self, X):
        return np.where(np.isnan(self.truth), self.elsewhere, self.truth + 0.5)

    def cdf(self, X, depth):
        return np.where(np.isnan(depth), 0.0, RNG.uniform(size=depth.shape))

    def uncertainties(self, X):
        return X.mean(1), -X.mean(1)


def test_only_readings_are_scored():
    depth = with_gaps((4, 20, 30))
    X = np.concatenate([np.full((1, 3, 20, 30), float(i)) for i in range(4)])
    splits = Splits("nyu", (X, depth), (X, depth), (X, depth), {"LSUN classroom": X + 10, "KITTI": X + 2}, None, None)
    found = nyu.score_pictures(Fixed(depth), splits)
    assert found["RMSE"] == pytest.approx(50)  # in cm
    assert found["Calibration"] < 5
    assert found["LSUN Alea."] == 100
    assert found["ROC LSUN Epist."] == 0
    assert 0 < found["ROC KITTI Epist."] < 50 < found["ROC KITTI Alea."] < 100


def test_the_view_has_the_papers_columns():
    (view,) = nyu.EXPERIMENT.views
    assert {column for _, column in published.scores(view.table)} == set(view.columns)


def test_members_mean_a_mixture():
    raw = torch.randn(5, 2, 3, 4, 2, dtype=torch.float64)
    answer = pixels.read(raw)
    mean, variance = raw[..., 0].numpy(), raw[..., 1].exp().numpy() + 1e-6
    np.testing.assert_allclose(answer.predictive.mean, mean.mean(0))
    np.testing.assert_allclose(answer.epistemic, mean.var(0))
    np.testing.assert_allclose(answer.likelihood.entropy(), stats.norm.entropy(scale=np.sqrt(variance.mean(0))))
    y = torch.randn(2, 3, 4, dtype=torch.float64)
    expected = stats.norm.cdf(y.numpy(), mean, np.sqrt(variance)).mean(0)
    np.testing.assert_allclose(answer.predictive.cdf(y), expected)


def test_evidential_outputs_mean_students_t():
    raw = torch.randn(2, 3, 4, 4, dtype=torch.float64)
    answer = pixels.read(raw)
    nu, alpha, beta = (np.logaddexp(0, raw[..., i].numpy()) + 1e-6 for i in (1, 2, 3))
    scale = np.sqrt(beta * (1 + nu) / (nu * (alpha + 1)))
    y = torch.randn(2, 3, 4, dtype=torch.float64)
    expected = stats.t.cdf(y.numpy(), 2 * (alpha + 1), raw[..., 0].numpy(), scale)
    np.testing.assert_allclose(answer.predictive.cdf(y), expected)
    np.testing.assert_allclose(answer.epistemic, -np.log(nu))
    np.testing.assert_allclose(answer.likelihood.entropy(), stats.norm.entropy(scale=np.sqrt(beta / alpha)))


@pytest.mark.parametrize("name", ["NatPN", "NatPN (paper)", "NatPE", "Dropout", "Ensemble", "EvReg"])
def test_every_network_answers_for_every_pixel(name):
    network = pixels.network(name, (3, 16, 24), 400, 0).eval()
    if name == "Dropout":
        network.sample()
    identity = SimpleNamespace(tensors=lambda X, size: torch.from_numpy(X).split(size))
    model = PixelModel(network, identity, 3.0, 2.0)
    X, depth = RNG.normal(size=(10, 3, 16, 24)).astype(np.float32), with_gaps((10, 8, 12))
    noise, epistemic = model.uncertainties(X)
    assert noise.shape == epistemic.shape == model.depth(X).shape == (10, 8, 12)
    cdf = model.cdf(X, depth)
    assert cdf.shape == (10, 8, 12)
    assert ((cdf >= 0) & (cdf <= 1)).all()
    wide = PixelModel(network, identity, 5.0, 4.0)  # the same answers in other units
    np.testing.assert_allclose(wide.uncertainties(X)[0], noise + np.log(2), rtol=1e-5)
    np.testing.assert_allclose((wide.depth(X) - 5) / 4, (model.depth(X) - 3) / 2, atol=1e-6)


def test_an_unknown_network_is_refused():
    with pytest.raises(ValueError, match="'NatPM'"):
        pixels.network("NatPM", (3, 16, 16), 10, 0)


@pytest.mark.slow
@real
@pytest.mark.parametrize("name", nyu.MODELS)
def test_a_quick_run(name):
    line = execute(nyu.EXPERIMENT, Run("nyu", "nyu", name, 0, quick=True))
    assert {"RMSE", "Calibration", "KITTI Alea.", "KITTI Epist.", "OODom Epist."} <= set(line["scores"])
    assert all(np.isfinite(value) for value in line["scores"].values())
    assert 50 < line["scores"]["RMSE"] < 500
    assert "nearest reading" in line["note"]
    assert line["part"] == "5 pictures"
